//! Group commit: one leader syncs for all who wait. Any thread that holds no number and no announcement.
//!
//! Invariants:
//! 1. At most one leader. It takes its target after it became leader, so whoever waits behind it is either covered or
//!    finds the next leader.
//! 2. Order: all numbers `<= target` sealed; value files synced (`before`); segments listed and synced; `synced`
//!    raised; mark left. Module invariant 1 says why the segments listed are enough.
//! 3. A failure poisons the log before the next leader can come.

use super::log::{Log, State};
use super::poison::Halt;
use crate::util::planted::planted;
use crate::util::sequencer::Sequencer;
use crate::util::sync::{Arc, Ordering};
use crate::util::{Result, SequenceNumber};

/// Ends the leadership, also where the caller's `before` panics.
struct Leadership<'a>(&'a Log);

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        self.0.sync.lock().leading = false;
        self.0.sync_ended.notify_all();
    }
}

impl Log {
    /// Returns once every number up to `number` is durable. `before` makes durable what records refer to (value
    /// files); it runs when all those records are sealed. Requires that `number` was taken.
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
            assert!(number <= target, "sync through {number}, which nobody took");
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
        // Another keeper's failure may have dropped pages of a segment that this leader then synced without complaint.
        self.check()?;
        self.synced.fetch_max(target.0, Ordering::AcqRel);
        self.leave_mark(&mut self.state.lock());
        Ok(())
    }

    /// Ends the generation: every later call gives `Error::Closed`. Makes the last mark durable. What must be durable
    /// was synced with `sync_through` before.
    pub fn close(&self, sequencer: &Sequencer) -> Result<()> {
        if !self.stop(Halt::Closed) {
            return Ok(());
        }
        sequencer.wait_for_announced();
        let current = Arc::clone(&self.state.lock().current);
        current.sync()?;
        if self.shadows.bytes() > 0 { self.give_up_twins() } else { Ok(()) }
    }

    /// Brings all that twins know to the segments' files, and removes the twins. Requires that nothing is sealed any more.
    fn give_up_twins(&self) -> Result<()> {
        let (_making, _sealing) = (self.making.lock(), self.sealing.lock());
        let segments: Vec<_> = {
            let state = self.state.lock();
            let State { current, next, retiring, .. } = &*state;
            retiring.iter().chain([current]).chain(next).map(Arc::clone).collect()
        };
        for segment in segments.iter().filter(|segment| segment.has_twin()) {
            segment.sync()?;
            if let Some(shadow) = segment.give_up_twin()? {
                self.shadows.remove(&shadow);
            }
        }
        self.shadows.remove_idle();
        Ok(())
    }
}
