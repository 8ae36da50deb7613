//! `Backups`: the public handle of a directory of backups. Any thread; it needs no open store.

use super::directory::{Directory, is_unreadable};
use super::report::{BackupInfo, BackupVerification, RemoveReport, RestoreReport};
use super::restore;
use crate::engine::types::verification::CheckProgress;
use crate::io::{PosixStorage, Storage};
use crate::util::sync::Arc;
use crate::util::{Error, Result};
use std::path::Path;
use std::time::Duration;

/// A directory of backups, which [`Db::backup`](crate::Db::backup) makes. Each is the whole contents of a store at one moment; files
/// that are the same in several are there once.
///
/// One process at a time may change the directory; others may read it meanwhile.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let (path, safe, copy) = (directory.path().join("a"), directory.path().join("b"), directory.path().join("c"));
/// use alluvium::{Backups, Db, Options};
/// let db = Db::open(path, Options::default())?;
/// db.put("river", "silt")?;
/// db.backup(&safe)?;
/// db.put("river", "sand")?;
/// db.backup(&safe)?; // copies only what is new
///
/// let backups = Backups::open(&safe)?;
/// let [first, second] = &backups.list()?[..] else { panic!() };
/// assert!(backups.verify(second.id)?.is_valid());
/// backups.restore(first.id, &copy)?;
/// assert_eq!(Db::open(copy, Options::default())?.get("river")?.as_deref(), Some(&b"silt"[..]));
/// backups.keep_newest(1)?;
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct Backups {
    directory: Directory,
}

impl std::fmt::Debug for Backups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backups").field("path", &self.directory.storage().path()).finish_non_exhaustive()
    }
}

impl Backups {
    /// Opens an existing directory of backups.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none; `Corruption` if its mark is damaged; `NewerFormat`; `Io`.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(Arc::new(PosixStorage::new(directory.as_ref())))
    }

    /// The same on another storage.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_with(storage: Arc<dyn Storage>) -> Result<Self> {
        Ok(Self { directory: Directory::open(storage)?.0 })
    }

    /// Lists the backups, oldest first. One whose description is damaged is in the list, too.
    ///
    /// # Errors
    /// `Io`.
    pub fn list(&self) -> Result<Vec<BackupInfo>> {
        let mut found = Vec::new();
        for id in self.directory.ids()? {
            let mut info = BackupInfo { id, number: 0, time: None, files: 0, bytes: 0, damage: None };
            match self.directory.read(id) {
                Ok(description) => {
                    info.time = Some(description.time).filter(|time| *time > 0).map(Duration::from_millis);
                    info.number = description.number.0;
                    info.files = description.files.len() as u64;
                    info.bytes = description.files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
                }
                // Another process has removed it meanwhile.
                Err(Error::InvalidArgument(_)) => continue,
                Err(error) if is_unreadable(&error) => info.damage = Some(error),
                Err(error) => return Err(error),
            }
            found.push(info);
        }
        Ok(found)
    }

    /// Reads all files of a backup, compares their lengths and checksums with its description, and lists all damage.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such backup; `AlreadyOpen` while backups are removed; `Io`. Damage is not an error here.
    pub fn verify(&self, id: u64) -> Result<BackupVerification> {
        self.verify_with(id, &mut |_| ())
    }

    /// Like `verify`. `progress` is called for each file.
    ///
    /// # Errors
    /// As `verify`.
    pub fn verify_with(&self, id: u64, progress: &mut dyn FnMut(CheckProgress<'_>)) -> Result<BackupVerification> {
        restore::verify(&self.directory, id, progress)
    }

    /// Makes a store of a backup, in the directory at `target`, which must be empty, or not exist yet. Files are copied, and their
    /// checksums compared meanwhile. When the call returns, the store is durable. Until then the directory is no store, and says so
    /// when it is opened. The store has the identity of the one that was backed up.
    ///
    /// # Errors
    /// - `InvalidArgument` if there is no such backup, or `target` is not empty or lies in the directory of backups.
    /// - `Corruption`, which names a file, if the backup is damaged.
    /// - `AlreadyOpen` while backups are removed, or if a store is being made in `target`.
    /// - `NewerFormat`, `Io`.
    ///
    /// After an error nothing is left in `target`, as far as it could be removed.
    pub fn restore(&self, id: u64, target: impl AsRef<Path>) -> Result<RestoreReport> {
        self.restore_with(id, target, &mut |_| ())
    }

    /// Like `restore`. `progress` is called for each file.
    ///
    /// # Errors
    /// As `restore`.
    pub fn restore_with(
        &self,
        id: u64,
        target: impl AsRef<Path>,
        progress: &mut dyn FnMut(CheckProgress<'_>),
    ) -> Result<RestoreReport> {
        restore::restore(&self.directory, id, target.as_ref(), progress)
    }

    /// Removes a backup, and the files that only it needs. If the description of another backup is damaged, all files stay until
    /// that one is removed, because it is unknown which it needs.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such backup; `AlreadyOpen` while one is made, verified, restored or removed; `Io`.
    pub fn remove(&self, id: u64) -> Result<RemoveReport> {
        self.remove_all(|ids| match ids.contains(&id) {
            true => Ok(vec![id]),
            // The error that says which there are.
            false => self.directory.read(id).map(|_| Vec::new()),
        })
    }

    /// Removes all backups but the newest `count`, and the files that only they need. Nothing is removed if the description of one
    /// that would stay is damaged: fewer than `count` could be restored.
    ///
    /// # Errors
    /// As `remove`; `Corruption` if a description is damaged.
    pub fn keep_newest(&self, count: usize) -> Result<RemoveReport> {
        self.remove_all(|ids| {
            let (removed, kept) = ids.split_at(ids.len().saturating_sub(count));
            kept.iter().try_for_each(|id| self.directory.read(*id).map(drop))?;
            Ok(removed.to_vec())
        })
    }

    /// Removes the backups that `choose` returns.
    fn remove_all(&self, choose: impl FnOnce(&[u64]) -> Result<Vec<u64>>) -> Result<RemoveReport> {
        let _lock = self.directory.lock_for_writing()?;
        let _files = self.directory.lock_files()?;
        let ids = choose(&self.directory.ids()?)?;
        // The newest backup may be that of a process that was killed before it synced its name.
        self.directory.storage().sync_directory()?;
        for id in &ids {
            self.directory.remove_description(*id)?;
        }
        let removed = self.directory.remove_unreferenced()?;
        Ok(RemoveReport { backups: ids.len() as u64, files: removed.files, bytes: removed.bytes })
    }
}
