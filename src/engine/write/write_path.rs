//! The write path around the commit: sizes, value files and backpressure before it, the sync after it. Any thread.

use super::backpressure::WriterDelay;
use super::commit::{Committer, Write};
use super::distinct::sort_out;
use super::entry::Entry;
use super::mode::WriteMode;
use super::precondition::{Precondition, WriteOutcome};
use super::sizes::{check_batch, check_range, check_sizes};
use super::throttle::Throttle;
use super::writer_threads::{Borrowed, RetiredStates, ThreadState, WriteCounters, WriterThreads};
use crate::engine::durable_log::DurableLog;
use crate::engine::latency::Call;
use crate::engine::memory::generations::Generations;
use crate::engine::read::read_path::ReadPath;
use crate::engine::shared_components::SharedComponents;
use crate::engine::space::full_disk::Space;
use crate::engine::state::health::Health;
use crate::engine::state::latches::Latches;
use crate::engine::types::batch::WriteBatch;
use crate::engine::types::bounds::UserRange;
use crate::engine::types::effects::{Effects, KeyWrite};
use crate::engine::types::key_change::KeyChange;
use crate::engine::types::keyspace_info::KeyspaceInfo;
use crate::engine::types::options::{Durability, WriteOptions};
use crate::engine::types::user_key::UserKey;
use crate::format::value_file::ValueReference;
use crate::memory::MemtableWriter;
use crate::util::planted::planted;
use crate::util::sync::{Arc, AtomicU64, Ordering, RwLock, RwLockReadGuard};
use crate::util::{Error, FileNumbers, Kind, Result, SequenceNumber, limits};
use crossbeam_utils::CachePadded;
use std::borrow::Cow;

/// From this size on a write checks its precondition before it is prepared: a second check costs less than the copies.
const EARLY_CHECK_BYTES: usize = 4 << 10;

/// See the module.
pub(crate) struct WritePath {
    pub(crate) read: Arc<ReadPath>,
    pub(crate) committer: Committer,
    health: Arc<Health>,
    log: Arc<DurableLog>,
    space: Arc<Space>,
    throttle: Arc<Throttle>,
    pub(crate) threads: Arc<WriterThreads>,
    numbers: Arc<FileNumbers>,
    /// What a write without options of its own gets.
    pub(crate) durability: Durability,
    /// Whether transactions may still commit, and callers sync. Closing waits for those that do (rule X2).
    accepts_calls: RwLock<bool>,
    pub(crate) counters: UpdateCounters,
}

/// Statistics of conditional writes; relaxed.
#[derive(Default)]
pub(crate) struct UpdateCounters {
    /// `Stats::conflicts`.
    pub(crate) conflicts: AtomicU64,
    /// `Stats::retried_updates`.
    pub(crate) retries: AtomicU64,
}

/// The components of a write path besides the shared ones.
pub(crate) struct WritePathComponents {
    pub(crate) generations: Arc<Generations>,
    pub(crate) log: Arc<DurableLog>,
    pub(crate) space: Arc<Space>,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) threads: Arc<WriterThreads>,
    pub(crate) numbers: Arc<FileNumbers>,
    pub(crate) durability: Durability,
}

impl WritePath {
    pub(crate) fn new(shared: &SharedComponents, components: WritePathComponents) -> Arc<Self> {
        let WritePathComponents { generations, log, space, throttle, threads, numbers, durability } = components;
        Arc::new(Self {
            read: Arc::clone(&shared.read),
            committer: Committer::new(shared, &generations, &log, &space),
            health: Arc::clone(&shared.health),
            log,
            space,
            throttle,
            threads,
            numbers,
            durability,
            accepts_calls: RwLock::new(true),
            counters: UpdateCounters::default(),
        })
    }

    /// Puts (`Some`) or deletes (`None`) one key.
    pub(crate) fn write_one(&self, key: UserKey<&[u8]>, value: Option<&[u8]>, mode: WriteMode<'_>) -> Result<()> {
        let _timed = self.read.latencies.time(Call::Write);
        check_sizes(key.bytes, value)?;
        self.write_key(key, KeyChange::to_value(value), None, mode).map(drop)
    }

    /// Merges an operand into one key.
    pub(crate) fn merge(&self, key: UserKey<&[u8]>, operand: &[u8], mode: WriteMode<'_>) -> Result<()> {
        let _timed = self.read.latencies.time(Call::Write);
        self.check_operand(key, operand)?;
        self.write_key(key, KeyChange::Merge(operand), None, mode).map(drop)
    }

    /// Like `write_one`, for a key whose size was checked, if the precondition holds.
    pub(super) fn write_key(
        &self,
        key: UserKey<&[u8]>,
        change: KeyChange<&[u8]>,
        precondition: Option<&Precondition<'_>>,
        mode: WriteMode<'_>,
    ) -> Result<WriteOutcome> {
        if let Some(conflict) = self.early_conflict(change.bytes(), precondition) {
            return Ok(conflict);
        }
        let borrowed = self.begin(mode)?;
        let mut entry = Entry::new(key, change);
        let mode = self.admit(mode, || entry.put_bytes());
        self.complete(&mut entry, mode)?;
        let latch = Latches::index_of(entry.hash);
        let entries = std::slice::from_ref(&entry);
        self.write(borrowed, &Write { entries, deleted: &[], latches: &[latch], precondition, mode })
    }

    /// Checks the precondition of a large write without latches. A conflict that is found only at the commit has cost a
    /// value file, or memory of a Memtable that stays occupied until the Memtable is incorporated.
    fn early_conflict(&self, bytes: usize, precondition: Option<&Precondition<'_>>) -> Option<WriteOutcome> {
        let precondition = precondition.filter(|_| bytes >= EARLY_CHECK_BYTES)?;
        precondition.conflict(&self.read.view.load()).map(WriteOutcome::Conflict)
    }

    /// Deletes a range of keys. Returns the number of the write; `ZERO` if the range is empty.
    pub(crate) fn delete_range(&self, range: UserRange, mode: WriteMode<'_>) -> Result<SequenceNumber> {
        let _timed = self.read.latencies.time(Call::Write);
        check_range(&range)?;
        let deleted = if range.is_empty() { Vec::new() } else { vec![range] };
        Ok(match self.write_all(&Effects { writes: Vec::new(), deleted }, None, mode)? {
            WriteOutcome::Written(number) => number,
            // Not without a precondition.
            WriteOutcome::Conflict(_) => SequenceNumber::ZERO,
        })
    }

    /// The durability of a write over these keyspaces and the default one: what its options say, or else the strongest of
    /// theirs.
    pub(crate) fn durability_of(
        &self,
        chosen: Option<Durability>,
        is_in_default: bool,
        keyspaces: &[Arc<KeyspaceInfo>],
    ) -> Durability {
        let own = keyspaces.iter().map(|keyspace| keyspace.durability().unwrap_or(self.durability));
        let all = own.chain(is_in_default.then_some(self.durability));
        chosen.or_else(|| all.max_by_key(|durability| durability.strength())).unwrap_or(self.durability)
    }

    /// Applies a batch.
    pub(crate) fn write_batch(&self, mut batch: WriteBatch, options: WriteOptions) -> Result<()> {
        let _timed = self.read.latencies.time(Call::Write);
        let keyspaces = batch.take_keyspaces();
        let durability = self.durability_of(options.durability, batch.is_in_default(), &keyspaces);
        let mode = WriteMode::with(options, durability, &keyspaces);
        if batch.merges() {
            return self.write_merges(batch, mode);
        }
        if batch.deletes_ranges() {
            let (effects, _) = batch.resolve(&self.read.merge_operators)?;
            return self.write_all(&effects, None, mode).map(drop);
        }
        self.write_changes(batch.changes(), &[], None, mode).map(drop)
    }

    /// Applies effects as one write, if the precondition holds.
    pub(crate) fn write_all(
        &self,
        effects: &Effects,
        precondition: Option<&Precondition<'_>>,
        mode: WriteMode<'_>,
    ) -> Result<WriteOutcome> {
        let Effects { writes, deleted } = effects;
        let changes = writes.iter().map(|KeyWrite { key, change }| (key.as_bytes(), change.as_bytes()));
        self.write_changes(changes, deleted, precondition, mode)
    }

    /// Applies changes of keys as one write, if the precondition holds. Of several of one key the last one counts. The ranges are
    /// as those of a `Write`.
    fn write_changes<'e>(
        &self,
        changes: impl Iterator<Item = (UserKey<&'e [u8]>, KeyChange<&'e [u8]>)>,
        deleted: &[UserRange],
        precondition: Option<&Precondition<'_>>,
        mode: WriteMode<'_>,
    ) -> Result<WriteOutcome> {
        let mut entries = Vec::with_capacity(changes.size_hint().1.unwrap_or_default());
        entries.extend(changes.map(|(key, change)| Entry::new(key, change)));
        if entries.is_empty() && deleted.is_empty() {
            let checked = self.read.check_open().and_then(|()| self.health.check());
            return checked.map(|()| WriteOutcome::Written(SequenceNumber::ZERO));
        }
        let latches = sort_out(&mut entries, precondition.into_iter().flat_map(Precondition::hashes));
        let bytes = check_batch(&entries, deleted)?;
        if let Some(conflict) = self.early_conflict(bytes, precondition) {
            return Ok(conflict);
        }
        let borrowed = self.begin(mode)?;
        let mode = self.admit(mode, || entries.iter().map(Entry::put_bytes).sum());
        if !deleted.is_empty() {
            self.health.check()?;
        }
        for at in 0..entries.len() {
            if let Err(error) = self.complete(&mut entries[at], mode) {
                self.release_files(&entries);
                return Err(error);
            }
        }
        planted!(Bug::BatchInParts => {
            for entry in &entries {
                let latches = [Latches::index_of(entry.hash)];
                let entries = std::slice::from_ref(entry);
                let write = Write { entries, deleted: &[], latches: &latches, precondition: None, mode };
                let _ = self.write(self.begin(mode)?, &write)?;
            }
            return Ok(WriteOutcome::Written(SequenceNumber::ZERO));
        });
        let write = Write { entries: &entries, deleted, latches: &latches, precondition, mode };
        self.write(borrowed, &write)
    }

    /// Begins a write: borrows the thread's state, for which closing waits (rule X1). Before anything is written, a value
    /// file too. An error once the store is closing.
    #[inline]
    pub(super) fn begin(&self, mode: WriteMode<'_>) -> Result<Borrowed<'_>> {
        mode.check_opening(self.read.opening)?;
        // Before any lock: in a forked child its holder may not exist.
        self.read.check_process()?;
        let borrowed = self.threads.borrow(|counters| self.new_state(counters));
        // Not `ok_or`, which would make and drop an error at each write.
        match borrowed {
            Some(borrowed) => Ok(borrowed),
            None => Err(Error::Closed),
        }
    }

    /// A thread's state for its first write.
    #[cold]
    fn new_state(&self, counters: Arc<CachePadded<WriteCounters>>) -> ThreadState {
        self.committer.add_writer();
        ThreadState {
            slot: self.read.sequencer.register(),
            writer: self.log.log.writer(),
            memory: MemtableWriter::default(),
            counters,
            delay: WriterDelay::default(),
        }
    }

    /// Decides whether a write that frees space, as its user says, may use the reserve of a full disk, given the bytes of
    /// its puts (rule F9).
    #[inline]
    fn admit<'a>(&self, mode: WriteMode<'a>, put_bytes: impl FnOnce() -> usize) -> WriteMode<'a> {
        if !mode.frees_space {
            return mode;
        }
        let bytes = put_bytes();
        let is_small = bytes <= limits::FREEING_BYTES_MAX;
        let frees_space = is_small && (!self.health.is_full() || self.space.take_for_freeing(bytes as u64));
        WriteMode { frees_space, ..mode }
    }

    /// Checks that an entry may be written, and writes a large value to its file: here, before there is a number.
    #[inline]
    fn complete(&self, entry: &mut Entry<'_>, mode: WriteMode<'_>) -> Result<()> {
        let is_large = entry.value.len() >= limits::VALUE_FILE_BYTES_MIN;
        match entry.kind {
            // It may wait for space, with the same check.
            Kind::Put if is_large => self.health.check()?,
            Kind::Put | Kind::Merge if !mode.frees_space() => match self.health.check_put() {
                Err(error) if mode.waits_for_space && error.is_disk_full() => {
                    self.space.wait_until_puts(&mut None, error)?
                }
                checked => checked?,
            },
            // Deletes free space, and so do the drop of a keyspace and its expiry.
            _ => self.health.check()?,
        }
        if is_large {
            let reference = self.write_value(&entry.value).map_err(Error::into_disk_full)?;
            entry.kind = Kind::ValueReference;
            entry.value = Cow::Owned(reference.encode().to_vec());
            entry.file = Some(reference);
        }
        Ok(())
    }

    /// Writes a large value to a file of its own. If there is no space, waits for that of values that newer data hides.
    pub(crate) fn write_value(&self, value: &[u8]) -> Result<ValueReference> {
        let mut wait = None;
        loop {
            let has_room = self.health.check_put().and_then(|()| {
                if self.space.has_room_for_value(value.len() as u64) {
                    Ok(())
                } else {
                    Err(self.read.values.no_space())
                }
            });
            match has_room {
                Ok(()) => break,
                Err(error) if error.is_disk_full() && self.space.wait_for_value(&mut wait) => {}
                Err(error) => return Err(error),
            }
        }
        let (file, references) = (self.numbers.take(), &self.read.value_file_refs);
        references.add(file);
        let written = self.read.values.write(file, value).inspect_err(|_| references.release(file));
        if written.is_ok() {
            self.space.deleted_values.note_written(value.len() as u64);
        }
        written
    }

    fn release_files(&self, entries: &[Entry<'_>]) {
        for value in entries.iter().filter_map(|entry| entry.file) {
            self.read.value_file_refs.release(value.file);
        }
    }

    fn write(&self, mut borrowed: Borrowed<'_>, write: &Write<'_>) -> Result<WriteOutcome> {
        let thread = borrowed.state();
        let of_entries = write.entries.iter().map(|entry| entry.key.bytes.len() + entry.value.len());
        let user_bytes: usize = of_entries.chain(write.deleted.iter().map(UserRange::bytes)).sum();
        if write.mode.tick.is_none() {
            self.throttle.slow_down(thread, user_bytes as u64);
        }
        let mut long_chains = Vec::new();
        let number = match self.committer.commit(thread, write, &mut long_chains) {
            Ok(WriteOutcome::Written(number)) => number,
            conflict_or_failure => {
                self.release_files(write.entries);
                return conflict_or_failure.map_err(Error::into_disk_full);
            }
        };
        // After the placing: the thread that clears the note has this write in the Memtable that it incorporates.
        if write.deletes() {
            self.space.deleted_values.note_delete();
            if self.health.is_full() {
                self.space.note_delete();
            }
        }
        let counters = &thread.counters;
        WriteCounters::add(&counters.writes, (write.entries.len() + write.deleted.len()) as u64);
        WriteCounters::add(&counters.user_bytes, user_bytes as u64);
        match write.mode.durability {
            Durability::Buffered => self.log.write_through(number)?,
            Durability::Sync => self.log.sync_through(number)?,
            Durability::Unlogged => {}
        }
        drop(borrowed);
        if !long_chains.is_empty() {
            self.shorten_chains(&long_chains, write);
        }
        Ok(WriteOutcome::Written(number))
    }

    /// Whether a write of `bytes` in total, with a largest value of `largest_value` bytes, is not expected to wait: not
    /// for a sync, a value file, a delay, memory, or a log segment.
    #[cfg(feature = "async")]
    pub(crate) fn writes_without_waiting(&self, bytes: usize, largest_value: usize, durability: Durability) -> bool {
        durability != Durability::Sync
            && largest_value < limits::VALUE_FILE_BYTES_MIN
            && bytes < limits::VALUE_FILE_BYTES_MIN
            && !self.health.is_full()
            && !self.throttle.fullness().is_any()
            && self.committer.has_room()
    }

    /// Makes every write before the call durable.
    pub(crate) fn sync(&self) -> Result<()> {
        // Before the lock: in a forked child its holder may not exist.
        self.read.check_open()?;
        let _call = self.begin_call()?;
        self.log.sync()
    }

    /// Makes every write up to a number durable, with the value files of those writes.
    pub(super) fn sync_log_through(&self, number: SequenceNumber) -> Result<()> {
        self.log.sync_through(number)
    }

    /// Lets a transaction commit, or a caller sync. Closing waits until the guard is dropped. An error once the store is
    /// closing.
    pub(crate) fn begin_call(&self) -> Result<RwLockReadGuard<'_, bool>> {
        let accepts = self.accepts_calls.read();
        if *accepts { Ok(accepts) } else { Err(Error::Closed) }
    }

    /// Waits for all writes, commits and syncs, and refuses others (`docs/concurrency.md`, X).
    pub(crate) fn end(&self) -> RetiredStates {
        *self.accepts_calls.write() = false;
        self.threads.retire()
    }

    /// Whether there was a write without a log record.
    pub(crate) fn has_unlogged(&self) -> bool {
        self.committer.has_unlogged()
    }

    /// Counts an update that is retried because another write of its key came first.
    pub(super) fn note_retry(&self) {
        self.counters.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a commit that failed with a conflict.
    pub(crate) fn note_conflict(&self) {
        self.counters.conflicts.fetch_add(1, Ordering::Relaxed);
    }
}
