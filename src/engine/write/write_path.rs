//! The way into a write, and out: sizes, value files, backpressure and room before it, the sync behind it. What is between is
//! in `commit`.

use super::backpressure::{Done, Fullness, Rate, fullness, garbage_fullness};
use super::precondition::{Conflict, Precondition};
use super::writer_threads::{ThreadState, WriteCounters};
use crate::engine::engine::{Driver, Engine};
use crate::engine::state::budget::{DEBT_LIMIT, DEBT_START, GENERATIONS_MAX};
use crate::engine::state::latches::{LatchIndex, Latches};
use crate::engine::state::view::{Generation, View};
use crate::engine::types::batch::{Operation, WriteBatch};
use crate::engine::types::options::Durability;
use crate::format::log_record;
use crate::format::value_file::ValueReference;
use crate::memory::MemtableWriter;
use crate::util::planted::{self, Bug};
use crate::util::sync::{Arc, Ordering};
use crate::util::{Error, KeyspaceId, Kind, Result, SequenceNumber, hash, limits};
use std::borrow::Cow;

/// So much is looked at before it is prepared whether it may be written at all: a second look costs less than the copies.
const FIRST_LOOK_BYTES: usize = 4 << 10;

/// A put, a delete or a reference, as the lower layers take it.
pub(crate) struct Entry<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) key: &'a [u8],
    pub(crate) hash: u64,
    pub(crate) kind: Kind,
    pub(crate) value: Cow<'a, [u8]>,
    /// The value file made for it, held by this write until its generation takes the hold over.
    pub(crate) file: Option<ValueReference>,
}

impl Entry<'_> {
    /// What the log keeps of it.
    pub(crate) fn operation(&self) -> log_record::Operation<'_> {
        log_record::Operation { kind: self.kind, keyspace: self.keyspace, key: self.key, value: &self.value }
    }
}

impl Engine {
    /// Sets (`Some`) or removes (`None`) one key.
    pub(crate) fn write_one(&self, key: &[u8], value: Option<&[u8]>, durability: Durability) -> Result<()> {
        check_sizes(key, value)?;
        self.write_key(key, value, None, durability).map(drop)
    }

    /// As `write_one`, of a key that was checked, if the premise holds.
    pub(crate) fn write_key(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        precondition: Option<&Precondition<'_>>,
        durability: Durability,
    ) -> Result<Result<(), Conflict>> {
        if let Some(refusal) = self.refused_at_once(value.map_or(0, <[u8]>::len), precondition) {
            return Ok(Err(refusal));
        }
        let entry = self.entry(KeyspaceId::DEFAULT, key, value)?;
        let latch = Latches::index_of(entry.hash);
        self.write_entries(std::slice::from_ref(&entry), &[latch], precondition, durability)
    }

    /// A first look at a premise, without a latch, where there is much to write, or to a file: it would be prepared in vain, and what
    /// was prepared in a Memtable takes its room until that is written out.
    fn refused_at_once(&self, bytes: usize, precondition: Option<&Precondition<'_>>) -> Option<Conflict> {
        let precondition = precondition.filter(|_| bytes >= FIRST_LOOK_BYTES)?;
        precondition.overtaken(&self.view.load())
    }

    /// Writes a merge operand, for tests of reading: unlogged, since the log does not know operands yet.
    #[cfg(test)]
    pub(crate) fn write_operand(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        let entry = self.entry(KeyspaceId::DEFAULT, key, Some(operand))?;
        let entry = Entry { kind: Kind::Merge, ..entry };
        let latch = Latches::index_of(entry.hash);
        self.write_entries(std::slice::from_ref(&entry), &[latch], None, Durability::Unlogged).map(drop)
    }

    /// Applies a batch.
    pub(crate) fn write_batch(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        self.write_all(&batch.resolve(), None, durability).map(drop)
    }

    /// Applies operations on different keys, in key order, as one, if the premise holds.
    pub(crate) fn write_all(
        &self,
        operations: &[Operation],
        precondition: Option<&Precondition<'_>>,
        durability: Durability,
    ) -> Result<Result<(), Conflict>> {
        if operations.is_empty() {
            return self.health.check().map(Ok);
        }
        let (mut in_memory, mut in_all) = (0, 0);
        for Operation { key, value } in operations {
            check_sizes(key, value.as_deref())?;
            let value_bytes = value.as_ref().map_or(0, Vec::len);
            in_all += value_bytes;
            in_memory += limits::OPERATION_MEMORY_BYTES
                + key.len()
                + if value_bytes < limits::VALUE_FILE_BYTES_MIN { value_bytes } else { 0 };
        }
        if in_memory > limits::BATCH_BYTES_MAX {
            return Err(Error::InvalidArgument(format!(
                "the batch or transaction carries {in_memory} bytes, at most {} fit; split it",
                limits::BATCH_BYTES_MAX
            )));
        }
        if let Some(refusal) = self.refused_at_once(in_all.max(in_memory), precondition) {
            return Ok(Err(refusal));
        }
        let mut entries = Vec::with_capacity(operations.len());
        for Operation { key, value } in operations {
            match self.entry(KeyspaceId::DEFAULT, key, value.as_deref()) {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    self.release_files(&entries);
                    return Err(error);
                }
            }
        }
        if planted::is(Bug::BatchInParts) {
            for entry in &entries {
                let latch = Latches::index_of(entry.hash);
                self.write_entries(std::slice::from_ref(entry), &[latch], None, durability)?.ok();
            }
            return Ok(Ok(()));
        }
        let hashes = entries.iter().map(|entry| entry.hash);
        let read = precondition.into_iter().flat_map(Precondition::hashes);
        let mut latches: Vec<LatchIndex> = hashes.chain(read).map(Latches::index_of).collect();
        latches.sort_unstable();
        latches.dedup();
        self.write_entries(&entries, &latches, precondition, durability)
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
                self.value_file_refs.hold(file);
                let written = self.values.write(file, value).inspect_err(|_| self.value_file_refs.release(file));
                let reference = written.map_err(Error::into_disk_full)?;
                (Kind::ValueReference, Cow::Owned(reference.encode().to_vec()), Some(reference))
            }
        };
        Ok(Entry { keyspace, key, hash, kind, value, file })
    }

    fn release_files(&self, entries: &[Entry<'_>]) {
        for value in entries.iter().filter_map(|entry| entry.file) {
            self.value_file_refs.release(value.file);
        }
    }

    fn write_entries(
        &self,
        entries: &[Entry<'_>],
        latches: &[LatchIndex],
        precondition: Option<&Precondition<'_>>,
        durability: Durability,
    ) -> Result<Result<(), Conflict>> {
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
        let number = match self.commit(thread, entries, latches, precondition, durability) {
            Ok(Ok(number)) => number,
            refused_or_failed => {
                self.release_files(entries);
                return refused_or_failed.map(|refused| refused.map(drop)).map_err(Error::into_disk_full);
            }
        };
        // After it was placed: whoever takes the note back has it in the Memtable that is written out.
        if self.health.is_full() {
            self.note_delete();
        }
        let counters = &thread.counters;
        WriteCounters::add(&counters.writes, entries.len() as u64);
        WriteCounters::add(&counters.user_bytes, user_bytes as u64);
        if durability == Durability::Sync { self.sync_through(number).map(Ok) } else { Ok(Ok(())) }
    }

    /// Whether a generation is to be switched away from: for its memory, or for the value files that go only with it. A few keys
    /// with large values that are updated in place for ever fill the disk and no memory.
    pub(crate) fn is_full(&self, generation: &Generation) -> bool {
        generation.memtable.is_full() || generation.value_bytes() >= self.budget.value_files
    }

    /// A switch that is forced by the log budget must free some log to be worth it; else a log that waits for a slow
    /// incorporation would chop memory into ever smaller generations. A few keys that are updated in place for ever fill the log
    /// and no memory: there the newest generation alone has half of the log.
    pub(crate) fn worth_switching(&self, generation: &Generation) -> bool {
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
            let written = self.disk.written();
            Done {
                user: self.user_bytes_through(self.incorporated.load(Ordering::Relaxed)),
                incorporated: written.incorporated_bytes,
                compacted: written.compacted_bytes,
                workers: self.budget.workers as u64,
            }
        })
    }

    /// About how many bytes users have written since the opening up to a number.
    pub(crate) fn user_bytes_through(&self, number: u64) -> u64 {
        let (start, last) = (self.log_start.0, self.sequencer.last_relaxed().0);
        let bytes = self.threads.sum(|counters| &counters.user_bytes);
        let numbers = last.saturating_sub(start).max(1);
        (u128::from(bytes) * u128::from(number.min(last).saturating_sub(start)) / u128::from(numbers)) as u64
    }

    /// How far memory, the tree's debt and its garbage are on their way to where writers would have to wait.
    pub(crate) fn fullness(&self) -> Fullness {
        let view = self.view.load();
        let memory: u64 = view.generations.iter().map(|generation| generation.memtable.bytes() as u64).sum();
        let size = self.budget.memtable as u64;
        let in_memory = fullness(memory, size * (GENERATIONS_MAX as u64 + 1) / 2, size * GENERATIONS_MAX as u64);
        let tree = fullness(view.disk.debt(), size * DEBT_START, size * DEBT_LIMIT);
        let garbage = garbage_fullness(view.disk.garbage(), view.disk.bytes(), size);
        Fullness { memory: in_memory, tree, garbage }
    }

    /// Returns once `full` is no longer the newest generation: switches, waiting for an incorporation where the stack is at
    /// its height.
    pub(crate) fn make_room(&self, full: &Arc<Generation>) -> Result<()> {
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
            self.health.blocking_error()?;
            stalled.since.get_or_insert_with(|| self.clock.now());
            match self.driver {
                Driver::Threads => {
                    self.room.wait_for(&mut switching, std::time::Duration::from_millis(100));
                }
                Driver::Deterministic => {
                    self.step();
                }
            }
        }
    }

    /// Rule G2. The caller holds `switching`; returns the old generation's T.
    pub(crate) fn switch(&self, view: &View) -> SequenceNumber {
        let old = Arc::clone(view.newest());
        let new = Arc::new(Generation::pending(self.memtables.take(), &self.value_file_refs));
        self.view.update(|current| {
            let mut generations = Vec::with_capacity(current.generations.len() + 1);
            generations.push(Arc::clone(&new));
            generations.extend(current.generations.iter().cloned());
            (generations, current.disk.clone())
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
    inner: &'a Engine,
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

pub(crate) fn check_sizes(key: &[u8], value: Option<&[u8]>) -> Result<()> {
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
