//! Opens a store for reading only (`docs/recovery.md`, Openers). One thread.

use super::merge_operator;
use super::refill;
use super::shared_steps::{FileReaders, OpenInputs, check_branches, check_keyspaces, check_manifest_end, recover};
use crate::cache::PageCache;
use crate::disk::{Component, ComponentOptions};
use crate::engine::directory::locks::{self, Guard};
use crate::engine::directory::store_files::{self, Found};
use crate::engine::read::read_path::ReadPath;
use crate::engine::resources::process_default;
use crate::engine::resources::resources::Resources;
use crate::engine::resources::shared_memory::{MEMTABLE_BYTES_SMALL, SharedMemory};
use crate::engine::state::budget::Budget;
use crate::engine::state::generation::Generation;
use crate::engine::state::snapshot_registry::SnapshotRegistry;
use crate::engine::state::view::ViewCell;
use crate::engine::types::options::Options;
use crate::io::Storage;
use crate::log::Access;
use crate::manifest::{self, ManifestState};
use crate::memory::MemtablePool;
use crate::merge::MergeOperators;
use crate::util::sync::Arc;
use crate::util::{Error, FileNumbers, Result, SequenceNumber, parallel};
use std::time::Duration;

/// How often the log is read at most, until every write that was in progress at the first reading is complete.
const READINGS_MAX: u32 = 50;
/// The wait between two readings of the log.
const BETWEEN_READINGS: Duration = Duration::from_millis(1);

/// A store that is open for reading only.
pub(crate) struct ReadOnlyStore {
    pub(crate) read: Arc<ReadPath>,
    pub(crate) memory_budget: u64,
    pub(crate) incorporated: SequenceNumber,
    pub(crate) synced: SequenceNumber,
    pub(crate) log_bytes: u64,
    pub(crate) log_shadow_bytes: u64,
    pub(crate) log_discarded_writes: u64,
    /// Keeps the writer from removing files.
    _files: Option<Guard>,
    /// Whose memory it uses.
    _resources: Option<Resources>,
}

impl ReadOnlyStore {
    /// Opens a store. Writes nothing.
    pub(crate) fn open(storage: Arc<dyn Storage>, options: &Options) -> Result<Self> {
        if store_files::inspect(&*storage)? != Found::Store {
            return Err(Error::NoStore { path: storage.path().to_path_buf(), reason: "nothing is there".into() });
        }
        let locks = locks::for_reading(&*storage)?;
        let beside_writer = locks.opening.is_some() && locks::has_writer(&*storage)?;
        let access = if beside_writer { Access::ReadBesideWriter } else { Access::Read };
        let mut loaded = load(&storage, options, access)?;
        // Every write that returned before is at or below the greatest number that the first reading saw. A write that
        // was in progress then is complete soon, unless its thread was stopped.
        let wanted = loaded.seen;
        let mut readings = 1;
        while beside_writer && loaded.last < wanted && readings < READINGS_MAX {
            storage.clock().sleep(BETWEEN_READINGS);
            loaded = load(&storage, options, access)?;
            readings += 1;
        }
        Ok(loaded.finish(storage, locks.files))
    }
}

impl Drop for ReadOnlyStore {
    fn drop(&mut self) {
        if self.read.check_process().is_err() {
            // In a forked child the locks in its memory may be held by threads that do not exist there.
            std::mem::forget(Arc::clone(&self.read));
            return;
        }
        self.read.closed.store(true, crate::util::sync::Ordering::Release);
        self.read.cached_cursors.revoke_idle(u64::MAX);
    }
}

/// A store as one reading of manifest and log found it.
struct Loaded {
    readers: FileReaders,
    view: ViewCell,
    /// The last number that readers see.
    last: SequenceNumber,
    /// The greatest number that was found.
    seen: SequenceNumber,
    incorporated: SequenceNumber,
    synced: SequenceNumber,
    log_bytes: u64,
    log_shadow_bytes: u64,
    log_discarded_writes: u64,
    memory_budget: u64,
    resources: Option<Resources>,
    merge_operators: Arc<MergeOperators>,
}

impl Loaded {
    fn finish(self, storage: Arc<dyn Storage>, files: Option<Guard>) -> ReadOnlyStore {
        let (memory_budget, _resources) = (self.memory_budget, self.resources);
        let (log_shadow_bytes, log_discarded_writes) = (self.log_shadow_bytes, self.log_discarded_writes);
        let Self { readers, view, last, incorporated, synced, log_bytes, merge_operators, .. } = self;
        // No versions are dropped here, so snapshots need not expire.
        let snapshots = SnapshotRegistry::new(storage.clock(), None);
        let read = Arc::new(readers.into_read_path(storage, snapshots, last, view, merge_operators));
        ReadOnlyStore {
            read,
            memory_budget,
            incorporated,
            synced,
            log_bytes,
            log_shadow_bytes,
            log_discarded_writes,
            _files: files,
            _resources,
        }
    }
}

/// Reads manifest and log. The caller holds the lock that keeps a writer from recycling the log.
fn load(storage: &Arc<dyn Storage>, options: &Options, access: Access) -> Result<Loaded> {
    let mut options = options.clone();
    if options.resources.is_none() && options.memory_budget.is_none() {
        options.resources = process_default::for_storage(&**storage);
    }
    let options = &options;
    let budget = Budget::new(options)?;
    let state: ManifestState = manifest::read_state(&**storage)?;
    check_keyspaces(&**storage, &state)?;
    if access != Access::ReadBesideWriter && !options.force_cut {
        check_manifest_end(&**storage, &state)?;
    }
    check_branches(&**storage, &state)?;
    merge_operator::check_name(options.merge_operator.as_ref())?;
    let operator = merge_operator::choose(&**storage, &state, options.merge_operator.as_ref(), access)?;
    let merge_operators = merge_operator::of_reader(&state, operator);
    let numbers = Arc::new(FileNumbers::new(state.next_file));
    let memory = match &options.resources {
        Some(resources) => resources.shared_memory(budget.memory_sizes()),
        None => SharedMemory::new(budget.memory_sizes()),
    };
    let cache = Arc::new(PageCache::in_memory(&memory.cache));
    let memtables = MemtablePool::in_memory(&memory.arenas, options.memory_component, budget.memtable);
    let inputs = OpenInputs { storage, options, state: &state };
    let readers = FileReaders::new(&inputs, &numbers, &cache, &memory.extents);
    let recovered = recover(&inputs, &readers, access, budget.workers)?;
    let seen = SequenceNumber(recovered.next_number.0 - 1);
    let last = recovered.edit.as_ref().map_or(seen, |edit| edit.cut);
    let (value_file_refs, contents) = (&readers.value_file_refs, &recovered.contents);
    let ranges = contents.ranges(budget.memtable as u64);
    let sizes = refill::FillSizes::of(contents, &memtables);
    let filled = parallel::map(budget.workers, ranges.len(), |at| {
        let memtable = sizes.take(&**storage, &memtables)?;
        let references = (value_file_refs, &*merge_operators);
        refill::fill(memtable, references, contents, &ranges[at], &mut crate::memory::FillSpace::default())
    });
    let memtable = refill::first_memtable(&**storage, &memtables, MEMTABLE_BYTES_SMALL)?;
    let newest = Arc::new(Generation::starting_after(memtable, seen, value_file_refs));
    let generations: Result<Vec<_>> = filled.into_iter().chain([Ok(newest)]).rev().collect();
    let component = ComponentOptions::any(budget.memtable as u64);
    let (_, version) = Component::open(Arc::clone(&readers.branches), component, &state)?;
    let view = ViewCell::new(generations?, version);
    Ok(Loaded {
        readers,
        view,
        last,
        seen,
        incorporated: state.incorporated,
        // Numbers after the cut are not visible.
        synced: recovered.synced.min(last),
        log_bytes: recovered.segments.iter().map(|segment| segment.bytes).sum(),
        log_shadow_bytes: recovered.shadow_bytes,
        log_discarded_writes: recovered.discarded,
        memory_budget: budget.total,
        merge_operators,
        resources: options.resources.clone(),
    })
}
