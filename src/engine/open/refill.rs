//! Fills Memtables from the log when a store is opened (`docs/recovery.md`, R, step 8). The opening thread, with
//! threads of its own.
//!
//! Invariants:
//! 1. The edit that says which records count is durable before; segments stay until their content is incorporated.
//! 2. Generations are inserted into the view oldest first, below the one for new writes, and there are no writes until
//!    the last one is inserted. So incorporation, which takes the oldest, never takes a newer one first.
//! 3. At most `Budget::generations_at_open` generations are in memory. If the log has more, the next ones are read
//!    after older ones were incorporated.

use crate::engine::background::background::Background;
use crate::engine::memory::write_space::WriteSpace;
use crate::engine::resources::shared_memory::MEMTABLE_BYTES_SMALL;
use crate::engine::state::generation::Generation;
use crate::engine::state::value_file_refs::ValueFileRefs;
use crate::format::log_record::Operation;
use crate::format::value_file::ValueReference;
use crate::io::Storage;
use crate::log::LogContents;
use crate::memory::{BulkFill, FillSpace, Memtable, MemtablePool};
use crate::merge::{MergeOperators, RangeTombstone};
use crate::util::sync::{Arc, Mutex};
use crate::util::{Error, Kind, Result, SequenceNumber, parallel};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Address space beyond the size of a Memtable that is filled from the log: at most, and in any case.
const FILL_SLACK_BYTES_MAX: usize = 1536 << 20;
const FILL_SLACK_BYTES_MIN: usize = 1 << 20;
/// How long opening on a full disk waits for the incorporation of recovered generations.
const FULL_DISK_PATIENCE: Duration = Duration::from_secs(5);

impl Background {
    /// Brings the contents of the log into memory; through memory into the tree if they do not fit.
    pub(crate) fn refill(&self, contents: &LogContents) -> Result<()> {
        let state = self.publisher.edits.lock().manifest.state().clone();
        self.changes.resume(contents, &state, self.read.sequencer.last());
        let ranges = contents.ranges(self.budget.memtable as u64);
        let sizes = FillSizes::of(contents, &self.generations.memtables);
        let threads = self.generations.threads_at_open();
        let generations_max = self.budget.generations_at_open();
        let group = if ranges.len() <= generations_max { ranges.len() } else { threads.min(generations_max) };
        let spaces: Mutex<Vec<FillSpace>> = Mutex::default();
        let count = || self.read.view.load().generations.len();
        for ranges in ranges.chunks(group.max(1)) {
            self.generations.wait_until(|| count() - 1 + ranges.len() <= generations_max)?;
            let filled = parallel::map(threads, ranges.len(), |at| {
                let mut space = spaces.lock().pop().unwrap_or_default();
                let (memtables, references) = (&self.generations.memtables, &self.read.value_file_refs);
                let memtable = sizes.take(&*self.read.storage, memtables)?;
                let operators = &*self.read.merge_operators;
                let filled = fill(memtable, (references, operators), contents, &ranges[at], &mut space);
                spaces.lock().push(space);
                filled
            });
            for generation in filled {
                // Invariant 2.
                self.generations.insert_recovered(generation?);
            }
        }
        self.empty_log_on_full_disk();
        Ok(())
    }

    /// On a full disk: incorporates what the log holds, so that its segments are freed. Otherwise a store that is
    /// opened for one delete after another would add a segment each time, until there is no space for one more.
    fn empty_log_on_full_disk(&self) {
        if self.health.is_full() {
            let clock = &self.scheduler.clock;
            let until = clock.now() + FULL_DISK_PATIENCE;
            // If that finds no space either, the log stays as it is.
            let _ =
                self.generations.wait_until(|| self.read.view.load().generations.len() == 1 || clock.now() >= until);
        }
    }
}

/// The Memtable of a store's first generation. The next ones grow while they fill quickly.
pub(crate) fn first_memtable(storage: &dyn Storage, memtables: &MemtablePool, bytes: usize) -> Result<Arc<Memtable>> {
    take(storage, memtables, bytes, WriteSpace::first_slack_bytes())
}

fn take(storage: &dyn Storage, memtables: &MemtablePool, soft: usize, slack: usize) -> Result<Arc<Memtable>> {
    let what = "reserve address space for a Memtable of the store in";
    memtables.take_sized(soft, slack).map_err(|error| Error::io(what, storage.path(), error))
}

/// The sizes of Memtables that are filled from the log.
pub(crate) struct FillSizes {
    soft: usize,
    slack: usize,
}

impl FillSizes {
    /// A short log needs one small Memtable. A range of a long one may exceed the size by a large record, and entries
    /// take somewhat more than recovery has estimated.
    pub(crate) fn of(contents: &LogContents, memtables: &MemtablePool) -> Self {
        let bytes = usize::try_from(contents.memory_bytes()).unwrap_or(usize::MAX);
        let soft =
            bytes.next_power_of_two().clamp(MEMTABLE_BYTES_SMALL, memtables.soft_bytes().max(MEMTABLE_BYTES_SMALL));
        Self { soft, slack: bytes.saturating_mul(4).min(FILL_SLACK_BYTES_MAX) + FILL_SLACK_BYTES_MIN }
    }

    pub(crate) fn take(&self, storage: &dyn Storage, memtables: &MemtablePool) -> Result<Arc<Memtable>> {
        take(storage, memtables, self.soft, self.slack)
    }
}

/// A generation with the log's entries of a range of numbers, in an empty Memtable. Any thread.
pub(crate) fn fill(
    memtable: Arc<Memtable>,
    (value_file_refs, operators): (&Arc<ValueFileRefs>, &MergeOperators),
    contents: &LogContents,
    range: &RangeInclusive<SequenceNumber>,
    space: &mut FillSpace,
) -> Result<Arc<Generation>> {
    let mut fill = BulkFill::new(memtable, space, operators);
    let mut value_files = Vec::new();
    contents.read(range, &mut |number, operations| {
        for operation in operations {
            if operation.kind == Kind::ValueReference {
                value_files.extend(ValueReference::decode(operation.value));
            }
            let Operation { kind, keyspace, key, value } = operation;
            if kind == Kind::RangeDelete {
                fill.add_range_tombstone(RangeTombstone::of_user_keys(keyspace, key, operation.range_end(), number));
            } else {
                fill.add(keyspace, key, kind, value, number);
            }
        }
        Ok(())
    })?;
    let start = SequenceNumber(range.start().0 - 1);
    let generation = Generation::starting_after(fill.finish(), start, value_file_refs);
    generation.set_end(*range.end());
    for value in value_files {
        value_file_refs.add(value.file);
        generation.add_value_file(value);
    }
    Ok(Arc::new(generation))
}
