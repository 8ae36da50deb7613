//! A limit on the bytes a second that background work writes. `write_limits.rs` has those of a store. Any thread.
//!
//! A task is charged after each piece that it has written, and then waits until the rate has made up for it. At most
//! `BURST` of unused time counts, so the disk sees an even stream of writes.
//!
//! Incorporation has priority, because writers wait for it: it waits only for what incorporations wrote; merges wait
//! for both.

use crate::util::sync::{AtomicU64, Mutex, Ordering};
use std::time::Duration;

/// The longest unused time that a task may make up for.
const BURST: Duration = Duration::from_millis(10);

/// The class of a task that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Incorporation of memory.
    Memory,
    /// Merges.
    Merge,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RateLimit {
    /// 0: no limit. Changes under the lock of `due`.
    bytes_per_second: AtomicU64,
    due: Mutex<Due>,
}

/// The times at which the rate has made up for what was written.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    /// For incorporations alone.
    memory: Duration,
    /// For all tasks.
    all: Duration,
    /// How often the limit has changed.
    changes: u64,
}

/// What a task must wait for. It need not once the limit has changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    end: Duration,
    changes: u64,
}

impl RateLimit {
    /// A limit in bytes a second; `None`: no limit.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { bytes_per_second: AtomicU64::new(limit.unwrap_or(0)), due: Mutex::default() }
    }

    /// The limit, if there is one.
    pub(crate) fn get(&self) -> Option<u64> {
        match self.bytes_per_second.load(Ordering::Relaxed) {
            0 => None,
            limit => Some(limit),
        }
    }

    /// Changes the limit. Waits under the old limit end.
    pub(crate) fn set(&self, limit: Option<u64>) {
        let mut due = self.due.lock();
        self.bytes_per_second.store(limit.unwrap_or(0), Ordering::Relaxed);
        *due = Due { changes: due.changes + 1, ..Due::default() };
    }

    /// Charges for bytes that a task has written by `now`. Returns what it must wait for.
    pub(crate) fn charge(&self, bytes: u64, class: Class, now: Duration) -> Option<Wait> {
        self.get()?;
        let mut due = self.due.lock();
        let limit = self.get()?;
        let cost = Duration::from_nanos((u128::from(bytes) * 1_000_000_000 / u128::from(limit)) as u64);
        let add = |due: Duration| due.max(now.saturating_sub(BURST)).saturating_add(cost);
        due.all = add(due.all);
        if class == Class::Memory {
            due.memory = add(due.memory);
        }
        let end = match class {
            Class::Memory => due.memory,
            Class::Merge => due.all,
        };
        Some(Wait { end, changes: due.changes })
    }

    /// How long a task must still wait; zero if it need not.
    pub(crate) fn left(&self, wait: Option<Wait>, now: Duration) -> Duration {
        let is_current = |wait: &Wait| now < wait.end && wait.changes == self.due.lock().changes;
        wait.filter(is_current).map_or(Duration::ZERO, |wait| wait.end.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How many bytes a class alone can write from `now` to `end`, in pieces of 16 KiB.
    fn write(limit: &RateLimit, class: Class, mut now: Duration, end: Duration) -> u64 {
        let mut bytes = 0;
        while now < end {
            bytes += 16 << 10;
            now += limit.left(limit.charge(16 << 10, class, now), now);
        }
        bytes
    }

    #[test]
    fn the_rate_is_kept_and_unused_time_is_lost() {
        let limit = RateLimit::new(Some(10 << 20));
        for (start, class) in [(0, Class::Merge), (100, Class::Memory), (200, Class::Merge)] {
            let bytes = write(&limit, class, SECOND * start, SECOND * (start + 1));
            assert!(bytes.abs_diff(10 << 20) <= 160 << 10, "{bytes} in a second after a long idle time");
        }
    }

    #[test]
    fn incorporation_has_priority_and_merges_get_the_rest() {
        let limit = RateLimit::new(Some(1 << 20));
        // Half of the rate for a second.
        let mut waits = Duration::ZERO;
        for step in 0..64u32 {
            let now = SECOND + SECOND * step / 64;
            waits += limit.left(limit.charge(8 << 10, Class::Memory, now), now);
            limit.charge(64 << 10, Class::Merge, now);
        }
        assert_eq!(waits, Duration::ZERO, "incorporation waits for merges");
        let merged = limit.left(limit.charge(0, Class::Merge, SECOND * 2), SECOND * 2);
        assert!(merged > SECOND * 3, "merges do not wait for what incorporation wrote: {merged:?}");
    }

    #[test]
    fn changing_the_limit_ends_the_waits() {
        for other in [None, Some(1 << 20)] {
            let limit = RateLimit::new(Some(1));
            let wait = limit.charge(1000, Class::Merge, Duration::ZERO);
            assert_eq!(limit.left(wait, SECOND), SECOND * 999);
            limit.set(other);
            assert_eq!((limit.left(wait, SECOND), limit.get()), (Duration::ZERO, other));
            assert!(limit.left(limit.charge(1024, Class::Merge, SECOND), SECOND) < BURST);
        }
    }
}
