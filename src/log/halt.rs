//! What stops the log: a failure of unknown effect, or closing. Any thread.
//!
//! A failed sync may have dropped any page that was not durable, and the next sync would not report it. So the log
//! takes no more writes, and a file `POISON` tells the next recovery not to trust the page cache, although the life has
//! not changed (`docs/recovery.md`, Failure while running).

use super::log::Log;
use super::log_task::Due;
use super::poison::{Halt, leave_poison};
use crate::util::planted::planted;
use crate::util::sync::Ordering;
use crate::util::{Error, Result};

impl Log {
    /// An error if the log takes no more writes.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.halted.load(Ordering::Relaxed) { Err(self.halt_error()) } else { Ok(()) }
    }

    #[cold]
    fn halt_error(&self) -> Error {
        match &*self.halt.lock() {
            Some(Halt::Poisoned(reason)) => Error::ReadOnly { reason: reason.clone() },
            _ => Error::Closed,
        }
    }

    /// Stops the log for good and leaves the poison mark, if the disk permits it. The first reason stays.
    pub fn poison(&self, error: &Error) {
        let reason = error.reason();
        if self.stop(Halt::Poisoned(reason.clone())) {
            // The disk has failed already, so a second failure is not reported.
            let _ = leave_poison(&*self.storage, self.identity.epoch, &reason);
        }
    }

    /// Stops the log for good without the poison mark: earlier writes are still in the page cache, so the next opening
    /// in this life may rely on them.
    pub fn halt(&self, error: &Error) {
        self.stop(Halt::Poisoned(error.reason()));
    }

    /// Whether the log was poisoned.
    #[cfg(test)]
    pub fn is_poisoned(&self) -> bool {
        matches!(&*self.halt.lock(), Some(Halt::Poisoned(_)))
    }

    /// Wakes all waiting threads, which then find the log stopped. Returns whether this call stopped it.
    pub(super) fn stop(&self, why: Halt) -> bool {
        planted!(Bug::FailureIgnored => {
            if matches!(why, Halt::Poisoned(_)) {
                return false;
            }
        });
        {
            let mut halt = self.halt.lock();
            if halt.is_some() {
                return false;
            }
            *halt = Some(why);
            self.halted.store(true, Ordering::Release);
        }
        self.synced.wake();
        self.written.wake();
        self.state.lock().due = Due::ALL;
        self.next_changed.notify_all();
        self.work.notify_all();
        true
    }
}
