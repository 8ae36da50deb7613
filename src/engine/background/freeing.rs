//! The space of keyspaces that were dropped or emptied, and of large ranges that were deleted (`state/freeing.rs`).

use super::background::Background;
use crate::disk::Version;
use crate::engine::state::freeing::FreedRange;
use crate::merge::{RangeTombstones, Retention};
use crate::util::key::encoded_range;
use crate::util::{KeyspaceId, Result, SequenceNumber, limits};
use std::collections::BTreeSet;

/// How many ranges a worker looks at for a job.
const LOOKED_AT_MAX: usize = 8;
/// Of a Memtable with more deleted ranges than this, none is looked at: each takes a look into the index of many files.
const DELETED_RANGES_MAX: usize = 256;
/// A deleted range with less than this part of a unit of the disk component, and of all bytes, waits for other merges. It also
/// bounds how many are remembered.
const SMALL_PART: u64 = 16;
/// So does one with less than this: a compaction costs some file operations, whatever it frees.
const RANGE_BYTES_MIN: u64 = 64 << 10;

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

    /// Those of the ranges that a Memtable deletes which have much in a disk component as it was before that.
    pub(super) fn large_deleted(&self, disk: &Version, tombstones: &RangeTombstones) -> Vec<FreedRange> {
        let mut joined: Vec<FreedRange> = Vec::new();
        for fragment in tombstones.fragments() {
            let Some(&number) = fragment.numbers.first() else { continue };
            match joined.last_mut() {
                Some(last) if last.upper == fragment.start => {
                    last.upper.clone_from(&fragment.end);
                    last.number = last.number.max(number);
                }
                _ => joined.push(FreedRange {
                    lower: fragment.start.clone(),
                    upper: fragment.end.clone(),
                    number,
                    bytes: 0,
                }),
            }
        }
        if joined.is_empty() || joined.len() > DELETED_RANGES_MAX {
            return Vec::new();
        }
        let unit = self.disk.freed_bytes_min().min(disk.figures().file_bytes);
        let smallest = (unit / SMALL_PART).max(RANGE_BYTES_MIN);
        joined.retain_mut(|range| {
            // A damaged file is for reads and merges to report.
            range.bytes = disk.approximate_bytes(&range.lower, Some(&range.upper)).unwrap_or(0);
            range.bytes >= smallest
        });
        joined
    }

    /// Frees the space of deleted ranges whose tombstones are on the disk, once no snapshot needs it. Does not wait for that.
    pub(super) fn free_deleted(&self, ranges: Vec<FreedRange>) {
        let (all, unit) = (self.read.view.load().disk.figures().file_bytes, self.disk.freed_bytes_min());
        let mut is_any = false;
        for range in ranges {
            is_any |= self.space.freeing.add(range, all, unit);
        }
        if is_any {
            self.scheduler.wake_workers();
        }
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
