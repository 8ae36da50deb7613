//! `Signals`: the signals that end a mount, blocked in the whole process. One thread.

use crate::error::{FsError, FsResult};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::AsFd;

/// `SIGINT`, `SIGTERM` and `SIGHUP`, which are read instead of ending the process.
#[derive(Debug)]
pub struct Signals {
    arrived: SignalFd,
}

fn of_nix(error: Errno) -> FsError {
    FsError::with_detail(error as i32, "waiting for signals")
}

impl Signals {
    /// Blocks the signals in the calling thread. Threads that it starts later inherit that. So a program calls this
    /// before it starts others: a signal goes to any thread that does not block it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn block() -> FsResult<Self> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        signals.thread_block().map_err(of_nix)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self { arrived: SignalFd::with_flags(&signals, flags).map_err(of_nix)? })
    }

    /// Waits so long for a signal. Returns whether one came; several are as one.
    pub(super) fn wait(&self, milliseconds: u16) -> FsResult<bool> {
        let mut wait = [PollFd::new(self.arrived.as_fd(), PollFlags::POLLIN)];
        match nix::poll::poll(&mut wait, PollTimeout::from(milliseconds)) {
            Err(Errno::EINTR) | Ok(0) => return Ok(false),
            Err(error) => return Err(of_nix(error)),
            Ok(_) => {}
        }
        let mut came = false;
        while let Ok(Some(_)) = self.arrived.read_signal() {
            came = true;
        }
        Ok(came)
    }
}
