//! A store's directory: found by its path, or, while a writer has locked it, by the descriptor that holds the lock. So
//! a writer keeps working in its own directory if that is renamed, even if another directory then takes the old path.
//! Any thread.
//!
//! Invariants:
//! 1. While `locked` leads to an open file, every name is resolved in that directory, and in no other.
//! 2. The lock is one of the directory itself (`flock`), not of a file in it. So it holds although every file in the
//!    directory is removed. Like the locks of `lock.rs`, it belongs to an open file that is not shared, ends with the
//!    process, and is not released by a forked child.

use crate::io::LockGuard;
use crate::util::sync::{Arc, Mutex};
use crate::util::{Result, fork};
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Weak;

/// Identifies a file: device and inode.
pub(super) type Identity = (u64, u64);

/// See the module.
#[derive(Debug)]
pub(super) struct StoreDirectory {
    path: PathBuf,
    locked: Mutex<Weak<File>>,
}

/// The lock of a directory, held until it is dropped.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    directory: Arc<File>,
    taken_in: fork::ForkCount,
}

impl LockGuard for DirectoryLock {
    fn is_in_place(&self) -> Result<bool> {
        // Whatever the directory is called by now, it is the one in which all names are resolved.
        Ok(true)
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        if self.taken_in.is_current() {
            // Cannot fail on a held lock. A child between fork and exec has the open file, too, so closing it is not
            // enough.
            let _ = flock(&self.directory, libc::LOCK_UN);
        }
    }
}

impl StoreDirectory {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, locked: Mutex::new(Weak::new()) }
    }

    /// The path with which the storage was made.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the directory exclusively; `None` if another holder excludes it. Does not wait. If the file system has no
    /// locks of directories (some network file systems), nothing is locked.
    pub(super) fn lock(&self) -> io::Result<Option<DirectoryLock>> {
        let directory = File::open(&self.path)?;
        match flock(&directory, libc::LOCK_EX | libc::LOCK_NB) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if !has_no_locks(&error) => return Err(error),
            _ => {}
        }
        if identity(&directory.metadata()?) != identity(&fs::metadata(&self.path)?) {
            return Ok(None);
        }
        let directory = Arc::new(directory);
        *self.locked.lock() = Arc::downgrade(&directory);
        Ok(Some(DirectoryLock { directory, taken_in: fork::ForkCount::current() }))
    }

    /// Opens the file `name` with these flags of `open(2)`.
    pub(super) fn open(&self, name: &str, flags: libc::c_int) -> io::Result<File> {
        let opened = self.at(name, |directory, name| {
            // SAFETY: `name` ends with a zero byte and outlives the call; no other memory is passed.
            unsafe { libc::openat(directory, name.as_ptr(), flags | libc::O_CLOEXEC, 0o666) }
        })?;
        // SAFETY: a descriptor that was just opened and that nothing else owns.
        Ok(unsafe { File::from_raw_fd(opened) })
    }

    /// The identity of the file that has the name now.
    pub(super) fn identity_of(&self, name: &str) -> io::Result<Identity> {
        // SAFETY: `stat` holds integers only, for which zeroes are valid.
        let mut answer: libc::stat = unsafe { std::mem::zeroed() };
        self.at(name, |directory, name| {
            // SAFETY: `name` ends with a zero byte, and `answer` is a `stat` to be filled; both outlive the call.
            unsafe { libc::fstatat(directory, name.as_ptr(), &mut answer, 0) }
        })?;
        Ok((answer.st_dev, answer.st_ino))
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        self.at(name, |directory, name| {
            // SAFETY: `name` ends with a zero byte and outlives the call.
            unsafe { libc::unlinkat(directory, name.as_ptr(), 0) }
        })?;
        Ok(())
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.at_both(from, to, |directory, from, to| {
            // SAFETY: both names end with a zero byte and outlive the call.
            unsafe { libc::renameat(directory, from.as_ptr(), directory, to.as_ptr()) }
        })
    }

    pub(super) fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.at_both(from, to, |directory, from, to| {
            // SAFETY: both names end with a zero byte and outlive the call.
            unsafe { libc::linkat(directory, from.as_ptr(), directory, to.as_ptr(), 0) }
        })
    }

    /// Links a file to a path in another directory.
    pub(super) fn link_to(&self, from: &str, to: &Path) -> io::Result<()> {
        let to = CString::new(to.as_os_str().as_bytes())?;
        self.at(from, |directory, from| {
            // SAFETY: both names end with a zero byte and outlive the call.
            unsafe { libc::linkat(directory, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), 0) }
        })?;
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        match self.locked() {
            Some(directory) => directory.sync_all(),
            None => File::open(&self.path)?.sync_all(),
        }
    }

    /// Calls `act` with a path that leads to the directory now.
    pub(super) fn with_path<T>(&self, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let Some(directory) = self.locked() else { return act(&self.path) };
        let there = fs::metadata(&self.path).map(|metadata| identity(&metadata));
        if there.is_ok_and(|there| directory.metadata().is_ok_and(|metadata| identity(&metadata) == there)) {
            return act(&self.path);
        }
        // `directory` keeps the descriptor open during the call.
        act(Path::new(&format!("/proc/self/fd/{}", directory.as_raw_fd())))
    }

    fn locked(&self) -> Option<Arc<File>> {
        self.locked.lock().upgrade()
    }

    /// Performs a system call on a name, again after an interruption.
    fn at(&self, name: &str, mut call: impl FnMut(RawFd, &CStr) -> libc::c_int) -> io::Result<libc::c_int> {
        let locked = self.locked();
        let (directory, name) = self.resolve(locked.as_ref(), name)?;
        again(|| call(directory, &name))
    }

    /// The same with two names.
    fn at_both(
        &self,
        from: &str,
        to: &str,
        mut call: impl FnMut(RawFd, &CStr, &CStr) -> libc::c_int,
    ) -> io::Result<()> {
        let locked = self.locked();
        let (directory, from) = self.resolve(locked.as_ref(), from)?;
        let (_, to) = self.resolve(locked.as_ref(), to)?;
        again(|| call(directory, &from, &to))?;
        Ok(())
    }

    /// The descriptor and the path for a system call on a name.
    fn resolve(&self, locked: Option<&Arc<File>>, name: &str) -> io::Result<(RawFd, CString)> {
        debug_assert!(!name.is_empty() && !name.contains('/') && name != "..", "{name:?} is not a file name");
        Ok(match locked {
            Some(directory) => (directory.as_raw_fd(), CString::new(name)?),
            None => (libc::AT_FDCWD, CString::new(self.path.join(name).as_os_str().as_bytes())?),
        })
    }
}

/// Device and inode.
pub(super) fn identity(metadata: &fs::Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

fn again(mut call: impl FnMut() -> libc::c_int) -> io::Result<libc::c_int> {
    loop {
        match call() {
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
            result => return Ok(result),
        }
    }
}

fn flock(directory: &File, operation: libc::c_int) -> io::Result<()> {
    // SAFETY: a plain call on a descriptor that `directory` keeps open.
    again(|| unsafe { libc::flock(directory.as_raw_fd(), operation) })?;
    Ok(())
}

/// Whether the file system cannot lock a directory. NFS locks only files that are open for writing (`EBADF`).
fn has_no_locks(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EBADF | libc::EINVAL | libc::EISDIR | libc::ENOLCK | libc::ENOSYS | libc::EOPNOTSUPP)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_locked_directory_until_the_lock_is_dropped() {
        let parent = tempfile::tempdir().unwrap();
        let (old, new) = (parent.path().join("old"), parent.path().join("new"));
        fs::create_dir(&old).unwrap();
        let directory = StoreDirectory::new(old.clone());
        let lock = directory.lock().unwrap().unwrap();
        assert!(directory.lock().unwrap().is_none());
        fs::rename(&old, &new).unwrap();
        fs::create_dir(&old).unwrap();
        let create = |name: &str| directory.open(name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL);
        drop(create("a").unwrap());
        directory.rename("a", "b").unwrap();
        directory.link("b", "c").unwrap();
        directory.sync().unwrap();
        let list = |path: &Path| -> io::Result<Vec<_>> {
            let mut names: Vec<_> = fs::read_dir(path)?.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            Ok(names)
        };
        assert_eq!(directory.with_path(list).unwrap(), ["b", "c"]);
        assert_eq!((list(&new).unwrap().len(), list(&old).unwrap().len()), (2, 0));
        assert_eq!(directory.identity_of("b").unwrap(), directory.identity_of("c").unwrap());
        directory.remove("b").unwrap();
        assert!(StoreDirectory::new(new.clone()).lock().unwrap().is_none(), "the lock moved with the directory");
        drop(lock);
        assert!(StoreDirectory::new(new.clone()).lock().unwrap().is_some());
        assert!(create("d").is_ok() && old.join("d").exists(), "the path counts again");
    }

    /// What a child has between fork and exec: another descriptor of the same open file.
    #[test]
    fn a_dropped_lock_is_free_though_a_child_has_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let store = StoreDirectory::new(directory.path().to_path_buf());
        let lock = store.lock().unwrap().unwrap();
        let inherited = lock.directory.try_clone().unwrap();
        drop(lock);
        assert!(store.lock().unwrap().is_some());
        drop(inherited);
    }
}
