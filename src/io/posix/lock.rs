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

use crate::io::{LockGuard, LockMode, LockPart};
use crate::util::fork;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A lock, held until it is dropped.
#[derive(Debug)]
pub(super) struct PosixLock {
    file: File,
    part: LockPart,
    taken_in: fork::ForkCount,
}

impl LockGuard for PosixLock {}

impl Drop for PosixLock {
    fn drop(&mut self) {
        if self.taken_in.is_current() {
            // Cannot fail on a held lock. Closing the file, which comes next, unlocks as well.
            let _ = set_lock(&self.file, self.part, libc::F_UNLCK);
        }
    }
}

/// Takes a lock without waiting; `None` if another holder excludes it.
pub(super) fn take(path: &Path, part: LockPart, mode: LockMode) -> io::Result<Option<PosixLock>> {
    let writes = mode == LockMode::Exclusive;
    let file = OpenOptions::new().read(true).write(writes).create(writes).truncate(false).open(path)?;
    // If another process destroyed the store meanwhile, the path leads to another file.
    let taken_in = fork::ForkCount::current();
    Ok((try_lock(&file, part, mode)? && is_still_at(&file, path)).then_some(PosixLock { file, part, taken_in }))
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

/// Whether the path still leads to this open file.
fn is_still_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(held), Ok(found)) => (held.dev(), held.ino()) == (found.dev(), found.ino()),
        _ => false,
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
        let path = directory.path().join("LOCK");
        let take = || take(&path, LockPart::Writer, LockMode::Exclusive).unwrap();
        let lock = take().unwrap();
        assert!(take().is_none());
        // What a child has between fork and exec: another descriptor of the same open file.
        let inherited = lock.file.try_clone().unwrap();
        drop(lock);
        assert!(take().is_some());
        drop(inherited);
    }
}
