//! When to look for versions in memory that no snapshot needs any more (`memory/version_cleanup.rs`). Workers.

use crate::engine::engine::Engine;
use crate::engine::state::latches::Latches;
use crate::util::SequenceNumber;
use crate::util::planted::{self, Bug};
use crate::util::sync::Arc;
use std::time::Duration;

/// At least this long between two looks: each one visits every key that had any.
const RECLAIM_PAUSE: Duration = Duration::from_millis(50);

/// What is known of the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastReclaim {
    /// How many pins had gone by then.
    dropped: u64,
    /// When the next one may be.
    next: Duration,
}

impl Engine {
    /// Whether snapshots have gone that kept versions in memory; notes a look at them, which the caller then takes.
    pub(crate) fn is_reclaim_due(&self, last: &mut LastReclaim) -> bool {
        let now = self.clock.now();
        self.shared_snapshot.expire(now);
        self.snapshots.expire();
        let dropped = self.snapshots.dropped();
        let due = dropped != last.dropped && now >= last.next && self.view.load().newest().memtable.has_kept();
        if due {
            *last = LastReclaim { dropped, next: now + RECLAIM_PAUSE };
        }
        due
    }

    /// Takes versions out of the newest generation that no snapshot needs any more. (Older ones are on their way out as a whole.)
    pub(crate) fn reclaim_versions(&self) {
        let newest = Arc::clone(self.view.load().newest());
        // Rule S2.
        let pins_first = planted::is(Bug::ReclaimPinsFirst).then(|| self.snapshots.numbers());
        let through = self.sequencer.last();
        let snapshots = pins_first.unwrap_or_else(|| self.snapshots.numbers());
        if snapshots.first() == Some(&SequenceNumber::ZERO) {
            // One is being taken; when it goes there is another look.
            return;
        }
        newest.memtable.reclaim_versions(&snapshots, through, |hash, change| {
            let _latch = self.latches.lock(Latches::index_of(hash));
            change();
        });
    }
}
