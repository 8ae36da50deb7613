//! Fills Memtables from the log, when the store opens (`docs/recovery.md`, R). The thread that opens, and helpers of its own.
//!
//! Invariants:
//! 1. The edit that says what of the log counts is durable before; the log's segments stay until what they hold is incorporated.
//! 2. Generations come into the view oldest first, under the one that new writes will go to, and nobody writes before the last
//!    one came. So incorporation, which takes the oldest, never runs ahead.
//! 3. At most `Budget::generations_at_open` generations are in memory: where the log holds more, the next ones are read once
//!    older ones are incorporated.

use crate::engine::engine::{Driver, Engine};
use crate::engine::state::value_file_refs::ValueFileRefs;
use crate::engine::state::view::Generation;
use crate::format::value_file::ValueReference;
use crate::log::LogContents;
use crate::memory::{BulkFill, FillSpace, MemtablePool};
use crate::util::sync::{Arc, Mutex};
use crate::util::{Kind, Result, SequenceNumber, parallel};
use std::ops::RangeInclusive;
use std::time::Duration;

/// How long opening on a full disk waits for older generations to be written out.
const THIN_PATIENCE: Duration = Duration::from_secs(5);

impl Engine {
    /// Brings all that counts of the log into memory, or through memory into the tree.
    pub(crate) fn refill(&self, contents: &LogContents) -> Result<()> {
        let ranges = contents.ranges(self.budget.memtable as u64);
        let threads = self.threads_at_open();
        let most = self.budget.generations_at_open();
        let together = if ranges.len() <= most { ranges.len() } else { threads.min(most) };
        let spaces: Mutex<Vec<FillSpace>> = Mutex::default();
        for ranges in ranges.chunks(together.max(1)) {
            self.wait_for_progress(|inner| inner.view.load().generations.len() - 1 + ranges.len() <= most)?;
            let filled = parallel::map(threads, ranges.len(), |at| {
                let mut space = spaces.lock().pop().unwrap_or_default();
                let filled = fill(&self.memtables, &self.value_file_refs, contents, &ranges[at], &mut space);
                spaces.lock().push(space);
                filled
            });
            for generation in filled {
                self.insert_recovered(generation?);
            }
        }
        self.thin_log();
        Ok(())
    }

    /// On a full disk: has what the log holds written out, so that its segments go. Else a store that is opened for one delete
    /// after the other would add a segment each time, until there is no room for one more.
    fn thin_log(&self) {
        if self.health.is_full() {
            let until = self.clock.now() + THIN_PATIENCE;
            // Where that finds no room either, the log stays as it is.
            let _ =
                self.wait_for_progress(|inner| inner.view.load().generations.len() == 1 || inner.clock.now() >= until);
        }
    }

    /// How many threads open the store.
    fn threads_at_open(&self) -> usize {
        match self.driver {
            Driver::Threads => self.budget.workers,
            Driver::Deterministic => 1,
        }
    }

    /// Invariant 2.
    fn insert_recovered(&self, generation: Arc<Generation>) {
        self.view.update(|current| {
            let mut generations = current.generations.clone();
            generations.insert(1, generation);
            (generations, current.disk.clone())
        });
        self.work.wake();
    }
}

/// A generation with what the log holds of a range of numbers. Any thread.
pub(crate) fn fill(
    memtables: &Arc<MemtablePool>,
    value_file_refs: &Arc<ValueFileRefs>,
    contents: &LogContents,
    range: &RangeInclusive<SequenceNumber>,
    space: &mut FillSpace,
) -> Result<Arc<Generation>> {
    let mut fill = BulkFill::new(memtables.take(), space);
    let mut value_files = Vec::new();
    contents.read(range, &mut |number, operations| {
        for operation in operations {
            if operation.kind == Kind::ValueReference {
                value_files.extend(ValueReference::decode(operation.value));
            }
            fill.add(operation.keyspace, operation.key, operation.kind, operation.value, number);
        }
        Ok(())
    })?;
    let start = SequenceNumber(range.start().0 - 1);
    let generation = Generation::starting_after(fill.finish(), start, value_file_refs);
    generation.set_end(*range.end());
    for value in value_files {
        value_file_refs.hold(value.file);
        generation.hold_value_file(value);
    }
    Ok(Arc::new(generation))
}
