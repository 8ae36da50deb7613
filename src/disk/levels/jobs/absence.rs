//! How far the keys of a merge may skip (SkipStore §4.1): which of the levels below its output have no version of a key.
//! One thread.
//!
//! Rules:
//! 1. *Version constraint.* A key may go past a level only if no run of that level has a version of it. *Otherwise:* a
//!    get finds the older version first.
//! 2. A key under a range tombstone of the inputs, or of a level that it would pass, stays. *Otherwise:* a get stops at
//!    the tombstone, which may be older than the key.
//! 3. Absence is decided by the filters of the files in the range, each read once and as a whole, in key order. They have
//!    no false negatives; with a false positive a key skips less than it could.
//!
//! What the version shows is true until the result is published: the claim of the job covers every level in which it may
//! place keys (`claim.rs`).

use crate::branch::{Branch, WholeFilter};
use crate::disk::levels::plan::compaction::Compaction;
use crate::disk::levels::state::version::LevelsVersion;
use crate::disk::runs::run;
use crate::merge::RangeTombstones;
use crate::util::Result;
use crate::util::hash::{encoded_key_hash, fingerprint};
use crate::util::key::wide_head;
use crate::util::planted::planted;
use crate::util::sync::Arc;

/// See the module.
pub struct Absence<'a> {
    output: usize,
    deepest: usize,
    /// The levels below the output down to the one above the deepest.
    passed: Vec<PassedLevel<'a>>,
    /// Of the inputs and of the passed levels, in the range of the merge.
    tombstones: RangeTombstones,
}

struct PassedLevel<'a> {
    level: usize,
    runs: Vec<PassedRun<'a>>,
}

/// The files of a run that were not passed yet, and the filter of the first one.
struct PassedRun<'a> {
    parts: &'a [Arc<Branch>],
    filter: Option<WholeFilter>,
}

impl<'a> Absence<'a> {
    /// For the keys of a compaction. Reads the range tombstones in its range.
    pub fn new(version: &'a LevelsVersion, compaction: &Compaction) -> Result<Self> {
        let (output, deepest) = (compaction.output.level(), compaction.deepest);
        let (lower, upper) = (&compaction.range.lower, &compaction.range.upper);
        let levels = version.levels().iter().enumerate().take(deepest).skip(output + 1);
        let mut tombstones = Vec::new();
        if deepest > output && version.has_range_tombstones() {
            let runs = run::group(compaction.parts());
            tombstones.push(run::range_tombstones(&runs, lower, Some(upper))?);
            let passed = levels.clone().flat_map(|(_, level)| level.runs.iter().map(|run| &run.run));
            tombstones.push(run::range_tombstones(passed, lower, Some(upper))?);
        }
        let passed = levels.map(|(level, found)| {
            let runs = found.runs.iter().map(|run| run.parts_in(&compaction.range)).filter(|parts| !parts.is_empty());
            PassedLevel { level, runs: runs.map(|parts| PassedRun { parts, filter: None }).collect() }
        });
        Ok(Self { output, deepest, passed: passed.collect(), tombstones: RangeTombstones::union(&tombstones) })
    }

    /// The deepest level in which the merge may place the key, its output level included. Keys come in order. Reads the
    /// filter of a file when the first key in its range comes.
    pub fn deepest_of(&mut self, key: &[u8]) -> Result<usize> {
        if self.deepest == self.output || !self.tombstones.over(key).is_empty() {
            return Ok(self.output);
        }
        let (head, fingerprint) = (wide_head(key), fingerprint(encoded_key_hash(key)));
        for passed in &mut self.passed {
            let mut may_have = false;
            for run in &mut passed.runs {
                may_have = may_have || run.may_have(key, head, fingerprint)?;
            }
            if planted!(may_have, Bug::VersionConstraint => false) {
                // What the next level has is overwritten often enough to have got there, and is absorbed in the output level.
                return Ok(if passed.level == self.output + 1 { self.output } else { passed.level });
            }
        }
        Ok(self.deepest)
    }
}

impl PassedRun<'_> {
    fn may_have(&mut self, key: &[u8], head: u128, fingerprint: u32) -> Result<bool> {
        while let Some((first, rest)) = self.parts.split_first()
            && first.meta().ends_before(key)
        {
            (self.parts, self.filter) = (rest, None);
        }
        let Some(part) = self.parts.first().filter(|part| part.spans(key, head)) else { return Ok(false) };
        let filter = match &mut self.filter {
            Some(filter) => filter,
            empty => empty.insert(part.whole_filter()?),
        };
        Ok(filter.may_contain(fingerprint))
    }
}
