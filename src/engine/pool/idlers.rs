//! Idle threads of one kind, and which of them should end: every `IDLE`, as many as were idle all the time. Pure; under
//! the pool's lock.

use std::time::Duration;

/// How long threads that are not needed stay.
pub(super) const IDLE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Idlers {
    count: usize,
    /// The fewest since a time.
    fewest: usize,
    since: Duration,
    /// How many should end.
    surplus: usize,
}

impl Idlers {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// A thread is idle from now on.
    pub(super) fn begin(&mut self) {
        self.count += 1;
    }

    /// A thread is no longer idle, because it was needed or in order to look.
    pub(super) fn end(&mut self, was_needed: bool) {
        self.count -= 1;
        if was_needed {
            self.fewest = self.fewest.min(self.count);
        }
    }

    /// Whether the calling thread, which would be idle, should end.
    pub(super) fn is_surplus(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.since) >= IDLE {
            self.surplus = self.fewest;
            (self.fewest, self.since) = (self.count + 1, now);
        }
        let ends = self.surplus > 0;
        if ends {
            self.surplus -= 1;
            self.fewest = self.fewest.saturating_sub(1);
        }
        ends
    }
}
