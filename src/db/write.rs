//! The path of a write: `docs/concurrency.md`, W, step by step.

use super::backpressure::{Done, Fullness, Rate, fullness, garbage_fullness};
use super::batch::{Operation, WriteBatch};
use super::budget::{DEBT_LIMIT, DEBT_START, GENERATIONS_MAX};
use super::full_disk::Need;
use super::inner::{Driver, Inner};
use super::latches::{LatchGuard, LatchIndex, Latches};
use super::options::Durability;
use super::threads::{ThreadState, WriteCounters};
use super::view::{Generation, View};
use crate::base::planted::{self, Bug};
use crate::base::sync::{Arc, Ordering};
use crate::base::{Error, FileNumber, KeyspaceId, Kind, Result, SequenceNumber, hash, limits};
use crate::format::log_record::{self, BatchEncoder};
use crate::memory::{BatchState, MemtableWriter, Prepared};
use std::borrow::Cow;

/// A put, a delete or a reference, as the lower layers take it.
struct Entry<'a> {
    keyspace: KeyspaceId,
    key: &'a [u8],
    hash: u64,
    kind: Kind,
    value: Cow<'a, [u8]>,
    /// The value file made for it, held by this write until its generation takes the hold over.
    file: Option<FileNumber>,
}

impl Entry<'_> {
    /// What the log keeps of it.
    fn operation(&self) -> log_record::Operation<'_> {
        log_record::Operation { kind: self.kind, keyspace: self.keyspace, key: self.key, value: &self.value }
    }
}

impl Inner {
    /// Sets (`Some`) or removes (`None`) one key.
    pub(super) fn write_one(&self, key: &[u8], value: Option<&[u8]>, durability: Durability) -> Result<()> {
        check_sizes(key, value)?;
        let entry = self.entry(KeyspaceId::DEFAULT, key, value)?;
        let latch = Latches::index_of(entry.hash);
        self.write_entries(std::slice::from_ref(&entry), &[latch], durability)
    }

    /// Writes a merge operand, for tests of reading: unlogged, since the log does not know operands yet.
    #[cfg(test)]
    pub(super) fn write_operand(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        let entry = self.entry(KeyspaceId::DEFAULT, key, Some(operand))?;
        let entry = Entry { kind: Kind::Merge, ..entry };
        let latch = Latches::index_of(entry.hash);
        self.write_entries(std::slice::from_ref(&entry), &[latch], Durability::Unlogged)
    }

    /// Applies a batch.
    pub(super) fn write_batch(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        let operations = batch.resolve();
        if operations.is_empty() {
            return self.health.check();
        }
        let mut in_memory = 0;
        for Operation { key, value } in &operations {
            check_sizes(key, value.as_deref())?;
            let value_bytes = value.as_ref().map_or(0, Vec::len);
            in_memory += limits::OPERATION_MEMORY_BYTES
                + key.len()
                + if value_bytes < limits::VALUE_FILE_BYTES_MIN { value_bytes } else { 0 };
        }
        if in_memory > limits::BATCH_BYTES_MAX {
            return Err(Error::InvalidArgument(format!(
                "the batch carries {in_memory} bytes, at most {} fit; split it",
                limits::BATCH_BYTES_MAX
            )));
        }
        let mut entries = Vec::with_capacity(operations.len());
        for Operation { key, value } in &operations {
            match self.entry(KeyspaceId::DEFAULT, key, value.as_deref()) {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    self.release_files(&entries);
                    return Err(error);
                }
            }
        }
        if planted::is(Bug::BatchInParts) {
            let write =
                |entry| self.write_entries(std::slice::from_ref(entry), &[Latches::index_of(entry.hash)], durability);
            return entries.iter().try_for_each(write);
        }
        let mut latches: Vec<LatchIndex> = entries.iter().map(|entry| Latches::index_of(entry.hash)).collect();
        latches.sort_unstable();
        latches.dedup();
        self.write_entries(&entries, &latches, durability)
    }

    /// A value of some size goes to its file here, before there is a number (`protocol.md`, The log).
    fn entry<'a>(&self, keyspace: KeyspaceId, key: &'a [u8], value: Option<&'a [u8]>) -> Result<Entry<'a>> {
        match value {
            Some(_) => self.health.check_put()?,
            // Deletes make room.
            None => self.health.check()?,
        }
        let hash = hash::key_hash(keyspace, key);
        let (kind, value, file) = match value {
            None => (Kind::Delete, Cow::Borrowed(&[][..]), None),
            Some(value) if value.len() < limits::VALUE_FILE_BYTES_MIN => (Kind::Put, Cow::Borrowed(value), None),
            Some(value) => {
                let file = self.numbers.take();
                self.value_holds.hold(file);
                let written = self.values.write(file, value).inspect_err(|_| self.value_holds.release(file));
                let reference = written.map_err(Error::into_disk_full)?;
                (Kind::ValueReference, Cow::Owned(reference.encode().to_vec()), Some(file))
            }
        };
        Ok(Entry { keyspace, key, hash, kind, value, file })
    }

    fn release_files(&self, entries: &[Entry<'_>]) {
        for file in entries.iter().filter_map(|entry| entry.file) {
            self.value_holds.release(file);
        }
    }

    fn write_entries(&self, entries: &[Entry<'_>], latches: &[LatchIndex], durability: Durability) -> Result<()> {
        let mut borrowed = self.threads.borrow(|counters| ThreadState {
            slot: self.sequencer.register(),
            writer: self.log.writer(),
            memory: MemtableWriter::default(),
            counters,
            pressure: super::backpressure::Pressure::default(),
        });
        let thread = borrowed.state();
        let user_bytes: usize = entries.iter().map(|entry| entry.key.len() + entry.value.len()).sum();
        self.slow_down(thread, user_bytes as u64);
        let number = match self.commit(thread, entries, latches, durability) {
            Ok(number) => number,
            Err(error) => {
                self.release_files(entries);
                return Err(error.into_disk_full());
            }
        };
        // After it was placed: whoever takes the note back has it in the Memtable that is written out.
        if self.health.is_full() {
            self.note_delete();
        }
        let counters = &thread.counters;
        WriteCounters::add(&counters.writes, entries.len() as u64);
        WriteCounters::add(&counters.user_bytes, user_bytes as u64);
        if durability == Durability::Sync { self.sync_through(number) } else { Ok(()) }
    }

    /// Steps 1 to 6 without the sync.
    fn commit(
        &self,
        thread: &mut ThreadState,
        entries: &[Entry<'_>],
        latches: &[LatchIndex],
        durability: Durability,
    ) -> Result<SequenceNumber> {
        let mut patience = None;
        loop {
            self.health.check()?;
            let view = self.view.load();
            let generation = view.newest();
            if generation.memtable.is_full() || (self.log.over_budget() && self.worth_switching(generation)) {
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
                    && (self.meet_full_disk(&error, Need::Memory) || self.wait_for_room(&mut patience))
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
            self.sequencer.announce(&thread.slot);
            if !self.log.is_current(&thread.writer) {
                self.sequencer.leave(&thread.slot);
                drop(guard);
                self.log.cancel(&mut thread.writer);
                prepared.withdraw(generation, &mut thread.memory);
                continue;
            }
            let unplaced = Unplaced { inner: self, slot: &thread.slot };
            let early_pin = planted::is(Bug::PinsBeforeNumber).then(|| self.pins.newest());
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
            let newest_pin = early_pin.unwrap_or_else(|| self.pins.newest());
            if Arc::ptr_eq(owner, generation) {
                prepared.place(generation, &mut thread.memory, number, newest_pin);
            } else {
                let entries = entries.iter().map(|e| ((e.keyspace, e.key, e.hash), e.kind, &*e.value));
                owner.memtable.place_loose(entries, number);
                prepared.withdraw(generation, &mut thread.memory);
            }
            // Step 6.
            drop(guard);
            std::mem::forget(unplaced);
            self.sequencer.leave(&thread.slot);
            prepared.note_kept(generation);
            // The view in hand keeps the generation, so the hold is handed over in time.
            for file in entries.iter().filter_map(|entry| entry.file) {
                owner.hold_value_file(file);
            }
            return Ok(number);
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

    /// A switch that is forced by the log budget must free some log to be worth it; else a log that waits for a slow
    /// incorporation would chop memory into ever smaller generations. A few keys that are updated in place for ever fill the log
    /// and no memory: there the newest generation alone has half of the log.
    fn worth_switching(&self, generation: &Generation) -> bool {
        let waiting = self.view.load().generations.len() > 1;
        generation.memtable.bytes() as u64 * 4 > self.budget.memtable as u64 || !waiting
    }

    fn slow_down(&self, thread: &mut ThreadState, bytes: u64) {
        if planted::is(Bug::GenerationsWithoutBound) {
            return;
        }
        let slept = thread.pressure.delay(bytes, &*self.clock, || self.delay_rate());
        if slept > 0 {
            self.delays.note_slowed(slept);
            WriteCounters::add(&thread.counters.slowed_writes, 1);
            WriteCounters::add(&thread.counters.slowed_ns, slept);
            if thread.pressure.is_for_garbage() {
                WriteCounters::add(&thread.counters.garbage_slowed_writes, 1);
                WriteCounters::add(&thread.counters.garbage_slowed_ns, slept);
            }
        }
    }

    /// By how much writes are delayed at the moment.
    fn delay_rate(&self) -> Rate {
        self.speed.delay_rate(self.fullness(), self.write_limit.get(), || {
            let written = self.trunk.written();
            Done {
                user: self.user_bytes_through(self.incorporated.load(Ordering::Relaxed)),
                incorporated: written.incorporated_bytes,
                compacted: written.compacted_bytes,
                workers: self.budget.workers as u64,
            }
        })
    }

    /// About how many bytes users have written since the opening up to a number.
    pub(super) fn user_bytes_through(&self, number: u64) -> u64 {
        let (start, last) = (self.log_start.0, self.sequencer.last_relaxed().0);
        let bytes = self.threads.sum(|counters| &counters.user_bytes);
        let numbers = last.saturating_sub(start).max(1);
        (u128::from(bytes) * u128::from(number.min(last).saturating_sub(start)) / u128::from(numbers)) as u64
    }

    /// How far memory, the tree's debt and its garbage are on their way to where writers would have to wait.
    fn fullness(&self) -> Fullness {
        let view = self.view.load();
        let memory: u64 = view.generations.iter().map(|generation| generation.memtable.bytes() as u64).sum();
        let size = self.budget.memtable as u64;
        let in_memory = fullness(memory, size * (GENERATIONS_MAX as u64 + 1) / 2, size * GENERATIONS_MAX as u64);
        let tree = fullness(view.tree.debt(), size * DEBT_START, size * DEBT_LIMIT);
        let garbage = garbage_fullness(view.tree.garbage(), view.tree.bytes(), size);
        Fullness { memory: in_memory, tree, garbage }
    }

    /// Returns once `full` is no longer the newest generation: switches, waiting for an incorporation where the stack is at
    /// its height.
    fn make_room(&self, full: &Arc<Generation>) -> Result<()> {
        let mut switching = self.switching.lock();
        let mut stalled = Stall { inner: self, since: None };
        loop {
            self.health.check()?;
            let view = self.view.load_full();
            if !Arc::ptr_eq(view.newest(), full) {
                return Ok(());
            }
            if view.generations.len() < GENERATIONS_MAX || planted::is(Bug::GenerationsWithoutBound) {
                self.switch(&view);
                return Ok(());
            }
            drop(view);
            // Asked only now: an obstacle of work that was since done otherwise must not stop a switch.
            self.health.obstacle()?;
            stalled.since.get_or_insert_with(|| self.clock.now());
            match self.driver {
                Driver::Threads => {
                    self.room.wait_for(&mut switching, std::time::Duration::from_millis(100));
                }
                Driver::Stepped => {
                    self.step();
                }
            }
        }
    }

    /// Rule G2. The caller holds `switching`; returns the old generation's T.
    pub(super) fn switch(&self, view: &View) -> SequenceNumber {
        let old = Arc::clone(view.newest());
        let new = Arc::new(Generation::pending(self.memtables.take(), &self.value_holds));
        self.view.update(|current| {
            let mut generations = Vec::with_capacity(current.generations.len() + 1);
            generations.push(Arc::clone(&new));
            generations.extend(current.generations.iter().cloned());
            (generations, Arc::clone(&current.tree))
        });
        let end = self.sequencer.last();
        new.set_start(end);
        old.set_end(end);
        self.work.wake();
        end
    }
}

/// A write that waits for memory, counted when the wait ends.
struct Stall<'a> {
    inner: &'a Inner,
    since: Option<std::time::Duration>,
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            let waited = self.inner.clock.now().saturating_sub(since);
            self.inner.delays.note_stalled(waited.as_nanos() as u64);
        }
    }
}

fn check_sizes(key: &[u8], value: Option<&[u8]>) -> Result<()> {
    let (key_bytes, value_bytes) = (key.len(), value.map_or(0, <[u8]>::len));
    if key_bytes > limits::KEY_BYTES_MAX {
        return Err(Error::InvalidArgument(format!(
            "the key has {key_bytes} bytes, at most {} fit",
            limits::KEY_BYTES_MAX
        )));
    }
    if value_bytes > limits::VALUE_BYTES_MAX {
        return Err(Error::InvalidArgument(format!(
            "the value has {value_bytes} bytes, at most {} fit",
            limits::VALUE_BYTES_MAX
        )));
    }
    Ok(())
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
        newest_pin: SequenceNumber,
    ) {
        let memtable = &generation.memtable;
        match self {
            Self::One(prepared) => memtable.place(writer, prepared, number, newest_pin),
            Self::Many(prepared, _) if planted::is(Bug::BatchEntryByEntry) => {
                prepared.iter_mut().for_each(|prepared| memtable.place(writer, prepared, number, newest_pin));
            }
            Self::Many(prepared, state) => {
                for prepared in prepared.iter_mut() {
                    memtable.place_pending(writer, prepared, number, *state);
                }
                memtable.commit(writer, *state, prepared.iter_mut(), newest_pin);
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
    inner: &'a Inner,
    slot: &'a crate::base::sequencer::Slot,
}

impl Drop for Unplaced<'_> {
    fn drop(&mut self) {
        self.inner.poison(&Error::ReadOnly { reason: "a write panicked between its number and its placing".into() });
        self.inner.sequencer.leave(self.slot);
    }
}
