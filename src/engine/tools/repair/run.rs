//! Runs a repair: decides which store the files belong to, and then keeps or rebuilds its tree. One thread.

use super::log::{DamagedLog, SalvagedLog};
use super::merge::{self, OLDER_VERSIONS_WARNING, SourceFile};
use super::other_stores::OtherStores;
use super::value_check::ValueCheck;
use super::{log, manifest_state, set_aside};
use crate::branch::{Branch, BranchBuilder, file_name};
use crate::changes::change_file_name;
use crate::disk::salvage_buffered;
use crate::engine::directory::listing::Directory;
use crate::engine::directory::locks;
use crate::engine::directory::owners::{self, Owners};
use crate::engine::directory::repair_mark;
use crate::engine::tools::offline::Readers;
use crate::engine::tools::verify::simulate_recovery;
use crate::engine::types::repair_report::{Loss, LostKeys, RepairReport};
use crate::engine::types::verification::CheckProgress;
use crate::format::manifest_edit::BranchMeta;
use crate::io::Storage;
use crate::log::salvage::{FoundSegment, found_segments};
use crate::log::{POISON, missing_edits};
use crate::manifest::{self, MANIFEST_NAME, ManifestState};
use crate::util::sync::Arc;
use crate::util::{DatabaseId, Error, FileNumber, Result, SequenceNumber};
use crate::value::value_file_name;
use std::collections::{BTreeMap, BTreeSet};

/// Repairs the store in a directory.
///
/// # Errors
/// `NoStore`, `AlreadyOpen`, `NewerFormat`, `Io`. After an `Io` error the store is either as before (with some
/// `*.damaged` names added) or already repaired; repair may be called again.
pub(crate) fn repair(storage: &Arc<dyn Storage>, progress: &mut dyn FnMut(CheckProgress<'_>)) -> Result<RepairReport> {
    Directory::list(&**storage)?;
    let _locks = locks::for_destroying(&**storage)?;
    let mut directory = Directory::list(&**storage)?;
    let mut segments = found_segments(&**storage)?;
    let mut report = RepairReport::default();
    let mut owners = Owners::read(&**storage, &directory, &segments)?;
    owners.add(MANIFEST_NAME.to_owned(), manifest::read_identity(&**storage)?.map(|identity| identity.database));
    let read = manifest::read_state(&**storage);
    let database = identity(&**storage, &owners, read.as_ref().ok(), &segments)?;
    let other_stores = OtherStores::new(&owners, database);
    segments.retain(|segment| !other_stores.has(&segment.name()));
    let state = match read.and_then(|state| usable_manifest(&**storage, state, &segments, &owners, database)) {
        Ok(state) => Some(state),
        Err(error) if error.is_damage() || matches!(error, Error::NoStore { .. }) => {
            report.manifest_lost = Some(error.to_string());
            None
        }
        Err(error) => return Err(error),
    };
    let known_next = state.as_ref().map_or(FileNumber(1), |state| state.next_file);
    let readers = Readers::new(storage, database, directory.next_file.max(known_next));
    let marked = discard_unfinished(&**storage, &mut directory, state.as_ref(), &other_stores)?;
    let repair = Repair {
        storage,
        readers: &readers,
        directory,
        segments: &segments,
        values: ValueCheck::new(&readers.values, other_stores.values()),
        other_stores,
        marked,
        damaged: Vec::new(),
        obsolete: Vec::new(),
        report,
    };
    match state {
        Some(state) => repair.keep_tree(state, progress),
        None => repair.rebuild(database, progress),
    }
}

/// The manifest, if it is usable. `segments` belong to the store `database`.
fn usable_manifest(
    storage: &dyn Storage,
    state: ManifestState,
    segments: &[FoundSegment],
    owners: &Owners,
    database: DatabaseId,
) -> Result<ManifestState> {
    let path = storage.path_of(MANIFEST_NAME);
    if let Some(owner) = owners.of(MANIFEST_NAME).filter(|owner| *owner != database) {
        let expected = format!("{database}, the id of most files in the directory");
        return Err(Error::corruption(
            &path,
            16,
            "database id",
            expected,
            format!("{owner}: it {}", owners::describe(owner)),
        ));
    }
    if let Err(found) = state.check() {
        return Err(Error::corruption(&path, 0, "structure of the tree", "a consistent tree", found));
    }
    // An older copy of the manifest names files that were removed, and lacks files that were added.
    let own = segments.iter().filter(|segment| segment.number >= state.log_files_from);
    let marked = own.filter_map(|segment| segment.mark).map(|mark| mark.manifest_edit).max().unwrap_or(0);
    if marked > state.edits {
        return Err(missing_edits(storage, marked, state.edits));
    }
    Ok(state)
}

/// Decides which store to save: the one that most files belong to. A manifest that was copied here by mistake is then
/// only one file among many. But if all files that the manifest names exist and have its id, its store is complete: all
/// other files are strays, however many there are.
fn identity(
    storage: &dyn Storage,
    owners: &Owners,
    state: Option<&ManifestState>,
    segments: &[FoundSegment],
) -> Result<DatabaseId> {
    if let Some(state) = state {
        let database = state.identity.database;
        let is_own = |name: &str| owners.of(name) == Some(database);
        let (mut branches, mut named) = (state.branches.keys(), state.log_segments.range(state.log_files_from..));
        let has_segment = |number| segments.iter().any(|segment| segment.number == number && is_own(&segment.name()));
        let names_any = !state.branches.is_empty() || named.clone().next().is_some();
        if names_any && branches.all(|file| is_own(&file_name(*file))) && named.all(|number| has_segment(*number)) {
            return Ok(database);
        }
    }
    owners.majority(MANIFEST_NAME).ok_or_else(|| Error::NoStore {
        path: storage.path().to_path_buf(),
        reason: "no file in the directory has a valid header or footer that states its store".to_owned(),
    })
}

/// Removes the branch files that an interrupted repair created. Returns whether there was one. Its mark stays and is
/// used again.
fn discard_unfinished(
    storage: &dyn Storage,
    directory: &mut Directory,
    state: Option<&ManifestState>,
    other_stores: &OtherStores,
) -> Result<bool> {
    let Some(mark) = repair_mark::find(storage)? else { return Ok(false) };
    let is_named = |file: &FileNumber| state.is_some_and(|state| state.branches.contains_key(file));
    let stays = |file: &FileNumber| *file < mark || is_named(file) || other_stores.has(&file_name(*file));
    let (kept, unfinished): (Vec<_>, Vec<_>) = std::mem::take(&mut directory.branches).into_iter().partition(stays);
    directory.branches = kept;
    for file in unfinished {
        storage.remove(&file_name(file))?;
    }
    Ok(true)
}

/// A repair in progress.
struct Repair<'a> {
    storage: &'a Arc<dyn Storage>,
    readers: &'a Readers,
    directory: Directory,
    segments: &'a [FoundSegment],
    values: ValueCheck<'a>,
    other_stores: OtherStores,
    /// Whether the repair mark exists.
    marked: bool,
    /// Files to set aside, by name.
    damaged: Vec<String>,
    /// Files that the new manifest does not need, by name.
    obsolete: Vec<String>,
    report: RepairReport,
}

impl Repair<'_> {
    /// Creates the repair mark. Must be called before the repair creates another file.
    fn begin(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.marked, true) {
            repair_mark::create(&**self.storage, &self.readers.numbers)?;
        }
        Ok(())
    }

    /// Repairs a store with a readable manifest. Everything valid is kept.
    fn keep_tree(
        mut self,
        mut state: ManifestState,
        progress: &mut dyn FnMut(CheckProgress<'_>),
    ) -> Result<RepairReport> {
        let total = state.branches.values().map(|meta| meta.bytes).sum();
        let (mut done, mut replaced) = (0, BTreeMap::new());
        let (parents, mut unfit) = (state.parents(), BTreeSet::new());
        for meta in state.branches.values() {
            let name = file_name(meta.file);
            progress(CheckProgress { file: &name, bytes_done: done, bytes_total: total });
            done += meta.bytes;
            match self.check_branch(meta)? {
                BranchState::Valid => self.report.branches_kept += 1,
                // No run has it. What is still needed of it is saved below; the rest must not come back.
                found if parents.contains(&meta.file) => {
                    unfit.insert(meta.file);
                    if found == BranchState::Damaged {
                        self.damaged.push(name);
                    }
                }
                BranchState::Missing => {
                    self.report.branches_lost += 1;
                    self.report.entries_lost += meta.entries;
                    let path = self.storage.path_of(&name);
                    let found = self.other_stores.describe(&name);
                    let found = found.map_or("none".to_owned(), |found| format!("one that {found}"));
                    let error = Error::corruption(&path, 0, "file", "a branch file of this store", found);
                    let keys = range_of(meta).unwrap_or(LostKeys::between(None, None));
                    self.report.lose(Loss { keys: Some(keys), ..Loss::of_file(name, error) });
                    self.report.warn(OLDER_VERSIONS_WARNING);
                    replaced.insert(meta.file, None);
                }
                damaged => {
                    self.begin()?;
                    let (new, readings) =
                        merge::rewrite(&self.readers.branches, meta, &mut self.values, &mut self.report)?;
                    readings.iter().for_each(|reading| merge::report_reading(reading, Some(meta), &mut self.report));
                    match &new {
                        Some(new) => {
                            self.report.branches_rewritten += 1;
                            self.report.entries_saved += new.entries;
                        }
                        None => self.report.branches_lost += 1,
                    }
                    if damaged == BranchState::Damaged {
                        self.damaged.push(name);
                    }
                    replaced.insert(meta.file, new);
                }
            }
        }
        // Some of these value files had references only in lost pages.
        let lost = replaced.keys().chain(&unfit);
        let unreferenced = lost.flat_map(|file| state.branches[file].value_files.clone()).collect();
        let released = self.save_buffered(&mut state, &unfit)?;
        let unused = manifest_state::replace(&mut state, &replaced);
        self.obsolete.extend(replaced.keys().chain(&unused).chain(&released).map(|file| file_name(*file)));
        let branch_max = state.branches.values().map(|meta| meta.number_max).max().unwrap_or_default();
        let own: Vec<&FoundSegment> =
            self.segments.iter().filter(|segment| segment.number >= state.log_files_from).collect();
        match simulate_recovery(&**self.storage, self.readers, &state) {
            Ok(()) => self.report.log_kept = true,
            Err(error) if error.is_damage() => {
                let parts = self.salvage_log(&own, &mut state, branch_max, &error)?;
                manifest_state::add_newest_run(&mut state, &parts);
            }
            Err(error) => return Err(error),
        }
        if replaced.is_empty() && unfit.is_empty() && self.report.log_kept && self.other_stores.is_empty() {
            repair_mark::remove(&**self.storage)?;
            return Ok(self.report);
        }
        state.edits += 1;
        self.install(state, unreferenced)
    }

    /// Writes the buffered branches that need an unfit parent to branch files, with what can still be read of them.
    /// Returns the files that the state no longer has.
    fn save_buffered(&mut self, state: &mut ManifestState, unfit: &BTreeSet<FileNumber>) -> Result<Vec<FileNumber>> {
        let mut replaced = BTreeMap::new();
        for (file, buffered) in &state.buffered {
            if buffered.parents.iter().all(|items| !unfit.contains(&items.parent)) {
                continue;
            }
            self.begin()?;
            let context = &self.readers.branches;
            let mut builder: Option<BranchBuilder> = None;
            let (values, report) = (&mut self.values, &mut self.report);
            let damage = salvage_buffered(context, state, buffered, &mut |entry| {
                let builder: &mut BranchBuilder = match &mut builder {
                    Some(builder) => builder,
                    empty => empty.insert(BranchBuilder::create(context)?),
                };
                builder.add(values.entry_to_keep(entry, report)?)
            })?;
            let new = builder.map(BranchBuilder::finish).transpose()?;
            for (parent, count, error) in damage.into_iter().filter(|(_, count, _)| *count > 0) {
                self.report.entries_lost += count;
                let keys = range_of(&buffered.meta);
                self.report.lose(Loss { keys, ..Loss::of_file(file_name(parent), error) });
                self.report.warn(OLDER_VERSIONS_WARNING);
            }
            match &new {
                Some(new) => {
                    self.report.branches_rewritten += 1;
                    self.report.entries_saved += new.entries;
                }
                None => self.report.branches_lost += 1,
            }
            replaced.insert(*file, new);
        }
        Ok(manifest_state::replace_buffered(state, &replaced))
    }

    /// Repairs a store without a manifest. All branch files and the log are merged.
    fn rebuild(mut self, database: DatabaseId, progress: &mut dyn FnMut(CheckProgress<'_>)) -> Result<RepairReport> {
        self.report.warn(
            "the manifest was lost, so every branch file was used: deleted keys may be back if the files that recorded their \
             deletion were removed by an earlier merge, and writes that an earlier recovery discarded may be back",
        );
        self.begin()?;
        // Only the manifest says which files existed. A missing file may leave no other trace.
        self.report.lose(Loss::of_file(MANIFEST_NAME.to_owned(), MANIFEST_LOST));
        let (mut sources, mut metas) = (Vec::new(), BTreeMap::new());
        let files = self.directory.branches.iter().filter(|file| !self.other_stores.has(&file_name(**file)));
        for file in files {
            progress(CheckProgress { file: &file_name(*file), bytes_done: 0, bytes_total: 0 });
            let meta = merge::own_meta(&self.readers.branches, *file)?;
            if meta
                .as_ref()
                .is_some_and(|meta| meta.entries + meta.range_tombstones > 0 && meta.number_max == SequenceNumber::ZERO)
            {
                // Of an ingest that never took effect.
                self.obsolete.push(file_name(*file));
                continue;
            }
            metas.extend(meta.iter().map(|meta| (*file, meta.clone())));
            sources.push(SourceFile { file: *file, meta });
        }
        let branch_max = metas.values().map(|meta| meta.number_max).max().unwrap_or_default();
        let mut state = manifest_state::empty(database);
        self.damaged.push(MANIFEST_NAME.to_owned());
        let own: Vec<&FoundSegment> = self.segments.iter().collect();
        let log = DamagedLog { segments: &own, state: None, branch_max };
        let mut salvaged = log::salvage(&**self.storage, self.readers, &log, &mut self.report)?;
        sources.append(&mut salvaged.sources);
        progress(CheckProgress { file: "all branch files", bytes_done: 0, bytes_total: 0 });
        let (parts, readings) =
            merge::merge(&self.readers.branches, sources, true, &mut self.values, &mut self.report)?;
        for reading in readings.iter().filter(|reading| self.directory.branches.contains(&reading.file)) {
            self.obsolete.push(file_name(reading.file));
            let meta = metas.get(&reading.file);
            if !reading.lost.is_empty() || !merge::is_complete(reading, meta) {
                self.damaged.push(file_name(reading.file));
            }
            let count =
                if reading.entries == 0 { &mut self.report.branches_lost } else { &mut self.report.branches_rewritten };
            *count += 1;
            merge::report_reading(reading, meta, &mut self.report);
        }
        self.report.entries_saved = parts.iter().map(|meta| meta.entries).sum();
        manifest_state::add_newest_run(&mut state, &parts);
        self.discard_log(&mut state, salvaged, &own);
        let marks = self.segments.iter().filter_map(|segment| segment.mark).map(|mark| mark.manifest_edit);
        state.edits = marks.max().unwrap_or(0) + 1;
        self.install(state, BTreeSet::new())
    }

    /// Checks whether a branch file can be kept.
    fn check_branch(&mut self, meta: &BranchMeta) -> Result<BranchState> {
        if self.other_stores.has(&file_name(meta.file)) {
            return Ok(BranchState::Missing);
        }
        match Branch::new(&self.readers.branches, meta.clone()).verify() {
            Ok(report) => {
                for reference in &report.value_references {
                    if !self.values.has(reference)? {
                        return Ok(BranchState::LacksValues);
                    }
                }
                Ok(BranchState::Valid)
            }
            Err(error) if !error.is_damage() => Err(error),
            Err(_) if self.directory.branches.binary_search(&meta.file).is_err() => Ok(BranchState::Missing),
            Err(_) => Ok(BranchState::Damaged),
        }
    }

    /// Moves the readable entries of a damaged log into branch files.
    fn salvage_log(
        &mut self,
        segments: &[&FoundSegment],
        state: &mut ManifestState,
        branch_max: SequenceNumber,
        error: &Error,
    ) -> Result<Vec<BranchMeta>> {
        let file = match error {
            Error::Corruption { path, .. } => path.file_name().map(|name| name.to_string_lossy().into_owned()),
            _ => None,
        };
        self.report.lose_place(&file.unwrap_or_default(), error);
        self.begin()?;
        let log = DamagedLog { segments, state: Some(state), branch_max };
        let mut salvaged = log::salvage(&**self.storage, self.readers, &log, &mut self.report)?;
        let sources = std::mem::take(&mut salvaged.sources);
        let (parts, _) = merge::merge(&self.readers.branches, sources, false, &mut self.values, &mut self.report)?;
        self.report.entries_saved += parts.iter().map(|meta| meta.entries).sum::<u64>();
        self.discard_log(state, salvaged, segments);
        Ok(parts)
    }

    /// Makes the old log obsolete.
    fn discard_log(&mut self, state: &mut ManifestState, salvaged: SalvagedLog, segments: &[&FoundSegment]) {
        let is_damaged = |segment: &&&FoundSegment| salvaged.damaged.contains(&segment.number);
        self.damaged.extend(segments.iter().filter(is_damaged).map(|segment| segment.name()));
        self.obsolete.extend(segments.iter().map(|segment| segment.name()));
        self.obsolete.push(POISON.to_owned());
        manifest_state::discard_log(state, salvaged.incorporated, salvaged.recovered, self.readers.numbers.next());
    }

    /// What followers have seen may be lost, so they cannot go on. Before the new manifest: otherwise the next opening could.
    fn end_changes(&mut self) -> Result<()> {
        let names = self.directory.changes.iter().map(|file| change_file_name(*file));
        let names: Vec<_> = names.filter(|name| !self.other_stores.has(name)).collect();
        if !names.is_empty() {
            self.report.warn(
                "the writes that were kept for followers are removed, since they may differ from what was saved: open the store with \
                 `Options::change_retention`, and begin each follower with a checkpoint",
            );
        }
        names.iter().try_for_each(|name| self.storage.remove(name))
    }

    /// Writes and installs the new manifest, sets damaged files aside and removes obsolete ones. Of the value files
    /// `unreferenced`, those that the new tree does not name are set aside: their keys are lost, but their values are
    /// not.
    fn install(mut self, mut state: ManifestState, mut unreferenced: BTreeSet<FileNumber>) -> Result<RepairReport> {
        self.report.changed = true;
        let named: BTreeSet<FileNumber> = state.branches.values().flat_map(|meta| meta.value_files.clone()).collect();
        if !self.report.is_complete() && !self.report.log_kept {
            // The keys of these values may be among the losses.
            let values = self.directory.values.iter();
            unreferenced.extend(values.filter(|file| !self.other_stores.has(&value_file_name(**file))));
        }
        let values = self.values.damaged().chain(unreferenced.difference(&named).copied()).map(value_file_name);
        self.other_stores.add_to(&mut self.report);
        for name in values.chain(self.other_stores.names().map(str::to_owned)) {
            self.damaged.push(name.clone());
            self.obsolete.push(name);
        }
        self.damaged.sort_unstable();
        self.damaged.dedup();
        state.next_file = state.next_file.max(self.readers.numbers.next());
        self.end_changes()?;
        self.storage.sync_directory()?;
        set_aside::link_as_damaged(&**self.storage, &self.damaged, &mut self.report)?;
        // Maplets are rebuilt later. The next opening removes their old files.
        state.maplets.clear();
        manifest::replace(&**self.storage, &state)?;
        repair_mark::remove(&**self.storage)?;
        self.obsolete.retain(|name| name != MANIFEST_NAME);
        self.obsolete.sort_unstable();
        self.obsolete.dedup();
        set_aside::remove_originals(&**self.storage, &self.obsolete)?;
        Ok(self.report)
    }
}

/// Result of the check of a branch file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BranchState {
    Valid,
    /// The file is valid, but a value that it refers to is lost.
    LacksValues,
    Damaged,
    /// The file does not exist or belongs to another store.
    Missing,
}

const MANIFEST_LOST: &str = "the manifest was lost: files that are gone cannot be known";

/// All keys of a file: from its smallest to its largest key, both included.
fn range_of(meta: &BranchMeta) -> Option<LostKeys> {
    (meta.entries > 0 || meta.range_tombstones > 0).then(|| LostKeys::between(Some(&meta.key_min), Some(&meta.key_max)))
}
