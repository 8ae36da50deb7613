//! Locks between processes: each is one byte of the lock file, locked through an open file of its own (OFD locks of
//! Linux). Any thread.
//!
//! Invariants:
//! 1. A guard's open file is not shared, so guards of one process exclude each other as those of several processes do,
//!    and the death of the process releases the lock.
//! 2. Dropping a guard releases the lock at once, although a child that another thread is just starting also has the
//!    open file until it executes its program. A drop in a forked child releases nothing.
//! 3. A lock on a file that its name no longer leads to locks nothing: a process that destroys a store unlinks the file
//!    while it holds every lock in it.

use super::directory::{StoreDirectory, identity};
use crate::io::{LockGuard, LockMode, LockPart};
use crate::util::sync::Arc;
use crate::util::{Error, Result, fork};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A lock, held until it is dropped.
#[derive(Debug)]
pub(super) struct PosixLock {
    file: File,
    part: LockPart,
    directory: Arc<StoreDirectory>,
    name: String,
    taken_in: fork::ForkCount,
}

impl LockGuard for PosixLock {
    fn is_in_place(&self) -> Result<bool> {
        is_still_at(&self.file, &self.directory, &self.name)
            .map_err(|error| Error::io("find", &self.directory.path().join(&self.name), error))
    }
}

impl Drop for PosixLock {
    fn drop(&mut self) {
        if self.taken_in.is_current() {
            // Cannot fail on a held lock. Closing the file, which comes next, unlocks as well.
            let _ = set_lock(&self.file, self.part, libc::F_UNLCK);
        }
    }
}

/// Takes a lock without waiting; `None` if another holder excludes it.
pub(super) fn take(
    directory: &Arc<StoreDirectory>,
    name: &str,
    part: LockPart,
    mode: LockMode,
) -> io::Result<Option<PosixLock>> {
    let flags = match mode {
        LockMode::Shared => libc::O_RDONLY,
        LockMode::Exclusive => libc::O_RDWR | libc::O_CREAT,
    };
    let file = directory.open(name, flags)?;
    let taken_in = fork::ForkCount::current();
    // If another process destroyed the store meanwhile, the name leads to another file.
    let is_taken = try_lock(&file, part, mode)? && is_still_at(&file, directory, name)?;
    let (directory, name) = (Arc::clone(directory), name.to_owned());
    Ok(is_taken.then_some(PosixLock { file, part, directory, name, taken_in }))
}

fn try_lock(file: &File, part: LockPart, mode: LockMode) -> io::Result<bool> {
    let kind = match mode {
        LockMode::Shared => libc::F_RDLCK,
        LockMode::Exclusive => libc::F_WRLCK,
    };
    match set_lock(file, part, kind) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

fn set_lock(file: &File, part: LockPart, kind: libc::c_int) -> io::Result<()> {
    let range = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: part as libc::off_t,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: a plain call on a descriptor that `file` keeps open; `range` is a whole `flock` that outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the name still leads to this open file.
fn is_still_at(file: &File, directory: &StoreDirectory, name: &str) -> io::Result<bool> {
    match directory.identity_of(name) {
        Ok(found) => Ok(found == identity(&file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another thread started a program just when a store was closed. For a moment the child also had the lock's file,
    /// and the next opening got the error that the store is open.
    #[test]
    fn a_dropped_lock_is_free_though_a_child_has_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let directory = Arc::new(StoreDirectory::new(directory.path().to_path_buf()));
        let take = || take(&directory, "LOCK", LockPart::Writer, LockMode::Exclusive).unwrap();
        let lock = take().unwrap();
        assert!(take().is_none());
        // What a child has between fork and exec: another descriptor of the same open file.
        let inherited = lock.file.try_clone().unwrap();
        drop(lock);
        assert!(take().is_some());
        drop(inherited);
    }
}
