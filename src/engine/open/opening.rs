//! Opening: `docs/recovery.md`, R, step by step.

use super::parts::{Parts, check_branches, check_keyspaces, recover};
use crate::disk::{Component, ComponentOptions, Version};
use crate::engine::background::background::Background;
use crate::engine::directory::store_files::{self, Found, StoreFile};
use crate::engine::directory::{leveldb_guard, locks, owners};
use crate::engine::durable_log::DurableLog;
use crate::engine::engine::Engine;
use crate::engine::memory::arbiter::MemoryArbiter;
use crate::engine::memory::generations::Generations;
use crate::engine::read::read_path::ReadPath;
use crate::engine::scheduler::rate_limit::RateLimit;
use crate::engine::scheduler::{Driver, RunNext, Scheduler};
use crate::engine::space::ballast;
use crate::engine::space::full_disk::Space;
use crate::engine::space::removal::ObsoleteFiles;
use crate::engine::state::budget::StoreConfig;
use crate::engine::state::generation::Generation;
use crate::engine::state::health::Health;
use crate::engine::state::snapshot_registry::SnapshotRegistry;
use crate::engine::state::value_file_refs::ValueFileRefs;
use crate::engine::state::view::ViewCell;
use crate::engine::statistics::gather::Statistics;
use crate::engine::statistics::live_stats::Publisher;
use crate::engine::tools::repair;
use crate::engine::tree_publisher::{Edits, TreePublisher};
use crate::engine::types::options::{COMPARATOR, LogMemory, Options};
use crate::engine::write::throttle::Throttle;
use crate::engine::write::write_path::{WriteParts, WritePath};
use crate::engine::write::writer_threads::WriterThreads;
use crate::format::manifest_edit::{Identity, KeyspaceRecord, ManifestEdit};
use crate::io::{Clock, SharedMemory, Storage};
use crate::log::{self, Access, Log, LogContents, LogIdentity, LogOptions};
use crate::manifest::{Manifest, ManifestState};
use crate::merge::MergeOperator;
use crate::util::sync::{Arc, Mutex};
use crate::util::{DatabaseId, Error, FileNumber, FileNumbers, KeyspaceId, Result, SequenceNumber};
use std::collections::{HashMap, HashSet};

/// What a store is given when it is opened. Several stores may share some of it one day.
pub(crate) struct Host {
    pub(crate) options: Options,
    pub(crate) config: StoreConfig,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) arbiter: Arc<MemoryArbiter>,
    /// What folds merge operands. `None`: a read that meets some is an error.
    pub(crate) merge_operator: Option<Arc<dyn MergeOperator>>,
}

impl Host {
    /// A scheduler and a memory arbiter for one store.
    pub(crate) fn new(options: Options, config: StoreConfig, driver: Driver, clock: Arc<dyn Clock>) -> Self {
        let arbiter = MemoryArbiter::new(options.memory_component, &config.budget, Arc::clone(&clock));
        Self { options, config, scheduler: Scheduler::new(driver, clock), arbiter, merge_operator: None }
    }
}

/// Opens or creates a store. The caller starts the threads, if there are any, and then calls `Background::refill` with the contents of the log.
pub(crate) fn open(storage: Arc<dyn Storage>, host: &Host) -> Result<(Arc<Engine>, LogContents)> {
    let full = match open_with(&storage, host, LogSpace::Enough) {
        Err(error) if error.is_disk_full() => error,
        opened => return opened,
    };
    // A store that was closed or killed on a full disk opens there, too, any number of times: first with less, so that the ballast stays
    // for the work that frees space; but the ballast has room for what opening writes.
    let opened = match open_with(&storage, host, LogSpace::Scarce) {
        Err(error) if error.is_disk_full() && ballast::remove_in(&*storage) => {
            open_with(&storage, host, LogSpace::Scarce)
        }
        opened => opened,
    };
    let (engine, contents) = opened.map_err(|error| match error {
        error if error.is_disk_full() => Error::DiskFull { reason: format!("no space to open for writing: {error}") },
        other => other,
    })?;
    engine.background.space.enter_full(&full);
    Ok((engine, contents))
}

/// How much space opening may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogSpace {
    Enough,
    /// The disk is full: the log starts small, and takes over no file that is not needed.
    Scarce,
}

fn open_with(storage: &Arc<dyn Storage>, host: &Host, space: LogSpace) -> Result<(Arc<Engine>, LogContents)> {
    let Host { options, config: StoreConfig { budget, disk: component }, scheduler, arbiter, .. } = host;
    let (driver, clock) = (scheduler.driver(), &scheduler.clock);
    let found = store_files::look(&**storage)?;
    if found == Found::Empty && !options.create_if_missing {
        let reason = "nothing is there, and `create_if_missing` is not set".to_owned();
        return Err(Error::NoStore { path: storage.path().to_path_buf(), reason });
    }
    storage.create_directory()?;
    let locks = locks::for_writing(&**storage, &**clock)?;
    // Another opener may have created the store between the look and the lock.
    let mut manifest = match store_files::look(&**storage)? {
        Found::Store => Manifest::open(Arc::clone(storage))?,
        Found::Empty => create(storage, component)?,
    };
    leveldb_guard::ensure(&**storage);
    check_keyspaces(&**storage, manifest.state())?;
    check_branches(&**storage, manifest.state())?;
    let state = manifest.state().clone();
    let numbers = Arc::new(FileNumbers::new(first_unused_file(&**storage, &state)?));
    let parts = Parts::new(storage, options, budget, &state, (&numbers, &arbiter.cache));

    // Steps 3 and 4.
    let threads = if driver == Driver::Threads { budget.workers } else { 1 };
    let mut recovered = recover(storage, (options, Access::Write), &state, &parts, threads)?;
    let last = SequenceNumber(recovered.next_number.0 - 1);

    // Step 5.
    let (disk, version) = Component::open(Arc::clone(&parts.branches), component.clone(), &state)?;
    check_maplets(&version)?;
    let epoch = recovered.next_epoch;
    let edit = ManifestEdit {
        log_recovered: recovered.edit.clone(),
        log_segments_dropped: recovered.unused().filter(|segment| state.log_segments.contains(segment)).collect(),
        next_file: Some(numbers.next()),
        ..ManifestEdit::default()
    };
    let edit_number = manifest.append_anew(&edit)?;

    // Step 7, before there are new files.
    if space == LogSpace::Scarce {
        recovered.segments.retain(|segment| !segment.unused);
    }
    let needed = recovered.segments.iter().map(|segment| segment.number);
    let needed: HashSet<FileNumber> = needed.chain(recovered.contents.value_files().iter().copied()).collect();
    remove_strays(&**storage, &state, &parts.value_file_refs, |file| needed.contains(&file))?;

    // Everything that the log's shared memory held is now durable in its files, and the edit has decided what counts.
    log::remove_shadows(&**storage);

    // Step 6.
    let log_options = LogOptions {
        segment_bytes: budget.segment,
        chunk_bytes: budget.chunk,
        budget_bytes: budget.log,
        deterministic: driver == Driver::Deterministic,
        scarce: space == LogSpace::Scarce,
    };
    let database = state.identity.database;
    let identity = LogIdentity { database, epoch, life: storage.life(), first: recovered.next_number };
    let branch_values = state.branches.values().filter(|meta| !meta.value_files.is_empty());
    let branch_values: HashMap<_, _> = branch_values.map(|meta| (meta.file, meta.value_files.clone())).collect();
    let edits = Arc::new(Mutex::new(Edits { manifest, branch_values }));
    let name_segment = Edits::name_segment(&edits);
    let memory = log_memory(&**storage, options, &identity);
    let log = Log::create(Arc::clone(storage), memory, identity, Arc::clone(&numbers), log_options, name_segment)?;
    log.adopt(recovered.segments);
    log.note_manifest_edit(edit_number);

    // Read-only openers may come from here on.
    drop(locks.opening);
    // The contents of the log are brought in below this generation, once there are threads to make room for more of them.
    let newest = Arc::new(Generation::starting_after(arbiter.memtables.take(), last, &parts.value_file_refs));
    let snapshots = SnapshotRegistry::new(Arc::clone(clock), options.snapshot_age_limit);
    let view = ViewCell::new(vec![newest], version);
    let operator = host.merge_operator.clone();
    let read = Arc::new(parts.into_read_path(Arc::clone(storage), snapshots, last, view, operator));
    let log = (log, epoch, recovered.next_number);
    let engine = assemble(host, read, Arc::new(disk), log, (edits, numbers), state.incorporated, locks.writer);
    Ok((engine, recovered.contents))
}

/// Puts the components of a store together, from the lowest up.
fn assemble(
    host: &Host,
    read: Arc<ReadPath>,
    disk: Arc<Component>,
    log: (Arc<Log>, u64, SequenceNumber),
    (edits, numbers): (Arc<Mutex<Edits>>, Arc<FileNumbers>),
    incorporated: SequenceNumber,
    writer_lock: locks::Guard,
) -> Arc<Engine> {
    let Host { options, config: StoreConfig { budget, .. }, scheduler, arbiter, .. } = host;
    let (budget, health, threads) = (*budget, Arc::new(Health::new()), WriterThreads::new());
    let log = DurableLog::new(log, &read, &health, scheduler, options.sync_interval);
    let memtables = Arc::clone(&arbiter.memtables);
    let generations = Generations::new(&read, memtables, &health, scheduler, (budget, incorporated));
    let publisher = TreePublisher::new(edits, &disk, &read, &log, &numbers);
    let space = Space::new(&read, (&log.log, &disk), &health, &generations, (scheduler, budget));
    let rate_limit = RateLimit::new(options.background_write_limit);
    let clock = Arc::clone(&scheduler.clock);
    let throttle = Throttle::new(rate_limit, &read, (&generations, &disk, &log), &threads, (clock, budget));
    let write = WritePath::new(&WriteParts {
        read: &read,
        health: &health,
        generations: &generations,
        log: &log,
        space: &space,
        scheduler,
        throttle: &throttle,
        threads: &threads,
        numbers: &numbers,
        durability: options.durability,
    });
    let statistics = Arc::new(Statistics {
        read: Arc::clone(&read),
        health: Arc::clone(&health),
        scheduler: Arc::clone(scheduler),
        generations: Arc::clone(&generations),
        log: Arc::clone(&log),
        disk: Arc::clone(&disk),
        space: Arc::clone(&space),
        throttle: Arc::clone(&throttle),
        write: Arc::clone(&write),
        memory_budget: budget.total,
    });
    let background = Arc::new(Background {
        read: Arc::clone(&read),
        health: Arc::clone(&health),
        scheduler: Arc::clone(scheduler),
        arbiter: Arc::clone(arbiter),
        disk,
        log,
        generations,
        throttle,
        space,
        obsolete_files: ObsoleteFiles::new(&read, &publisher, scheduler),
        publisher,
        statistics,
        live_stats: Publisher::default(),
        budget,
    });
    let runner: Arc<dyn RunNext> = background.clone();
    scheduler.set_runner(Arc::downgrade(&runner));
    Arc::new(Engine {
        read,
        write,
        background,
        health,
        numbers,
        threads: Mutex::default(),
        writer_lock: Mutex::new(Some(writer_lock)),
    })
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

/// A new store's manifest: its first edit is the empty tree and the default keyspace.
fn create(storage: &Arc<dyn Storage>, component: &ComponentOptions) -> Result<Manifest> {
    let identity = Identity { database: DatabaseId(storage.random()) };
    let mut first = Component::create_edit(component);
    first.keyspaces =
        vec![KeyspaceRecord { id: KeyspaceId::DEFAULT, name: "default".into(), comparator: COMPARATOR.into() }];
    first.next_file = Some(FileNumber(1));
    Manifest::create(Arc::clone(storage), identity, &first)
}

/// A maplet that is missing or has another length costs no answers: it is built anew.
fn check_maplets(version: &Version) -> Result<()> {
    for maplet in version.maplets() {
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

/// Removes files that neither manifest nor log names: left by work that was cut short. Those of other stores stay: they are not
/// ours, and a manifest that was put here in error must not cost a store its files.
fn remove_strays(
    storage: &dyn Storage,
    state: &ManifestState,
    values: &ValueFileRefs,
    log_needs: impl Fn(FileNumber) -> bool,
) -> Result<()> {
    repair::remove_mark(storage)?;
    // Without it read-only openers are there, who may read them still; the next opening finds them again.
    let alone = locks::to_remove(storage)?;
    for name in storage.list()? {
        let Some(file) = StoreFile::parse(&name) else { continue };
        let stray = match file {
            StoreFile::Branch(file) => alone.is_some() && !state.branches.contains_key(&file),
            // Nothing stands in it that the branches of its store do not have.
            StoreFile::Maplet(file) => alone.is_some() && !state.maplets.contains_key(&file),
            StoreFile::Value(file) => alone.is_some() && !values.contains(file) && !log_needs(file),
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
