//! Reading a store without the right, or the wish, to change it: beside a writer, on a read-only file system, or just to look
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

/// How often the log is read again to get past what was being written during the reading before.
const READINGS_MAX: u32 = 50;
/// How long a number may be in a writer's hands before the log is read again.
const BETWEEN_READINGS: Duration = Duration::from_millis(1);

/// A store open for reading only. It shows what the store held when it was opened, every write included that returned before
/// `open` was called, and never changes; open another one to see more. Nothing is written, not even a lock file.
///
/// Any number may be open, beside one writer. As long as one is, the writer keeps the files that it may read, so space of
/// old data comes back only after it is dropped. What of the log is not in branch files yet is read into memory.
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
    /// Keeps the writer from removing files.
    _files: Option<Guard>,
}

impl ReadOnlyDb {
    /// Opens the store in a directory. Of the options those count that say how to read: `memory_budget`, `force_cut`.
    ///
    /// # Errors
    /// `NoStore`, `NewerFormat`, `Corruption` with file and offset, `Io`.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_with(Arc::new(PosixStorage::new(path.as_ref())), options)
    }

    /// Opens a store on any storage.
    pub fn open_with(storage: Arc<dyn Storage>, options: Options) -> Result<Self> {
        if store_files::inspect(&*storage)? != Found::Store {
            return Err(Error::NoStore { path: storage.path().to_path_buf(), reason: "nothing is there".into() });
        }
        let locks = locks::for_reading(&*storage)?;
        let beside_writer = locks.opening.is_some() && locks::has_writer(&*storage)?;
        let access = if beside_writer { Access::ReadBesideWriter } else { Access::Read };
        let mut loaded = load(&storage, &options, access)?;
        // Every write that returned before is at or below the greatest number that the first reading saw. What was in a writer's
        // hands just then is complete soon, unless the writer was stopped there.
        let wanted = loaded.seen;
        let mut readings = 1;
        while beside_writer && loaded.last < wanted && readings < READINGS_MAX {
            storage.clock().sleep(BETWEEN_READINGS);
            loaded = load(&storage, &options, access)?;
            readings += 1;
        }
        Ok(loaded.finish(storage, locks.files))
    }

    /// The value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Reads a value into `out`, replacing what it holds; false where the key is absent.
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        self.read.get_at(key.as_ref(), SequenceNumber::MAX, out)
    }

    /// The value of a key without a copy, where it lies in a cached page: see `Pinned`.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
        self.read.get_pinned_at(key.as_ref(), SequenceNumber::MAX)
    }

    /// The values of many keys, in their order; see `Db::multi_get`.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.snapshot().multi_get(keys)
    }

    /// The same contents as a `Snapshot`, for code that takes one.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.read)
    }

    /// All pairs.
    pub fn iter(&self) -> Result<Iter> {
        self.snapshot().iterate(Bounds::all())
    }

    /// The pairs of a key range.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        self.snapshot().iterate(Bounds::of_range(range))
    }

    /// The pairs whose keys begin with a prefix.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.snapshot().iterate(Bounds::of_prefix(prefix.as_ref()))
    }

    /// About how many bytes the pairs of a key range take; see `Db::approximate_size`.
    pub fn approximate_size<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.read.approximate_size(&Bounds::of_range(range))
    }

    /// The branch files of the tree; see `Db::branch_files`.
    pub fn branch_files(&self) -> Vec<BranchFile> {
        self.read.branch_files()
    }

    /// Figures of what was opened, `log_bytes` of whole segment files; those of what a writer did are zero (`Db::live_stats` has them).
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
            // In a forked child the locks of its memory may be held by threads that do not exist.
            std::mem::forget(Arc::clone(&self.read));
            return;
        }
        self.read.closed.store(true, Ordering::Release);
        self.read.cached_cursors.revoke_idle(u64::MAX);
    }
}

/// A store as one reading of manifest and log found it.
struct Loaded {
    parts: Parts,
    view: ViewCell,
    /// What is shown ends with this number.
    last: SequenceNumber,
    /// The greatest number that was seen.
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
        // Nothing is ever given up here, so no snapshot need end.
        let snapshots = SnapshotRegistry::new(storage.clock(), None);
        let read = Arc::new(parts.into_read_path(storage, snapshots, last, view));
        ReadOnlyDb { read, memory_budget, incorporated, synced, log_bytes, log_memory_bytes, _files: files }
    }
}

/// Reads manifest and log; the caller has the lock without which a writer could recycle the log meanwhile.
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
        // What lies behind the cut is not shown.
        synced: recovered.synced.min(last),
        log_bytes: recovered.segments.iter().map(|segment| segment.bytes).sum(),
        log_memory_bytes: recovered.memory_bytes,
        memory_budget: budget.total,
    })
}
