//! Incorporation: writes what a generation holds as branch files and makes them part of the tree (`docs/recovery.md`,
//! D1). Workers.

use super::background::Background;
use crate::disk::{FromMemory, Outcome};
use crate::engine::directory::locks;
use crate::engine::read::item_invalidation;
use crate::engine::resources::rate_limit::Class;
use crate::engine::scheduler::running_tasks::RunningTask;
use crate::engine::state::generation::Generation;
use crate::engine::tree_publisher::Incorporated;
use crate::util::planted::planted;
use crate::util::sync::Arc;
use crate::util::{Error, Result, SequenceNumber};
use std::time::Duration;

impl Background {
    /// Incorporates a generation that was switched away from and ends with this number.
    pub(super) fn incorporate(
        &self,
        generation: Arc<Generation>,
        end: SequenceNumber,
        running: &RunningTask,
    ) -> Result<()> {
        let clock = &self.scheduler.clock;
        self.arbiter.rebalance();
        let started = clock.now();
        // Rule G3: from here on the generation never changes.
        self.read.sequencer.wait_through(end);
        planted!(self.log.sync_through(end)?, Bug::IncorporatedAheadOfLog => ());
        let outcome = self.write_branches(&generation, end, running);
        // Rule G5: older generations come first. If an older one failed, this one is incorporated again after it.
        self.scheduler.wait_for_turn(end)?;
        let view = self.read.view.load_full();
        if !view.is_oldest(&generation) {
            return Err(Error::Closed);
        }
        // It was cancelled because the store closes: the log has what the Memtable holds.
        let outcome = outcome?.ok_or(Error::Closed)?;
        // Rule J2.
        planted!(self.changes.copy_through(end, true)?, Bug::ChangesNotCopied => ());
        let copied = planted!(self.changes.copied(), Bug::ChangesNotCopied => SequenceNumber::MAX);
        let segments = self.log.log.recyclable(end.min(copied));
        let deleted = self.large_deleted(&view.disk, &generation.memtable.range_tombstones());
        drop(view);
        self.publisher.publish(outcome, Some(Incorporated { generation: &generation, end, segments: &segments }))?;
        // Its memory is for the next generation.
        drop(generation);
        self.throttle.speed.record_incorporation(running.bytes(), clock.now().saturating_sub(started));
        self.generations.note_incorporated(end);
        self.free_deleted(deleted);
        self.log.check_lock()?;
        // If a read-only opener reads the log now, the next incorporation recycles its segments.
        if let Some(_alone) = locks::to_recycle(&*self.read.storage)? {
            self.log.log.recycle(&segments)?;
        }
        self.obsolete_files.remove()
    }

    /// Writes what the generation holds as branch files; `None` if it was cancelled.
    fn write_branches(
        &self,
        generation: &Arc<Generation>,
        end: SequenceNumber,
        running: &RunningTask,
    ) -> Result<Option<Outcome>> {
        let (version, is_oldest) = {
            let view = self.read.view.load();
            (view.disk.clone(), view.is_oldest(generation))
        };
        // Rule S2: the snapshots are read after everything in the generation has its number.
        let retention = self.retention();
        generation.memtable.seal();
        let tombstones = generation.memtable.range_tombstones();
        let items = self.read.cache.items();
        let mut cursor = item_invalidation::begin(items, generation.memtable.sealed_cursor(), &tombstones);
        let source = FromMemory { entries: &mut cursor, tombstones: &tombstones, through: end, is_oldest };
        let outcome = self.disk.incorporate(&version, source, &retention, &self.control(running, Class::Memory));
        self.throttle.speed.record_running(0, Duration::ZERO);
        outcome
    }
}
