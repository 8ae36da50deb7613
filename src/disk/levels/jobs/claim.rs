//! What a job works on. Plain data; any thread.
//!
//! Two jobs exclude each other if
//! 1. both read a file: it is replaced once; or
//! 2. both may write to a level, in ranges that meet. *Otherwise:* in a tiered store the job that began later, with newer
//!    data, could add the older of two runs; and a key could skip a level into which another job moves an older version of
//!    it. So a job that may place keys in deeper levels than its output (`absence.rs`) holds its range on all of them.
//!
//! In a leveled store a job reads every file of its output level that its range meets. So what others move there, or
//! away from there, while it runs, is outside its range, and it may assume to the end that no older data lies below if
//! that was so at the beginning.

use crate::disk::levels::plan::compaction::Compaction;
use crate::disk::levels::state::key_range::KeyRange;
use crate::disk::runs::jobs::claims;
use crate::util::FileNumber;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// See the module.
#[derive(Debug)]
pub struct Claim {
    files: BTreeSet<FileNumber>,
    range: KeyRange,
    /// The levels that it may write to.
    levels: RangeInclusive<usize>,
}

impl Claim {
    /// The claim of a compaction.
    pub fn of(compaction: &Compaction) -> Self {
        let levels = compaction.output.level()..=compaction.deepest;
        Self { files: compaction.files(), range: compaction.range.clone(), levels }
    }
}

impl claims::Claim for Claim {
    fn conflicts(&self, other: &Self) -> bool {
        let has_level = self.levels.start() <= other.levels.end() && other.levels.start() <= self.levels.end();
        (has_level && self.range.meets(&other.range)) || !self.files.is_disjoint(&other.files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::runs::jobs::claims::Claim as _;

    fn claim(files: &[u64], (lower, upper): (&str, &str), levels: RangeInclusive<usize>) -> Claim {
        let range = KeyRange { lower: lower.as_bytes().into(), upper: upper.as_bytes().into() };
        Claim { files: files.iter().map(|file| FileNumber(*file)).collect(), range, levels }
    }

    /// A job that places keys two levels further holds its range there.
    #[test]
    fn jobs_exclude_each_other_where_both_may_write() {
        let skipping = claim(&[1], ("b", "d"), 2..=4);
        for (other, conflicts) in [
            (claim(&[2], ("c", "e"), 4..=4), true),
            (claim(&[2], ("c", "e"), 4..=6), true),
            (claim(&[2], ("c", "e"), 1..=2), true),
            (claim(&[2], ("c", "e"), 5..=5), false),
            (claim(&[2], ("d", "e"), 4..=4), false),
            (claim(&[1], ("x", "y"), 6..=6), true),
        ] {
            assert_eq!((skipping.conflicts(&other), other.conflicts(&skipping)), (conflicts, conflicts), "{other:?}");
        }
    }
}
