//! The gate between those that change pairs of the tree, which are jobs with a compaction filter and ingests, and those that
//! would notice: snapshots, and writers that depend on what they have read (`docs/concurrency.md`, F and I). Any thread.
//!
//! Invariants:
//! 1. A job closes the gate, then looks for snapshots, then publishes its tree, then opens the gate. A snapshot pins its
//!    number, then looks at the gate, and if that is closed, is taken again once it is open. Between store and load both sides
//!    change the same word (`SnapshotSlots::finish` and `meet`). So either the job sees the snapshot and is not published, or
//!    every read at the snapshot is one of the new tree. An ingest closes the gate, then takes its number. So a snapshot that
//!    has found the gate open has a lower one.
//! 2. A job that publishes sets `swapping`, then waits for the writers that have announced, then publishes, then counts the
//!    change, and then clears `swapping`. A writer with a precondition looks at `swapping` and at the count after it has
//!    announced, and if there is a change since it has checked, it leaves its slot and checks again. So it is placed before
//!    the tree is published, or has checked against the new tree.
//! 3. One job at a time swaps, which holds the edit mutex. The gate is closed while anybody has closed it. No thread waits here
//!    while it is in a slot.

use crate::util::sync::{AtomicBool, AtomicU32, Backoff, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FilterGate {
    /// How many have closed it.
    closed: AtomicU32,
    swapping: AtomicBool,
}

/// The gate is closed at least until this is dropped.
#[derive(Debug)]
pub(crate) struct ClosedGate<'a>(&'a FilterGate);

/// The tree is being published until this is dropped.
#[derive(Debug)]
pub(crate) struct Swap<'a>(&'a FilterGate);

impl FilterGate {
    /// Closes the gate. For `SnapshotRegistry::close_filter_gate` alone.
    pub(crate) fn close(&self) -> ClosedGate<'_> {
        self.closed.fetch_add(1, Ordering::AcqRel);
        ClosedGate(self)
    }

    /// Whether the gate is closed. The caller has pinned its number, and has called `SnapshotSlots::finish`.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire) > 0
    }

    /// Waits until the gate is open.
    #[cold]
    pub(crate) fn wait(&self) {
        wait_while(|| self.is_closed());
    }

    /// Whether a writer that has announced must leave its slot and check again. (Its announcement has a fence.)
    #[inline]
    pub(crate) fn is_swapping(&self) -> bool {
        self.swapping.load(Ordering::Acquire)
    }

    /// Waits until no tree is being published. The caller is in no slot.
    pub(crate) fn wait_for_swap(&self) {
        wait_while(|| self.is_swapping());
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
fn wait_while(is_so: impl Fn() -> bool) {
    let mut backoff = Backoff::new();
    while is_so() {
        backoff.wait();
    }
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        self.0.closed.fetch_sub(1, Ordering::AcqRel);
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

    /// A snapshot is not taken before the gate is open, and then has the newest number. Once it kept the number from before, so
    /// that it missed a write that was seen beside the old tree.
    #[test]
    fn a_snapshot_waits_at_a_closed_gate_and_is_taken_again() {
        let (disk, sequencer) = (SimulatedStorage::new(1), Sequencer::new(SequenceNumber(7)));
        let registry = SnapshotRegistry::new(disk.deterministic_clock(), None);
        let (has_begun, is_open, slot) = (AtomicBool::new(false), AtomicBool::new(false), sequencer.register());
        // Two have closed it; the first one that opens it is not enough.
        let (closed, closed_too) = (registry.close_filter_gate(), registry.close_filter_gate());
        assert!(!registry.is_any_from(SequenceNumber(7)));
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| {
                has_begun.store(true, Ordering::SeqCst);
                let pin = registry.take(&sequencer);
                (is_open.load(Ordering::SeqCst), pin)
            });
            while !has_begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            drop(closed_too);
            // Time for a snapshot that would not wait.
            (0..1_000).for_each(|_| std::thread::yield_now());
            sequencer.announce(&slot);
            assert_eq!(sequencer.take(&slot), SequenceNumber(8));
            sequencer.leave(&slot);
            is_open.store(true, Ordering::SeqCst);
            drop(closed);
            let (was_open, pin) = taken.join().unwrap();
            assert!(was_open, "a snapshot did not wait");
            assert_eq!(pin.number(), SequenceNumber(8));
            assert!(registry.is_any_from(SequenceNumber(8)) && !registry.is_any_from(SequenceNumber(9)));
        });
        assert!(!registry.is_any_from(SequenceNumber::ZERO));
    }
}
