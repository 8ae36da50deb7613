//! The six steps of a write, between its preparation and its sync: `docs/concurrency.md`, W, step by step.

use super::precondition::{Conflict, Precondition};
use super::write_path::Entry;
use super::writer_threads::{ThreadState, WriteCounters};
use crate::engine::engine::Engine;
use crate::engine::space::full_disk::SpaceNeed;
use crate::engine::state::latches::{LatchGuard, LatchIndex, Latches};
use crate::engine::state::view::Generation;
use crate::engine::types::options::Durability;
use crate::format::log_record::{self, BatchEncoder};
use crate::memory::{BatchState, MemtableWriter, Prepared};
use crate::util::planted::{self, Bug};
use crate::util::sync::{Arc, Ordering};
use crate::util::{Error, Kind, Result, SequenceNumber};

impl Engine {
    /// Steps 1 to 6 without the sync. Nothing was written where the premise does not hold.
    pub(crate) fn commit(
        &self,
        thread: &mut ThreadState,
        entries: &[Entry<'_>],
        latches: &[LatchIndex],
        precondition: Option<&Precondition<'_>>,
        durability: Durability,
    ) -> Result<Result<SequenceNumber, Conflict>> {
        let mut patience = None;
        loop {
            self.health.check()?;
            let view = self.view.load();
            let generation = view.newest();
            if self.is_full(generation) || (self.log.over_budget() && self.worth_switching(generation)) {
                let full = Arc::clone(generation);
                drop(view);
                self.make_room(&full)?;
                continue;
            }
            // Step 1.
            if let Err(error) = self.prepare_record(thread, entries, durability) {
                // The room of the ballast, and what background work frees, is for deletes.
                let deletes = entries.iter().all(|entry| entry.kind == Kind::Delete);
                drop(view);
                if error.is_disk_full()
                    && deletes
                    && (self.meet_full_disk(&error, SpaceNeed::Memory) || self.wait_for_room(&mut patience))
                {
                    continue;
                }
                return Err(error);
            }
            if generation.memtable.attach(&mut thread.memory, entries.len()) {
                self.work.wake();
            }
            let mut prepared = Preparation::new(generation, &mut thread.memory, entries);
            // Steps 2 and 3.
            let guard = (!planted::is(Bug::NumberBeforeLatch)).then(|| hold_latches(&self.latches, latches));
            // Rule P1: under the latches, whose holder has the last word on their keys.
            let overtaken = precondition.and_then(|precondition| precondition.overtaken(&self.view.load()));
            self.sequencer.announce(&thread.slot);
            let is_current = self.log.is_current(&thread.writer);
            let refusal = overtaken.or_else(|| {
                // Rule P2: others' watches before one's own is closed.
                let keys = || entries.iter().map(|entry| (entry.keyspace, entry.key));
                let own = precondition.and_then(|precondition| precondition.registered);
                (is_current && !self.range_conflicts.pass(keys, own)).then_some(Conflict::RangeWritten)
            });
            if refusal.is_some() || !is_current {
                self.sequencer.leave(&thread.slot);
                drop(guard);
                self.log.cancel(&mut thread.writer);
                prepared.withdraw(generation, &mut thread.memory);
                match refusal {
                    Some(refusal) => return Ok(Err(refusal)),
                    None => continue,
                }
            }
            let unplaced = Unplaced { inner: self, slot: &thread.slot };
            let early_pin = planted::is(Bug::PinsBeforeNumber).then(|| self.snapshots.newest());
            let number = self.sequencer.take(&thread.slot);
            let guard = guard.unwrap_or_else(|| hold_latches(&self.latches, latches));
            // Step 4.
            if planted::is(Bug::AcknowledgedBeforeSealed) {
                planted::put_off(number);
            } else {
                self.log.seal(&mut thread.writer, number);
            }
            // Step 5: the view is read after the number was taken (rule G1).
            let now = self.view.load();
            let by_number = !planted::is(Bug::NewestGenerationTaken);
            let owner = if by_number { now.generation_of(number) } else { now.newest() };
            // Rule S5: the pins too.
            let newest_snapshot = early_pin.unwrap_or_else(|| self.snapshots.newest());
            if Arc::ptr_eq(owner, generation) {
                prepared.place(generation, &mut thread.memory, number, newest_snapshot);
            } else {
                let entries = entries.iter().map(|e| ((e.keyspace, e.key, e.hash), e.kind, &*e.value));
                owner.memtable.place_loose(entries, number);
                prepared.withdraw(generation, &mut thread.memory);
            }
            if let Some(registered) = precondition.and_then(|precondition| precondition.registered) {
                registered.is_over();
            }
            // Step 6.
            drop(guard);
            std::mem::forget(unplaced);
            self.sequencer.leave(&thread.slot);
            prepared.note_kept(generation);
            // The view in hand keeps the generation, so the hold is handed over in time.
            for value in entries.iter().filter_map(|entry| entry.file) {
                owner.hold_value_file(value);
            }
            return Ok(Ok(number));
        }
    }

    /// Encodes the operations into the thread's log chunk; for an unlogged write, a void (rule W4).
    fn prepare_record(&self, thread: &mut ThreadState, entries: &[Entry<'_>], durability: Durability) -> Result<()> {
        if let Some(number) = planted::take_put_off() {
            self.log.seal(&mut thread.writer, number);
        }
        let (kind, bytes) = match entries {
            _ if durability == Durability::Unlogged => (Kind::Void, 0),
            [entry] => (entry.kind, entry.operation().encoded_length()),
            _ => (Kind::Batch, log_record::batch_length(entries.iter().map(Entry::operation))),
        };
        self.log.prepare(&mut thread.writer, kind, bytes, |body| match (kind, entries) {
            (Kind::Void, _) => self.unlogged.store(true, Ordering::Relaxed),
            (Kind::Batch, _) => {
                let mut encoder = BatchEncoder::new(entries.len() as u64, body);
                entries.iter().for_each(|entry| encoder.push(entry.operation()));
                debug_assert_eq!(encoder.filled(), bytes);
            }
            _ => entries.iter().for_each(|entry| {
                entry.operation().encode(body);
            }),
        })?;
        WriteCounters::add(&thread.counters.logged_bytes, (bytes + log_record::HEADER_BYTES) as u64);
        Ok(())
    }
}

/// The entries' memory in one generation, ready to be linked.
enum Preparation {
    One(Prepared),
    Many(Vec<Prepared>, BatchState),
}

impl Preparation {
    /// Requires a writer that is attached for these entries.
    fn new(generation: &Generation, writer: &mut MemtableWriter, entries: &[Entry<'_>]) -> Self {
        let memtable = &generation.memtable;
        let mut prepare = |e: &Entry<'_>| memtable.prepare(writer, (e.keyspace, e.key, e.hash), e.kind, &e.value);
        match entries {
            [entry] => Self::One(prepare(entry)),
            _ => {
                let prepared = entries.iter().map(prepare).collect();
                Self::Many(prepared, memtable.batch_state(writer))
            }
        }
    }

    fn place(
        &mut self,
        generation: &Generation,
        writer: &mut MemtableWriter,
        number: SequenceNumber,
        newest_snapshot: SequenceNumber,
    ) {
        let memtable = &generation.memtable;
        match self {
            Self::One(prepared) => memtable.place(writer, prepared, number, newest_snapshot),
            Self::Many(prepared, _) if planted::is(Bug::BatchEntryByEntry) => {
                prepared.iter_mut().for_each(|prepared| memtable.place(writer, prepared, number, newest_snapshot));
            }
            Self::Many(prepared, state) => {
                for prepared in prepared.iter_mut() {
                    memtable.place_pending(writer, prepared, number, *state);
                }
                memtable.commit(writer, *state, prepared.iter_mut(), newest_snapshot);
            }
        }
    }

    /// Tells of the versions that stayed for snapshots.
    fn note_kept(&self, generation: &Generation) {
        self.entries().iter().filter_map(Prepared::kept).for_each(|node| generation.memtable.note_kept(node));
    }

    /// Gives back what will not be placed.
    fn withdraw(&self, generation: &Generation, writer: &mut MemtableWriter) {
        self.entries().iter().for_each(|prepared| generation.memtable.withdraw(writer, prepared));
    }

    fn entries(&self) -> &[Prepared] {
        match self {
            Self::One(prepared) => std::slice::from_ref(prepared),
            Self::Many(prepared, _) => prepared,
        }
    }
}

/// The latches of one write: one without an allocation, or several.
enum Held<'a> {
    One(#[allow(dead_code, reason = "held for its drop")] LatchGuard<'a>),
    Many(#[allow(dead_code, reason = "held for its drop")] Vec<LatchGuard<'a>>),
}

fn hold_latches<'a>(latches: &'a Latches, indexes: &[LatchIndex]) -> Held<'a> {
    debug_assert!(indexes.is_sorted_by(|a, b| a < b), "latches are taken in table order, each once (rule B4)");
    match indexes {
        [index] => Held::One(latches.lock(*index)),
        _ => Held::Many(indexes.iter().map(|index| latches.lock(*index)).collect()),
    }
}

/// Stands between taking a number and having placed it. Dropped only by a panic: then the store goes read-only before the
/// slot is left, so that no sync ever marks a number that has no record (rule W1).
struct Unplaced<'a> {
    inner: &'a Engine,
    slot: &'a crate::util::sequencer::Slot,
}

impl Drop for Unplaced<'_> {
    fn drop(&mut self) {
        self.inner.poison(&Error::ReadOnly { reason: "a write panicked between its number and its placing".into() });
        self.inner.sequencer.leave(self.slot);
    }
}
