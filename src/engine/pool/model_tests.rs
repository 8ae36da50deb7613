//! Bell and signal under a model checker (`docs/concurrency.md`, Model checking): two threads wake, one leads.

use super::bell::{Bell, Group, Seat};
use super::lane::{Lane, Lanes};
use super::signal::Signal;
use crate::engine::model_tests::{check, together};
use crate::util::sync::{Arc, AtomicU64, Ordering};
use std::time::Duration;

/// Two threads change something and ask for a run each, one of them perhaps before the store has its seat. The leader
/// takes seats and bits as a pool does. After the last wake-up a run sees both changes.
#[test]
fn every_wake_up_leads_to_a_run_that_sees_what_was_before_it() {
    check(|| {
        let (group, signal) = (Arc::new(Group::default()), Arc::new(Signal::default()));
        let bell = Bell::default();
        let changes = AtomicU64::new(0);
        let wake = |lane: Lane| {
            changes.fetch_add(1, Ordering::Relaxed);
            bell.wake(lane);
        };
        let lead = || {
            bell.take_seat(Seat { group: Arc::clone(&group), bit: 3, signal: Arc::clone(&signal) });
            // Every lane runs once.
            let mut seen = changes.load(Ordering::Relaxed);
            while seen < 2 {
                // A lost wake-up leaves the leader without a signal for ever, which the checker reports as too many
                // steps.
                if signal.wait(Duration::from_secs(1)) && group.take() != 0 && bell.take() != Lanes(0) {
                    seen = changes.load(Ordering::Relaxed);
                }
            }
        };
        together(vec![Box::new(|| wake(Lane::Finish)), Box::new(|| wake(Lane::Finish)), Box::new(lead)]);
    });
}
