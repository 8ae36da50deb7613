//! Opens a store for writing, in the steps of `docs/recovery.md`, R. One thread.

use super::assembly::{OpenedStore, assemble};
use super::host::Host;
use super::merge_operator;
use super::refill::first_memtable;
use super::shared_steps::{FileReaders, OpenInputs, check_branches, check_keyspaces, check_manifest_end, recover};
use crate::disk::{Component, ComponentOptions, Version};
use crate::engine::directory::store_files::{self, Found, StoreFile};
use crate::engine::directory::{leveldb_guard, locks, owners, repair_mark};
use crate::engine::durable_log::OpenedLog;
use crate::engine::engine::Engine;
use crate::engine::pool::Lane;
use crate::engine::scheduler::{Driver, Scheduler};
use crate::engine::space::ballast;
use crate::engine::state::budget::StoreConfig;
use crate::engine::state::generation::Generation;
use crate::engine::state::snapshot_registry::SnapshotRegistry;
use crate::engine::state::value_file_refs::ValueFileRefs;
use crate::engine::state::view::ViewCell;
use crate::engine::tree_publisher::Edits;
use crate::engine::types::options::COMPARATOR;
use crate::format::manifest_edit::{Identity, KeyspaceRecord, ManifestEdit};
use crate::io::Storage;
use crate::log::{Access, Log, LogContents, LogIdentity, LogOptions, LogResources, LogTask, WakeLog};
use crate::manifest::{Manifest, ManifestState};
use crate::merge::{MergeOperator, MergeOperators};
use crate::util::sync::{Arc, Mutex};
use crate::util::{DatabaseId, Error, FileNumber, FileNumbers, KeyspaceId, Result, SequenceNumber};
use std::collections::HashSet;

/// Opens or creates a store. The caller takes the store into its pool, if it has one, and then calls `Background::refill` with
/// the contents of the log.
pub(crate) fn open(storage: Arc<dyn Storage>, host: &Host) -> Result<(Arc<Engine>, LogContents)> {
    let full = match open_with(&storage, host, LogSpace::Enough) {
        Err(error) if error.is_disk_full() => error,
        opened => return opened,
    };
    // A store that was closed or killed on a full disk can be opened there any number of times. The second attempt
    // takes less space, so that the ballast stays for the work that frees space. The next ones take space from
    // the ballast, which suffices for what opening writes.
    let opened = loop {
        match open_with(&storage, host, LogSpace::Scarce) {
            Err(error) if error.is_disk_full() && ballast::halve_in(&*storage) => {}
            opened => break opened,
        }
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
    /// The disk is full: the log starts small and recycles no unused file.
    Scarce,
}

fn open_with(storage: &Arc<dyn Storage>, host: &Host, space: LogSpace) -> Result<(Arc<Engine>, LogContents)> {
    let Host { options, config: StoreConfig { budget, disk: component }, scheduler, arbiter, .. } = host;
    let (driver, clock) = (scheduler.driver(), &scheduler.clock);
    merge_operator::check_name(options.merge_operator.as_ref())?;
    let found = store_files::inspect(&**storage)?;
    if found == Found::Empty && !options.create_if_missing {
        let reason = "nothing is there, and `create_if_missing` is not set".to_owned();
        return Err(Error::NoStore { path: storage.path().to_path_buf(), reason });
    }
    storage.create_directory()?;
    let locks = locks::for_writing(&**storage, &**clock)?;
    // Another opener may have created the store between the first look and the lock.
    let found = store_files::inspect(&**storage)?;
    let mut manifest = match found {
        Found::Store => Manifest::open(Arc::clone(storage))?,
        Found::Empty => create(storage, component, options.merge_operator.as_ref())?,
    };
    // Nothing is written to an existing store before these checks.
    check_keyspaces(&**storage, manifest.state())?;
    if !options.force_cut {
        check_manifest_end(&**storage, manifest.state())?;
    }
    check_branches(&**storage, manifest.state())?;
    component.check(manifest.state())?;
    let operator =
        merge_operator::choose(&**storage, manifest.state(), options.merge_operator.as_ref(), Access::Write)?;
    leveldb_guard::ensure(&**storage);
    let state = manifest.state().clone();
    let numbers = Arc::new(FileNumbers::new(first_unused_file(&**storage, &state)?));
    let inputs = OpenInputs { storage, options, state: &state };
    let readers = FileReaders::new(&inputs, &numbers, &arbiter.cache, &arbiter.memory.extents);

    // Steps 3 and 4.
    let threads = if driver == Driver::Threads { budget.workers } else { 1 };
    let mut recovered = recover(&inputs, &readers, Access::Write, threads)?;
    let last = SequenceNumber(recovered.next_number.0 - 1);

    // Step 5.
    let operators = MergeOperators::new(operator.clone());
    let component = component.clone().with_merge_operators(&operators);
    let (disk, version) = Component::open(Arc::clone(&readers.branches), component, &state)?;
    check_maplets(&version)?;
    let epoch = recovered.next_epoch;
    let edit = ManifestEdit {
        log_recovered: recovered.edit.clone(),
        log_segments_dropped: recovered.unused().filter(|segment| state.log_segments.contains(segment)).collect(),
        keyspaces: merge_operator::record(&state, operator.as_ref()).into_iter().collect(),
        next_file: Some(numbers.next()),
        branch_bytes: Some(disk.branch_bytes()),
        ..ManifestEdit::default()
    };
    locks.writer.checker().check()?;
    // This opening has made the manifest of a new store, so there is nothing to record yet.
    let edit_number = match found {
        Found::Store => manifest.append_in_new_file(&edit)?,
        Found::Empty => manifest.state().edits,
    };

    // Step 7, before new files are created.
    if space == LogSpace::Scarce {
        recovered.segments.retain(|segment| !segment.unused);
    }
    let needed = recovered.segments.iter().map(|segment| segment.number);
    let needed: HashSet<FileNumber> = needed.chain(recovered.contents.value_files().iter().copied()).collect();
    remove_strays(&**storage, &state, &readers.value_file_refs, |file| needed.contains(&file))?;

    // Step 6.
    let database = state.identity.database;
    // A log that is written, not mapped, follows the power-loss rule in every life (H7).
    let life = storage.life().filter(|_| storage.maps_safely());
    let identity = LogIdentity { database, epoch, life, first: recovered.next_number };
    let log_options = log_options(host, space);
    let edits = Arc::new(Mutex::new(Edits::new(manifest, locks.writer.checker())));
    let name_segment = Edits::name_segment(&edits);
    let resources = LogResources {
        storage: Arc::clone(storage),
        clock: Arc::clone(clock),
        numbers: Arc::clone(&numbers),
        name_segment,
        wake: wake_log(scheduler),
    };
    let log = Log::create(resources, identity, log_options)?;
    log.adopt(recovered.segments);
    log.note_manifest_edit(edit_number);

    // From here on read-only openers may open the store.
    drop(locks.opening);
    // Step 8, by the caller, inserts the contents of the log below this generation, once threads can incorporate them.
    let memtable = first_memtable(&**storage, &arbiter.memtables, budget.first_memtable)?;
    let newest = Arc::new(Generation::starting_after(memtable, last, &readers.value_file_refs));
    let snapshots = SnapshotRegistry::new(Arc::clone(clock), options.snapshot_age_limit);
    let view = ViewCell::new(vec![newest], version);
    let opened = OpenedStore {
        read: Arc::new(readers.into_read_path(Arc::clone(storage), snapshots, last, view, operators)),
        disk: Arc::new(disk),
        log: OpenedLog { log, epoch, start: recovered.next_number, discarded: recovered.discarded },
        edits,
        numbers,
        incorporated: state.incorporated,
        writer_lock: locks.writer,
    };
    Ok((assemble(host, opened), recovered.contents))
}

/// Wakes the pool for log work.
fn wake_log(scheduler: &Arc<Scheduler>) -> WakeLog {
    let scheduler = Arc::clone(scheduler);
    Box::new(move |task| {
        scheduler.wake_log(match task {
            LogTask::MakeReady => Lane::MakeReady,
            LogTask::Finish => Lane::Finish,
        });
    })
}

fn log_options(host: &Host, space: LogSpace) -> LogOptions {
    let budget = &host.config.budget;
    LogOptions {
        segment_bytes: budget.segment,
        chunk_bytes: budget.chunk,
        budget_bytes: budget.log,
        deterministic: host.scheduler.driver() == Driver::Deterministic,
        scarce: space == LogSpace::Scarce,
    }
}

/// Creates the manifest of a new store. Its first edit is the empty disk component and the default keyspace.
fn create(
    storage: &Arc<dyn Storage>,
    component: &ComponentOptions,
    operator: Option<&Arc<dyn MergeOperator>>,
) -> Result<Manifest> {
    let identity = Identity { database: DatabaseId(storage.random()) };
    let mut first = Component::create_edit(component)?;
    first.keyspaces = vec![KeyspaceRecord {
        id: KeyspaceId::DEFAULT,
        name: "default".into(),
        comparator: COMPARATOR.into(),
        merge_operator: operator.map_or(String::new(), |operator| operator.name().to_owned()),
    }];
    first.next_file = Some(FileNumber(1));
    Manifest::create(Arc::clone(storage), identity, &first)
}

/// Marks maplets that are missing or have a wrong length: reads work without them, and they are built again.
fn check_maplets(version: &Version) -> Result<()> {
    for maplet in version.maplets() {
        match maplet.check_length() {
            Err(error) if error.is_damage() => maplet.mark_broken(),
            checked => checked?,
        }
    }
    Ok(())
}

/// The first unused file number: at least the manifest's next number, and above every number in a file name.
fn first_unused_file(storage: &dyn Storage, state: &ManifestState) -> Result<FileNumber> {
    let names = storage.list()?;
    let seen =
        names.iter().filter_map(|name| StoreFile::parse(name)?.number()).map(|file| FileNumber(file.0 + 1)).max();
    Ok(seen.unwrap_or_default().max(state.next_file))
}

/// Removes files that neither manifest nor log names: unfinished work left them. Files of other stores stay, so a
/// manifest that was copied here by mistake does not destroy a store.
fn remove_strays(
    storage: &dyn Storage,
    state: &ManifestState,
    values: &ValueFileRefs,
    log_needs: impl Fn(FileNumber) -> bool,
) -> Result<()> {
    repair_mark::remove(storage)?;
    // Without this lock read-only openers may still read the files; the next opening finds them again.
    let alone = locks::to_remove(storage)?;
    let mut has_removed = false;
    for name in storage.list()? {
        let Some(file) = StoreFile::parse(&name) else { continue };
        let stray = match file {
            StoreFile::Branch(file) => alone.is_some() && !state.branches.contains_key(&file),
            // What only shadows had is durable in the segments, and the edit says which records count.
            StoreFile::Shadow(_) => true,
            // A maplet has no data that its branches do not have.
            StoreFile::Maplet(file) => alone.is_some() && !state.maplets.contains_key(&file),
            StoreFile::Value(file) => alone.is_some() && !values.contains(file) && !log_needs(file),
            StoreFile::Log(file) | StoreFile::SpareLog(file) => !log_needs(file),
            StoreFile::NewManifest | StoreFile::Poison | StoreFile::RepairMark(_) | StoreFile::Stats => true,
            StoreFile::CheckpointMark => true,
            // `ChangeLog::resume` knows which are of use.
            StoreFile::Changes(_) => false,
            StoreFile::Lock | StoreFile::Manifest | StoreFile::Ballast | StoreFile::Damaged(_) => false,
            StoreFile::Guard | StoreFile::Comparator => false,
        };
        if stray && !owners::may_belong_to_another_store(storage, &name, file, state.identity.database) {
            storage.remove(&name)?;
            has_removed = true;
        }
    }
    if has_removed { storage.sync_directory() } else { Ok(()) }
}

#[cfg(test)]
mod tests;
