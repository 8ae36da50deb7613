//! The repair itself: which store is saved, and the two ways to save it. One thread.

use super::merge::{self, OLDER, Source};
use super::other_stores::Foreign;
use super::values::Values;
use super::{log, manifest_state, repair_mark, set_aside};
use crate::branch::{Branch, file_name};
use crate::engine::directory::listing::Directory;
use crate::engine::directory::locks;
use crate::engine::directory::owners::{self, Owners};
use crate::engine::tools::offline::Readers;
use crate::engine::tools::verify::dry_recovery;
use crate::engine::types::repair_report::{Loss, LostKeys, RepairReport};
use crate::engine::types::verification::CheckProgress;
use crate::format::manifest_edit::BranchMeta;
use crate::io::Storage;
use crate::log::POISON;
use crate::log::salvage::{FoundSegment, found_segments};
use crate::manifest::{self, MANIFEST_NAME, ManifestState};
use crate::util::sync::Arc;
use crate::util::{DatabaseId, Error, FileNumber, Result, SequenceNumber};
use crate::value::value_file_name;
use std::collections::{BTreeMap, BTreeSet};

/// Saves what can be saved.
///
/// # Errors
/// `NoStore`, `AlreadyOpen`, `NewerFormat`, `Io`. The store is then as it was.
pub(crate) fn repair(storage: &Arc<dyn Storage>, progress: &mut dyn FnMut(CheckProgress<'_>)) -> Result<RepairReport> {
    Directory::list(&**storage)?;
    let _locks = locks::for_destroying(&**storage)?;
    let mut directory = Directory::list(&**storage)?;
    let mut segments = found_segments(&**storage)?;
    let mut report = RepairReport::default();
    let mut owners = Owners::look(&**storage, &directory, &segments)?;
    owners.add(MANIFEST_NAME.to_owned(), manifest::read_identity(&**storage)?.map(|identity| identity.database));
    let read = manifest::read_state(&**storage);
    let database = identity(&**storage, &owners, read.as_ref().ok(), &segments)?;
    let foreign = Foreign::new(&owners, database);
    segments.retain(|segment| !foreign.has(&segment.name()));
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
    let marked = repair_mark::discard(&**storage, &mut directory, state.as_ref(), &foreign)?;
    let repair = Repair {
        storage,
        readers: &readers,
        directory,
        segments: &segments,
        values: Values::new(&readers.values, foreign.values()),
        foreign,
        marked,
        report,
    };
    match state {
        Some(state) => repair.keep_tree(state, progress),
        None => repair.rebuild(database, progress),
    }
}

/// The manifest, if it can be relied on. `segments` are those of the store `database`.
fn usable_manifest(
    storage: &dyn Storage,
    state: ManifestState,
    segments: &[FoundSegment],
    owners: &Owners,
    database: DatabaseId,
) -> Result<ManifestState> {
    let path = storage.path_of(MANIFEST_NAME);
    if let Some(owner) = owners.of(MANIFEST_NAME).filter(|owner| *owner != database) {
        let expected = format!("that of most files here, {database}");
        return Err(Error::corruption(
            &path,
            16,
            "database id",
            expected,
            format!("{owner}: it {}", owners::told(owner)),
        ));
    }
    if let Err(found) = state.check() {
        return Err(Error::corruption(&path, 0, "structure of the tree", "a consistent tree", found));
    }
    // An older copy names files that are gone and lacks those that came since.
    let own = segments.iter().filter(|segment| segment.number >= state.log_files_from);
    let marked = own.filter_map(|segment| segment.mark).map(|mark| mark.manifest_edit).max().unwrap_or(0);
    if marked > state.edits {
        let expected = format!("at least {marked}, which the log knows to be durable");
        return Err(Error::corruption(&path, 0, "manifest edits", expected, state.edits));
    }
    Ok(state)
}

/// Which store is to be saved: the one that most files belong to. A manifest that somebody put there in error is one file among
/// many; but where every file that it names is there and its own, the store is whole and all others are strays, be they ever so many.
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
        reason: "no file there has a header or a footer that says which store it belongs to".to_owned(),
    })
}

/// A repair under way.
struct Repair<'a> {
    storage: &'a Arc<dyn Storage>,
    readers: &'a Readers,
    directory: Directory,
    segments: &'a [FoundSegment],
    values: Values<'a>,
    foreign: Foreign,
    /// Whether the mark of a repair under way is there.
    marked: bool,
    report: RepairReport,
}

impl Repair<'_> {
    /// To be called before a file is made.
    fn begin(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.marked, true) {
            repair_mark::begin(&**self.storage, &self.readers.numbers)?;
        }
        Ok(())
    }

    /// The manifest is readable: everything sound stays.
    fn keep_tree(
        mut self,
        mut state: ManifestState,
        progress: &mut dyn FnMut(CheckProgress<'_>),
    ) -> Result<RepairReport> {
        let total = state.branches.values().map(|meta| meta.bytes).sum();
        let (mut done, mut replaced, mut damaged) = (0, BTreeMap::new(), Vec::new());
        for meta in state.branches.values() {
            let name = file_name(meta.file);
            progress(CheckProgress { file: &name, done, total });
            done += meta.bytes;
            match self.judge(meta)? {
                Judgement::Sound => self.report.branches_kept += 1,
                Judgement::Missing => {
                    self.report.branches_lost += 1;
                    self.report.entries_lost += meta.entries;
                    let path = self.storage.path_of(&name);
                    let found = self.foreign.told(&name).map_or("none".to_owned(), |told| format!("one that {told}"));
                    let error = Error::corruption(&path, 0, "file", "a branch file of this store", found);
                    let keys = range_of(meta).unwrap_or(LostKeys::between(None, None));
                    self.report.lose(Loss { keys: Some(keys), ..Loss::of_file(name, error) });
                    self.report.warn(OLDER);
                    replaced.insert(meta.file, None);
                }
                judgement => {
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
                    if judgement == Judgement::Damaged {
                        damaged.push(name);
                    }
                    replaced.insert(meta.file, new);
                }
            }
        }
        // Value files that only lost pages referred to.
        let unnamed = replaced.keys().flat_map(|file| state.branches[file].value_files.clone()).collect();
        manifest_state::replace(&mut state, &replaced);
        let mut obsolete: Vec<String> = replaced.keys().map(|file| file_name(*file)).collect();
        let branch_max = state.branches.values().map(|meta| meta.number_max).max().unwrap_or_default();
        let own: Vec<&FoundSegment> =
            self.segments.iter().filter(|segment| segment.number >= state.log_files_from).collect();
        match dry_recovery(&**self.storage, self.readers, &state) {
            Ok(()) => self.report.log_kept = true,
            Err(error) if error.is_damage() => {
                let parts = self.save_log(&own, Some(&mut state), branch_max, &error, &mut damaged, &mut obsolete)?;
                manifest_state::put_on_top(&mut state, &parts);
            }
            Err(error) => return Err(error),
        }
        if replaced.is_empty() && self.report.log_kept && self.foreign.is_empty() {
            repair_mark::end(&**self.storage)?;
            return Ok(self.report);
        }
        state.edits += 1;
        self.install(state, damaged, obsolete, unnamed)
    }

    /// The manifest is lost: everything is merged.
    fn rebuild(mut self, database: DatabaseId, progress: &mut dyn FnMut(CheckProgress<'_>)) -> Result<RepairReport> {
        self.report.warn(
            "the manifest was lost, so every branch file counted: deleted keys may be back where the files that knew of \
             their deletion were merged away before, and writes that an earlier recovery threw away may be there",
        );
        self.begin()?;
        // Only the manifest knows which files there were: of those that are gone, nothing may be left that could tell.
        self.report.lose(Loss::of_file(MANIFEST_NAME.to_owned(), MANIFEST_LOST));
        let (mut sources, mut metas) = (Vec::new(), BTreeMap::new());
        let files = self.directory.branches.iter().filter(|file| !self.foreign.has(&file_name(**file)));
        for file in files {
            progress(CheckProgress { file: &file_name(*file), done: 0, total: 0 });
            let meta = merge::own_meta(&self.readers.branches, *file)?;
            metas.extend(meta.iter().map(|meta| (*file, meta.clone())));
            sources.push(Source { file: *file, meta });
        }
        let branch_max = metas.values().map(|meta| meta.number_max).max().unwrap_or_default();
        let mut state = manifest_state::empty(database);
        let (mut damaged, mut obsolete) = (vec![MANIFEST_NAME.to_owned()], Vec::new());
        let own: Vec<&FoundSegment> = self.segments.iter().collect();
        let mut saved = log::save(&**self.storage, self.readers, &own, None, branch_max, &mut self.report)?;
        sources.append(&mut saved.sources);
        progress(CheckProgress { file: "all branch files", done: 0, total: 0 });
        let (parts, readings) =
            merge::merge(&self.readers.branches, sources, true, &mut self.values, &mut self.report)?;
        for reading in readings.iter().filter(|reading| self.directory.branches.contains(&reading.file)) {
            obsolete.push(file_name(reading.file));
            let meta = metas.get(&reading.file);
            if !reading.lost.is_empty() || !merge::is_whole(reading, meta) {
                damaged.push(file_name(reading.file));
            }
            let count =
                if reading.entries == 0 { &mut self.report.branches_lost } else { &mut self.report.branches_rewritten };
            *count += 1;
            merge::report_reading(reading, meta, &mut self.report);
        }
        self.report.entries_saved = parts.iter().map(|meta| meta.entries).sum();
        manifest_state::put_on_top(&mut state, &parts);
        self.forget(&mut state, saved, &own, &mut damaged, &mut obsolete);
        let marks = self.segments.iter().filter_map(|segment| segment.mark).map(|mark| mark.manifest_edit);
        state.edits = marks.max().unwrap_or(0) + 1;
        self.install(state, damaged, obsolete, BTreeSet::new())
    }

    /// Whether a branch file can stay as it is.
    fn judge(&mut self, meta: &BranchMeta) -> Result<Judgement> {
        if self.foreign.has(&file_name(meta.file)) {
            return Ok(Judgement::Missing);
        }
        match Branch::new(&self.readers.branches, meta.clone()).verify() {
            Ok(report) => {
                for reference in &report.value_references {
                    if !self.values.has(reference)? {
                        return Ok(Judgement::LacksValues);
                    }
                }
                Ok(Judgement::Sound)
            }
            Err(error) if !error.is_damage() => Err(error),
            Err(_) if self.directory.branches.binary_search(&meta.file).is_err() => Ok(Judgement::Missing),
            Err(_) => Ok(Judgement::Damaged),
        }
    }

    /// Moves what a damaged log still has into branch files.
    fn save_log(
        &mut self,
        segments: &[&FoundSegment],
        state: Option<&mut ManifestState>,
        branch_max: SequenceNumber,
        error: &Error,
        damaged: &mut Vec<String>,
        obsolete: &mut Vec<String>,
    ) -> Result<Vec<BranchMeta>> {
        let file = match error {
            Error::Corruption { path, .. } => path.file_name().map(|name| name.to_string_lossy().into_owned()),
            _ => None,
        };
        self.report.lose_place(&file.unwrap_or_default(), error);
        self.begin()?;
        let saved = log::save(&**self.storage, self.readers, segments, state.as_deref(), branch_max, &mut self.report)?;
        let SavedParts { parts, saved } = self.merge_saved(saved)?;
        if let Some(state) = state {
            self.forget(state, saved, segments, damaged, obsolete);
        }
        Ok(parts)
    }

    fn merge_saved(&mut self, mut saved: log::SavedLog) -> Result<SavedParts> {
        let sources = std::mem::take(&mut saved.sources);
        let (parts, _) = merge::merge(&self.readers.branches, sources, false, &mut self.values, &mut self.report)?;
        self.report.entries_saved += parts.iter().map(|meta| meta.entries).sum::<u64>();
        Ok(SavedParts { parts, saved })
    }

    fn forget(
        &self,
        state: &mut ManifestState,
        saved: log::SavedLog,
        segments: &[&FoundSegment],
        damaged: &mut Vec<String>,
        obsolete: &mut Vec<String>,
    ) {
        let is_damaged = |segment: &&&FoundSegment| saved.damaged.contains(&segment.number);
        damaged.extend(segments.iter().filter(is_damaged).map(|segment| segment.name()));
        obsolete.extend(segments.iter().map(|segment| segment.name()));
        obsolete.push(POISON.to_owned());
        manifest_state::forget_log(state, saved.incorporated, saved.recovered, self.readers.numbers.next());
    }

    /// Makes the new state the store's.
    /// Those of the value files `unnamed` that the new tree does not name are kept: their keys are lost, their values are not.
    fn install(
        mut self,
        mut state: ManifestState,
        mut damaged: Vec<String>,
        mut obsolete: Vec<String>,
        mut unnamed: BTreeSet<FileNumber>,
    ) -> Result<RepairReport> {
        self.report.changed = true;
        let named: BTreeSet<FileNumber> = state.branches.values().flat_map(|meta| meta.value_files.clone()).collect();
        for file in self.values.damaged() {
            damaged.push(value_file_name(file));
            obsolete.push(value_file_name(file));
        }
        if !self.report.is_complete() && !self.report.log_kept {
            // Their keys may be among what was lost.
            unnamed.extend(self.directory.values.iter().filter(|file| !self.foreign.has(&value_file_name(**file))));
        }
        for file in unnamed.difference(&named) {
            damaged.push(value_file_name(*file));
            obsolete.push(value_file_name(*file));
        }
        self.foreign.tell(&mut self.report);
        for name in self.foreign.names() {
            damaged.push(name.to_owned());
            obsolete.push(name.to_owned());
        }
        damaged.sort_unstable();
        damaged.dedup();
        state.next_file = state.next_file.max(self.readers.numbers.next());
        self.storage.sync_directory()?;
        set_aside::keep(&**self.storage, &damaged, &mut self.report)?;
        // They are built anew; opening removes the files.
        state.maplets.clear();
        manifest::replace(&**self.storage, &state)?;
        repair_mark::end(&**self.storage)?;
        obsolete.retain(|name| name != MANIFEST_NAME);
        obsolete.sort_unstable();
        obsolete.dedup();
        set_aside::remove(&**self.storage, &obsolete)?;
        Ok(self.report)
    }
}

/// What the log's entries became.
struct SavedParts {
    parts: Vec<BranchMeta>,
    saved: log::SavedLog,
}

/// What is to become of a branch file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judgement {
    Sound,
    LacksValues,
    Damaged,
    Missing,
}

const MANIFEST_LOST: &str = "the manifest was lost: files that are gone cannot be known";

/// The keys of a whole file: between its smallest and its largest, themselves included.
fn range_of(meta: &BranchMeta) -> Option<LostKeys> {
    (meta.entries > 0 || meta.range_tombstones > 0).then(|| LostKeys::between(Some(&meta.key_min), Some(&meta.key_max)))
}
