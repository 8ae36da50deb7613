//! A store's directory in memory, for tests of programs that use the store. Nothing of it is on a disk: it lives as long
//! as a clone of its handle does, and every sync is free. Any thread may call anything here.
//!
//! Invariants:
//! 1. A file's bytes are in a vector, or, while the file is mapped, in an anonymous file of the kernel, which is what is
//!    mapped. They move under the file's write lock, and never while a mapping lives: `Mapped::map` counts them.
//! 2. Locks belong to files, not to names, as on a real disk. A ticket is never reused.

use super::file::{read_fully, write_fully};
use super::map::{PosixMap, anonymous_file};
use crate::io::{Life, LockGuard, LockMode, LockPart, MappedFile, OpenMode, Storage, StorageFile};
use crate::util::limits::IO_ALIGNMENT;
use crate::util::sync::{Arc, Mutex, RwLock};
use crate::util::{Error, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Weak;

/// A store's directory in memory, for tests of programs that use the store.
///
/// Clones are handles of the same directory: a store that was closed, or whose `Db` was dropped, opens again on a clone
/// with all that it held. The directory is gone with the last handle. Stores on it have locks, files and recovery as on
/// a disk, and take no time to sync. For faults and power cuts see the feature `testing`.
///
/// ```
/// use alluvium::{Db, Options, storage::MemoryStorage};
/// use std::sync::Arc;
/// let storage = MemoryStorage::new();
/// let open = || Db::open_with(Arc::new(storage.clone()), Options::default());
/// let db = open()?;
/// db.put("river", "silt")?;
/// db.close()?;
/// assert_eq!(open()?.get("river")?.as_deref(), Some(&b"silt"[..]));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryStorage {
    directory: Arc<Directory>,
}

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    state: Mutex<State>,
}

impl Default for Directory {
    fn default() -> Self {
        Self { path: PathBuf::from("(memory)"), state: Mutex::new(State { exists: true, ..State::default() }) }
    }
}

#[derive(Debug, Default)]
struct State {
    exists: bool,
    files: BTreeMap<String, Arc<MemoryFile>>,
    locks: BTreeMap<u64, HeldLock>,
    next_ticket: u64,
}

#[derive(Debug)]
struct HeldLock {
    /// `None`: the directory.
    file: Option<Arc<MemoryFile>>,
    part: LockPart,
    mode: LockMode,
}

impl State {
    fn find(&self, name: &str) -> io::Result<Arc<MemoryFile>> {
        self.files.get(name).cloned().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn check_exists(&self) -> io::Result<()> {
        if self.exists { Ok(()) } else { Err(ErrorKind::NotFound.into()) }
    }

    fn create(&mut self, name: &str) -> io::Result<Arc<MemoryFile>> {
        self.check_exists()?;
        if self.files.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let file = Arc::new(MemoryFile::default());
        self.files.insert(name.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    /// A ticket for the lock; `None` if another holder excludes it.
    fn hold(&mut self, lock: HeldLock) -> Option<u64> {
        let is_same = |file: &Option<Arc<MemoryFile>>| match (file, &lock.file) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let alone = |mode| mode == LockMode::Exclusive;
        let excludes =
            |held: &HeldLock| held.part == lock.part && is_same(&held.file) && (alone(held.mode) || alone(lock.mode));
        if self.locks.values().any(excludes) {
            return None;
        }
        self.next_ticket += 1;
        self.locks.insert(self.next_ticket, lock);
        Some(self.next_ticket)
    }
}

impl MemoryStorage {
    /// An empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    fn run<T>(&self, operation: &'static str, name: &str, act: impl FnOnce(&mut State) -> io::Result<T>) -> Result<T> {
        act(&mut self.directory.state.lock()).map_err(|error| Error::io(operation, &self.path_of(name), error))
    }

    fn guard(&self, name: &str, ticket: Option<u64>) -> Option<Box<dyn LockGuard>> {
        let directory = Arc::clone(&self.directory);
        Some(Box::new(MemoryLock { directory, ticket: ticket?, name: name.to_owned() }))
    }
}

impl Storage for MemoryStorage {
    fn path(&self) -> &Path {
        &self.directory.path
    }

    fn create_directory(&self) -> Result<()> {
        self.directory.state.lock().exists = true;
        Ok(())
    }

    fn directory_exists(&self) -> Result<bool> {
        Ok(self.directory.state.lock().exists)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.run("list", "", |state| {
            state.check_exists()?;
            Ok(state.files.keys().cloned().collect())
        })
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn StorageFile>> {
        let create = matches!(mode, OpenMode::Create | OpenMode::CreateDirect);
        let operation = if create { "create" } else { "open" };
        let file = self.run(operation, name, |state| if create { state.create(name) } else { state.find(name) })?;
        Ok(Arc::new(OpenFile { file, path: self.path_of(name), mode }))
    }

    fn map(&self, name: &str) -> Result<Arc<dyn MappedFile>> {
        let file = self.run("map", name, |state| state.find(name))?;
        let path = self.path_of(name);
        let map = file.map(&path).map_err(|error| Error::io("map", &path, error))?;
        Ok(map)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.run("rename", from, |state| {
            let file = state.files.remove(from).ok_or(ErrorKind::NotFound)?;
            state.files.insert(to.to_owned(), file);
            Ok(())
        })
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        self.run("link", from, |state| {
            let file = state.find(from)?;
            if state.files.contains_key(to) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            state.files.insert(to.to_owned(), file);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.run("remove", name, |state| {
            state.files.remove(name).ok_or(ErrorKind::NotFound)?;
            Ok(())
        })
    }

    fn sync_directory(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self, name: &str, part: LockPart, mode: LockMode) -> Result<Option<Box<dyn LockGuard>>> {
        let ticket = self.run("lock", name, |state| {
            let file = match state.find(name) {
                Err(_) if mode == LockMode::Exclusive => state.create(name)?,
                found => found?,
            };
            Ok(state.hold(HeldLock { file: Some(file), part, mode }))
        })?;
        Ok(self.guard(name, ticket))
    }

    fn lock_directory(&self) -> Result<Option<Box<dyn LockGuard>>> {
        let ticket = self.run("lock", "", |state| {
            state.check_exists()?;
            Ok(state.hold(HeldLock { file: None, part: LockPart::Writer, mode: LockMode::Exclusive }))
        })?;
        Ok(self.guard("", ticket))
    }

    fn remove_directory(&self) -> Result<()> {
        self.run("remove directory", "", |state| {
            state.check_exists()?;
            if !state.files.is_empty() {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            state.exists = false;
            Ok(())
        })
    }

    fn life(&self) -> Option<Life> {
        // What was written is there as long as the directory is.
        Some(Life { boot: 1, instance: 1 })
    }
}

/// A lock, held until it is dropped.
#[derive(Debug)]
struct MemoryLock {
    directory: Arc<Directory>,
    ticket: u64,
    name: String,
}

impl LockGuard for MemoryLock {
    fn is_in_place(&self) -> Result<bool> {
        let state = self.directory.state.lock();
        let Some(file) = state.locks.get(&self.ticket).and_then(|held| held.file.as_ref()) else { return Ok(true) };
        Ok(state.files.get(&self.name).is_some_and(|found| Arc::ptr_eq(found, file)))
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.directory.state.lock().locks.remove(&self.ticket);
    }
}

/// A file's bytes, whatever its names.
#[derive(Debug, Default)]
struct MemoryFile {
    content: RwLock<Content>,
}

#[derive(Debug)]
enum Content {
    Bytes(Vec<u8>),
    Mapped { file: File, map: Weak<PosixMap> },
}

impl Default for Content {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

impl Content {
    /// Back into a vector, if no mapping lives, so that a store that is closed holds no descriptors.
    fn unmap(&mut self) -> io::Result<()> {
        if let Self::Mapped { file, map } = self
            && map.strong_count() == 0
        {
            let mut bytes = vec![0; file.metadata()?.len() as usize];
            file.read_exact_at(&mut bytes, 0)?;
            *self = Self::Bytes(bytes);
        }
        Ok(())
    }
}

impl MemoryFile {
    fn map(&self, path: &Path) -> io::Result<Arc<PosixMap>> {
        let mut content = self.content.write();
        if let Content::Bytes(bytes) = &*content {
            let file = anonymous_file()?;
            write_fully(|piece, at| file.write_at(piece, at), bytes, 0, 1)?;
            *content = Content::Mapped { file, map: Weak::new() };
        }
        let Content::Mapped { file, map } = &mut *content else { unreachable!("it was just moved") };
        if let Some(map) = map.upgrade() {
            return Ok(map);
        }
        let new = Arc::new(PosixMap::new(file.try_clone()?, path.to_path_buf())?);
        *map = Arc::downgrade(&new);
        Ok(new)
    }
}

/// An open file.
#[derive(Debug)]
struct OpenFile {
    file: Arc<MemoryFile>,
    path: PathBuf,
    mode: OpenMode,
}

impl OpenFile {
    fn assert_aligned(&self, bytes: &[u8], offset: u64) {
        if !matches!(self.mode, OpenMode::Read | OpenMode::ReadWrite | OpenMode::Create) {
            let all = bytes.as_ptr().addr() | bytes.len() | offset as usize;
            assert!(all.is_multiple_of(IO_ALIGNMENT), "unaligned direct I/O on {}", self.path.display());
        }
    }

    fn change<T>(&self, operation: &'static str, act: impl FnOnce(&mut Content) -> io::Result<T>) -> Result<T> {
        let changed = match self.mode {
            OpenMode::Read | OpenMode::ReadDirect | OpenMode::ReadPages | OpenMode::ReadCached => {
                Err(ErrorKind::PermissionDenied.into())
            }
            OpenMode::ReadWrite | OpenMode::Create | OpenMode::WriteDirect | OpenMode::CreateDirect => {
                let mut content = self.file.content.write();
                content.unmap().and_then(|()| act(&mut content))
            }
        };
        changed.map_err(|error| Error::io(operation, &self.path, error))
    }
}

impl StorageFile for OpenFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        match &*self.file.content.read() {
            Content::Bytes(bytes) => Ok(bytes.len() as u64),
            Content::Mapped { file, .. } => match file.metadata() {
                Ok(metadata) => Ok(metadata.len()),
                Err(error) => Err(Error::io("read the length of", &self.path, error)),
            },
        }
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.assert_aligned(buffer, offset);
        let read = match &*self.file.content.read() {
            Content::Bytes(bytes) => match bytes.get(offset as usize..).and_then(|rest| rest.get(..buffer.len())) {
                Some(found) => {
                    buffer.copy_from_slice(found);
                    Ok(())
                }
                None => Err(ErrorKind::UnexpectedEof.into()),
            },
            Content::Mapped { file, .. } => read_fully(|piece, at| file.read_at(piece, at), buffer, offset, 1),
        };
        read.map_err(|error| Error::io("read", &self.path, error))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.assert_aligned(bytes, offset);
        self.change("write", |content| match content {
            Content::Bytes(held) => {
                let start = offset as usize;
                let end = start.checked_add(bytes.len()).ok_or(ErrorKind::FileTooLarge)?;
                if end > held.len() {
                    // By a quarter at most: doubling would leave half of a large file unused.
                    held.reserve_exact((end - held.len()).max(held.len() / 4));
                    held.resize(end, 0);
                }
                held[start..end].copy_from_slice(bytes);
                Ok(())
            }
            Content::Mapped { file, .. } => write_fully(|piece, at| file.write_at(piece, at), bytes, offset, 1),
        })
    }

    fn set_length(&self, length: u64) -> Result<()> {
        self.change("set the length of", |content| match content {
            Content::Bytes(held) => {
                held.resize(length as usize, 0);
                held.shrink_to_fit();
                Ok(())
            }
            Content::Mapped { file, .. } => file.set_len(length),
        })
    }

    fn reserve(&self, length: u64) -> Result<()> {
        // There is nothing to reserve, and the bytes would take memory.
        if self.length()? < length { self.set_length(length) } else { Ok(()) }
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_bytes_through_a_mapping_and_after_it() {
        let storage = MemoryStorage::new();
        let file = storage.open("a", OpenMode::Create).unwrap();
        file.write_all_at(&[1; 8192], 0).unwrap();
        let map = storage.map("a").unwrap();
        let again = storage.map("a").unwrap();
        assert_eq!(map.pointer(), again.pointer(), "one file has one mapping");
        // SAFETY: inside the mapping; no other thread accesses it.
        unsafe { map.pointer().add(100).write(7) };
        drop((map, again));
        let mut bytes = [0; 8192];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!((bytes[99], bytes[100], bytes[101]), (1, 7, 1));
        file.write_all_at(&[2], 100).unwrap();
        assert!(matches!(*storage.directory.state.lock().files["a"].content.read(), Content::Bytes(_)));
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!((bytes[99], bytes[100], bytes[101]), (1, 2, 1));
    }
}
