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
