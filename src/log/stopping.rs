//! What stops the log: a failure of unknown effect, or closing. Any thread.
//!
//! A failed sync may have dropped any page that was not durable, and the next sync would say nothing of it. So the
//! log takes no more writes, and a file `POISON` tells the next recovery not to trust what is in the page cache,
//! although the machine's life has not changed (`docs/recovery.md`, Failure while running).

use super::log::Log;
use super::log_task::Due;
use super::poison::{Halt, leave_poison};
use crate::util::planted::planted;
use crate::util::sync::Ordering;
use crate::util::{Error, Result};

impl Log {
    /// An error where the log takes no more writes.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        if self.halted.load(Ordering::Relaxed) { Err(self.halt_error()) } else { Ok(()) }
    }

    #[cold]
    fn halt_error(&self) -> Error {
        match &*self.halt.lock() {
            Some(Halt::Poisoned(reason)) => Error::ReadOnly { reason: reason.clone() },
            _ => Error::Closed,
        }
    }

    /// Stops the log for good and leaves the poison mark, as well as the disk still lets it. The first reason stays.
    pub fn poison(&self, reason: &str) {
        if self.stop(Halt::Poisoned(reason.to_string())) {
            // The disk has failed already; nobody is left to whom another failure would be news.
            let _ = leave_poison(&*self.storage, self.identity.epoch, reason);
        }
    }

    /// Stops the log for good without the poison mark: what was written before is still in the kernel's hands, so the next
    /// opening in this life may rely on it.
    pub fn halt(&self, reason: &str) {
        self.stop(Halt::Poisoned(reason.to_string()));
    }

    /// Whether the log was poisoned.
    #[cfg(test)]
    pub fn is_poisoned(&self) -> bool {
        matches!(&*self.halt.lock(), Some(Halt::Poisoned(_)))
    }

    /// Wakes everybody who waits, to find the log stopped. Returns whether this call stopped it.
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
        drop(self.sync.lock());
        self.sync_ended.notify_all();
        self.state.lock().due = Due::ALL;
        self.next_changed.notify_all();
        self.work.notify_all();
        true
    }
}
