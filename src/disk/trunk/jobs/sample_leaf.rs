//! Leaf sampling: decides whether a leaf that is above its target, or may be full of garbage, is split, rewritten or
//! left. A little I/O, no lock; one thread for each sample.
//!
//! Sizes cannot distinguish new data from overwritten data. So a few windows of the leaf are merged without writing
//! anything. The share of bytes that a whole merge would retain, under the snapshots of the moment, decides.
//! (SplinterDB, Appendix: a leaf must stay at least half full of distinct keys.)

use super::pass::Pass;
use super::split_keys;
use crate::branch::{Purpose, Target};
use crate::disk::runs::run::{self, Key};
use crate::disk::runs::run_cursor::{merged, seek_together};
use crate::disk::trunk::options::SPLIT_FILL_PERCENT;
use crate::disk::trunk::tree::node::Node;
use crate::merge::{Cursor, EntryRef};
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};

/// Windows of a leaf that are sampled.
const WINDOWS: usize = 8;
/// Entries of each window.
const ENTRIES_PER_WINDOW: u32 = 256;
/// A leaf above its target is split if its live data fills at least this share of the target. *Otherwise:* the halves
/// are small, and rewriting the leaf would have freed more space.
const SPLIT_LIVE_PERCENT: u64 = 75;
/// A split leaves no part with more than this share of the leaf. *Otherwise:* one split follows another without end.
const SPLIT_LARGEST_PERCENT: u64 = 80;

/// The result of sampling a leaf.
#[derive(Debug)]
pub enum SampleResult {
    /// Leave it as it is.
    Leave,
    /// Leave it because snapshots need its data. Sample it again once they are gone.
    LeaveForSnapshots,
    /// Rewrite it whole.
    Rewrite,
    /// Split it at these keys.
    Split(Vec<Key>),
}

/// Samples a leaf whose target is `target` bytes.
pub fn sample_leaf(pass: &Pass<'_>, leaf: &Node, target: u64) -> Result<SampleResult> {
    let bytes = leaf.active.bytes;
    let survival = sample(pass, leaf)?;
    let live = survival.of(survival.retained, bytes);
    let is_wasteful = |live: u64| {
        // Folding merge operands may make the result larger than its input.
        let garbage = bytes.saturating_sub(live);
        garbage.saturating_mul(100) >= live.saturating_mul(pass.options.garbage_percent) && garbage > 0
    };
    if bytes > target {
        if live.saturating_mul(100) < target.saturating_mul(SPLIT_LIVE_PERCENT) {
            return Ok(SampleResult::Rewrite);
        }
        let fill = (target / 100 * SPLIT_FILL_PERCENT).max(1);
        let parts = usize::try_from(live.div_ceil(fill)).unwrap_or(usize::MAX).clamp(2, pass.options.fanout.max(2));
        let keys = split_keys::choose(leaf, parts)?;
        let largest = split_keys::largest_part(leaf, &keys)?;
        if largest.saturating_mul(100) <= bytes.saturating_mul(SPLIT_LARGEST_PERCENT) {
            return Ok(SampleResult::Split(keys));
        }
        // The parts would share most of their files, and each would count them as its own. After a rewrite they do not.
        if leaf.bundles.len() > 1 && !keys.is_empty() {
            return Ok(SampleResult::Rewrite);
        }
    }
    Ok(if is_wasteful(live) {
        SampleResult::Rewrite
    } else if is_wasteful(survival.of(survival.newest, bytes)) {
        SampleResult::LeaveForSnapshots
    } else {
        SampleResult::Leave
    })
}

/// How many of the sampled bytes a whole merge would retain.
#[derive(Clone, Copy, Debug, Default)]
struct Survival {
    sampled: u64,
    /// Under the snapshots of the moment.
    retained: u64,
    /// Without snapshots.
    newest: u64,
}

impl Survival {
    /// `bytes`, scaled by the share that `part` is of the sampled bytes.
    fn of(self, part: u64, bytes: u64) -> u64 {
        if self.sampled == 0 { bytes } else { (u128::from(bytes) * u128::from(part) / u128::from(self.sampled)) as u64 }
    }
}

fn sample(pass: &Pass<'_>, leaf: &Node) -> Result<Survival> {
    let mut survival = Survival::default();
    let upper = leaf.upper.as_deref();
    let runs = run::group(leaf.branches());
    let tombstones = run::range_tombstones(&runs, &leaf.lower, upper)?;
    // These pages may enter the cache: reads of the leaf will need them.
    let mut cursor = merged(runs, Purpose::Read);
    let retention = pass.retention.without_pins();
    let without_snapshots = Pass { retention: &retention, ..*pass };
    for start in windows(leaf) {
        let (mut filter, mut newest) = (pass.filter(&tombstones, true), without_snapshots.filter(&tombstones, true));
        let target = Target { key: &start, number: SequenceNumber::MAX, backward: false };
        cursor.search(false, |runs| seek_together(runs, target, 0))?;
        for _ in 0..ENTRIES_PER_WINDOW {
            if !cursor.valid() || upper.is_some_and(|upper| cursor.entry().key >= upper) {
                break;
            }
            let entry = cursor.entry();
            survival.sampled += bytes(entry);
            filter.push(entry, &mut |entry| {
                survival.retained += bytes(entry);
                Ok(())
            })?;
            newest.push(entry, &mut |entry| {
                survival.newest += bytes(entry);
                Ok(())
            })?;
            cursor.next()?;
        }
        filter.finish(&mut |entry| {
            survival.retained += bytes(entry);
            Ok(())
        })?;
        newest.finish(&mut |entry| {
            survival.newest += bytes(entry);
            Ok(())
        })?;
    }
    Ok(survival)
}

fn bytes(entry: EntryRef<'_>) -> u64 {
    (entry.key.len() + entry.value.len()) as u64 + 1
}

/// The first keys of the windows. Part files begin there, so the windows are distributed as the data is.
fn windows(leaf: &Node) -> Vec<Key> {
    let starts = leaf.branches().map(|branch| &branch.meta().key_min[..]).filter(|key| **key >= *leaf.lower);
    let mut starts: Vec<&[u8]> = starts.chain([&*leaf.lower]).collect();
    starts.sort_unstable();
    starts.dedup();
    let step = starts.len().div_ceil(WINDOWS);
    starts.iter().step_by(step).map(|start| Arc::from(*start)).collect()
}
