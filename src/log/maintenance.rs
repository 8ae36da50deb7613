//! The work of the log threads: making the next segment and its pages ready, sealing retired segments, recycling.
//! `make_ready` and `finish` run on a thread of their own each, whenever `LogResources::wake` asks for it. Any thread may
//! call the rest.
//!
//! There are two threads, so that work that writers wait for is never queued behind the sync of a whole segment. With
//! one thread, a sync of 80 ms on a busy disk delayed a put by 80 ms.
//!
//! 1. A segment is retired (under the state lock another becomes current), then a grace period passes, then the segment
//!    is synced, then it is *sealed*. After the grace period no record is sealed in it.
//!
//!    A writer announces (store to its number slot, fence), then reads `retired`. Only if it is not set does it take a
//!    number and seal its record; then it leaves its slot. The log thread sees `retired` set and calls
//!    `wait_for_announced` (fence, read of the slots). One of the two fences comes first. If the writer's does, the log
//!    thread finds the slot busy and waits, or finds it left after the record was sealed. If the log thread's does, the
//!    writer finds `retired` set and withdraws.
//! 2. `last` of a sealed segment is read from the number counter after that grace period. The number of every record in
//!    it was taken before, so none is greater.
//! 3. Only sealed segments are recycled, and only after the manifest durably says that all their numbers are
//!    incorporated.
//! 4. If a step fails, the segment stays where it was, so that the next sync covers it.

use super::basics::names::{Role, file_name};
use super::files::FreeFile;
use super::log::{Log, State};
use super::log_task::{Due, LogTask};
use super::recovery::OldSegment;
use super::segment::Segment;
use super::shadow::shadows::Shadow;
use super::writer::LogWriter;
use crate::util::sequencer::Sequencer;
use crate::util::sync::{Arc, MutexGuard, Ordering};
use crate::util::{Error, FileNumber, Result, SequenceNumber};
#[cfg(test)]
use std::time::Duration;

/// Free files that are taken over from earlier log epochs.
const SPARE_FILES_ADOPTED_MAX: usize = 2;
/// Segments in use and free files together; the budget may allow fewer.
const SPARE_FILES_MAX: u64 = 16;

impl Log {
    /// Claims chunks for a record of `length` bytes. Waits for the next segment if the current one is used up.
    #[cold]
    pub(crate) fn refill(&self, writer: &mut LogWriter, length: usize) -> Result<()> {
        writer.leave();
        let mut state = self.state.lock();
        if length > state.sizing.largest().record_bytes() {
            drop(state);
            return self.dedicate(writer, length);
        }
        loop {
            self.check()?;
            let size = state.current.size();
            let count = length.div_ceil(size.chunk_bytes);
            if count > size.chunks && !self.scarce.load(Ordering::Relaxed) {
                // Segments have been small so far. The next ones are larger.
                state.sizing.note_record(length);
                self.switch(&mut state)?;
                continue;
            }
            // On a full disk segments are small. If idle writers still own parts of the next segment, it may be no
            // better than this one.
            if count > size.chunks || state.current.never_fits(count) {
                drop(state);
                return self.dedicate(writer, length);
            }
            // Under the lock, so that this count equals what `recycle` will subtract. Chunks at the end that are too
            // few for this record, and those that an idle writer still owns, count as used.
            let before = state.current.claimed_bytes();
            let claimed = state.current.claim(count);
            self.bytes.fetch_add(state.current.claimed_bytes() - before, Ordering::Relaxed);
            if let Some(first) = claimed {
                if state.is_partly_used() && state.next.is_none() && !state.next_wanted {
                    state.next_wanted = true;
                    self.wake(&mut state, LogTask::MakeReady);
                }
                if state.current.wants_writeback() {
                    self.wake(&mut state, LogTask::Finish);
                }
                writer.enter(Arc::clone(&state.current), first, count);
                return Ok(());
            }
            self.switch(&mut state)?;
        }
    }

    /// Makes the next segment the current one. If there is none yet, waits; the caller checks again.
    fn switch(&self, state: &mut MutexGuard<'_, State>) -> Result<()> {
        if let Some(next) = state.next.take() {
            let mark = state.next_mark(self.synced());
            next.write_mark(mark);
            let old = std::mem::replace(&mut state.current, next);
            old.retire();
            state.retiring.push(old);
            state.sizing.note_switch(self.clock.now());
            state.next_wanted = false;
            self.wake(state, LogTask::Finish);
            return Ok(());
        }
        state.next_wanted = true;
        if self.options.deterministic {
            return MutexGuard::unlocked(state, || self.make_next_ready(&|_| false));
        }
        self.wake(state, LogTask::MakeReady);
        if let Some(error) = &state.next_error {
            return Err(error.clone());
        }
        self.next_changed.wait(state);
        Ok(())
    }

    /// A segment for one record that is longer than a whole standard segment. Only its writer knows it, so no other
    /// thread's switch retires it before it contains the record.
    fn dedicate(&self, writer: &mut LogWriter, length: usize) -> Result<()> {
        let size = self.state.lock().sizing.dedicated(length);
        let segment = self.make_segment(size, true)?;
        let mut state = self.state.lock();
        let Some(first) = segment.claim(size.chunks) else { unreachable!("a new segment has all its chunks") };
        self.bytes.fetch_add(segment.claimed_bytes(), Ordering::Relaxed);
        state.dedicated.push(Arc::clone(&segment));
        writer.enter(segment, first, size.chunks);
        Ok(())
    }

    pub(super) fn wake(&self, state: &mut MutexGuard<'_, State>, task: LogTask) {
        if !std::mem::replace(state.due.of(task), true) {
            self.work.notify_all();
            (self.waker.0)(task);
        }
    }

    /// Waits until there is work of this kind, or until the time has passed. Returns whether there is work.
    #[cfg(test)]
    pub fn wait_for_work(&self, task: LogTask, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        if !*state.due.of(task) {
            self.work.wait_for(&mut state, timeout);
        }
        *state.due.of(task)
    }

    /// Whether there is work for `make_ready` or `finish`.
    pub fn has_work(&self) -> bool {
        let Due { make_ready, finish } = self.state.lock().due;
        make_ready || finish
    }

    /// Makes the next segment ready, if one is wanted. After an error that does not poison the log (a full disk), writers
    /// that need the next segment get the error, too, until a later call succeeds. Before that, `make_room` is asked
    /// whether another try makes sense.
    pub fn make_ready(&self, sequencer: &Sequencer, make_room: &dyn Fn(&Error) -> bool) -> Result<()> {
        let _making = self.making.lock();
        self.state.lock().due.make_ready = false;
        self.check()?;
        // Without a shadow the segment would be slow.
        if self.shadows.are_used_up() && self.state.lock().wants_next() {
            let sealing = self.sealing.lock();
            // A thread that sealed a segment meanwhile may have freed a shadow.
            if self.shadows.are_used_up() {
                self.seal_retired(&sealing, sequencer)?;
            }
        }
        self.make_next_ready(make_room)
    }

    /// Writes back records that are only in shadows, and seals retired segments.
    pub fn finish(&self, sequencer: &Sequencer) -> Result<()> {
        self.state.lock().due.finish = false;
        self.check()?;
        self.write_back()?;
        if sequencer.last_relaxed() > self.synced() {
            self.check_writeback()?;
        }
        self.seal_retired(&self.sealing.lock(), sequencer)
    }

    /// Makes the log small, after a while without writes: the next records go to a small segment, and no spare files and
    /// no large shadows are kept. Segments that are not needed become `recyclable` once they are sealed. Returns whether
    /// there was anything to do.
    pub fn rest(&self, sequencer: &Sequencer) -> Result<bool> {
        let making = self.making.lock();
        self.check()?;
        let smallest = {
            let mut state = self.state.lock();
            state.sizing.note_rest();
            let smallest = state.sizing.next(false);
            if let Some(next) = state.next.take_if(|next| next.size() != smallest) {
                next.retire();
                state.retiring.push(next);
            }
            let is_small = state.current.size() == smallest || state.current.size().bytes() < smallest.bytes();
            if is_small && state.retiring.is_empty() && state.free.is_empty() && self.shadows.has_no_idle() {
                return Ok(false);
            }
            // A writer may be waiting for the next segment. *Otherwise:* it would wait for ever.
            state.next_wanted |= !is_small;
            smallest
        };
        self.make_next_ready(&|_| false)?;
        {
            let mut state = self.state.lock();
            if state.current.size().bytes() > smallest.bytes() && state.next.is_some() {
                self.switch(&mut state)?;
            }
        }
        // Writers that need a segment do not wait for the syncs.
        drop(making);
        let sealing = self.sealing.lock();
        self.seal_retired_with(&sealing, sequencer, |segment| segment.release_shadow_and_trim(SequenceNumber::ZERO))?;
        self.shadows.remove_idle();
        self.drop_spares();
        Ok(true)
    }

    /// Runs both kinds of work, where no caller can free space.
    #[cfg(any(test, feature = "testing"))]
    pub fn maintain(&self, sequencer: &Sequencer) -> Result<()> {
        let ready = self.make_ready(sequencer, &|_| false);
        self.finish(sequencer)?;
        ready
    }

    fn make_next_ready(&self, make_room: &dyn Fn(&Error) -> bool) -> Result<()> {
        if !self.state.lock().wants_next() {
            return Ok(());
        }
        let make = || {
            let size = self.state.lock().sizing.next(self.scarce.load(Ordering::Relaxed));
            self.make_segment(size, false)
        };
        let mut made = make();
        while let Err(error) = &made
            && error.is_disk_full()
            && make_room(error)
        {
            made = make();
        }
        if let Err(error) = &made
            && !error.is_disk_full()
        {
            // *Otherwise:* a writer that gets this error, and then writes again at once, could succeed before the caller
            // has made the store read-only.
            self.halt(error);
        }
        let mut state = self.state.lock();
        let result = match made {
            Ok(segment) => {
                state.next = Some(segment);
                state.next_error = None;
                Ok(())
            }
            Err(error) => {
                state.next_error = Some(error.clone());
                Err(error)
            }
        };
        self.next_changed.notify_all();
        result
    }

    /// So that the next sync, or the sealing, has less to write.
    fn write_back(&self) -> Result<()> {
        let current = Arc::clone(&self.state.lock().current);
        if !current.wants_writeback() {
            return Ok(());
        }
        current.write_back().inspect_err(|error| self.poison(error))
    }

    /// Invariants 1 and 2.
    fn seal_retired(&self, sealing: &MutexGuard<'_, ()>, sequencer: &Sequencer) -> Result<()> {
        self.seal_retired_with(sealing, sequencer, Segment::release_shadow)
    }

    fn seal_retired_with(
        &self,
        _sealing: &MutexGuard<'_, ()>,
        sequencer: &Sequencer,
        release: fn(&Segment) -> Result<Option<Shadow>>,
    ) -> Result<()> {
        let retiring = {
            let mut state = self.state.lock();
            let State { dedicated, retiring, .. } = &mut *state;
            for segment in dedicated.extract_if(.., |segment| segment.is_abandoned()) {
                segment.retire();
                retiring.push(segment);
            }
            retiring.clone()
        };
        if retiring.is_empty() {
            return Ok(());
        }
        sequencer.wait_for_announced();
        let last = sequencer.last();
        for segment in &retiring {
            segment.set_last(if segment.claimed() == 0 { SequenceNumber::ZERO } else { last });
            match segment.sync().and_then(|()| release(segment)) {
                Ok(shadow) => shadow.into_iter().for_each(|shadow| self.shadows.give_back(shadow)),
                Err(error) => {
                    self.poison(&error);
                    return Err(error);
                }
            }
            // Nothing reads it until it is removed, and its pages would count against the memory budget.
            segment.release_pages();
        }
        let mut state = self.state.lock();
        state.retiring.retain(|segment| !retiring.iter().any(|sealed| Arc::ptr_eq(sealed, segment)));
        state.sealed.extend(retiring);
        Ok(())
    }

    /// The segments in which every number is `<= through`.
    pub fn recyclable(&self, through: SequenceNumber) -> Vec<FileNumber> {
        let state = self.state.lock();
        let sealed = state.sealed.iter().filter(|segment| segment.last() <= through).map(|segment| segment.number);
        let old = state.old.iter().filter(|segment| segment.last <= through).map(|segment| segment.number);
        sealed.chain(old).collect()
    }

    /// Frees segments that `recyclable` returned. Requires that the manifest edit is durable that says that their
    /// numbers are incorporated and no longer names them.
    pub fn recycle(&self, segments: &[FileNumber]) -> Result<()> {
        let (sealed, old) = {
            let mut state = self.state.lock();
            let sealed: Vec<_> = state.sealed.extract_if(.., |segment| segments.contains(&segment.number)).collect();
            let old: Vec<_> = state.old.extract_if(.., |segment| segments.contains(&segment.number)).collect();
            (sealed, old)
        };
        let mut result = Ok(());
        for segment in sealed {
            self.bytes.fetch_sub(segment.claimed_bytes(), Ordering::Relaxed);
            result = result.and(self.free_segment(&segment));
        }
        for segment in old {
            self.bytes.fetch_sub(segment.used, Ordering::Relaxed);
            result = result.and(self.free_file(&segment.name, segment.number, segment.bytes));
        }
        result
    }

    /// The files with records that are needed or may be needed.
    pub fn live_segments(&self) -> Vec<FileNumber> {
        let state = self.state.lock();
        let State { current, next, dedicated, retiring, sealed, old, .. } = &*state;
        let own = [current].into_iter().chain(next).chain(dedicated).chain(retiring).chain(sealed);
        own.map(|segment| segment.number).chain(old.iter().map(|segment| segment.number)).collect()
    }

    /// Removes the files that are kept for reuse, on a full disk. Returns how many there were.
    pub fn drop_spares(&self) -> usize {
        let spares = std::mem::take(&mut self.state.lock().free);
        // A file that cannot be removed now is found again at the next opening.
        spares.iter().filter(|spare| self.storage.remove(&spare.name).is_ok()).count()
    }

    /// Takes over segments of earlier log epochs. They are kept until they are incorporated; those that nothing needs
    /// become free files. Requires that the `LogRecovered` edit is durable.
    pub fn adopt(&self, segments: Vec<OldSegment>) {
        for segment in segments {
            if segment.unused {
                // Otherwise a store that is opened often would accumulate free files up to the whole budget.
                let enough = self.state.lock().free.len() >= SPARE_FILES_ADOPTED_MAX;
                // A file that cannot be renamed or removed now is found again at the next opening.
                let _ = if enough {
                    self.storage.remove(&segment.name)
                } else {
                    self.free_file(&segment.name, segment.number, segment.bytes)
                };
            } else {
                self.bytes.fetch_add(segment.used, Ordering::Relaxed);
                self.state.lock().old.push(segment);
            }
        }
    }

    fn free_segment(&self, segment: &Segment) -> Result<()> {
        if segment.is_reusable() {
            self.free_file(&segment.name, segment.number, segment.size().bytes() as u64)
        } else {
            self.storage.remove(&segment.name)
        }
    }

    /// Keeps a file for reuse if it has the length of the next segment, all files together stay within the budget, and
    /// the disk is not full; otherwise removes it. The new name tells recovery that nothing in the file counts. Losing
    /// the file does no harm.
    fn free_file(&self, name: &str, number: FileNumber, bytes: u64) -> Result<()> {
        let keep = !self.scarce.load(Ordering::Relaxed) && !self.halted.load(Ordering::Relaxed) && {
            let state = self.state.lock();
            let files_max = (self.options.budget_bytes / bytes.max(1)).clamp(2, SPARE_FILES_MAX) as usize;
            bytes == state.sizing.next(false).bytes() as u64
                && 2 + state.retiring.len() + state.sealed.len() + state.free.len() < files_max
        };
        if !keep {
            return self.storage.remove(name);
        }
        let free_name = file_name(number, Role::Free);
        if free_name != name {
            self.storage.rename(name, &free_name)?;
        }
        self.state.lock().free.push(FreeFile { name: free_name, bytes });
        Ok(())
    }
}
