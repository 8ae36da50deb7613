//! The directory of backups: the names in it, its locks, and what no backup refers to (`docs/recovery.md`, Backup). One writer;
//! readers beside it.
//!
//! | name | what |
//! | --- | --- |
//! | `BACKUPS` | the mark: it names the store |
//! | `LOCK` | the locks *writer* and *files* of `directory/locks.rs` |
//! | `NNNNNN.backup` | the description of a backup |
//! | `NAME.HASH` | a file of the store, for all backups that need it; HASH is that of its content, 32 hexadecimal digits |
//! | `*.new` | one of these while it is written |
//!
//! Invariants:
//! 1. A name is given to a file only once its content is durable, and a description gets its name only once the names of all
//!    files that it refers to are durable.
//! 2. A file is removed only if all descriptions can be read and none refers to it; after the removal of a description that is
//!    durable.

use crate::engine::directory::locks::{self, Guard, WriterLock};
use crate::engine::directory::store_files::{LOCK, StoreFile};
use crate::format::backup::{self, BackupDescription, DESCRIPTION_BYTES_MAX, MARK_BYTES};
use crate::io::{LockMode, LockPart, OpenMode, Storage};
use crate::util::planted::planted;
use crate::util::sync::Arc;
use crate::util::{DatabaseId, Error, Result};
use std::collections::BTreeMap;

const MARK: &str = "BACKUPS";
const DESCRIPTION_SUFFIX: &str = ".backup";
const NEW_SUFFIX: &str = ".new";
const HASH_DIGITS: usize = 32;

/// The name of a description.
pub(super) fn description_name(id: u64) -> String {
    format!("{id:06}{DESCRIPTION_SUFFIX}")
}

fn parse_description(name: &str) -> Option<u64> {
    let id = name.strip_suffix(DESCRIPTION_SUFFIX)?.parse().ok()?;
    (description_name(id) == name).then_some(id)
}

/// The name that a file of the store has here.
pub(super) fn shared_name(name: &str, hash: u128) -> String {
    format!("{name}.{hash:032x}")
}

/// The store's name of a file with this name here; `None` if it is no such name.
pub(super) fn parse_shared(shared: &str) -> Option<&str> {
    let (name, hash) = shared.rsplit_once('.')?;
    let is_hash = hash.len() == HASH_DIGITS && hash.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    (is_hash && is_backed_up(name)).then_some(name)
}

/// Whether a backup may have a file with this name of the store. Others would become part of the log, or leave the directory.
pub(super) fn is_backed_up(name: &str) -> bool {
    use StoreFile::{Branch, Comparator, Maplet, Value};
    matches!(StoreFile::parse(name), Some(Branch(_) | Maplet(_) | Value(_) | Comparator))
}

/// The name while the file is written.
pub(super) fn new_name(name: &str) -> String {
    format!("{name}{NEW_SUFFIX}")
}

fn is_unfinished(name: &str) -> bool {
    let Some(name) = name.strip_suffix(NEW_SUFFIX) else { return false };
    name == MARK || is_backed_up(name) || parse_description(name).is_some()
}

/// Whether a description with this error stays unreadable.
pub(super) fn is_unreadable(error: &Error) -> bool {
    error.is_damage() || matches!(error, Error::NewerFormat { .. })
}

/// Files that were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Removed {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// See the module.
pub(super) struct Directory {
    storage: Arc<dyn Storage>,
}

impl Directory {
    /// An existing directory of backups, and the store that they are of.
    pub(super) fn open(storage: Arc<dyn Storage>) -> Result<(Self, DatabaseId)> {
        let directory = Self { storage };
        let database = directory.read_mark()?.ok_or_else(|| {
            let path = directory.storage.path().display();
            Error::InvalidArgument(format!(
                "{path} has no backups: the directory, or the file {MARK} in it, is missing"
            ))
        })?;
        Ok((directory, database))
    }

    /// A directory for backups of this store, which is created if it is missing, and its lock.
    pub(super) fn for_backups_of(database: DatabaseId, storage: Arc<dyn Storage>) -> Result<(Self, WriterLock)> {
        if storage.directory_exists()? {
            require_own(&*storage)?;
        }
        storage.create_directory()?;
        let directory = Self { storage };
        let lock = directory.lock_for_writing()?;
        match directory.read_mark()? {
            Some(found) if found == database => {}
            Some(found) => {
                let path = directory.storage.path().display();
                let text = format!(
                    "{path} has backups of the store with the id {:016x}, this one has the id {:016x}; choose another directory",
                    found.0, database.0
                );
                return Err(Error::InvalidArgument(text));
            }
            None => {
                require_own(&*directory.storage)?;
                directory.install(MARK, &backup::encode_mark(database))?;
            }
        }
        Ok((directory, lock))
    }

    pub(super) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    /// The store that the backups are of; `None` if there is no mark.
    fn read_mark(&self) -> Result<Option<DatabaseId>> {
        let bytes = match self.read_small(MARK, MARK_BYTES as u64) {
            Err(error) if error.is_not_found() => return Ok(None),
            bytes => bytes?,
        };
        backup::decode_mark(&bytes, &self.storage.path_of(MARK)).map(Some)
    }

    /// The lock of the one writer. `AlreadyOpen` if there is another one.
    pub(super) fn lock_for_writing(&self) -> Result<WriterLock> {
        // The other lock is for a store that recycles its log.
        Ok(locks::for_writing(&*self.storage, &*self.storage.clock())?.writer)
    }

    /// Keeps the files of all backups until the guard is dropped; `None` on a read-only file system if there is no lock file.
    pub(super) fn keep_files(&self) -> Result<Option<Guard>> {
        match self.storage.lock(LOCK, LockPart::Files, LockMode::Shared) {
            Err(error) if error.is_not_found() => Ok(None),
            guard => guard?.map(Some).ok_or_else(|| self.already_open()),
        }
    }

    /// The permission to remove files of backups. `AlreadyOpen` while one is verified or restored.
    pub(super) fn lock_files(&self) -> Result<Guard> {
        self.storage.lock(LOCK, LockPart::Files, LockMode::Exclusive)?.ok_or_else(|| self.already_open())
    }

    fn already_open(&self) -> Error {
        Error::AlreadyOpen { path: self.storage.path().to_path_buf() }
    }

    /// The ids of all backups, in order.
    pub(super) fn ids(&self) -> Result<Vec<u64>> {
        let mut ids: Vec<_> = self.storage.list()?.iter().filter_map(|name| parse_description(name)).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Reads the description of a backup.
    pub(super) fn read(&self, id: u64) -> Result<BackupDescription> {
        let name = description_name(id);
        let bytes = match self.read_small(&name, DESCRIPTION_BYTES_MAX) {
            Err(error) if error.is_not_found() => {
                let (path, ids) = (self.storage.path().display(), self.ids()?);
                let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
                let there = if ids.is_empty() { "none".into() } else { ids.join(", ") };
                return Err(Error::InvalidArgument(format!("{path} has no backup {id}; it has: {there}")));
            }
            bytes => bytes?,
        };
        let path = self.storage.path_of(&name);
        let description = BackupDescription::decode(&bytes, &path)?;
        if description.id != id {
            return Err(Error::corruption(&path, 16, "backup id", id, description.id));
        }
        for file in &description.files {
            if !is_backed_up(&file.name) {
                let expected = "the name of a branch file, maplet, value file or comparator";
                return Err(Error::corruption(&path, 0, "file name", expected, format!("{:?}", file.name)));
            }
        }
        Ok(description)
    }

    /// The files that backups refer to, with their lengths, and whether all descriptions could be read.
    pub(super) fn referenced(&self) -> Result<(BTreeMap<String, u64>, bool)> {
        let (mut files, mut is_complete) = (BTreeMap::new(), true);
        for id in planted!(self.ids()?, Bug::BackupRemovesShared => self.ids()?.pop().into_iter().collect()) {
            match self.read(id) {
                Ok(description) => {
                    let of_it = description.files.into_iter();
                    files.extend(of_it.map(|file| (shared_name(&file.name, file.hash), file.bytes)));
                }
                Err(error) if is_unreadable(&error) => is_complete = false,
                Err(error) => return Err(error),
            }
        }
        Ok((files, is_complete))
    }

    /// Makes a backup of its description: the commit point.
    pub(super) fn publish(&self, description: &BackupDescription) -> Result<()> {
        self.install(&description_name(description.id), &description.encode())
    }

    /// Ends a backup, durably. Its files stay until `remove_unreferenced`. No error if there is none.
    pub(super) fn remove_description(&self, id: u64) -> Result<()> {
        match self.storage.remove(&description_name(id)) {
            Err(error) if error.is_not_found() => Ok(()),
            removed => removed.and_then(|()| self.sync_removals()),
        }
    }

    /// Removes what no backup refers to: files of removed backups, and leftovers of unfinished ones.
    pub(super) fn remove_unreferenced(&self) -> Result<Removed> {
        let (referenced, is_complete) = self.referenced()?;
        let is_removable = |name: &String| {
            is_unfinished(name) || (is_complete && parse_shared(name).is_some() && !referenced.contains_key(name))
        };
        let names: Vec<_> = self.storage.list()?.into_iter().filter(is_removable).collect();
        let mut removed = Removed::default();
        if names.is_empty() {
            return Ok(removed);
        }
        // A killed process may have removed a description, and not have synced that.
        self.sync_removals()?;
        for name in names {
            if parse_shared(&name).is_some() {
                removed.files += 1;
                removed.bytes += self.storage.open(&name, OpenMode::Read)?.length()?;
            }
            self.storage.remove(&name)?;
        }
        // What is created now under one of these names must not meet the old file after a power loss.
        self.storage.sync_directory()?;
        Ok(removed)
    }

    fn sync_removals(&self) -> Result<()> {
        planted!(self.storage.sync_directory(), Bug::BackupRemovalUnsynced => Ok(()))
    }

    /// Writes a small file: its content is durable before it gets its name, and so are all names before it. Then the name is.
    fn install(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let (storage, new) = (&*self.storage, new_name(name));
        if storage.list()?.contains(&new) {
            storage.remove(&new)?;
            storage.sync_directory()?;
        }
        let file = storage.open(&new, OpenMode::Create)?;
        file.write_all_at(bytes, 0)?;
        file.sync()?;
        planted!(storage.sync_directory()?, Bug::BackupNamesUnsynced => ());
        storage.rename(&new, name)?;
        storage.sync_directory()
    }

    fn read_small(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>> {
        let file = self.storage.open(name, OpenMode::Read)?;
        let length = file.length()?;
        if length > bytes_max {
            return Err(Error::corruption(file.path(), 0, "file length", format!("at most {bytes_max}"), length));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}

/// An error if the directory has files, but no mark.
fn require_own(storage: &dyn Storage) -> Result<()> {
    let names = storage.list()?;
    let is_known = |name: &String| name == LOCK || is_unfinished(name);
    match names.iter().find(|name| !is_known(name)) {
        Some(name) if !names.iter().any(|name| name == MARK) => {
            let path = storage.path().display();
            let text =
                format!("{path} is not empty, it has {name:?}, but no {MARK}; choose a new or an empty directory");
            Err(Error::InvalidArgument(text))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        assert_eq!(parse_description("000012.backup"), Some(12));
        assert_eq!(parse_description("1234567.backup"), Some(1_234_567));
        for other in ["12.backup", "00001x.backup", "000012.backup.new", "+00012.backup", ".backup"] {
            assert_eq!(parse_description(other), None, "{other}");
        }
        let shared = shared_name("000012.branch", 0xabc);
        assert_eq!(shared, "000012.branch.00000000000000000000000000000abc");
        assert_eq!(parse_shared(&shared), Some("000012.branch"));
        assert_eq!(parse_shared(&shared_name("COMPARATOR", 1)), Some("COMPARATOR"));
        for other in ["000012.branch", "000012.log.00000000000000000000000000000abc", "thesis.txt", "MANIFEST"] {
            assert_eq!(parse_shared(other), None, "{other}");
        }
        assert!(parse_shared(&shared.to_uppercase()).is_none());
        for unfinished in ["000012.value.new", "BACKUPS.new", "000012.backup.new"] {
            assert!(is_unfinished(unfinished), "{unfinished}");
        }
        for other in ["000012.log.new", "thesis.new", "000012.branch"] {
            assert!(!is_unfinished(other), "{other}");
        }
    }
}
