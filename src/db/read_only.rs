//! `ReadOnlyDb`: reads a store without changing it, concurrently with a writer or on a read-only file system
//! (`docs/recovery.md`, Openers).

use super::iter::Iter;
use super::snapshot::Snapshot;
use crate::disk::trunk::{Trunk, TrunkOptions};
use crate::engine::directory::locks::{self, Guard};
use crate::engine::directory::store_files::{self, Found};
use crate::engine::open::opening::{Parts, check_branches, check_keyspaces, recover};
use crate::engine::open::refill;
use crate::engine::read::pinned_value::Pinned;
use crate::engine::read::read_path::ReadPath;
use crate::engine::space::ballast::Ballast;
use crate::engine::state::budget::Budget;
use crate::engine::state::snapshot_registry::SnapshotRegistry;
use crate::engine::state::view::{Generation, ViewCell};
use crate::engine::types::bounds::Bounds;
use crate::engine::types::options::Options;
use crate::engine::types::stats::{BranchFile, Stats};
use crate::io::{PosixStorage, Storage};
use crate::log::Access;
use crate::manifest::{self, ManifestState};
use crate::util::sync::{Arc, Ordering};
use crate::util::{Error, FileNumbers, Result, SequenceNumber, parallel};
use std::ops::RangeBounds;
use std::path::Path;
use std::time::Duration;

/// How often the log is read at most, until it has no gap that a concurrent write left.
const READINGS_MAX: u32 = 50;
/// Pause before the log is read again, in which a concurrent write can finish.
const BETWEEN_READINGS: Duration = Duration::from_millis(1);

/// A store that is open for reading only. It shows the contents at the time of the opening, including every write that
/// returned before `open` was called, and never changes. Open another one to see newer writes. It writes nothing, not
/// even a lock file.
///
/// Any number of `ReadOnlyDb` may be open, concurrently with one writer in any process. While one is open, the writer
/// keeps the files that it may read, so space of old data is freed only after it is dropped. The part of the log that
/// is not incorporated is read into memory.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, Options, ReadOnlyDb};
/// let writer = Db::open(directory.path(), Options::default())?;
/// writer.put("river", "silt")?;
/// let reader = ReadOnlyDb::open(directory.path(), Options::default())?;
/// writer.put("river", "sand")?;
/// assert_eq!(reader.get("river")?.as_deref(), Some(&b"silt"[..]));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Debug)]
pub struct ReadOnlyDb {
    read: Arc<ReadPath>,
    memory_budget: u64,
    incorporated: SequenceNumber,
    synced: SequenceNumber,
    log_bytes: u64,
    log_memory_bytes: u64,
    /// Keeps the writer from removing files. Held until drop.
    _files: Option<Guard>,
}

impl ReadOnlyDb {
    /// Opens the store in a directory. Only the options for reading are used: `memory_budget` and `force_cut`.
    ///
    /// # Errors
    /// `NoStore`, `NewerFormat`, `Corruption` with file and offset, `InvalidArgument`, `Io`.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_with(Arc::new(PosixStorage::new(path.as_ref())), options)
    }

    /// Opens a store on another implementation of `Storage`. Otherwise like `open`.
    pub fn open_with(storage: Arc<dyn Storage>, options: Options) -> Result<Self> {
        if store_files::inspect(&*storage)? != Found::Store {
            return Err(Error::NoStore {
                path: storage.path().to_path_buf(),
                reason: "the directory holds no store".into(),
            });
        }
        let locks = locks::for_reading(&*storage)?;
        let beside_writer = locks.opening.is_some() && locks::has_writer(&*storage)?;
        let access = if beside_writer { Access::ReadBesideWriter } else { Access::Read };
        let mut loaded = load(&storage, &options, access)?;
        // Every write that returned before has at most the greatest number that the first reading saw. Writes that were
        // in progress complete soon, unless their thread is stopped.
        let wanted = loaded.seen;
        let mut readings = 1;
        while beside_writer && loaded.last < wanted && readings < READINGS_MAX {
            storage.clock().sleep(BETWEEN_READINGS);
            loaded = load(&storage, &options, access)?;
            readings += 1;
        }
        Ok(loaded.finish(storage, locks.files))
    }

    /// Returns the value of a key; `None` if the key is absent.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Reads the value of a key into `out` and replaces its contents. Returns false if the key is absent.
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        self.read.get_at(key.as_ref(), SequenceNumber::MAX, out)
    }

    /// Like `get`, but without a copy if the value is in a cached page; see `Pinned`.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
        self.read.get_pinned_at(key.as_ref(), SequenceNumber::MAX)
    }

    /// Returns the values of several keys, in the order of the keys; see `Db::multi_get`.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.snapshot().multi_get(keys)
    }

    /// The contents as a `Snapshot`, for code that takes one.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.read)
    }

    /// Iterates over all pairs.
    pub fn iter(&self) -> Result<Iter> {
        self.snapshot().iterate(Bounds::all())
    }

    /// Iterates over the pairs in a key range.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        self.snapshot().iterate(Bounds::of_range(range))
    }

    /// Iterates over the pairs whose keys start with a prefix.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.snapshot().iterate(Bounds::of_prefix(prefix.as_ref()))
    }

    /// Estimates the size of a key range in bytes; see `Db::approximate_size`.
    pub fn approximate_size<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.read.approximate_size(&Bounds::of_range(range))
    }

    /// Lists the branch files of the tree; see `Db::branch_files`.
    pub fn branch_files(&self) -> Vec<BranchFile> {
        self.read.branch_files()
    }

    /// Returns statistics of the opened contents. `log_bytes` is the size of whole segment files. Statistics of a
    /// writer's activity are zero; `Db::live_stats` has them.
    pub fn stats(&self) -> Stats {
        Stats {
            incorporated_number: self.incorporated.0,
            synced_number: self.synced.0,
            log_bytes: self.log_bytes,
            log_memory_bytes: self.log_memory_bytes,
            ballast_bytes: Ballast::find(&self.read.storage).bytes(),
            memory_budget: self.memory_budget,
            ..self.read.stats()
        }
    }
}

impl Drop for ReadOnlyDb {
    fn drop(&mut self) {
        if self.read.check_process().is_err() {
            // In a forked child, locks may be held by threads that do not exist there.
            std::mem::forget(Arc::clone(&self.read));
            return;
        }
        self.read.closed.store(true, Ordering::Release);
        self.read.cached_cursors.revoke_idle(u64::MAX);
    }
}

/// The result of reading manifest and log once.
struct Loaded {
    parts: Parts,
    view: ViewCell,
    /// The greatest number that is shown.
    last: SequenceNumber,
    /// The greatest number in the log.
    seen: SequenceNumber,
    incorporated: SequenceNumber,
    synced: SequenceNumber,
    log_bytes: u64,
    log_memory_bytes: u64,
    memory_budget: u64,
}

impl Loaded {
    fn finish(self, storage: Arc<dyn Storage>, files: Option<Guard>) -> ReadOnlyDb {
        let Self { parts, view, last, incorporated, synced, log_bytes, log_memory_bytes, memory_budget, .. } = self;
        // Nothing is ever dropped here, so snapshots need not expire.
        let snapshots = SnapshotRegistry::new(storage.clock(), None);
        let read = Arc::new(parts.into_read_path(storage, snapshots, last, view));
        ReadOnlyDb { read, memory_budget, incorporated, synced, log_bytes, log_memory_bytes, _files: files }
    }
}

/// Reads manifest and log. Requires the lock *opening*, which keeps a writer from recycling the log meanwhile.
fn load(storage: &Arc<dyn Storage>, options: &Options, access: Access) -> Result<Loaded> {
    let budget = Budget::new(options)?;
    let state: ManifestState = manifest::read_state(&**storage)?;
    check_keyspaces(&**storage, &state)?;
    check_branches(&**storage, &state)?;
    let numbers = Arc::new(FileNumbers::new(state.next_file));
    let parts = Parts::new(storage, options, &budget, &state, &numbers);
    let recovered = recover(storage, (options, access), &state, &parts, budget.workers)?;
    let seen = SequenceNumber(recovered.next_number.0 - 1);
    let last = recovered.edit.as_ref().map_or(seen, |edit| edit.cut);
    let (pool, holds, contents) = (&parts.memtables, &parts.value_file_refs, &recovered.contents);
    let ranges = contents.ranges(budget.memtable as u64);
    let filled = parallel::map(budget.workers, ranges.len(), |at| {
        refill::fill(pool, holds, contents, &ranges[at], &mut crate::memory::FillSpace::default())
    });
    let newest = Arc::new(Generation::starting_after(pool.take(), seen, holds));
    let generations: Result<Vec<_>> = filled.into_iter().chain([Ok(newest)]).rev().collect();
    let (_, tree) = Trunk::open(Arc::clone(&parts.branches), TrunkOptions::new(budget.memtable as u64), &state)?;
    let view = ViewCell::new(generations?, tree);
    Ok(Loaded {
        parts,
        view,
        last,
        seen,
        incorporated: state.incorporated,
        // Records behind the cut are not shown.
        synced: recovered.synced.min(last),
        log_bytes: recovered.segments.iter().map(|segment| segment.bytes).sum(),
        log_memory_bytes: recovered.memory_bytes,
        memory_budget: budget.total,
    })
}
