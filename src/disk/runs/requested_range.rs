//! A key range that a caller asked to be compacted. Plain data; any thread.

use super::run;
use crate::branch::Branch;
use crate::merge::FilterMap;
use crate::util::sync::Arc;
use crate::util::{FileNumber, SequenceNumber};

/// A requested compaction or checkpoint (`buffered_below`): all data of a key range goes to the deepest level, into one run there, and without garbage.
///
/// Only data that was there at the time of the request counts, so that the request ends although others write.
#[derive(Clone, Debug)]
pub struct RequestedRange {
    /// The first key, encoded.
    pub lower: Vec<u8>,
    /// The first key past the range, encoded; `None` at the right edge.
    pub upper: Option<Vec<u8>>,
    /// Branches with only newer numbers do not count.
    pub through: SequenceNumber,
    /// Whether a single run is rewritten as well, where it may hold versions that no reader needs.
    pub clean: bool,
    /// If set, nothing is merged: branches that are in memory only, of entries of files with smaller numbers, are written to
    /// files.
    pub buffered_below: Option<FileNumber>,
    /// Compaction filters that are asked about all that is in files with smaller numbers.
    pub filters: Option<(Arc<FilterMap>, FileNumber)>,
}

impl RequestedRange {
    /// All keys, merged for reads.
    #[cfg(test)]
    pub const ALL: Self = Self {
        lower: Vec::new(),
        upper: None,
        through: SequenceNumber::MAX,
        clean: false,
        buffered_below: None,
        filters: None,
    };

    /// Whether the range and [lower, upper) meet.
    pub fn meets(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        upper.is_none_or(|upper| *self.lower < *upper) && self.upper.as_ref().is_none_or(|own| *lower < **own)
    }

    /// Whether compaction filters must still be asked about data of the branch.
    pub fn is_unfiltered(&self, branch: &Branch) -> bool {
        let meta = branch.meta();
        let meets = |filters: &FilterMap| filters.is_any_within(&meta.key_min, &meta.key_max);
        self.filters.as_ref().is_some_and(|(filters, below)| meta.file < *below && meets(filters))
    }

    /// Whether the branch has data that counts.
    pub fn counts(&self, branch: &Branch) -> bool {
        branch.meta().number_min <= self.through && run::overlaps(branch, &self.lower, self.upper.as_deref())
    }
}
