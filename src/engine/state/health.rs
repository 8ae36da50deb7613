//! Whether the store still takes writes, and what it waits for if not.

use crate::util::planted::planted;
use crate::util::sync::{AtomicU8, Mutex, Ordering};
use crate::util::{Error, Result, fork};

/// Everything is taken.
const WELL: u8 = 0;
/// The disk is full: no puts. Passes.
const FULL: u8 = 1;
/// No writes at all, for good.
const READ_ONLY: u8 = 2;

/// The store's state of health. Any thread.
#[derive(Debug)]
pub(crate) struct Health {
    /// The process that opened the store.
    process: fork::ForkCount,
    /// Only rises from `FULL` or `WELL` to `READ_ONLY`; changes under the lock of `reasons`.
    state: AtomicU8,
    reasons: Mutex<Reasons>,
}

#[derive(Debug, Default)]
struct Reasons {
    /// Of being read-only.
    failure: Option<String>,
    /// Of taking no puts.
    full: Option<Error>,
    /// What background work failed with last, while it tries again.
    waiting: Option<Error>,
}

impl Reasons {
    /// The worst of them; none where it passed since the caller looked.
    fn as_error(&self) -> Result<()> {
        if let Some(reason) = self.failure.clone() {
            return Err(Error::ReadOnly { reason });
        }
        self.full.clone().map_or(Ok(()), Err)
    }
}

impl Health {
    /// A store that was just opened, by this process.
    pub(crate) fn new() -> Self {
        Self { process: fork::ForkCount::current(), state: AtomicU8::new(WELL), reasons: Mutex::default() }
    }

    /// An error where the store is read-only, or the caller is a forked child.
    pub(crate) fn check(&self) -> Result<()> {
        if self.state.load(Ordering::Acquire) == READ_ONLY {
            self.reasons.lock().as_error()?
        }
        if self.process.is_current() { Ok(()) } else { Err(Error::Forked) }
    }

    /// An error where the store takes no puts.
    pub(crate) fn check_put(&self) -> Result<()> {
        if self.state.load(Ordering::Acquire) != WELL {
            self.reasons.lock().as_error()?
        }
        if self.process.is_current() { Ok(()) } else { Err(Error::Forked) }
    }

    /// Makes the store read-only for good. The first reason stays.
    pub(crate) fn poison(&self, error: &Error) {
        planted!(Bug::FailureIgnored => { return });
        let mut reasons = self.reasons.lock();
        reasons.failure.get_or_insert_with(|| match error {
            Error::ReadOnly { reason } => reason.clone(),
            other => other.to_string(),
        });
        self.state.store(READ_ONLY, Ordering::Release);
    }

    /// The disk is full: no more puts until `leave_full`. The first reason stays.
    pub(crate) fn enter_full(&self, error: &Error) {
        let mut reasons = self.reasons.lock();
        reasons.full.get_or_insert_with(|| error.clone().into_disk_full());
        if self.state.load(Ordering::Relaxed) == WELL {
            self.state.store(FULL, Ordering::Release);
        }
    }

    /// There is room again.
    pub(crate) fn leave_full(&self) {
        let mut reasons = self.reasons.lock();
        reasons.full = None;
        reasons.waiting = None;
        if self.state.load(Ordering::Relaxed) == FULL {
            self.state.store(WELL, Ordering::Release);
        }
    }

    /// Whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.state.load(Ordering::Acquire) == FULL
    }

    /// Background work failed and will be tried again.
    pub(crate) fn wait_for(&self, error: Error) {
        self.reasons.lock().waiting = Some(error.into_disk_full());
    }

    /// Background work goes on.
    pub(crate) fn recovered(&self) {
        let mut reasons = self.reasons.lock();
        if reasons.waiting.is_some() {
            reasons.waiting = None;
        }
    }

    /// What a writer that waits for background work should be told instead of waiting on.
    pub(crate) fn blocking_error(&self) -> Result<()> {
        self.check()?;
        self.reasons.lock().waiting.clone().map_or(Ok(()), Err)
    }

    /// For the statistics.
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
    fn a_full_disk_passes_and_a_failure_does_not() {
        let health = Health::new();
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
