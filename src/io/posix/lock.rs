//! Locks between processes: one byte of the lock file each, held by an open file of its own (Linux' OFD locks). Any thread.
//!
//! Invariants:
//! 1. A guard's open file is nobody else's, so guards of one process exclude each other as those of several do, and closing
//!    the file, by the drop or by the process's death, frees the lock.
//! 2. A lock on a file that its name no longer leads to locks nothing: whoever destroys a store unlinks the file while holding
//!    every lock in it.

use crate::io::{LockGuard, LockMode, LockPart};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A lock; closing the file unlocks.
#[derive(Debug)]
pub(super) struct PosixLock {
    _file: File,
}

impl LockGuard for PosixLock {}

/// Takes a lock without waiting; `None` where others forbid it.
pub(super) fn take(path: &Path, part: LockPart, mode: LockMode) -> io::Result<Option<PosixLock>> {
    let writes = mode == LockMode::Exclusive;
    let file = OpenOptions::new().read(true).write(writes).create(writes).truncate(false).open(path)?;
    // Whoever destroyed the store meanwhile had this lock.
    Ok((try_lock(&file, part, mode)? && is_still_at(&file, path)).then_some(PosixLock { _file: file }))
}

fn try_lock(file: &File, part: LockPart, mode: LockMode) -> io::Result<bool> {
    let kind = match mode {
        LockMode::Shared => libc::F_RDLCK,
        LockMode::Exclusive => libc::F_WRLCK,
    };
    let range = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: part as libc::off_t,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: a plain call on a descriptor that `file` keeps open; `range` is a whole `flock` that outlives the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

/// Whether the path still leads to this open file.
fn is_still_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(held), Ok(found)) => (held.dev(), held.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}
