//! Unmounting by another process than the one that serves the mount. One thread.

use super::mount_table::mounted_at;
use super::process::{byte, server};
use crate::error::{FsError, FsResult};
use nix::fcntl::{FcntlArg, fcntl};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often the lock of the store is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// The file and the byte that the writer of a store has locked (`docs/recovery.md`, Openers).
const LOCK_FILE: &str = "LOCK";
const WRITER_BYTE: i64 = 0;
/// Unmount for users, newest first.
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];

/// Unmounts the SkipFS at a directory, and waits until the process that serves it has closed the store and has ended. A
/// mount whose process has died is unmounted, too.
///
/// # Errors
/// `EINVAL` if no SkipFS is mounted there; `EBUSY` if it is in use; `EPERM` without the permission; `ETIMEDOUT` if it
/// is unmounted but the process has not ended within `patience`.
pub fn unmount(directory: impl AsRef<Path>, patience: Duration) -> FsResult<()> {
    let directory = resolved(directory.as_ref())?;
    let Some(mounted) = mounted_at(&directory)? else {
        return Err(FsError::with_detail(libc::EINVAL, format!("no SkipFS is mounted at {}", directory.display())));
    };
    let server = mounted.store.as_deref().and_then(server);
    match rustix::mount::unmount(&directory, UnmountFlags::NOFOLLOW) {
        Ok(()) => {}
        Err(Errno::PERM) => unmount_as_user(&directory)?,
        Err(error) => return Err(FsError::with_detail(error.raw_os_error(), "cannot unmount")),
    }
    let Some(store) = mounted.store else { return Ok(()) };
    let deadline = Instant::now() + patience;
    while is_open_for_writing(&store)? {
        if Instant::now() > deadline {
            let what = format!("unmounted, but the store at {} is still open", store.display());
            return Err(FsError::with_detail(libc::ETIMEDOUT, what));
        }
        std::thread::sleep(LOOK);
    }
    // A process whose store has failed may still have to say so.
    if let Some(server) = server
        && !server.wait(deadline.saturating_duration_since(Instant::now()))?
    {
        let what = format!("unmounted, but the process that served {} still runs", store.display());
        return Err(FsError::with_detail(libc::ETIMEDOUT, what));
    }
    Ok(())
}

/// The path without links. A mount whose process has died has no attributes, but its parent does.
pub(super) fn resolved(directory: &Path) -> FsResult<PathBuf> {
    let of_io = |error: io::Error| {
        FsError::with_detail(error.raw_os_error().unwrap_or(libc::EIO), directory.display().to_string())
    };
    match (directory.canonicalize(), directory.file_name()) {
        (Err(error), Some(name)) if error.raw_os_error() == Some(libc::ENOTCONN) => {
            let parent = match directory.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            Ok(parent.canonicalize().map_err(of_io)?.join(name))
        }
        (resolved, _) => resolved.map_err(of_io),
    }
}

fn unmount_as_user(directory: &Path) -> FsResult<()> {
    for helper in HELPERS {
        let run = Command::new(helper).args(["-u", "--"]).arg(directory).stdin(Stdio::null()).output();
        match run {
            Ok(done) if done.status.success() => return Ok(()),
            Ok(done) => {
                let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
                let is_busy = said.to_lowercase().contains("busy");
                return Err(FsError::with_detail(if is_busy { libc::EBUSY } else { libc::EPERM }, said));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(FsError::with_detail(libc::EPERM, format!("{helper}: {error}"))),
        }
    }
    let what = "unmounting needs root, or the program `fusermount3` (package fuse3)";
    Err(FsError::with_detail(libc::EPERM, what))
}

/// Whether a process has the lock of the writer. Takes no lock: that would refuse another opening.
fn is_open_for_writing(store: &Path) -> FsResult<bool> {
    // A store that is gone is not open.
    let Ok(file) = File::open(store.join(LOCK_FILE)) else { return Ok(false) };
    let mut lock = byte(libc::F_WRLCK, WRITER_BYTE);
    fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock))
        .map_err(|error| FsError::with_detail(error as i32, "cannot look at the lock of the store"))?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium::{Db, Options};

    #[test]
    fn a_store_is_open_until_it_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        assert!(!is_open_for_writing(&path).unwrap());
        let db = Db::open(&path, Options::new().memory_budget(16 << 20)).unwrap();
        assert!(is_open_for_writing(&path).unwrap());
        db.close().unwrap();
        assert!(!is_open_for_writing(&path).unwrap());
    }

    #[test]
    fn what_is_no_mount_is_not_unmounted() {
        let directory = tempfile::tempdir().unwrap();
        let error = unmount(directory.path(), Duration::ZERO).unwrap_err();
        assert!(error.errno() == libc::EINVAL && error.detail().contains("no SkipFS is mounted"), "{error}");
        let error = unmount(directory.path().join("none"), Duration::ZERO).unwrap_err();
        assert_eq!(error.errno(), libc::ENOENT);
        assert_eq!(unmount("/", Duration::ZERO).unwrap_err().errno(), libc::EINVAL);
    }
}
