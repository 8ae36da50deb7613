//! Group commit: one leader syncs for all waiting threads. Any thread that holds no number and no announcement.
//!
//! Invariants:
//! 1. There is at most one leader. It chooses its target after it became leader, so a thread that waits meanwhile is
//!    covered, or takes part in the next round.
//! 2. Order: all numbers `<= target` are sealed; value files are synced (`before`); segments are listed and synced;
//!    `synced` is raised; a mark is left. Invariant 1 of the module `log` says why the listed segments are enough.
//! 3. A failure poisons the log before there can be another leader.

use super::log::{Log, State};
use super::poison::Halt;
use crate::util::planted::planted;
use crate::util::sequencer::Sequencer;
use crate::util::sync::{Arc, Ordering};
use crate::util::{Result, SequenceNumber};

/// Ends the leadership, even if the caller's `before` panics.
struct Leadership<'a>(&'a Log);

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        self.0.sync.lock().leading = false;
        self.0.sync_ended.notify_all();
    }
}

impl Log {
    /// Returns once every number up to `number` is durable. `before` makes the value files durable that records refer
    /// to; it runs when all those records are sealed. Requires that `number` was taken.
    pub fn sync_through(
        &self,
        sequencer: &Sequencer,
        number: SequenceNumber,
        before: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        loop {
            {
                let mut state = self.sync.lock();
                loop {
                    if self.synced() >= number {
                        return Ok(());
                    }
                    self.check()?;
                    if !state.leading {
                        break;
                    }
                    self.sync_ended.wait(&mut state);
                }
                state.leading = true;
            }
            let _leadership = Leadership(self);
            let target = sequencer.last();
            assert!(number <= target, "sync through {number}, which was never taken");
            if let Err(error) = self.lead(sequencer, target, before) {
                self.poison(&error.to_string());
                return Err(error);
            }
        }
    }

    fn lead(&self, sequencer: &Sequencer, target: SequenceNumber, before: &dyn Fn() -> Result<()>) -> Result<()> {
        sequencer.wait_through(target);
        before()?;
        let segments: Vec<_> = {
            let state = self.state.lock();
            let State { current, dedicated, retiring, .. } = &*state;
            retiring.iter().chain(dedicated).chain([current]).map(Arc::clone).collect()
        };
        for segment in segments {
            planted!(segment.sync()?, Bug::SyncWithoutLog => ());
        }
        // A failed sync in a log thread may have dropped pages of a segment that this leader then synced without an
        // error.
        self.check()?;
        self.synced.fetch_max(target.0, Ordering::AcqRel);
        self.leave_mark(&mut self.state.lock());
        Ok(())
    }

    /// Ends the log epoch: every later call returns `Error::Closed`. Makes the last mark durable. The caller has synced
    /// with `sync_through` what must be durable.
    pub fn close(&self, sequencer: &Sequencer) -> Result<()> {
        if !self.stop(Halt::Closed) {
            return Ok(());
        }
        sequencer.wait_for_announced();
        let current = Arc::clone(&self.state.lock().current);
        current.sync()?;
        if self.shadows.bytes() > 0 { self.release_shadows() } else { Ok(()) }
    }

    /// Writes all shadows back to their segments' files and removes them. Requires that no more records are sealed.
    fn release_shadows(&self) -> Result<()> {
        let (_making, _sealing) = (self.making.lock(), self.sealing.lock());
        let segments: Vec<_> = {
            let state = self.state.lock();
            let State { current, next, retiring, .. } = &*state;
            retiring.iter().chain([current]).chain(next).map(Arc::clone).collect()
        };
        for segment in segments.iter().filter(|segment| segment.has_shadow()) {
            segment.sync()?;
            if let Some(shadow) = segment.release_shadow()? {
                self.shadows.remove(&shadow);
            }
        }
        self.shadows.remove_idle();
        Ok(())
    }
}
