//! Opening: `docs/recovery.md`, R, step by step.

use crate::branch::{BranchContext, BranchForm, BranchResources, ExtentMemory};
use crate::cache::{FileTable, PageCache};
use crate::disk::trunk::{self, Tree, Trunk};
use crate::engine::directory::leveldb_guard;
use crate::engine::directory::locks;
use crate::engine::directory::owners;
use crate::engine::directory::store_files::{self, Found, StoreFile};
use crate::engine::engine::{Driver, Edits, Engine};
use crate::engine::read::read_path::ReadPath;
use crate::engine::state::budget::{Budget, Figures};
use crate::engine::state::shared_snapshot::SharedSnapshot;
use crate::engine::state::snapshot_registry::SnapshotRegistry;
use crate::engine::state::value_file_refs::ValueFileRefs;
use crate::engine::state::view::{Generation, ViewCell};
use crate::engine::types::options::{LogMemory, Options};
use crate::engine::write::writer_threads::Threads;
use crate::format::manifest_edit::{Identity, KeyspaceRecord, ManifestEdit};
use crate::format::value_file::ValueReference;
use crate::io::{Clock, OpenMode, SharedMemory, Storage};
use crate::log::{self, Access, Log, LogContents, LogIdentity, LogOptions, Recovered, RecoveryInput};
use crate::manifest::{Manifest, ManifestState};
use crate::memory::MemtablePool;
use crate::util::sync::{Arc, Mutex};
use crate::util::{DatabaseId, Error, FileNumber, FileNumbers, KeyspaceId, Result, SequenceNumber};
use crate::value::ValueFiles;
use std::collections::{HashMap, HashSet};

/// The one order of keys so far.
pub(crate) const COMPARATOR: &str = "bytewise";
/// Branch files open at once.
const FILES_OPEN_MAX: usize = 512;

/// Opens or makes a store. The caller starts the threads and then calls `Engine::refill` with what the log holds.
pub(crate) fn open(
    storage: Arc<dyn Storage>,
    options: Options,
    figures: Figures,
    driver: Driver,
    clock: Arc<dyn Clock>,
) -> Result<(Engine, LogContents)> {
    let open =
        |room| open_once(Arc::clone(&storage), options.clone(), figures.clone(), driver, Arc::clone(&clock), room);
    let full = match open(Room::Enough) {
        Err(error) if error.is_disk_full() => error,
        opened => return opened,
    };
    // A store that was closed or killed on a full disk opens there, too, as often as one likes: first with less, so that the
    // ballast stays for what frees room; but it has the room for what opening writes.
    let opened = match open(Room::Scarce) {
        Err(error) if error.is_disk_full() && crate::engine::space::ballast::give_up_in(&*storage) => {
            open(Room::Scarce)
        }
        opened => opened,
    };
    let (inner, contents) = opened.map_err(|error| match error {
        error if error.is_disk_full() => Error::DiskFull { reason: format!("no room to open for writing: {error}") },
        other => other,
    })?;
    inner.enter_full(&full);
    Ok((inner, contents))
}

/// What opening reckons with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Enough,
    /// The disk is full: the log starts small, and takes over no file that is not needed.
    Scarce,
}

fn open_once(
    storage: Arc<dyn Storage>,
    options: Options,
    Figures { budget, trunk: trunk_options }: Figures,
    driver: Driver,
    clock: Arc<dyn Clock>,
    room: Room,
) -> Result<(Engine, LogContents)> {
    let found = store_files::look(&*storage)?;
    if found == Found::Empty && !options.create_if_missing {
        let reason = "nothing is there, and making one was not asked for".to_owned();
        return Err(Error::NoStore { path: storage.path().to_path_buf(), reason });
    }
    storage.create_directory()?;
    let locks = locks::for_writing(&*storage, &*clock)?;
    // Another opener may have made the store between the look and the lock.
    let mut manifest = match store_files::look(&*storage)? {
        Found::Store => Manifest::open(Arc::clone(&storage))?,
        Found::Empty => create(&storage)?,
    };
    leveldb_guard::ensure(&*storage);
    check_keyspaces(&*storage, manifest.state())?;
    check_branches(&*storage, manifest.state())?;
    let state = manifest.state().clone();
    let numbers = Arc::new(FileNumbers::new(first_unused_file(&*storage, &state)?));
    let parts = Parts::new(&storage, &options, &budget, &state, &numbers);

    // Steps 3 and 4.
    let threads = if driver == Driver::Threads { budget.workers } else { 1 };
    let mut recovered = recover(&storage, (&options, Access::Write), &state, &parts, threads)?;
    let last = SequenceNumber(recovered.next_number.0 - 1);

    // Step 5.
    let (trunk, tree) = Trunk::open(Arc::clone(&parts.branches), trunk_options, &state)?;
    check_maplets(&tree)?;
    let epoch = recovered.next_epoch;
    let edit = ManifestEdit {
        log_recovered: recovered.edit.clone(),
        log_segments_dropped: recovered.unused().filter(|segment| state.log_segments.contains(segment)).collect(),
        next_file: Some(numbers.next()),
        ..ManifestEdit::default()
    };
    let edit_number = manifest.append_in_new_file(&edit)?;

    // Step 7, before there are new files.
    if room == Room::Scarce {
        recovered.segments.retain(|segment| !segment.unused);
    }
    let kept = recovered.segments.iter().map(|segment| segment.number);
    let kept: HashSet<FileNumber> = kept.chain(recovered.contents.value_files().iter().copied()).collect();
    remove_strays(&*storage, &state, &parts.value_file_refs, |file| kept.contains(&file))?;

    // All that the log's memory knew is in its files, durably, and the edit has decided about it.
    log::remove_shadows(&*storage);

    // Step 6.
    let log_options = LogOptions {
        segment_bytes: budget.segment,
        chunk_bytes: budget.chunk,
        budget_bytes: budget.log,
        deterministic: driver == Driver::Deterministic,
        scarce: room == Room::Scarce,
    };
    let database = state.identity.database;
    let identity = LogIdentity { database, epoch, life: storage.life(), first: recovered.next_number };
    let branch_values = state.branches.values().filter(|meta| !meta.value_files.is_empty());
    let branch_values: HashMap<_, _> = branch_values.map(|meta| (meta.file, meta.value_files.clone())).collect();
    let edits = Arc::new(Mutex::new(Edits { manifest, branch_values }));
    let name_segment = Edits::name_segment(&edits);
    let memory = log_memory(&*storage, &options, &identity);
    let log = Log::create(Arc::clone(&storage), memory, identity, Arc::clone(&numbers), log_options, name_segment)?;
    log.adopt(recovered.segments);
    log.note_manifest_edit(edit_number);

    // Read-only openers may come from here on.
    drop(locks.opening);
    let memtables = Arc::clone(&parts.memtables);
    // What the log holds is brought in under this generation, once there are threads to make room for more of it.
    let newest = Arc::new(Generation::starting_after(memtables.take(), last, &parts.value_file_refs));
    let ballast = crate::engine::space::ballast::Ballast::find(&storage);
    let sync_due = Mutex::new(crate::engine::background::log_threads::sync_due(&*clock, &options));
    let snapshots = SnapshotRegistry::new(Arc::clone(&clock), options.snapshot_age_limit);
    let inner = Engine {
        read: Arc::new(parts.into_read_path(storage, snapshots, last, ViewCell::new(vec![newest], tree))),
        threads: Threads::new(),
        range_conflicts: crate::engine::write::range_conflicts::RangeConflicts::new().into(),
        commits: crate::util::sync::RwLock::new(true),
        conflicts: 0.into(),
        retried_updates: 0.into(),
        memtables,
        memory_arbiter: crate::engine::background::memory_arbiter::MemoryArbiter::default(),
        log,
        log_epoch: epoch,
        log_start: recovered.next_number,
        trunk,
        edits,
        sync_due,
        ballast,
        full_disk_recovery: crate::engine::space::full_disk::FullDiskRecovery::default(),
        health: crate::engine::state::health::Health::new(),
        speed: crate::engine::write::backpressure::BackgroundSpeed::default(),
        delays: crate::engine::write::backpressure::Delays::default(),
        write_limit: crate::engine::state::rate_limit::RateLimit::new(options.background_write_limit),
        incorporated: state.incorporated.0.into(),
        switching: Mutex::new(()),
        room: crate::util::sync::Condvar::new(),
        work: crate::engine::background::tasks::Scheduler::default(),
        driver,
        unlogged: false.into(),
        publisher: crate::engine::tools::live_stats::Publisher::default(),
        lock: Mutex::new(Some(locks.writer)),
        options,
        budget,
        clock,
        numbers,
    };
    Ok((inner, recovered.contents))
}

/// The memory that the log is written to first. In a life that cannot be told nobody would miss it, so there is none.
fn log_memory(storage: &dyn Storage, options: &Options, identity: &LogIdentity) -> Option<Arc<dyn SharedMemory>> {
    identity.life?;
    match options.log_memory {
        LogMemory::File => None,
        LogMemory::SharedMemory => storage.shared_memory(),
        LogMemory::Auto => storage.shared_memory().filter(|memory| memory.outlives_process()),
    }
}

/// What is built before recovery, since recovery needs it.
pub(crate) struct Parts {
    pub(crate) memtables: Arc<MemtablePool>,
    values: ValueFiles,
    pub(crate) value_file_refs: Arc<ValueFileRefs>,
    cache: Arc<PageCache>,
    pub(crate) branches: Arc<BranchContext>,
}

impl Parts {
    pub(crate) fn new(
        storage: &Arc<dyn Storage>,
        options: &Options,
        budget: &Budget,
        state: &ManifestState,
        numbers: &Arc<FileNumbers>,
    ) -> Self {
        let cache = Arc::new(PageCache::new(budget.cache));
        let branches = BranchContext::new(BranchResources {
            storage: Arc::clone(storage),
            database: state.identity.database,
            cache: Arc::clone(&cache),
            files: Arc::new(FileTable::new(Arc::clone(storage), FILES_OPEN_MAX)),
            numbers: Arc::clone(numbers),
            form: BranchForm { compression: options.compression, fingerprints: options.maplets },
            extents: ExtentMemory::new(budget.extents),
        });
        let value_file_refs = Arc::new(ValueFileRefs::default());
        for file in state.branches.values().flat_map(|meta| &meta.value_files) {
            value_file_refs.hold(*file);
        }
        let values = ValueFiles::new(Arc::clone(storage), state.identity.database);
        Self {
            memtables: MemtablePool::new(options.memory_component, budget.memtable),
            values,
            value_file_refs,
            cache,
            branches,
        }
    }
}

impl Parts {
    /// With the number of the last write and what is to be seen.
    pub(crate) fn into_read_path(
        self,
        storage: Arc<dyn Storage>,
        snapshots: Arc<SnapshotRegistry>,
        last: SequenceNumber,
        view: ViewCell,
    ) -> ReadPath {
        ReadPath {
            storage,
            sequencer: crate::util::sequencer::Sequencer::new(last),
            latches: crate::engine::state::latches::Latches::new(),
            view,
            snapshots,
            shared_snapshot: SharedSnapshot::default(),
            cached_cursors: crate::engine::read::position::CachedCursors::default(),
            values: self.values,
            value_file_refs: self.value_file_refs,
            cache: self.cache,
            branches: self.branches,
            closed: false.into(),
            merge_operator: None,
            process: crate::util::fork::ForkCount::current(),
        }
    }
}

/// A new store's manifest: its first edit is the empty tree and the default keyspace.
fn create(storage: &Arc<dyn Storage>) -> Result<Manifest> {
    let identity = Identity { database: DatabaseId(storage.random()) };
    let mut first = Trunk::create_edit();
    first.keyspaces =
        vec![KeyspaceRecord { id: KeyspaceId::DEFAULT, name: "default".into(), comparator: COMPARATOR.into() }];
    first.next_file = Some(FileNumber(1));
    Manifest::create(Arc::clone(storage), identity, &first)
}

pub(crate) fn check_keyspaces(storage: &dyn Storage, state: &ManifestState) -> Result<()> {
    for keyspace in &state.keyspaces {
        if keyspace.comparator != COMPARATOR {
            return Err(Error::Mismatch {
                path: storage.path().to_path_buf(),
                what: "comparator",
                stored: keyspace.comparator.clone(),
                asked: COMPARATOR.into(),
            });
        }
    }
    Ok(())
}

/// A branch file that is missing or has another length is told before anything is written. What its pages hold is checked
/// when they are read.
pub(crate) fn check_branches(storage: &dyn Storage, state: &ManifestState) -> Result<()> {
    for meta in state.branches.values() {
        let opened = storage.open(&crate::branch::file_name(meta.file), OpenMode::Read);
        let file = opened.map_err(Error::of_missing_file)?;
        let length = file.length()?;
        if length != meta.bytes {
            return Err(Error::corruption(file.path(), length, "file length", meta.bytes, length));
        }
    }
    Ok(())
}

/// A maplet that is missing or has another length costs no answers: it is built anew.
fn check_maplets(tree: &Tree) -> Result<()> {
    for maplet in trunk::maplets(tree) {
        match maplet.check_length() {
            Err(error) if error.is_damage() => maplet.mark_broken(),
            checked => checked?,
        }
    }
    Ok(())
}

/// Above every number that the manifest promises unused and every number in a name.
fn first_unused_file(storage: &dyn Storage, state: &ManifestState) -> Result<FileNumber> {
    let names = storage.list()?;
    let seen =
        names.iter().filter_map(|name| StoreFile::parse(name)?.number()).map(|file| FileNumber(file.0 + 1)).max();
    Ok(seen.unwrap_or_default().max(state.next_file))
}

pub(crate) fn recover(
    storage: &Arc<dyn Storage>,
    (options, access): (&Options, Access),
    state: &ManifestState,
    parts: &Parts,
    threads: usize,
) -> Result<Recovered> {
    let value_complete = |bytes: &[u8]| match ValueReference::decode(bytes) {
        // What recovery relies on must be durable before its edit is; the directory is synced once, at the end.
        Some(reference) if parts.values.is_complete(&reference)? => {
            if access != Access::Write {
                return Ok(true);
            }
            storage.open(&crate::value::value_file_name(reference.file), OpenMode::ReadWrite)?.sync()?;
            Ok(true)
        }
        Some(_) | None => Ok(false),
    };
    let input = RecoveryInput {
        storage: &**storage,
        database: state.identity.database,
        recovered: &state.recovered,
        incorporated: state.incorporated,
        epochs_from: state.log_epochs_from,
        files_from: state.log_files_from,
        segments: &state.log_segments,
        synced: state.log_synced,
        manifest_edits: state.edits,
        life: storage.life(),
        force_cut: options.force_cut,
        access,
        threads,
        value_complete: &value_complete,
    };
    let recovered = log::recover(input)?;
    if access == Access::Write {
        storage.sync_directory()?;
    }
    Ok(recovered)
}

/// Removes files that neither manifest nor log names: left by work that was cut short. Those of other stores stay: they are not
/// ours, and a manifest that was put here in error must not cost a store its files.
fn remove_strays(
    storage: &dyn Storage,
    state: &ManifestState,
    values: &ValueFileRefs,
    log_needs: impl Fn(FileNumber) -> bool,
) -> Result<()> {
    crate::engine::tools::repair::remove_mark(storage)?;
    // Without it read-only openers are there, who may read them still; the next opening finds them again.
    let alone = locks::to_remove(storage)?;
    for name in storage.list()? {
        let Some(file) = StoreFile::parse(&name) else { continue };
        let stray = match file {
            StoreFile::Branch(file) => alone.is_some() && !state.branches.contains_key(&file),
            // Nothing stands in it that the branches of its store do not have.
            StoreFile::Maplet(file) => alone.is_some() && !state.maplets.contains_key(&file),
            StoreFile::Value(file) => alone.is_some() && !values.holds(file) && !log_needs(file),
            StoreFile::Log(file) | StoreFile::SpareLog(file) => !log_needs(file),
            StoreFile::NewManifest | StoreFile::Poison | StoreFile::RepairMark(_) | StoreFile::Stats => true,
            StoreFile::Lock | StoreFile::Manifest | StoreFile::Ballast | StoreFile::Damaged(_) => false,
            StoreFile::Guard | StoreFile::Comparator => false,
        };
        if stray && !owners::may_be_foreign(storage, &name, file, state.identity.database) {
            storage.remove(&name)?;
        }
    }
    storage.sync_directory()
}
