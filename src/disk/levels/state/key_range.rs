//! Key ranges of branch files. Plain data; any thread.

use crate::branch::Branch;
use crate::disk::runs::run::Key;
use crate::util::sync::Arc;

/// The encoded keys from `lower` to below `upper`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub lower: Key,
    pub upper: Key,
}

impl KeyRange {
    /// The range of a branch, its range tombstones included.
    pub fn of(branch: &Branch) -> Self {
        let meta = branch.meta();
        let mut upper = meta.key_max.clone();
        if !meta.open_ended {
            // The next larger key.
            upper.push(0);
        }
        Self { lower: meta.key_min[..].into(), upper: upper.into() }
    }

    /// The smallest range that includes these branches; `None` if there are none.
    pub fn of_all<'a>(branches: impl IntoIterator<Item = &'a Arc<Branch>>) -> Option<Self> {
        branches.into_iter().map(|branch| Self::of(branch)).reduce(Self::with)
    }

    /// The smallest range that includes both.
    pub fn with(self, other: Self) -> Self {
        Self { lower: self.lower.min(other.lower), upper: self.upper.max(other.upper) }
    }

    /// Whether the ranges have a key in common.
    pub fn meets(&self, other: &Self) -> bool {
        self.lower < other.upper && other.lower < self.upper
    }
}
