//! The space of large values that newer data hides (`docs/recovery.md`, F10).
//!
//! A look finds branch files that refer to values and may be hidden in part, by newer branch files of the same keys or by
//! what they have themselves, and asks for the compaction of their keys (`state/freeing.rs`). Such a compaction moves
//! references, and the small pairs between them. It is asked for only if that is less than what the hidden values may have.

use super::background::Background;
use crate::branch::Branch;
use crate::disk::{RequestedRange, Version};
use crate::engine::state::freeing::FreedRange;
use crate::engine::state::generation::Generation;
use crate::merge::Retention;
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result, SequenceNumber, limits};
use std::collections::BTreeMap;
use std::time::Duration;

/// The size of the smallest value that is in a file. Branches have the count of their values, not the sizes.
const VALUE_BYTES: u64 = limits::VALUE_FILE_BYTES_MIN as u64;
/// In quiet times a compaction may read this part of what the hidden values may have.
const QUIET_PART: u64 = 8;
/// In quiet times memory is incorporated only if what it hides may have this part of all values, and so many bytes.
const HIDDEN_PART: u64 = 8;
const HIDDEN_BYTES: u64 = 16 << 20;
/// Branches that one look considers.
const CONSIDERED_MAX: usize = 256;

impl Background {
    /// Whether to look, because something found no space.
    pub(super) fn is_look_for_values_due(&self, now: Duration) -> bool {
        let looks = &self.space.deleted_values;
        looks.is_wanted() && now >= looks.not_before()
    }

    /// Whether to look in a quiet time: the tree has changed since the last look, or memory hides much.
    pub(super) fn is_quiet_look_for_values_due(&self, now: Duration) -> bool {
        let (looks, view) = (&self.space.deleted_values, self.read.view.load());
        now >= looks.not_before()
            && self.read.value_file_refs.count() > 0
            && (!looks.has_seen(view.version, self.read.snapshots.changes()) || self.hides_much())
    }

    /// Whether what is in memory may hide values of many bytes.
    fn hides_much(&self) -> bool {
        let (view, all) = (self.read.view.load(), self.read.value_file_refs.count() as u64);
        let hidden = self.hidden_by_memory(view.newest(), all);
        view.generations.len() == 1 && hidden >= HIDDEN_BYTES.max(all * VALUE_BYTES / HIDDEN_PART)
    }

    /// About how many bytes a generation may hide, of `all` values.
    fn hidden_by_memory(&self, generation: &Generation, all: u64) -> u64 {
        let memtable = &generation.memtable;
        let deletes = match self.space.deleted_values.has_deletes() {
            true if memtable.has_range_tombstones() => all,
            true => memtable.entries().min(all),
            false => 0,
        };
        generation.value_bytes().max(deletes * VALUE_BYTES)
    }

    /// Looks for hidden values, and asks for compactions that free their space.
    pub(super) fn look_for_deleted_values(&self) -> Result<()> {
        let (view, looks) = (self.read.view.load_full(), &self.space.deleted_values);
        let is_urgent = looks.begin(self.scheduler.clock.now(), view.version, self.read.snapshots.changes());
        if self.read.value_file_refs.count() == 0 {
            return Ok(());
        }
        if if is_urgent { !view.newest().memtable.is_empty() } else { self.hides_much() } {
            looks.forget_deletes();
            self.generations.switch_soon(self.read.sequencer.last())?;
            if Arc::ptr_eq(self.read.view.load().newest(), view.newest()) {
                // Another thread switches, or memory is full.
                looks.note_delete();
            }
        }
        if is_urgent && self.read.view.load().generations.len() > 1 {
            // What is in memory hides more. Once it is in the tree, the next look finds it.
            looks.want();
        }
        let retention = self.retention();
        let mut is_asked = false;
        let through = self.generations.incorporated().max(view.ingested);
        for (range, cost) in hidden_ranges(&view.disk, through, &retention, |request| {
            self.disk.remaining(&view.disk, request, &retention)
        }) {
            let is_worth_it = is_urgent || (cost <= range.bytes / QUIET_PART && looks.take_credit(cost));
            if is_worth_it {
                is_asked |= self.space.freeing.add_due(range);
            }
        }
        if is_asked {
            self.scheduler.wake_workers();
        }
        Ok(())
    }
}

/// Ranges of keys whose compaction frees more bytes of hidden values than it reads, as far as the figures of the branches
/// tell: with the bytes of these values, and of what the compaction reads, which `cost` says. What snapshots need does not count.
fn hidden_ranges(
    version: &Version,
    incorporated: SequenceNumber,
    retention: &Retention,
    cost: impl Fn(&RequestedRange) -> Option<u64>,
) -> Vec<(FreedRange, u64)> {
    let mut branches = BTreeMap::<FileNumber, &Arc<Branch>>::new();
    version.visit_branches(&mut |_, branch| _ = branches.insert(branch.meta().file, branch));
    let number = retention.oldest().map_or(incorporated, |oldest| oldest.min(incorporated));
    let mut hidden: Vec<(u64, &Branch)> = branches
        .values()
        .filter(|branch| !branch.meta().value_files.is_empty() && branch.meta().number_min <= number)
        .map(|branch| (hidden_values(branch, branches.values().copied(), number) * VALUE_BYTES, &***branch))
        .filter(|(bytes, _)| *bytes > 0)
        .collect();
    hidden.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    hidden.truncate(CONSIDERED_MAX);
    let mut ranges: Vec<(FreedRange, u64)> = Vec::new();
    for (bytes, branch) in hidden {
        let range = range_of(branch, number, bytes);
        let is_covered = |(other, _): &(FreedRange, u64)| other.lower <= range.lower && range.upper <= other.upper;
        if ranges.iter().any(is_covered) {
            continue;
        }
        if let Some(cost) = cost(&range.request()).filter(|cost| *cost <= bytes) {
            ranges.push((range, cost));
        }
    }
    ranges
}

/// At most how many values of a branch are hidden, by itself or by these branches, for readers of this number.
fn hidden_values<'a>(branch: &Branch, all: impl Iterator<Item = &'a Arc<Branch>>, number: SequenceNumber) -> u64 {
    let meta = branch.meta();
    let by_itself = meta.entries - meta.distinct_keys + meta.tombstones;
    let values = meta.value_files.len() as u64;
    let mut hiding = if meta.range_tombstones > 0 { values } else { by_itself };
    for other in all.map(|other| other.meta()) {
        let hides = other.file != meta.file
            && other.number_max > meta.number_min
            && other.number_min <= number
            && *other.key_min <= *meta.key_max
            && *meta.key_min <= *other.key_max;
        if hides {
            hiding += if other.range_tombstones > 0 { values } else { other.entries };
        }
    }
    hiding.min(values)
}

/// The keys of a branch.
fn range_of(branch: &Branch, number: SequenceNumber, bytes: u64) -> FreedRange {
    let meta = branch.meta();
    let mut upper = meta.key_max.clone();
    if !meta.open_ended {
        upper.push(0);
    }
    FreedRange { lower: meta.key_min.clone(), upper, number, bytes }
}
