//! How many bytes a second background work may write (`Options::background_write_limit`). Any thread.
//!
//! Each piece of work is charged for after it was written, and whoever wrote it waits until the rate has made up for it: nobody
//! gathers leave to write for longer than `BURST`, so the disk sees an even stream.
//!
//! Incorporation goes first, since writers wait for it: it waits only for what it wrote itself, and merges wait for both.

use crate::util::sync::{AtomicU64, Mutex, Ordering};
use std::time::Duration;

/// What was not used so long ago may be used now.
const BURST: Duration = Duration::from_millis(10);

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A Memtable that is written out.
    Memory,
    /// Merges.
    Merge,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RateLimit {
    /// 0: none. Changes under the lock of `due`.
    bytes_per_second: AtomicU64,
    due: Mutex<Due>,
}

/// When the rate will have made up for what was written.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    memory: Duration,
    all: Duration,
}

impl RateLimit {
    /// A limit, or none.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { bytes_per_second: AtomicU64::new(limit.unwrap_or(0)), due: Mutex::default() }
    }

    /// The limit; `None` where there is none.
    pub(crate) fn get(&self) -> Option<u64> {
        match self.bytes_per_second.load(Ordering::Relaxed) {
            0 => None,
            limit => Some(limit),
        }
    }

    /// Another limit, from now on: what was written under the one before is forgiven.
    pub(crate) fn set(&self, limit: Option<u64>) {
        let mut due = self.due.lock();
        self.bytes_per_second.store(limit.unwrap_or(0), Ordering::Relaxed);
        *due = Due::default();
    }

    /// At `now` somebody has written so many bytes: until when to wait.
    pub(crate) fn charge(&self, bytes: u64, class: Class, now: Duration) -> Duration {
        if self.get().is_none() {
            return now;
        }
        let mut due = self.due.lock();
        let Some(limit) = self.get() else { return now };
        let cost = Duration::from_nanos((u128::from(bytes) * 1_000_000_000 / u128::from(limit)) as u64);
        let add = |due: Duration| due.max(now.saturating_sub(BURST)).saturating_add(cost);
        due.all = add(due.all);
        if class == Class::Memory {
            due.memory = add(due.memory);
        }
        match class {
            Class::Memory => due.memory,
            Class::Merge => due.all,
        }
    }

    /// Whether somebody who was told to wait until `end` must still wait.
    pub(crate) fn must_wait(&self, end: Duration, now: Duration) -> bool {
        now < end && self.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How many bytes a class gets written from `now` to `end` in pieces of 16 KiB, where nobody else writes.
    fn write(limit: &RateLimit, class: Class, mut now: Duration, end: Duration) -> u64 {
        let mut bytes = 0;
        while now < end {
            bytes += 16 << 10;
            now = limit.charge(16 << 10, class, now).max(now);
        }
        bytes
    }

    #[test]
    fn the_rate_is_kept_and_what_was_not_used_is_lost() {
        let limit = RateLimit::new(Some(10 << 20));
        for (start, class) in [(0, Class::Merge), (100, Class::Memory), (200, Class::Merge)] {
            let bytes = write(&limit, class, SECOND * start, SECOND * (start + 1));
            assert!(bytes.abs_diff(10 << 20) <= 160 << 10, "{bytes} in a second after a long rest");
        }
    }

    #[test]
    fn incorporation_goes_first_and_merges_get_the_rest() {
        let limit = RateLimit::new(Some(1 << 20));
        // Half of the rate for a second.
        let mut waits = Duration::ZERO;
        for step in 0..64u32 {
            let now = SECOND + SECOND * step / 64;
            waits += limit.charge(8 << 10, Class::Memory, now).saturating_sub(now);
            limit.charge(64 << 10, Class::Merge, now);
        }
        assert_eq!(waits, Duration::ZERO, "incorporation waits for merges");
        let merged = limit.charge(0, Class::Merge, SECOND * 2);
        assert!(merged > SECOND * 5, "what incorporation wrote counts for merges: {merged:?}");
    }

    #[test]
    fn a_limit_that_is_lifted_or_raised_frees_those_who_wait() {
        let limit = RateLimit::new(Some(1));
        let end = limit.charge(1000, Class::Merge, Duration::ZERO);
        assert!(limit.must_wait(end, SECOND));
        limit.set(None);
        assert!(!limit.must_wait(end, SECOND) && limit.get().is_none());
        limit.set(Some(1 << 20));
        assert!(limit.charge(1024, Class::Merge, SECOND) < SECOND + BURST);
    }
}
