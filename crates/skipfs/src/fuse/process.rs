//! Which process serves a mount, so that another one can wait for its end. Any thread.
//!
//! The serving process has a read lock of the traditional kind on the store's file `CURRENT`. The system tells others which
//! process has such a lock. It ends with any close of that file in the process; the store opens it only while it is
//! being opened, other than `LOCK`.

use crate::error::{FsError, FsResult};
use nix::fcntl::{FcntlArg, fcntl};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

const FILE: &str = "CURRENT";

/// A lock of one byte.
pub(super) fn byte(kind: i32, at: i64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at,
        l_len: 1,
        l_pid: 0,
    }
}

/// Says that this process serves the store, as long as the file is open. Without it `unmount` waits for the store only.
pub(super) fn announce(store: &Path) -> Option<File> {
    let file = File::open(store.join(FILE)).ok()?;
    fcntl(&file, FcntlArg::F_SETLK(&byte(libc::F_RDLCK, 0))).ok()?;
    Some(file)
}

/// Another process, to wait for.
pub(super) struct Server {
    process: OwnedFd,
}

/// The process that serves a store; `None` if there is none, if it is this one, or if the system cannot say.
pub(super) fn server(store: &Path) -> Option<Server> {
    let file = File::open(store.join(FILE)).ok()?;
    let holder = || {
        let mut lock = byte(libc::F_WRLCK, 0);
        fcntl(&file, FcntlArg::F_GETLK(&mut lock)).ok()?;
        (lock.l_type != libc::F_UNLCK as libc::c_short && lock.l_pid > 0).then_some(lock.l_pid)
    };
    let pid = holder()?;
    let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    // The number may have gone to another process in between.
    (holder() == Some(pid)).then_some(Server { process })
}

impl Server {
    /// Waits for the end of the process; false if it lives longer than `patience`.
    pub(super) fn wait(&self, patience: Duration) -> FsResult<bool> {
        let timeout = Timespec::try_from(patience).ok();
        let ended = poll(&mut [PollFd::new(&self.process, PollFlags::IN)], timeout.as_ref());
        match ended {
            Ok(count) => Ok(count > 0),
            Err(error) => Err(FsError::with_detail(error.raw_os_error(), "cannot wait for the process of the mount")),
        }
    }
}
