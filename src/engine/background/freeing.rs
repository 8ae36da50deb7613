//! The space of keyspaces that were dropped or emptied (`state/freeing.rs`).

use super::background::Background;
use crate::engine::state::freeing::FreedRange;
use crate::merge::Retention;
use crate::util::key::encoded_range;
use crate::util::{KeyspaceId, Result, SequenceNumber, limits};
use std::collections::BTreeSet;

/// How many ranges a worker looks at for a job.
const LOOKED_AT_MAX: usize = 8;

impl Background {
    /// Frees the space of a keyspace whose keys were deleted with this number, once no snapshot needs it. Does not wait for
    /// that. What is in memory needs no work: it goes when it is incorporated.
    pub(crate) fn free(&self, keyspace: KeyspaceId, number: SequenceNumber) -> Result<()> {
        let (lower, upper) = encoded_range(keyspace, &[], None);
        let view = self.read.view.load_full();
        let in_branches = view.disk.approximate_bytes(&lower, Some(&upper))?;
        if in_branches == 0 {
            return Ok(());
        }
        let mut value_files = BTreeSet::new();
        view.disk.visit_branches(&mut |_, branch| {
            let meta = branch.meta();
            if *meta.key_min < *upper && *meta.key_max >= *lower {
                value_files.extend(meta.value_files.iter().copied());
            }
        });
        let smallest = limits::VALUE_FILE_BYTES_MIN as u64;
        let bytes = in_branches + value_files.len() as u64 * smallest;
        let all = view.disk.figures().file_bytes + self.read.value_file_refs.count() as u64 * smallest;
        if self.space.freeing.add(FreedRange { lower, upper, number, bytes }, all, self.disk.freed_bytes_min()) {
            self.incorporate_freed()?;
            self.scheduler.wake_workers();
        }
        Ok(())
    }

    /// Lets the tombstones of ranges to free go to the disk, even if nothing else is written. To be called from time to time:
    /// memory may be too full for that at first.
    pub(super) fn incorporate_freed(&self) -> Result<()> {
        if !self.space.freeing.is_any() {
            return Ok(());
        }
        let newest = self.space.freeing.newest_due().filter(|number| *number > self.generations.incorporated());
        newest.map_or(Ok(()), |number| self.generations.switch_soon(number))
    }

    /// The deleted ranges whose compaction is due: their tombstones are on the disk, and no snapshot is older.
    pub(super) fn ranges_to_free(&self, retention: &Retention) -> Vec<FreedRange> {
        let incorporated = self.generations.incorporated();
        let through = retention.oldest().map_or(incorporated, |oldest| oldest.min(incorporated));
        self.space.freeing.due(through, LOOKED_AT_MAX)
    }
}
