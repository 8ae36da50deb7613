//! What to do with a leaf that is over its target or may be full of garbage: split it, rewrite it, or leave it. A little
//! I/O, no lock.
//!
//! Sizes cannot tell new data from overwritten data. So a few windows of the leaf are merged without writing anything, and
//! the share of bytes that a whole merge would keep, under the snapshots of the moment, decides. (SplinterDB, Appendix: a
//! leaf must stay at least half full of distinct keys.)

use super::compact::{Pass, merged};
use super::node::{Key, Node};
use super::options::SPLIT_FILL_PERCENT;
use super::run;
use super::run_cursor::seek_together;
use super::split_keys;
use crate::branch::{Purpose, Target};
use crate::merge::{Cursor, EntryRef, Retention};
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};

/// Windows of a leaf that are looked at.
const WINDOWS: usize = 8;
/// Entries of each.
const ENTRIES_PER_WINDOW: u32 = 256;
/// A leaf over its target is split if what is live in it fills at least this share of the target; otherwise the halves
/// would be small, and rewriting it gives more space back.
const SPLIT_LIVE_PERCENT: u64 = 75;
/// A split must leave no part with more than this share of the leaf, or it could be followed by another without end.
const SPLIT_LARGEST_PERCENT: u64 = 80;

/// What a look at a leaf came to.
#[derive(Debug)]
pub enum Verdict {
    /// It is well as it is.
    Leave,
    /// As well as snapshots let it be: once they are gone it is to be looked at again.
    Hold,
    /// Rewrite it whole.
    Rewrite,
    /// Split it at these keys.
    Split(Vec<Key>),
}

/// Looks at a leaf whose target is `target` bytes.
pub fn judge(pass: &Pass<'_>, leaf: &Node, target: u64) -> Result<Verdict> {
    let bytes = leaf.active.bytes;
    let survival = sample(pass, leaf)?;
    let live = survival.of(survival.kept, bytes);
    let is_wasteful = |live: u64| {
        // Folding may make more of what it keeps than there was.
        let garbage = bytes.saturating_sub(live);
        garbage.saturating_mul(100) >= live.saturating_mul(pass.options.garbage_percent) && garbage > 0
    };
    if bytes > target {
        if live.saturating_mul(100) < target.saturating_mul(SPLIT_LIVE_PERCENT) {
            return Ok(Verdict::Rewrite);
        }
        let fill = (target / 100 * SPLIT_FILL_PERCENT).max(1);
        let parts = usize::try_from(live.div_ceil(fill)).unwrap_or(usize::MAX).clamp(2, pass.options.fanout.max(2));
        let keys = split_keys::choose(leaf, parts)?;
        let largest = split_keys::largest_part(leaf, &keys)?;
        if largest.saturating_mul(100) <= bytes.saturating_mul(SPLIT_LARGEST_PERCENT) {
            return Ok(Verdict::Split(keys));
        }
        // The parts would share most of their files, and each would count them as its own. Files of the leaf's own help.
        if leaf.bundles.len() > 1 && !keys.is_empty() {
            return Ok(Verdict::Rewrite);
        }
    }
    Ok(if is_wasteful(live) {
        Verdict::Rewrite
    } else if is_wasteful(survival.of(survival.newest, bytes)) {
        Verdict::Hold
    } else {
        Verdict::Leave
    })
}

/// How much of what was looked at a whole merge would keep.
#[derive(Clone, Copy, Debug, Default)]
struct Survival {
    seen: u64,
    /// For the snapshots there are.
    kept: u64,
    /// If there were none.
    newest: u64,
}

impl Survival {
    /// The share of `bytes` that `part` is of what was seen.
    fn of(self, part: u64, bytes: u64) -> u64 {
        if self.seen == 0 { bytes } else { (u128::from(bytes) * u128::from(part) / u128::from(self.seen)) as u64 }
    }
}

fn sample(pass: &Pass<'_>, leaf: &Node) -> Result<Survival> {
    let mut survival = Survival::default();
    let upper = leaf.upper.as_deref();
    let runs = run::group(leaf.branches());
    let tombstones = run::range_tombstones(&runs, &leaf.lower, upper)?;
    // The cache is welcome to these pages: reads of the leaf will want them.
    let mut cursor = merged(runs, Purpose::Read);
    let without_snapshots = Pass { retention: &Retention::default(), ..*pass };
    for start in windows(leaf) {
        let (mut filter, mut newest) = (pass.filter(&tombstones, true), without_snapshots.filter(&tombstones, true));
        let target = Target { key: &start, number: SequenceNumber::MAX, backward: false };
        cursor.search(false, |runs| seek_together(runs, target, 0))?;
        for _ in 0..ENTRIES_PER_WINDOW {
            if !cursor.valid() || upper.is_some_and(|upper| cursor.entry().key >= upper) {
                break;
            }
            let entry = cursor.entry();
            survival.seen += bytes(entry);
            filter.push(entry, &mut |entry| {
                survival.kept += bytes(entry);
                Ok(())
            })?;
            newest.push(entry, &mut |entry| {
                survival.newest += bytes(entry);
                Ok(())
            })?;
            cursor.next()?;
        }
        filter.finish(&mut |entry| {
            survival.kept += bytes(entry);
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

/// Keys where windows begin: part files begin there, so they are spread as the data is.
fn windows(leaf: &Node) -> Vec<Key> {
    let starts = leaf.branches().map(|branch| &branch.meta().key_min[..]).filter(|key| **key >= *leaf.lower);
    let mut starts: Vec<&[u8]> = starts.chain([&*leaf.lower]).collect();
    starts.sort_unstable();
    starts.dedup();
    let step = starts.len().div_ceil(WINDOWS);
    starts.iter().step_by(step).map(|start| Arc::from(*start)).collect()
}
