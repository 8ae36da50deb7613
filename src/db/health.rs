//! Whether the store still takes writes, and what it waits for if not.

use crate::base::planted::{self, Bug};
use crate::base::sync::{AtomicBool, Mutex, Ordering};
use crate::base::{Error, Result, fork};

/// The store's state of health. Any thread.
#[derive(Debug)]
pub(super) struct Health {
    /// The process that opened the store.
    process: fork::Generation,
    read_only: AtomicBool,
    reason: Mutex<Option<String>>,
    /// What background work failed with last, while it tries again: a full disk.
    waiting: Mutex<Option<Error>>,
}

impl Health {
    /// A store that was just opened, by this process.
    pub(super) fn new() -> Self {
        Self {
            process: fork::Generation::current(),
            read_only: AtomicBool::new(false),
            reason: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    /// An error where the store is read-only, or the caller is a forked child.
    pub(super) fn check(&self) -> Result<()> {
        if self.read_only.load(Ordering::Acquire) {
            Err(self.error())
        } else if !self.process.is_current() {
            Err(Error::Forked)
        } else {
            Ok(())
        }
    }

    /// Makes the store read-only for good. The first reason stays.
    pub(super) fn poison(&self, error: &Error) {
        if planted::is(Bug::FailureForgotten) {
            return;
        }
        let mut reason = self.reason.lock();
        if reason.is_none() {
            *reason = Some(match error {
                Error::ReadOnly { reason } => reason.clone(),
                other => other.to_string(),
            });
        }
        self.read_only.store(true, Ordering::Release);
    }

    /// Background work failed and will be tried again.
    pub(super) fn wait_for(&self, error: Error) {
        *self.waiting.lock() = Some(error);
    }

    /// Background work goes on.
    pub(super) fn recovered(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.is_some() {
            *waiting = None;
        }
    }

    /// What a writer that waits for background work should be told instead of waiting on.
    pub(super) fn obstacle(&self) -> Result<()> {
        self.check()?;
        match &*self.waiting.lock() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// For the statistics.
    pub(super) fn describe(&self) -> Option<String> {
        self.obstacle().err().map(|error| error.to_string())
    }

    fn error(&self) -> Error {
        Error::ReadOnly { reason: self.reason.lock().clone().unwrap_or_default() }
    }
}
