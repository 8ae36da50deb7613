//! Whether the store accepts writes, and why not. Any thread.

use crate::engine::events::Events;
use crate::engine::types::events::Event;
use crate::util::planted::planted;
use crate::util::sync::{AtomicU8, Mutex, Ordering};
use crate::util::{Error, Result, fork};

/// All writes are accepted.
const HEALTHY: u8 = 0;
/// The disk is full: puts are refused until there is space again.
const DISK_FULL: u8 = 1;
/// All writes are refused until the store is opened again.
const READ_ONLY: u8 = 2;

/// See the module.
pub(crate) struct Health {
    /// The process that opened the store.
    process: fork::ForkCount,
    /// `READ_ONLY` is final. Changes under the lock of `reasons`.
    state: AtomicU8,
    reasons: Mutex<Reasons>,
    /// Added to under the lock of `reasons`, so in the order of the changes.
    events: Events,
}

#[derive(Debug, Default)]
struct Reasons {
    /// Why the store is read-only.
    failure: Option<String>,
    /// Why puts are refused.
    disk_full: Option<Error>,
    /// The latest error of background work that is going to be retried.
    blocking: Option<Error>,
}

impl Reasons {
    /// The worst reason; `Ok` if the state has changed since the caller checked it.
    fn as_error(&self) -> Result<()> {
        if let Some(reason) = self.failure.clone() {
            return Err(Error::ReadOnly { reason });
        }
        self.disk_full.clone().map_or(Ok(()), Err)
    }
}

impl Health {
    /// A store that was just opened, by this process.
    pub(crate) fn new(events: Events) -> Self {
        let (process, state) = (fork::ForkCount::current(), AtomicU8::new(HEALTHY));
        Self { process, state, reasons: Mutex::default(), events }
    }

    /// An error if the store is read-only or the caller is a forked child.
    pub(crate) fn check(&self) -> Result<()> {
        if self.state.load(Ordering::Acquire) == READ_ONLY {
            self.reasons.lock().as_error()?
        }
        if self.process.is_current() { Ok(()) } else { Err(Error::Forked) }
    }

    /// An error if puts are refused or the caller is a forked child.
    pub(crate) fn check_put(&self) -> Result<()> {
        if self.state.load(Ordering::Acquire) != HEALTHY {
            self.reasons.lock().as_error()?
        }
        if self.process.is_current() { Ok(()) } else { Err(Error::Forked) }
    }

    /// Makes the store read-only. The first reason stays.
    pub(crate) fn poison(&self, error: &Error) {
        planted!(Bug::FailureIgnored => { return });
        let mut reasons = self.reasons.lock();
        if reasons.failure.is_none() {
            let reason = reasons.failure.insert(error.reason()).clone();
            self.events.add(|| Event::Failed { reason });
        }
        self.state.store(READ_ONLY, Ordering::Release);
    }

    /// Refuses puts until `leave_full`. The first reason stays.
    pub(crate) fn enter_full(&self, error: &Error) {
        let mut reasons = self.reasons.lock();
        if reasons.disk_full.is_none() {
            let full = reasons.disk_full.insert(error.clone().into_disk_full());
            self.events.add(|| Event::DiskFull { reason: full.reason() });
        }
        if self.state.load(Ordering::Relaxed) == HEALTHY {
            self.state.store(DISK_FULL, Ordering::Release);
        }
    }

    /// There is space on the disk again.
    pub(crate) fn leave_full(&self) {
        let mut reasons = self.reasons.lock();
        if reasons.disk_full.take().is_some() {
            self.events.add(|| Event::DiskHasSpace);
        }
        reasons.blocking = None;
        if self.state.load(Ordering::Relaxed) == DISK_FULL {
            self.state.store(HEALTHY, Ordering::Release);
        }
    }

    /// Whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.state.load(Ordering::Acquire) == DISK_FULL
    }

    /// Background work failed and is going to be retried.
    pub(crate) fn note_blocked(&self, error: Error) {
        self.reasons.lock().blocking = Some(error.into_disk_full());
    }

    /// Background work makes progress again.
    pub(crate) fn note_unblocked(&self) {
        let mut reasons = self.reasons.lock();
        if reasons.blocking.is_some() {
            reasons.blocking = None;
        }
    }

    /// The error that a thread that waits for background work returns instead of waiting on.
    pub(crate) fn blocking_error(&self) -> Result<()> {
        self.check()?;
        self.reasons.lock().blocking.clone().map_or(Ok(()), Err)
    }

    /// The failure, if any, for the statistics.
    pub(crate) fn describe(&self) -> Option<String> {
        self.blocking_error().and_then(|()| self.check_put()).err().map(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Error {
        Error::DiskFull { reason: "a file".into() }
    }

    #[test]
    fn a_full_disk_is_temporary_and_a_failure_is_final() {
        let health = Health::new(Events::default());
        health.enter_full(&full());
        assert!(health.is_full() && health.check().is_ok());
        assert!(matches!(health.check_put(), Err(Error::DiskFull { .. })));
        assert!(health.describe().unwrap().contains("a file"));
        health.leave_full();
        assert!(health.check_put().is_ok() && health.describe().is_none());
        health.enter_full(&full());
        health.poison(&Error::ReadOnly { reason: "first".into() });
        health.poison(&Error::ReadOnly { reason: "second".into() });
        health.leave_full();
        for result in [health.check(), health.check_put(), health.blocking_error()] {
            assert!(matches!(result, Err(Error::ReadOnly { reason }) if reason == "first"));
        }
    }
}
