//! The gate between the jobs that have changed pairs by a compaction filter and those that would notice: snapshots, and
//! writers that depend on what they have read (`docs/concurrency.md`, F). Any thread.
//!
//! Invariants:
//! 1. A job closes the gate, then looks for snapshots, then publishes its tree, then opens the gate. A snapshot pins its
//!    number, then looks at the gate, and is read only while the gate is open or after it has opened once more. Between store
//!    and load both sides change the same word (`SnapshotSlots::finish` and `meet`). So either the job sees the snapshot and is not published, or every read
//!    at the snapshot is one of the new tree.
//! 2. A job that publishes sets `swapping`, then waits for the writers that have announced, then publishes, then counts the
//!    change, and then clears `swapping`. A writer with a precondition looks at `swapping` and at the count after it has
//!    announced, and if there is a change since it has checked, it leaves its slot and checks again. So it is placed before
//!    the tree is published, or has checked against the new tree.
//! 3. One job at a time, which holds the edit mutex. No thread waits here while it is in a slot.

use crate::util::sync::{AtomicBool, Backoff, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FilterGate {
    closed: AtomicBool,
    swapping: AtomicBool,
}

/// The gate is closed until this is dropped.
#[derive(Debug)]
pub(crate) struct ClosedGate<'a>(&'a FilterGate);

/// The tree is being published until this is dropped.
#[derive(Debug)]
pub(crate) struct Swap<'a>(&'a FilterGate);

impl FilterGate {
    /// Closes the gate. For `SnapshotRegistry::close_filter_gate` alone.
    pub(crate) fn close(&self) -> ClosedGate<'_> {
        self.closed.store(true, Ordering::Release);
        ClosedGate(self)
    }

    /// Waits until the gate is open. The caller has pinned its number, and has called `SnapshotSlots::finish`.
    #[inline]
    pub(crate) fn wait(&self) {
        if self.closed.load(Ordering::Acquire) {
            wait_while(&self.closed);
        }
    }

    /// Whether a writer that has announced must leave its slot and check again. (Its announcement has a fence.)
    #[inline]
    pub(crate) fn is_swapping(&self) -> bool {
        self.swapping.load(Ordering::Acquire)
    }

    /// Waits until no tree is being published. The caller is in no slot.
    pub(crate) fn wait_for_swap(&self) {
        wait_while(&self.swapping);
    }
}

impl ClosedGate<'_> {
    /// Begins to publish the tree. The caller then waits for the writers that have announced, which has a fence.
    pub(crate) fn begin_swap(&self) -> Swap<'_> {
        self.0.swapping.store(true, Ordering::Release);
        Swap(self.0)
    }
}

#[cold]
fn wait_while(flag: &AtomicBool) {
    let mut backoff = Backoff::new();
    while flag.load(Ordering::Acquire) {
        backoff.wait();
    }
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        self.0.closed.store(false, Ordering::Release);
    }
}

impl Drop for Swap<'_> {
    fn drop(&mut self) {
        self.0.swapping.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::state::snapshot_registry::SnapshotRegistry;
    use crate::io::Storage;
    use crate::io::simulated::SimulatedStorage;
    use crate::util::SequenceNumber;
    use crate::util::sequencer::Sequencer;
    use crate::util::sync::{AtomicBool, Ordering};

    /// The job sees the snapshot, which is not read before the gate is open.
    #[test]
    fn a_snapshot_waits_at_a_closed_gate_with_its_pin() {
        let (disk, sequencer) = (SimulatedStorage::new(1), Sequencer::new(SequenceNumber(7)));
        let registry = SnapshotRegistry::new(disk.deterministic_clock(), None);
        let is_open = AtomicBool::new(false);
        let closed = registry.close_filter_gate();
        assert!(!registry.is_any_from(SequenceNumber(7)));
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| {
                let pin = registry.take(&sequencer);
                (is_open.load(Ordering::SeqCst), pin)
            });
            while registry.count() == 0 {
                std::thread::yield_now();
            }
            // Time for a snapshot that would not wait.
            (0..1_000).for_each(|_| std::thread::yield_now());
            assert!(registry.is_any_from(SequenceNumber(7)));
            is_open.store(true, Ordering::SeqCst);
            drop(closed);
            let (was_open, pin) = taken.join().unwrap();
            assert!(was_open, "a snapshot did not wait");
            assert!(registry.is_any_from(pin.number()) && !registry.is_any_from(SequenceNumber(8)));
        });
        assert!(!registry.is_any_from(SequenceNumber::ZERO));
    }
}
