//! Makes a backup of an open store (`docs/recovery.md`, Backup). Any thread; writers continue.
//!
//! Invariants:
//! 1. The files that are copied are those of one state of the manifest, which the description has, and the version that keeps them
//!    is held meanwhile.
//! 2. A file is shared only if its whole content has the hash of one that a valid description refers to. The number of a file is
//!    no evidence: two stores with the same id, one of them a checkpoint or a restored backup of the other, use the same numbers.
//! 3. A hash is remembered only by the open store that has read the file. While it is open its files do not change, and no
//!    number is used again.

use super::directory::{self, Directory};
use super::report::{BackupOptions, BackupReport};
use super::whole_file::{self, Content};
use crate::engine::directory::store_files;
use crate::engine::engine::Engine;
use crate::engine::tools::checkpoint::source::{self, Needed};
use crate::engine::types::compaction::Cancellation;
use crate::engine::types::verification::CheckProgress;
use crate::format::backup::{BackupDescription, BackupFile};
use crate::io::OpenMode;
use crate::manifest::{self, MANIFEST_NAME, ManifestState};
use crate::util::planted::planted;
use crate::util::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Makes a backup of the open store in the directory at `path`.
///
/// # Errors
/// `InvalidArgument` if the directory is not one of backups of this store, or lies in the store's own; `AlreadyOpen`;
/// `Cancelled`; the errors of a flush; `Io`. After an error the earlier backups are as before.
pub(crate) fn backup(
    engine: &Engine,
    path: &Path,
    options: &BackupOptions,
    progress: &mut dyn FnMut(CheckProgress<'_>),
) -> Result<BackupReport> {
    engine.read.check_open()?;
    engine.health.check()?;
    Cancellation::check(options.cancellation.as_ref())?;
    let storage = engine.read.storage.other_directory(path)?;
    let database = engine.background.publisher.edits.lock().manifest.state().identity.database;
    let (directory, _lock) = Directory::for_backups_of(database, storage)?;
    directory.remove_unreferenced()?;
    let id = directory.ids()?.last().map_or(Some(1), |last| last.checked_add(1));
    let id = id.ok_or_else(|| Error::InvalidArgument(format!("{} has no ids left", path.display())))?;
    let (known, _) = directory.referenced()?;
    let report = BackupReport { id, ..BackupReport::default() };
    let mut run = Run { engine, directory: &directory, known, options, progress, report, files: Vec::new() };
    match run.run() {
        Ok(()) => Ok(run.report),
        Err(error) => {
            // The first error is returned. What stays is removed by the next backup.
            let _ = directory.remove_description(id).and_then(|()| directory.remove_unreferenced());
            Err(error)
        }
    }
}

/// A backup in progress.
struct Run<'a> {
    engine: &'a Engine,
    directory: &'a Directory,
    /// The files that earlier backups refer to, with their lengths.
    known: BTreeMap<String, u64>,
    options: &'a BackupOptions,
    progress: &'a mut dyn FnMut(CheckProgress<'_>),
    report: BackupReport,
    files: Vec<BackupFile>,
}

impl Run<'_> {
    fn run(&mut self) -> Result<()> {
        let (state, version) = source::take(self.engine, self.options.cancellation.as_ref())?;
        self.report.number = state.incorporated.0;
        let taken = self.take_files(&state);
        drop(version);
        // Files that a merge has replaced meanwhile may be removed now.
        self.engine.background.scheduler.wake_workers();
        taken?;
        self.take_comparator()?;
        self.check_going_on()?;
        let time = self.directory.storage().wall_time().unwrap_or_default();
        self.directory.publish(&BackupDescription {
            id: self.report.id,
            time: u64::try_from(time.as_millis()).unwrap_or_default(),
            number: state.incorporated,
            database: state.identity.database,
            files: std::mem::take(&mut self.files),
            manifest: manifest::image(&state),
        })
    }

    /// An error if the backup is cancelled, or the store was closed meanwhile: it may be open in another process, which removes
    /// files.
    fn check_going_on(&self) -> Result<()> {
        Cancellation::check(self.options.cancellation.as_ref())?;
        self.engine.read.check_open()
    }

    fn take_files(&mut self, state: &ManifestState) -> Result<()> {
        let files = source::needed(self.engine, state)?;
        let names: BTreeSet<_> = files.iter().map(|file| &file.name[..]).collect();
        self.engine.hashes.retain(|name| names.contains(name));
        let bytes_total = files.iter().map(|file| file.bytes).sum();
        let mut bytes_done = 0;
        for Needed { name, bytes } in files {
            (self.progress)(CheckProgress { file: &name, bytes_done, bytes_total });
            self.check_going_on()?;
            let remembered = self.engine.hashes.get(&name);
            let content = self.take_file(&name, bytes, remembered)?;
            self.engine.hashes.remember(name, content.hash);
            bytes_done += bytes;
        }
        (self.progress)(CheckProgress { file: MANIFEST_NAME, bytes_done, bytes_total });
        Ok(())
    }

    /// The file that names the comparator, if there is one.
    fn take_comparator(&mut self) -> Result<()> {
        match self.engine.read.storage.open(store_files::COMPARATOR, OpenMode::Read) {
            Err(error) if error.is_not_found() => Ok(()),
            file => self.take_file(store_files::COMPARATOR, file?.length()?, None).map(drop),
        }
    }

    /// Makes a file of the store one of the backup.
    fn take_file(&mut self, name: &str, bytes: u64, remembered: Option<u128>) -> Result<Content> {
        let content = match self.find_shared(name, bytes, remembered)? {
            Some(content) => {
                self.report.files_shared += 1;
                self.report.bytes_shared += content.bytes;
                content
            }
            None => {
                let content = self.copy(name)?;
                self.report.files_new += 1;
                self.report.bytes_new += content.bytes;
                content
            }
        };
        self.check(name, "file length", bytes, content.bytes)?;
        if let Some(remembered) = remembered {
            self.check(name, "file checksum", Hex(remembered), Hex(content.hash))?;
        }
        self.files.push(BackupFile { name: name.to_owned(), bytes: content.bytes, hash: content.hash });
        Ok(content)
    }

    /// An error if a file of the store is not as it was, or as the manifest says.
    fn check<T: PartialEq + ToString>(&self, name: &str, what: &'static str, expected: T, found: T) -> Result<()> {
        if expected == found {
            return Ok(());
        }
        Err(Error::corruption(&self.engine.read.storage.path_of(name), 0, what, expected, found))
    }

    /// The content of a file of the store, if an earlier backup has the same.
    fn find_shared(&self, name: &str, bytes: u64, remembered: Option<u128>) -> Result<Option<Content>> {
        let has_name = |shared: &String| directory::parse_shared(shared) == Some(name);
        let from = self.known.range(name.to_owned()..);
        let mut same_name =
            from.take_while(|(shared, _)| shared.starts_with(name)).filter(|(shared, _)| has_name(shared));
        if !same_name.any(|(_, length)| *length == bytes) {
            return Ok(None);
        }
        planted!(Bug::BackupSharesByNumber => {
            let same = self.known.iter().find(|(shared, length)| has_name(shared) && **length == bytes);
            let hash = same.and_then(|(shared, _)| u128::from_str_radix(shared.rsplit('.').next()?, 16).ok());
            return Ok(hash.map(|hash| Content { bytes, hash }));
        });
        let content = match remembered {
            Some(hash) => Content { bytes, hash },
            None => whole_file::read(&*self.engine.read.storage, name, &|| self.check_going_on())?,
        };
        let shared = directory::shared_name(name, content.hash);
        let is_shared = self.known.get(&shared) == Some(&content.bytes) && self.is_whole(&shared, content)?;
        Ok(is_shared.then_some(content))
    }

    /// Whether a file of the directory is there, as far as the options say to look.
    fn is_whole(&self, shared: &str, content: Content) -> Result<bool> {
        let storage = self.directory.storage();
        let length = match storage.open(shared, OpenMode::Read) {
            Err(error) if error.is_not_found() => return Ok(false),
            file => file?.length()?,
        };
        if length != content.bytes || !self.options.check_shared {
            return Ok(length == content.bytes);
        }
        match whole_file::read(storage, shared, &|| self.check_going_on()) {
            Err(error) if error.is_damage() => Ok(false),
            found => Ok(found? == content),
        }
    }

    /// Copies a file of the store. A damaged file with the same name is replaced.
    fn copy(&self, name: &str) -> Result<Content> {
        let (storage, new) = (self.directory.storage(), directory::new_name(name));
        let source = &*self.engine.read.storage;
        let content = whole_file::copy((source, name), (storage, &new), &|| self.check_going_on())?;
        storage.rename(&new, &directory::shared_name(name, content.hash))?;
        Ok(content)
    }
}

/// A hash in messages.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Hex(pub(super) u128);

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
