//! A group of threads that wait for the same thing, for which one of them at a time acts. Any thread.
//!
//! Invariant: there is at most one leader, and `reached` only rises.

use crate::util::sync::{AtomicU64, Condvar, Mutex, Ordering};
use crate::util::{Result, SequenceNumber};
use crossbeam_utils::CachePadded;

/// How far something has got, for which one thread at a time acts.
#[derive(Debug)]
pub(in crate::log) struct Group {
    reached: CachePadded<AtomicU64>,
    leading: Mutex<bool>,
    ended: Condvar,
}

impl Group {
    /// Every number up to this one is done already.
    pub(in crate::log) fn new(reached: SequenceNumber) -> Self {
        Self { reached: CachePadded::new(reached.0.into()), leading: Mutex::new(false), ended: Condvar::new() }
    }

    /// Every number up to this one is done.
    pub(in crate::log) fn reached(&self) -> SequenceNumber {
        SequenceNumber(self.reached.load(Ordering::Acquire))
    }

    /// Wakes all waiting threads, which then check whether the log has stopped.
    pub(in crate::log) fn wake(&self) {
        drop(self.leading.lock());
        self.ended.notify_all();
    }

    /// Becomes the leader once `number` is not reached and nobody leads; `None` if it was reached.
    pub(in crate::log) fn lead(
        &self,
        number: SequenceNumber,
        check: impl Fn() -> Result<()>,
    ) -> Result<Option<Leadership<'_>>> {
        let mut leading = self.leading.lock();
        loop {
            if self.reached() >= number {
                return Ok(None);
            }
            check()?;
            if !*leading {
                *leading = true;
                return Ok(Some(Leadership(self)));
            }
            self.ended.wait(&mut leading);
        }
    }

    /// Notes that every number up to this one is done.
    pub(in crate::log) fn raise(&self, to: SequenceNumber) {
        self.reached.fetch_max(to.0, Ordering::AcqRel);
    }
}

/// Ends the leadership, even if the leader panics.
pub(in crate::log) struct Leadership<'a>(&'a Group);

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        *self.0.leading.lock() = false;
        self.0.ended.notify_all();
    }
}
