//! Group commit: one leader acts for all waiting threads. Any thread that holds no number and no announcement.
//!
//! There are two groups. `synced` makes numbers durable. `written` hands records to the kernel, where shadows are memory
//! of the process (`docs/recovery.md`, File systems): there a write returns only after that.
//!
//! Invariants, besides that of `group`:
//! 1. A leader chooses its target after it became leader, so a thread that waits meanwhile is covered, or takes part in
//!    the next round.
//! 2. Order of a sync: all numbers `<= target` are sealed; value files are synced (`before`); segments are listed and
//!    synced; `synced` is raised; a mark is left. Invariant 1 of the module `log` says why the listed segments are
//!    enough. A writing leader does the same without value files and marks, and writes where that one syncs.
//! 3. A failure poisons the log before there can be another leader.

use super::basics::group::Group;
use super::log::{Log, State};
use super::poison::Halt;
use super::segment::Segment;
use crate::util::planted::planted;
use crate::util::sequencer::Sequencer;
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};

impl Log {
    /// Returns once every number up to `number` is durable. `before` makes the value files durable that records refer
    /// to; it runs when all those records are sealed. Requires that `number` was taken.
    pub fn sync_through(
        &self,
        sequencer: &Sequencer,
        number: SequenceNumber,
        before: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        self.reach(&self.synced, number, || {
            let target = sequencer.last();
            assert!(number <= target, "sync through {number}, which was never taken");
            self.sync_all(sequencer, target, before)
        })
    }

    /// Returns once the kernel has every record up to `number`: at once, unless shadows are memory of the process.
    /// Requires that `number` was taken.
    #[inline]
    pub fn write_through(&self, sequencer: &Sequencer, number: SequenceNumber) -> Result<()> {
        if planted!(self.shadows.are_mapped(), Bug::ReturnedBeforeWritten => true) {
            Ok(())
        } else {
            self.write_all(sequencer, number)
        }
    }

    #[cold]
    fn write_all(&self, sequencer: &Sequencer, number: SequenceNumber) -> Result<()> {
        self.reach(&self.written, number, || {
            let target = sequencer.last();
            sequencer.wait_through(target);
            for segment in self.unsealed() {
                segment.write_back()?;
            }
            self.check()?;
            self.written.raise(target);
            Ok(())
        })
    }

    fn reach(&self, group: &Group, number: SequenceNumber, act: impl Fn() -> Result<()>) -> Result<()> {
        while let Some(_leadership) = group.lead(number, || self.check())? {
            if let Err(error) = act() {
                self.poison(&error);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The segments that may have records which are not durable.
    fn unsealed(&self) -> Vec<Arc<Segment>> {
        let state = self.state.lock();
        let State { current, dedicated, retiring, .. } = &*state;
        retiring.iter().chain(dedicated).chain([current]).map(Arc::clone).collect()
    }

    fn sync_all(&self, sequencer: &Sequencer, target: SequenceNumber, before: &dyn Fn() -> Result<()>) -> Result<()> {
        sequencer.wait_through(target);
        before()?;
        for segment in self.unsealed() {
            planted!(segment.sync()?, Bug::SyncWithoutLog => ());
        }
        // A failed sync in a log thread may have dropped pages of a segment that this leader then synced without an
        // error.
        self.check()?;
        self.synced.raise(target);
        self.leave_mark(&mut self.state.lock());
        Ok(())
    }

    /// An error if the system has failed to write a shadow back since the last sync or call; the log is then poisoned.
    /// Without this an idle store would learn of it only with its next write.
    pub fn check_writeback(&self) -> Result<()> {
        self.unsealed().iter().try_for_each(|segment| segment.check_writeback()).inspect_err(|error| {
            self.poison(error);
        })
    }

    /// Ends the log epoch: every later call returns `Error::Closed`. Makes the last mark durable, and leaves no more
    /// than the records above `incorporated`. The caller has synced with `sync_through` what must be durable. The
    /// current segment stays, for the marks: they show whether the manifest is complete.
    pub fn close(&self, sequencer: &Sequencer, incorporated: SequenceNumber) -> Result<()> {
        if !self.stop(Halt::Closed) {
            return Ok(());
        }
        sequencer.wait_for_announced();
        let (_making, _sealing) = (self.making.lock(), self.sealing.lock());
        self.seal_everything(sequencer.last(), incorporated)?;
        self.shadows.remove_idle();
        self.drop_spares();
        Ok(())
    }

    /// Writes all shadows back to their segments' files and removes them. Requires that no more records are sealed.
    fn seal_everything(&self, last: SequenceNumber, incorporated: SequenceNumber) -> Result<()> {
        let mut segments = self.unsealed();
        for segment in &segments {
            segment.set_last(if segment.claimed() == 0 { SequenceNumber::ZERO } else { last });
            segment.sync_records()?;
            if let Some(shadow) = segment.release_shadow_and_trim(incorporated)? {
                self.shadows.remove(&shadow);
            }
        }
        // No record is in the next segment, and it is not kept. So this needs no sync: it does not matter whether its
        // header names a shadow after a power loss.
        let next = self.state.lock().next.clone();
        if let Some(next) = next {
            next.set_last(SequenceNumber::ZERO);
            if let Some(shadow) = next.release_shadow()? {
                self.shadows.remove(&shadow);
            }
            segments.push(next);
        }
        self.state.lock().note_sealed(segments);
        Ok(())
    }

    /// Notes the manifest edit that closing has made. Requires that the log is closed and no thread uses it.
    pub fn note_closing_edit(&self, edit: u64) -> Result<()> {
        self.note_manifest_edit(edit);
        let current = Arc::clone(&self.state.lock().current);
        current.write_closing_mark()
    }
}
