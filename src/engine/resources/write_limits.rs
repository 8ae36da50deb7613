//! The limits on what the background work of a store writes: its own (`Options::background_write_limit`), and one that it
//! shares with other stores (`Resources`). A task waits for both. Any thread.

use super::rate_limit::{Class, RateLimit, Wait};
use crate::io::{Clock, SystemClock};
use crate::util::sync::{Arc, AtomicBool, Ordering};
use std::time::Duration;

/// See the module.
#[derive(Debug)]
pub(crate) struct WriteLimits {
    own: RateLimit,
    /// On the system's clock, since each of the stores may have a clock of its own.
    shared: Option<Arc<RateLimit>>,
    lifted: AtomicBool,
}

/// What a task must wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    own: Option<Wait>,
    shared: Option<Wait>,
}

impl WriteLimits {
    pub(crate) fn new(own: Option<u64>, shared: Option<Arc<RateLimit>>) -> Self {
        Self { own: RateLimit::new(own), shared, lifted: AtomicBool::new(false) }
    }

    /// The store's own limit, in bytes a second.
    pub(crate) fn own(&self) -> &RateLimit {
        &self.own
    }

    /// The lower of the limits. Together, the stores that share one may write less.
    pub(crate) fn lowest(&self) -> Option<u64> {
        let shared = self.shared().and_then(RateLimit::get);
        self.own.get().into_iter().chain(shared).min()
    }

    /// From now on there is no limit.
    pub(crate) fn lift(&self) {
        self.lifted.store(true, Ordering::Relaxed);
        self.own.set(None);
    }

    /// Charges for bytes that a task has written by `now`.
    pub(crate) fn charge(&self, bytes: u64, class: Class, now: Duration) -> Waits {
        let shared = self.shared().and_then(|shared| shared.charge(bytes, class, SystemClock.now()));
        Waits { own: self.own.charge(bytes, class, now), shared }
    }

    /// How long a task must still wait; zero if it need not.
    pub(crate) fn left(&self, waits: Waits, now: Duration) -> Duration {
        let shared = self.shared().map_or(Duration::ZERO, |shared| shared.left(waits.shared, SystemClock.now()));
        self.own.left(waits.own, now).max(shared)
    }

    fn shared(&self) -> Option<&RateLimit> {
        self.shared.as_deref().filter(|_| !self.lifted.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_waits_for_both_limits_until_they_are_lifted() {
        let shared = Arc::new(RateLimit::new(None));
        let (limits, other) = (
            WriteLimits::new(Some(1 << 10), Some(Arc::clone(&shared))),
            WriteLimits::new(None, Some(Arc::clone(&shared))),
        );
        let now = Duration::from_secs(5);
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let own = limits.charge(1 << 20, Class::Merge, now);
        assert!(limits.left(own, now) > minutes(16) && other.lowest().is_none());
        shared.set(Some(100));
        assert_eq!((limits.lowest(), other.lowest()), (Some(100), Some(100)));
        limits.charge(1 << 20, Class::Merge, now);
        let after = other.charge(1, Class::Merge, now);
        assert!(other.left(after, now) > minutes(160), "what the other store wrote does not count");
        shared.set(Some(2 << 20));
        assert_eq!(other.left(after, now), Duration::ZERO);
        assert!(limits.left(own, now) > minutes(16));
        shared.set(Some(1));
        let both = limits.charge(1 << 20, Class::Merge, now);
        limits.lift();
        assert_eq!((limits.left(both, now), limits.lowest()), (Duration::ZERO, None));
        assert_eq!(other.lowest(), Some(1));
    }
}
