//! The commit of a write: the six steps of `docs/concurrency.md`, W, without the sync that may follow. Any thread.

use super::entry::{Entry, range_delete, tombstones};
use super::mode::WriteMode;
use super::precondition::{Conflict, Precondition, WriteOutcome};
use super::range_conflicts::{RangeConflicts, RegisteredRanges, Touched};
use super::writer_threads::{ThreadState, WriteCounters};
use crate::engine::durable_log::DurableLog;
use crate::engine::memory::generations::Generations;
use crate::engine::read::read_path::ReadPath;
use crate::engine::scheduler::Scheduler;
use crate::engine::shared_components::SharedComponents;
use crate::engine::space::full_disk::{PutWait, Space, SpaceNeed};
#[cfg(feature = "async")]
use crate::engine::state::budget::GENERATIONS_MAX;
use crate::engine::state::generation::Generation;
use crate::engine::state::health::Health;
use crate::engine::state::latches::{LatchGuard, LatchIndex, Latches};
use crate::engine::types::bounds::UserRange;
use crate::engine::types::options::Durability;
use crate::format::log_record::{self, BatchEncoder};
use crate::log::Log;
use crate::memory::{BatchState, FOLD_BYTES_MAX, Fold, Memtable, MemtableWriter, Prepared, entry_bytes};
use crate::merge::RangeTombstones;
use crate::util::planted::planted;
use crate::util::sequencer::Slot;
use crate::util::sync::{Arc, AtomicBool, Ordering};
use crate::util::{Error, Kind, Result, SequenceNumber};
use crossbeam_utils::CachePadded;

/// A write that is ready to be committed.
pub(super) struct Write<'a> {
    pub(super) entries: &'a [Entry<'a>],
    /// Not empty, ascending and disjoint. Their tombstones hide older entries, not those of this write.
    pub(super) deleted: &'a [UserRange],
    /// The latches of the keys that it writes and of those that its precondition reads, in table order, each once.
    pub(super) latches: &'a [LatchIndex],
    pub(super) precondition: Option<&'a Precondition<'a>>,
    pub(super) mode: WriteMode<'a>,
}

impl Write<'_> {
    /// Whether it deletes a key or a range.
    pub(super) fn deletes(&self) -> bool {
        !self.deleted.is_empty() || self.entries.iter().any(|entry| entry.kind == Kind::Delete)
    }
}

/// Commits writes.
pub(crate) struct Committer {
    pub(super) read: Arc<ReadPath>,
    pub(super) health: Arc<Health>,
    generations: Arc<Generations>,
    pub(super) log: Arc<Log>,
    pub(super) durable_log: Arc<DurableLog>,
    space: Arc<Space>,
    pub(super) scheduler: Arc<Scheduler>,
    /// In a cache line of its own: every writer reads it and hardly any thread writes it.
    pub(crate) range_conflicts: CachePadded<RangeConflicts>,
    /// Whether there was a write without a log record, so that closing must incorporate all memory.
    has_unlogged: AtomicBool,
}

impl Committer {
    pub(super) fn new(
        shared: &SharedComponents,
        generations: &Arc<Generations>,
        durable_log: &Arc<DurableLog>,
        space: &Arc<Space>,
    ) -> Self {
        Self {
            read: Arc::clone(&shared.read),
            health: Arc::clone(&shared.health),
            generations: Arc::clone(generations),
            log: Arc::clone(&durable_log.log),
            durable_log: Arc::clone(durable_log),
            space: Arc::clone(space),
            scheduler: Arc::clone(&shared.scheduler),
            range_conflicts: RangeConflicts::new(&shared.read.range_deletes).into(),
            has_unlogged: AtomicBool::new(false),
        }
    }

    /// Whether there was a write without a log record.
    pub(super) fn has_unlogged(&self) -> bool {
        self.has_unlogged.load(Ordering::Relaxed)
    }

    /// Whether a small write would find memory and a log segment. If memory fills up meanwhile, there is another
    /// generation to take it.
    #[cfg(feature = "async")]
    pub(super) fn has_room(&self) -> bool {
        let view = self.read.view.load();
        view.generations.len() < GENERATIONS_MAX
            && !self.generations.is_full(view.newest())
            && !self.log.over_budget()
            && self.log.has_segment_ready()
    }

    /// Notes a writer that is about to begin its first write.
    pub(super) fn add_writer(&self) {
        self.generations.space.add_writer();
    }

    /// Lets a write that waits for space try again once the disk is not full any more (rule F12). Otherwise returns the error.
    #[cold]
    fn wait_on_full_disk(&self, write: &Write<'_>, waits: &mut Option<PutWait>, error: Error) -> Result<()> {
        if write.mode.waits_for_space && error.is_disk_full() {
            return self.space.wait_until_puts(waits, error);
        }
        Err(error)
    }

    /// Steps 1 to 6. Nothing is written if the precondition does not hold. Adds to `long_chains` the places of entries whose
    /// keys now have long chains of operands.
    pub(super) fn commit(
        &self,
        thread: &mut ThreadState,
        write: &Write<'_>,
        long_chains: &mut Vec<usize>,
    ) -> Result<WriteOutcome> {
        let Write { entries, deleted, latches, precondition, .. } = *write;
        let read = &*self.read;
        let (mut waits_since, mut put_waits) = (None, None);
        let folds = FoldBudget::of(entries);
        let of_entries = entries.iter().map(|entry| entry_bytes(entry.hash, entry.key.bytes.len(), entry.value.len()));
        let bytes = of_entries.sum::<usize>() + folds.memory_bytes();
        // Until the entries are placed.
        let large = self.generations.enter(bytes);
        loop {
            self.health.check()?;
            let view = read.view.load();
            let generation = view.newest();
            let is_full = self.generations.is_full(generation)
                || (self.log.over_budget()
                    && write.mode.tick.is_none()
                    && self.generations.is_worth_switching(generation))
                || large.as_ref().is_some_and(|large| !large.fits(&generation.memtable));
            if is_full {
                let full = Arc::clone(generation);
                drop(view);
                if write.mode.tick.is_none() {
                    if let Err(error) = self.generations.make_room(&full) {
                        self.wait_on_full_disk(write, &mut put_waits, error)?;
                    }
                } else if !self.generations.make_room_at_once(&full)? {
                    return Ok(WriteOutcome::Conflict(Conflict::NoRoom));
                }
                continue;
            }
            // Rule D4: before the operands are folded.
            let deletes_before = if folds.is_any() { read.range_deletes.placed() } else { 0 };
            let folded = if folds.is_any() { self.fold(generation, entries, folds) } else { Vec::new() };
            // Step 1.
            if let Err(error) = self.prepare_record(thread, write) {
                self.durable_log.note_failure();
                // The space of the ballast, and what background work frees, is for deletes.
                let are_deletes = write.mode.frees_space() || entries.iter().all(|entry| entry.kind == Kind::Delete);
                drop(view);
                if error.is_disk_full()
                    && are_deletes
                    && (self.space.meet_full_disk(&error, SpaceNeed::Memory)
                        || (write.mode.tick.is_none() && self.space.wait_for_space(&mut waits_since)))
                {
                    continue;
                }
                self.wait_on_full_disk(write, &mut put_waits, error)?;
                continue;
            }
            if generation.memtable.attach(&mut thread.memory, entries.len()) {
                self.scheduler.wake_workers();
            }
            let mut prepared = PreparedEntries::new(generation, &mut thread.memory, write);
            prepared.add_folds(generation, &mut thread.memory, &folded);
            let mut tombstones = tombstones(deleted);
            // Rules D1 and D2.
            let turn = (!deleted.is_empty()).then(|| read.range_deletes.take_turn());
            let ranges = || deleted.iter().map(UserRange::encoded).collect();
            let announced = turn.as_ref().map(|_| self.range_conflicts.announce_delete(ranges(), &read.sequencer));
            // Steps 2 and 3.
            let guard = planted!(
                hold_latches(&read.latches, latches),
                Bug::NumberBeforeLatch => hold_latches(&read.latches, &[])
            );
            let deletes_before = match precondition {
                Some(_) if !folds.is_any() => read.range_deletes.placed(),
                _ => deletes_before,
            };
            // Rule P1: checked under the latches, whose holder alone can write these keys by themselves.
            let conflict = precondition.and_then(|precondition| precondition.conflict(&read.view.load()));
            read.sequencer.announce(&thread.slot);
            let passed = match conflict {
                Some(conflict) => Err(Retreat::Conflict(conflict)),
                None => self.pass(thread, write, !folded.is_empty(), deletes_before),
            };
            if let Err(retreat) = passed {
                read.sequencer.leave(&thread.slot);
                drop(guard);
                drop(announced);
                drop(turn);
                self.log.cancel(&mut thread.writer);
                prepared.withdraw(generation, &mut thread.memory);
                match retreat {
                    Retreat::KeyspaceDropped(error) => return Err(error),
                    Retreat::Conflict(conflict) => return Ok(WriteOutcome::Conflict(conflict)),
                    Retreat::SegmentRetired | Retreat::RangeDeleted => {}
                    Retreat::Filtered => {
                        drop(view);
                        read.snapshots.filter_gate.wait_for_swap();
                    }
                    Retreat::RangeDelete => {
                        drop(view);
                        self.wait_for_range_delete(write);
                    }
                }
                continue;
            }
            let unplaced = Unplaced { committer: self, slot: &thread.slot };
            planted!(Bug::SnapshotsBeforeNumber => let early = read.snapshots.newest());
            let number = read.sequencer.take(&thread.slot);
            planted!(Bug::NumberBeforeLatch => let _late = hold_latches(&read.latches, latches));
            // Step 4.
            planted!(
                self.log.seal(&mut thread.writer, number),
                Bug::AcknowledgedBeforeSealed => crate::util::planted::leave_unsealed(number)
            );
            // Step 5: the view is loaded after the number was taken (rule G1).
            let now = read.view.load();
            let owner = planted!(now.generation_of(number), Bug::NewestGenerationTaken => now.newest());
            // Rule S5: the snapshots too.
            let newest_snapshot =
                planted!(read.snapshots.newest(), Bug::SnapshotsBeforeNumber => early.unwrap_or_default());
            tombstones.set_number(number);
            if let Some(dropped) = write.mode.drops {
                dropped.mark_dropped();
            }
            if let Some(Some(moment)) = write.mode.tick {
                // Rule E1.
                read.expiry.begin(moment, number);
            }
            if Arc::ptr_eq(owner, generation) {
                prepared.place(generation, &mut thread.memory, (number, tombstones), newest_snapshot);
            } else {
                let entries = entries.iter().map(|e| (e.hashed_key(), e.kind, &*e.value));
                owner.memtable.place_without_writer(entries, tombstones, number);
                prepared.withdraw(generation, &mut thread.memory);
            }
            if let Some(announced) = announced {
                // Rule D4.
                read.range_deletes.note_placed();
                drop(announced);
            }
            if let Some(registered) = precondition.and_then(|precondition| precondition.registered) {
                registered.finish();
            }
            // Step 6.
            drop(guard);
            std::mem::forget(unplaced);
            read.sequencer.leave(&thread.slot);
            if let Some(turn) = turn {
                owner.memtable.tidy_range_tombstones(newest_snapshot);
                drop(turn);
            }
            self.durable_log.note_write();
            if write.mode.expires() && read.expiry.note_write() {
                self.scheduler.ask_for_workers();
            }
            prepared.note_retained(generation);
            if folds.is_any() {
                prepared.note_long_chains(long_chains);
            }
            // `now` keeps the generation alive, so the references are handed over in time.
            for value in entries.iter().filter_map(|entry| entry.file) {
                owner.add_value_file(value);
            }
            return Ok(WriteOutcome::Written(number));
        }
    }

    /// What a writer checks between its announcement and its number. `deletes_before` is the number of range deletes that
    /// were placed before its precondition was checked and before it has folded operands.
    fn pass(
        &self,
        thread: &ThreadState,
        write: &Write<'_>,
        has_folded: bool,
        deletes_before: u64,
    ) -> Result<(), Retreat> {
        let Write { entries, deleted, precondition, .. } = *write;
        if !self.log.is_current(&thread.writer) {
            return Err(Retreat::SegmentRetired);
        }
        let touched = || Touched {
            keys: entries.iter().map(|entry| entry.key),
            reads: precondition.into_iter().flat_map(Precondition::keys),
            deleted: deleted.iter().map(UserRange::encoded).collect(),
        };
        let registered = precondition.and_then(|precondition| precondition.registered);
        // Rule P2: marks the registered ranges of others before it closes its own.
        if !self.range_conflicts.pass(touched, registered) {
            return Err(Retreat::RangeDelete);
        }
        // Invariant 2 of `engine/types/keyspace_info.rs`.
        if let Some(dropped) = planted!(write.mode.dropped(), Bug::DropUnchecked => None) {
            return Err(Retreat::KeyspaceDropped(dropped.dropped()));
        }
        // Rule D4.
        let reads_keys = precondition.is_some_and(|precondition| !precondition.reads.is_empty());
        if reads_keys && planted!(self.read.snapshots.filter_gate.is_swapping(), Bug::FilterUnchecked => false) {
            return Err(Retreat::Filtered);
        }
        // This counts the trees with filtered pairs, too (rule F5).
        let is_unchanged = || self.read.range_deletes.placed() == deletes_before;
        if (reads_keys || has_folded) && !planted!(is_unchanged(), Bug::RangeDeletesUncounted => true) {
            return Err(Retreat::RangeDeleted);
        }
        if registered.is_none_or(RegisteredRanges::close) {
            Ok(())
        } else {
            Err(Retreat::Conflict(Conflict::RangeWritten))
        }
    }

    /// Waits until no range delete covers a key of the write.
    #[cold]
    fn wait_for_range_delete(&self, write: &Write<'_>) {
        let keys = write.entries.iter().map(|entry| entry.key);
        let reads = write.precondition.into_iter().flat_map(Precondition::keys);
        keys.chain(reads).for_each(|key| self.read.range_deletes.wait_for(key));
    }

    /// Folds the operands of a write with what the generation has of their keys, as far as the budget goes. Calls the merge
    /// operator. Returns the folds with the places of their entries.
    #[inline(never)]
    fn fold(&self, generation: &Generation, entries: &[Entry<'_>], mut budget: FoldBudget) -> Vec<(usize, Fold)> {
        let operands = entries.iter().enumerate().filter(|(_, entry)| entry.kind == Kind::Merge);
        let fold = |(at, entry): (usize, &Entry<'_>)| {
            let fold = self.read.merge_operators.with(entry.key.keyspace, |operator| {
                generation.memtable.fold(entry.hashed_key(), &entry.value, operator?)
            })?;
            budget.take(fold.bytes()).then_some((at, fold))
        };
        operands.filter_map(fold).collect()
    }

    /// Encodes the operations into the log chunk of the thread; an unlogged write encodes a void (rule W4).
    fn prepare_record(&self, thread: &mut ThreadState, write: &Write<'_>) -> Result<()> {
        let Write { entries, deleted, mode, .. } = *write;
        planted!(Bug::AcknowledgedBeforeSealed => {
            if let Some(number) = crate::util::planted::take_unsealed() {
                self.log.seal(&mut thread.writer, number);
            }
        });
        let bytes = match (entries, deleted) {
            // Most writes.
            ([entry], []) if mode.durability != Durability::Unlogged => {
                let operation = entry.operation();
                let bytes = operation.encoded_length();
                self.log.prepare(&mut thread.writer, entry.kind, bytes, |body| {
                    operation.encode(body);
                })?;
                bytes
            }
            _ => self.prepare_other_record(thread, write)?,
        };
        WriteCounters::add(&thread.counters.logged_bytes, (bytes + log_record::HEADER_BYTES) as u64);
        Ok(())
    }

    /// As `prepare_record`, of a write that is not one logged entry. Returns the length of the record's body.
    #[inline(never)]
    fn prepare_other_record(&self, thread: &mut ThreadState, write: &Write<'_>) -> Result<usize> {
        let Write { entries, deleted, mode, .. } = *write;
        let operations = || entries.iter().map(Entry::operation).chain(deleted.iter().map(range_delete));
        let (kind, bytes) = match (entries, deleted) {
            _ if mode.durability == Durability::Unlogged => (Kind::Void, 0),
            ([], [deleted]) => (Kind::RangeDelete, range_delete(deleted).encoded_length()),
            _ => (Kind::Batch, log_record::batch_length(operations())),
        };
        self.log.prepare(&mut thread.writer, kind, bytes, |body| match kind {
            Kind::Void => self.has_unlogged.store(true, Ordering::Relaxed),
            Kind::Batch => {
                let mut encoder = BatchEncoder::new((entries.len() + deleted.len()) as u64, body);
                operations().for_each(|operation| encoder.push(operation));
                debug_assert_eq!(encoder.filled(), bytes);
            }
            _ => operations().for_each(|operation| {
                operation.encode(body);
            }),
        })?;
        Ok(bytes)
    }
}

/// How much memory the folds of a write may take: for a single operand one of the greatest size, for those of a batch no
/// more than that of a large batch, so that writes stay as large as their callers made them.
#[derive(Clone, Copy)]
struct FoldBudget {
    bytes: usize,
}

impl FoldBudget {
    const BYTES_MAX: usize = 1 << 20;
    /// What a fold takes in addition to its bytes.
    const FOLD_MEMORY_BYTES: usize = 64;

    fn of(entries: &[Entry<'_>]) -> Self {
        let operands = entries.iter().filter(|entry| entry.kind == Kind::Merge).count();
        Self { bytes: (operands * (FOLD_BYTES_MAX + Self::FOLD_MEMORY_BYTES)).min(Self::BYTES_MAX) }
    }

    /// Whether there are operands.
    fn is_any(self) -> bool {
        self.bytes > 0
    }

    fn take(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes + Self::FOLD_MEMORY_BYTES);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }

    /// What the folds take of a Memtable's arena at most.
    fn memory_bytes(self) -> usize {
        self.bytes / 2 * 3
    }
}

/// Why a writer gives up its place between announcement and number.
enum Retreat {
    Conflict(Conflict),
    /// The segment of its log chunk was retired: it prepares its record again.
    SegmentRetired,
    /// A range delete covers one of its keys: it waits for that.
    RangeDelete,
    /// A range delete came after its precondition was checked: it checks again.
    RangeDeleted,
    /// A tree with pairs that a compaction filter has changed is being published: it waits for that and checks again.
    Filtered,
    /// One of its keyspaces was dropped.
    KeyspaceDropped(Error),
}

/// How many entries of a batch a lookup is begun ahead: as many as a processor has requests to memory under way.
const PREFETCHED: usize = 10;

/// The entries of a write in the memory of one generation, not placed yet.
enum PreparedEntries {
    One(Prepared),
    Many(Vec<Prepared>, BatchState),
    /// There are range tombstones only.
    None,
}

impl PreparedEntries {
    /// Requires that the writer is attached to the Memtable for this many entries.
    fn new(generation: &Generation, writer: &mut MemtableWriter, write: &Write<'_>) -> Self {
        let Write { entries, deleted, .. } = *write;
        let memtable = &generation.memtable;
        let mut prepare = |e: &Entry<'_>| memtable.prepare(writer, e.hashed_key(), e.kind, &e.value);
        match entries {
            [] => Self::None,
            [entry] if deleted.is_empty() => Self::One(prepare(entry)),
            _ => {
                let ahead = entries.iter().skip(PREFETCHED).map(Some).chain(std::iter::repeat(None));
                entries.iter().take(PREFETCHED).for_each(|entry| memtable.prefetch_index(entry.hash));
                let prepare = |(entry, ahead): (&Entry<'_>, Option<&Entry<'_>>)| {
                    ahead.iter().for_each(|ahead| memtable.prefetch_index(ahead.hash));
                    prepare(entry)
                };
                let prepared = entries.iter().zip(ahead).map(prepare).collect();
                let is_range_delete = !deleted.is_empty();
                let state =
                    if is_range_delete { memtable.batch_state_of_range_delete() } else { memtable.batch_state(writer) };
                Self::Many(prepared, state)
            }
        }
    }

    /// Makes the entries and range tombstones visible: one entry at once, a batch with a single store at the end (rule
    /// B2).
    #[inline]
    fn place(
        &mut self,
        generation: &Generation,
        writer: &mut MemtableWriter,
        (number, tombstones): (SequenceNumber, RangeTombstones),
        newest_snapshot: SequenceNumber,
    ) {
        let memtable = &generation.memtable;
        match self {
            Self::None => memtable.add_range_tombstones(tombstones),
            Self::One(prepared) => memtable.place(writer, prepared, number, newest_snapshot),
            Self::Many(prepared, state) => {
                Self::place_many(memtable, writer, (&mut prepared[..], *state), (number, tombstones), newest_snapshot);
            }
        }
    }

    /// As `place`, of a batch. Apart, so that the path of a single entry is short.
    #[inline(never)]
    fn place_many(
        memtable: &Memtable,
        writer: &mut MemtableWriter,
        (prepared, state): (&mut [Prepared], BatchState),
        (number, tombstones): (SequenceNumber, RangeTombstones),
        newest_snapshot: SequenceNumber,
    ) {
        planted!(Bug::BatchEntryByEntry => {
            for prepared in prepared.iter_mut() {
                memtable.place(writer, prepared, number, newest_snapshot);
                // Random histories have few readers, which would hardly ever run in between.
                std::thread::yield_now();
            }
            return;
        });
        for prepared in prepared.iter_mut() {
            memtable.place_pending(writer, prepared, number, state);
        }
        if !tombstones.is_empty() {
            memtable.add_pending_range_tombstones(tombstones, state);
        }
        memtable.commit(writer, state, prepared.iter_mut(), newest_snapshot);
    }

    /// Writes folds of operands beside them.
    fn add_folds(&mut self, generation: &Generation, writer: &mut MemtableWriter, folds: &[(usize, Fold)]) {
        for (at, fold) in folds {
            let prepared = match self {
                Self::One(prepared) => prepared,
                Self::Many(prepared, _) => &mut prepared[*at],
                Self::None => return,
            };
            generation.memtable.prepare_fold(writer, prepared, fold);
        }
    }

    /// Adds the places of entries that have left their keys with long chains of operands.
    fn note_long_chains(&self, long_chains: &mut Vec<usize>) {
        let entries = self.entries().iter().enumerate();
        long_chains.extend(entries.filter(|(_, prepared)| prepared.ends_long_chain()).map(|(at, _)| at));
    }

    /// Notes which nodes retain older versions for snapshots.
    fn note_retained(&self, generation: &Generation) {
        self.entries()
            .iter()
            .filter_map(Prepared::retaining_node)
            .for_each(|node| generation.memtable.note_retained(node));
    }

    /// Returns the memory of entries that are not going to be placed.
    fn withdraw(&self, generation: &Generation, writer: &mut MemtableWriter) {
        self.entries().iter().for_each(|prepared| generation.memtable.withdraw(writer, prepared));
    }

    fn entries(&self) -> &[Prepared] {
        match self {
            Self::None => &[],
            Self::One(prepared) => std::slice::from_ref(prepared),
            Self::Many(prepared, _) => prepared,
        }
    }
}

/// The held latches of one write. A single latch needs no allocation.
enum HeldLatches<'a> {
    One(#[allow(dead_code, reason = "held for its drop")] LatchGuard<'a>),
    Many(#[allow(dead_code, reason = "held for its drop")] Vec<LatchGuard<'a>>),
}

fn hold_latches<'a>(latches: &'a Latches, indexes: &[LatchIndex]) -> HeldLatches<'a> {
    debug_assert!(indexes.is_sorted_by(|a, b| a < b), "latches are taken in table order, each once (rule B4)");
    match indexes {
        [index] => HeldLatches::One(latches.lock(*index)),
        _ => HeldLatches::Many(indexes.iter().map(|index| latches.lock(*index)).collect()),
    }
}

/// Guards the steps from taking a number to placing the entries. It is dropped only by a panic: then the store becomes
/// read-only before the slot is left, so that no sync counts a number without a record (rule W1).
pub(super) struct Unplaced<'a> {
    pub(super) committer: &'a Committer,
    pub(super) slot: &'a Slot,
}

impl Drop for Unplaced<'_> {
    fn drop(&mut self) {
        let reason = "a write panicked after it took its number".into();
        self.committer.durable_log.poison(&Error::ReadOnly { reason });
        self.committer.read.sequencer.leave(self.slot);
    }
}
