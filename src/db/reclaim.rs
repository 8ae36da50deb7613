//! When to look for versions in memory that no snapshot needs any more (`memory/reclaim.rs`). Workers.

use super::inner::Inner;
use super::latches::Latches;
use crate::base::SequenceNumber;
use crate::base::planted::{self, Bug};
use crate::base::sync::Arc;
use std::time::Duration;

/// At least this long between two looks: each one visits every key that had any.
const RECLAIM_PAUSE: Duration = Duration::from_millis(50);

/// What is known of the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastReclaim {
    /// How many pins had gone by then.
    dropped: u64,
    /// When the next one may be.
    next: Duration,
}

impl Inner {
    /// Whether snapshots have gone that kept versions in memory; notes a look at them, which the caller then takes.
    pub(super) fn is_reclaim_due(&self, last: &mut LastReclaim) -> bool {
        let now = self.clock.now();
        self.relaxed.expire(now);
        self.pins.expire();
        let dropped = self.pins.dropped();
        let due = dropped != last.dropped && now >= last.next && self.view.load().newest().memtable.has_kept();
        if due {
            *last = LastReclaim { dropped, next: now + RECLAIM_PAUSE };
        }
        due
    }

    /// Takes versions out of the newest generation that no snapshot needs any more. (Older ones are on their way out as a whole.)
    pub(super) fn reclaim_versions(&self) {
        let newest = Arc::clone(self.view.load().newest());
        // Rule S2.
        let pins_first = planted::is(Bug::ReclaimPinsFirst).then(|| self.pins.numbers());
        let through = self.sequencer.last();
        let pins = pins_first.unwrap_or_else(|| self.pins.numbers());
        if pins.first() == Some(&SequenceNumber::ZERO) {
            // One is being taken; when it goes there is another look.
            return;
        }
        newest.memtable.reclaim_versions(&pins, through, |hash, change| {
            let _latch = self.latches.lock(Latches::index_of(hash));
            change();
        });
    }
}
