//! Runs: branches with disjoint key ranges, read as one sorted sequence. Immutable; any thread.
//!
//! Invariants:
//! 1. `parts` is in key order, and no key lies in the range of two parts.
//! 2. So the relative age of the parts of one run does not matter. Between runs, age decides.

use crate::branch::Branch;
use crate::merge::RangeTombstones;
use crate::util::Result;
use crate::util::key::wide_head;
use crate::util::sync::Arc;

/// A bound of a key range, as an encoded key.
pub type Key = Arc<[u8]>;

/// See the module.
#[derive(Debug)]
pub struct Run {
    /// The heads (`util::key::wide_head`) of the parts' largest keys, packed: unless heads are equal, a get finds its
    /// part without following a pointer.
    heads: Box<[u128]>,
    parts: Box<[Arc<Branch>]>,
    /// The head of the smallest key.
    first_head: u128,
    has_range_tombstones: bool,
}

impl Run {
    /// A run of these parts, which are in key order.
    pub fn new(parts: Vec<Arc<Branch>>) -> Arc<Self> {
        debug_assert!(parts.windows(2).all(|pair| follows(&pair[0], &pair[1])));
        Arc::new(Self {
            has_range_tombstones: parts.iter().any(|part| part.meta().range_tombstones > 0),
            first_head: parts.first().map_or(u128::MAX, |part| wide_head(&part.meta().key_min)),
            heads: parts.iter().map(|part| wide_head(&part.meta().key_max)).collect(),
            parts: parts.into(),
        })
    }

    /// The branches, in key order.
    pub fn parts(&self) -> &[Arc<Branch>] {
        &self.parts
    }

    /// Whether any part has range tombstones.
    pub fn has_range_tombstones(&self) -> bool {
        self.has_range_tombstones
    }

    /// Index of the first part that ends at or after `key`; the number of parts if none does.
    pub fn position(&self, key: &[u8]) -> usize {
        self.position_by(key, wide_head(key))
    }

    fn position_by(&self, key: &[u8], head: u128) -> usize {
        let from = self.heads.partition_point(|part| *part < head);
        let ties = self.heads[from..].partition_point(|part| *part == head);
        from + self.parts[from..from + ties].partition_point(|part| part.meta().ends_before(key))
    }

    /// The one part that may hold `key`, whose head is `head`. (The branch checks whether `key` lies before its
    /// smallest key.)
    #[inline]
    pub fn part_of(&self, key: &[u8], head: u128) -> Option<&Arc<Branch>> {
        match &*self.parts {
            [only] => Some(only),
            parts => parts.get(self.position_by(key, head)),
        }
    }

    /// Whether the run may have keys before `lower`. True if only the heads say so, which touch no part.
    pub fn may_begin_before(&self, lower: &[u8]) -> bool {
        self.first_head <= wide_head(lower)
    }

    /// Whether the run may have keys at or after `upper`, as `may_begin_before` says it.
    pub fn may_extend_past(&self, upper: &[u8]) -> bool {
        self.heads.last().is_some_and(|last| *last >= wide_head(upper))
    }
}

/// Whether all keys of `next` lie after all keys of `part`.
pub fn follows(part: &Branch, next: &Branch) -> bool {
    part.meta().ends_before(&next.meta().key_min)
}

/// The range tombstones of the runs, clipped to [lower, upper).
pub fn range_tombstones<'a>(
    runs: impl IntoIterator<Item = &'a Arc<Run>>,
    lower: &[u8],
    upper: Option<&[u8]>,
) -> Result<RangeTombstones> {
    let parts = runs.into_iter().filter(|run| run.has_range_tombstones).flat_map(|run| run.parts());
    let clipped = |part: &Arc<Branch>| part.range_tombstones().map(|all| all.clip(lower, upper));
    let pieces = parts.filter(|part| overlaps(part, lower, upper)).map(clipped).collect::<Result<Vec<_>>>()?;
    Ok(RangeTombstones::union(&pieces))
}

/// Groups branches, oldest first, into runs, oldest first. A branch joins the newest run if it lies wholly after it.
/// (It cannot join an older run: the newest may hold an older version of its keys.) A sequential load becomes one run,
/// in any number of bundles.
pub fn group<'a>(branches: impl IntoIterator<Item = &'a Arc<Branch>>) -> Vec<Arc<Run>> {
    let mut runs = Vec::new();
    let mut parts: Vec<Arc<Branch>> = Vec::new();
    for branch in branches {
        if parts.last().is_some_and(|last| !follows(last, branch)) {
            runs.push(Run::new(std::mem::take(&mut parts)));
        }
        parts.push(Arc::clone(branch));
    }
    if !parts.is_empty() {
        runs.push(Run::new(parts));
    }
    runs
}

/// The number of runs that `group` would make of the branches of a bundle.
pub fn count(branches: &[Arc<Branch>]) -> usize {
    usize::from(!branches.is_empty()) + branches.windows(2).filter(|pair| !follows(&pair[0], &pair[1])).count()
}

/// The number of runs that `group` would begin at a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunsBegun {
    /// If the bundle were the oldest.
    pub alone: usize,
    /// After the bundle before it, whose last run the bundle may continue.
    pub after: usize,
}

/// For each of these bundles, oldest first, the runs that `group` would begin there. So neighbouring bundles make as
/// many runs as the `alone` of the oldest and the `after` of the others add up to.
pub fn runs_begun<'a>(bundles: impl IntoIterator<Item = &'a [Arc<Branch>]>) -> Vec<RunsBegun> {
    let mut last: Option<&Branch> = None;
    let runs = |branches: &'a [Arc<Branch>]| {
        let alone = count(branches);
        let continues = last.zip(branches.first()).is_some_and(|(last, first)| follows(last, first));
        last = branches.last().map(|branch| &**branch).or(last);
        RunsBegun { alone, after: alone - usize::from(continues) }
    };
    bundles.into_iter().map(runs).collect()
}

/// Whether a branch may have keys in [lower, upper), or range tombstones over some, judged by its smallest and largest
/// key.
pub fn overlaps(branch: &Branch, lower: &[u8], upper: Option<&[u8]>) -> bool {
    let meta = branch.meta();
    !meta.ends_before(lower) && upper.is_none_or(|upper| meta.key_min[..] < *upper)
}
