//! When a store is visited for what no event announces: statistics to publish, memory to lend, snapshots to expire,
//! files that readers have released, merges for which scans have paid. Pure.
//!
//! A store that is in use is visited every second, an idle one less and less often. From the fourth visit on, the leader
//! of the pool only looks whether anything has happened meanwhile. The times of these looks are rounded, so that all idle
//! stores share one wake-up.

use crate::util::SequenceNumber;
use std::time::Duration;

/// The time between two visits of a store that is in use. It also bounds what a missing wake-up would cost.
const SHORTEST: Duration = Duration::from_secs(1);
/// From this time between two visits on, the store counts as idle.
const IDLE: Duration = Duration::from_secs(8);
/// The time between two looks at an idle store.
const LONGEST: Duration = Duration::from_secs(32);

/// Figures that change while a store is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Activity {
    pub(super) last: SequenceNumber,
    /// Pages that were read.
    pub(super) reads: u64,
    /// Snapshots that were released, and what follows from it (`SnapshotRegistry::changes`).
    pub(super) snapshot_changes: u64,
    /// Tasks that have begun.
    pub(super) tasks: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    seen: Activity,
    period: Duration,
    due: Duration,
}

impl Upkeep {
    /// The newest number at the last visit.
    pub(super) fn last_number(&self) -> SequenceNumber {
        self.seen.last
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        now >= self.due
    }

    pub(super) fn due_in(&self, now: Duration) -> Duration {
        self.due.saturating_sub(now)
    }

    /// Notes a look instead of a visit, if nothing has happened in an idle store. Returns when to look again.
    pub(super) fn stay_idle(&mut self, now: Duration, activity: impl FnOnce() -> Activity) -> Option<Duration> {
        if self.period < IDLE || activity() != self.seen {
            return None;
        }
        if self.is_due(now) {
            self.note(now, self.seen);
        }
        Some(self.due_in(now))
    }

    /// Notes a visit.
    pub(super) fn note(&mut self, now: Duration, activity: Activity) {
        let is_idle = std::mem::replace(&mut self.seen, activity) == activity && !self.period.is_zero();
        self.period = if is_idle { (self.period * 2).min(LONGEST) } else { SHORTEST };
        let due = now + self.period;
        // Down to a half of the period.
        let step = if self.period >= IDLE { self.period / 2 } else { Duration::from_nanos(1) };
        self.due = Duration::from_nanos((due.as_nanos() / step.as_nanos() * step.as_nanos()) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn idle_stores_are_visited_rarely_and_together() {
        let (mut visits, mut times) = ([0; 2], [Vec::new(), Vec::new()]);
        for (store, start) in [12_345_678, 15_999_999].into_iter().enumerate() {
            let (mut upkeep, mut now) = (Upkeep::default(), Duration::from_micros(start));
            while now < SECOND * 600 {
                assert!(upkeep.is_due(now));
                upkeep.note(now, Activity::default());
                assert!(upkeep.due_in(now) > Duration::ZERO && upkeep.due_in(now) <= LONGEST);
                now += upkeep.due_in(now);
                visits[store] += 1;
                times[store].push(now);
            }
            // Six to get there, and then one in 16 to 32 seconds.
            assert!(visits[store] <= 6 + 600 / 16, "{visits:?}");
        }
        let of_first = times[0].iter().filter(|time| **time > SECOND * 100);
        assert!(of_first.clone().all(|time| times[1].contains(time)), "{times:?}");
    }

    #[test]
    fn a_store_in_use_is_visited_every_second() {
        let (mut upkeep, mut now) = (Upkeep::default(), SECOND * 100);
        for last in 0..100 {
            upkeep.note(now, Activity { last: SequenceNumber(last), ..Activity::default() });
            assert_eq!(upkeep.due_in(now), SECOND);
            now += SECOND;
        }
        for _ in 0..10 {
            upkeep.note(now, upkeep.seen);
            now += upkeep.due_in(now);
        }
        assert!(upkeep.due_in(now - SECOND) <= SECOND && upkeep.period == LONGEST);
        let same = upkeep.seen;
        assert!(upkeep.stay_idle(now, || same).is_some_and(|time| time >= LONGEST / 2));
        let other = Activity { reads: 1, ..same };
        assert_eq!(upkeep.stay_idle(now, || other), None);
        upkeep.note(now, other);
        assert_eq!(upkeep.due_in(now), SECOND);
        assert_eq!(upkeep.stay_idle(now, || other), None, "a store in use");
    }
}
