//! What a job works on. Plain data; any thread.
//!
//! Two jobs exclude each other if
//! 1. both read a file: it is replaced once; or
//! 2. both write to a level, in ranges that meet. *Otherwise:* in a tiered store the job that began later, with newer
//!    data, could add the older of two runs.
//!
//! In a leveled store a job reads every file of its output level that its range meets. So what others move there, or
//! away from there, while it runs, is outside its range, and it may assume to the end that no older data lies below if
//! that was so at the beginning.

use crate::disk::levels::plan::compaction::Compaction;
use crate::disk::levels::state::key_range::KeyRange;
use crate::disk::runs::jobs::claims;
use crate::util::FileNumber;
use std::collections::BTreeSet;

/// See the module.
#[derive(Debug)]
pub struct Claim {
    files: BTreeSet<FileNumber>,
    range: KeyRange,
    output_level: usize,
}

impl Claim {
    /// The claim of a compaction.
    pub fn of(compaction: &Compaction) -> Self {
        Self { files: compaction.files(), range: compaction.range.clone(), output_level: compaction.output.level() }
    }
}

impl claims::Claim for Claim {
    fn conflicts(&self, other: &Self) -> bool {
        let writes_with = self.output_level == other.output_level && self.range.meets(&other.range);
        writes_with || !self.files.is_disjoint(&other.files)
    }
}
