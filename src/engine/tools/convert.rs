//! Rewrites a closed store from one disk component to another (`docs/recovery.md`, Convert). One thread, which has the
//! store to itself.
//!
//! The log is not touched: what it has is newer than all branch files, so the next opening finds it above the new tree.
//!
//! Invariants:
//! 1. Until the new manifest is renamed to its final name, only files are added to which the old manifest does not
//!    refer, so a crash leaves the store as it was. The rename is the commit point.
//! 2. Old files are removed only after that rename, and the removal of the mark, are durable.
//! 3. Identity, sequence numbers, file numbers and all that the manifest says of the log stay.

use super::offline::Readers;
use super::verify::simulate_recovery;
use crate::branch::{file_name, maplet_name};
use crate::disk::{Component, ComponentOptions, Conversion, Version};
use crate::engine::directory::listing::Directory;
use crate::engine::directory::locks::{self, LockCheck};
use crate::engine::directory::store_files::{Found, StoreFile, inspect};
use crate::engine::directory::{owners, repair_mark};
use crate::engine::open::shared_steps::{check_branches, check_keyspaces, check_manifest_end};
use crate::engine::state::budget::Budget;
use crate::engine::types::conversion::ConvertReport;
use crate::engine::types::options::Options;
use crate::engine::types::verification::CheckProgress;
use crate::format::manifest_edit::BranchMeta;
use crate::io::Storage;
use crate::manifest::{self, MANIFEST_NAME, ManifestState};
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, Result};
use crate::value::value_file_name;
use std::collections::BTreeSet;
use std::io::ErrorKind;

/// Converts the store to `options.disk_component`.
///
/// # Errors
/// `InvalidArgument`, `NoStore`, `AlreadyOpen`, and the errors of an opening; `Io` with `StorageFull` if there is too
/// little space. After an error the store is as before, or, after an `Io` error, already converted.
pub(crate) fn convert(
    storage: &Arc<dyn Storage>,
    options: &Options,
    progress: &mut dyn FnMut(CheckProgress<'_>),
) -> Result<ConvertReport> {
    let Some(to) = &options.disk_component else {
        let text = "`Options::disk_component` is not set; a conversion needs the component that the store shall have";
        return Err(Error::InvalidArgument(text.into()));
    };
    let budget = Budget::new(options)?;
    require_store(&**storage)?;
    let (writer, _others) = locks::for_destroying(&**storage)?;
    require_store(&**storage)?;
    let state = manifest::read_state(&**storage)?;
    check_keyspaces(&**storage, &state)?;
    check_manifest_end(&**storage, &state)?;
    check_branches(&**storage, &state)?;
    if let Err(found) = state.check() {
        let path = storage.path_of(MANIFEST_NAME);
        return Err(Error::corruption(&path, 0, "structure of the tree", "a consistent tree", found));
    }
    let conversion = Conversion::new(to, state.branch_bytes.unwrap_or(budget.memtable as u64))?;
    let directory = Directory::list(&**storage)?;
    let form = options.branch_form();
    let next_file = directory.next_file.max(state.next_file);
    let readers = Readers::writing(storage, state.identity.database, next_file, form);
    simulate_recovery(&**storage, &readers, &state)?;
    let version = open(&readers, budget.memtable as u64, &state)?;
    if to.is_of(state.levels.as_ref()) {
        return Ok(report(&state, &version, &state, &version));
    }
    let run = Run { storage, readers: &readers, state: &state, conversion: &conversion, lock: &writer.checker() };
    run.remove_strays(&directory)?;
    run.check_space(&version)?;
    let result = run.convert(&version, progress);
    if result.is_err() && manifest::read_state(&**storage).is_ok_and(|found| found == state) {
        run.discard_files(next_file);
    }
    let new = result?;
    Ok(report(&state, &version, &new, &open(&readers, budget.memtable as u64, &new)?))
}

/// An error if there is no store, or no manifest.
fn require_store(storage: &dyn Storage) -> Result<()> {
    match inspect(storage)? {
        Found::Store => Ok(()),
        Found::Empty => {
            Err(Error::NoStore { path: storage.path().to_path_buf(), reason: "there is nothing to convert".into() })
        }
    }
}

fn open(readers: &Readers, memtable_bytes: u64, state: &ManifestState) -> Result<Version> {
    let options = ComponentOptions::any(memtable_bytes);
    Component::open(Arc::clone(&readers.branches), options, state).map(|(_, version)| version)
}

fn report(before: &ManifestState, old: &Version, after: &ManifestState, new: &Version) -> ConvertReport {
    let sum = |state: &ManifestState, of: fn(&BranchMeta) -> u64| state.branches.values().map(of).sum();
    ConvertReport {
        changed: before != after,
        component_before: old.kind(),
        component: new.kind(),
        files_before: before.branches.len() as u64,
        files: after.branches.len() as u64,
        bytes_before: sum(before, |meta| meta.bytes),
        bytes: sum(after, |meta| meta.bytes),
        entries_before: sum(before, |meta| meta.entries),
        entries: sum(after, |meta| meta.entries),
    }
}

/// A conversion in progress.
struct Run<'a> {
    storage: &'a Arc<dyn Storage>,
    readers: &'a Readers,
    /// The manifest's.
    state: &'a ManifestState,
    conversion: &'a Conversion,
    lock: &'a LockCheck,
}

impl Run<'_> {
    /// Removes what an earlier conversion that was killed has left, as an opening does, since it takes space. The mark
    /// of an interrupted repair goes, too: it would call the files of this conversion unfinished.
    fn remove_strays(&self, directory: &Directory) -> Result<()> {
        let storage = &**self.storage;
        repair_mark::remove(storage)?;
        let branches = directory.branches.iter().filter(|file| !self.state.branches.contains_key(*file));
        let branches = branches.map(|file| (file_name(*file), StoreFile::Branch(*file)));
        let maplets = directory.maplets.iter().filter(|file| !self.state.maplets.contains_key(*file));
        let maplets = maplets.map(|file| (maplet_name(*file), StoreFile::Maplet(*file)));
        for (name, file) in branches.chain(maplets) {
            if !owners::may_belong_to_another_store(storage, &name, file, self.state.identity.database) {
                storage.remove(&name)?;
            }
        }
        Ok(())
    }

    /// An error if the new files do not fit beside the old ones. An unknown amount of free space is enough.
    fn check_space(&self, version: &Version) -> Result<()> {
        let needed = self.conversion.bytes_needed(version.bytes());
        match self.storage.available()? {
            Some(available) if available < needed => {
                let text = format!(
                    "the new files need about {needed} bytes beside the old ones, and {available} bytes are free; \
                     nothing was changed, so free some space and convert again"
                );
                let error = std::io::Error::new(ErrorKind::StorageFull, text);
                Err(Error::io("convert the store in", self.storage.path(), error))
            }
            _ => Ok(()),
        }
    }

    /// Writes the new files and installs the new manifest, in the order of `docs/recovery.md`, Convert. Returns the new
    /// state.
    fn convert(&self, version: &Version, progress: &mut dyn FnMut(CheckProgress<'_>)) -> Result<ManifestState> {
        let storage = &**self.storage;
        repair_mark::create(storage, &self.readers.numbers)?;
        let (bytes_total, entries) = (version.bytes(), version.entries().max(1));
        let parts = self.conversion.write(&self.readers.branches, version, &mut |file, read| {
            let bytes_done = (u128::from(bytes_total) * u128::from(read.min(entries)) / u128::from(entries)) as u64;
            progress(CheckProgress { file, bytes_done, bytes_total });
        })?;
        progress(CheckProgress { file: MANIFEST_NAME, bytes_done: bytes_total, bytes_total });
        let mut new = self.conversion.state(self.state, &parts).map_err(|found| {
            Error::corruption(&storage.path_of(MANIFEST_NAME), 0, "converted tree", "a consistent one", found)
        })?;
        new.edits += 1;
        new.next_file = new.next_file.max(self.readers.numbers.next());
        storage.sync_directory()?;
        self.lock.check()?;
        manifest::replace(storage, &new)?;
        repair_mark::remove(storage)?;
        self.lock.check()?;
        self.remove_old_files(&new)?;
        Ok(new)
    }

    /// Removes the files that the old manifest named and the new one does not. What is left is removed by the next
    /// opening.
    fn remove_old_files(&self, new: &ManifestState) -> Result<()> {
        let values = |state: &ManifestState| -> BTreeSet<FileNumber> {
            state.branches.values().flat_map(|meta| meta.value_files.iter().copied()).collect()
        };
        // A record of the log that still counts refers to other value files than the branches do.
        let values = values(self.state).difference(&values(new)).map(|file| value_file_name(*file)).collect::<Vec<_>>();
        let branches = self.state.branches.keys().map(|file| file_name(*file));
        let maplets = self.state.maplets.keys().map(|file| maplet_name(*file));
        let present: BTreeSet<String> = self.storage.list()?.into_iter().collect();
        for name in branches.chain(maplets).chain(values).filter(|name| present.contains(name)) {
            self.storage.remove(&name)?;
        }
        self.storage.sync_directory()
    }

    /// Removes the files of a conversion that failed; their numbers begin at `from`. What cannot be removed now is
    /// removed by the next opening.
    fn discard_files(&self, from: FileNumber) {
        let storage = &**self.storage;
        let Ok(directory) = Directory::list(storage) else { return };
        for file in directory.branches.iter().filter(|file| **file >= from) {
            let _ = storage.remove(&file_name(*file));
        }
        let _ = repair_mark::remove(storage);
    }
}
