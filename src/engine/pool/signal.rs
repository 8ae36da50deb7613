//! Wakes one waiting thread. Any thread may raise the signal; one thread at a time waits.
//!
//! Invariants:
//! 1. `raise` takes the gate only if the signal was not raised already. The waiting thread holds the gate from its look
//!    at the signal until it sleeps, so it does not miss one that is raised in between.
//! 2. What happened before a `raise` is seen after the `wait` that consumes the signal: both are read-modify-writes of
//!    `raised` (acquire and release).

use crate::util::sync::{AtomicBool, Condvar, Mutex, Ordering};
use std::time::Duration;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Signal {
    raised: AtomicBool,
    gate: Mutex<()>,
    changed: Condvar,
}

impl Signal {
    /// Wakes the waiting thread, or lets its next wait return at once.
    pub(super) fn raise(&self) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            drop(self.gate.lock());
            self.changed.notify_one();
        }
    }

    /// Returns true once the signal is raised, and lowers it; false after the time has passed.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let mut gate = self.gate.lock();
        if self.raised.swap(false, Ordering::AcqRel) {
            return true;
        }
        self.changed.wait_for(&mut gate, timeout);
        self.raised.swap(false, Ordering::AcqRel)
    }
}
