//! Empty overlaps: branches that span a range but have no key in it.
//!
//! A Memtable of a nearly sequential load has a few keys far behind, and its branch spans every leaf between. Such a
//! leaf would count one more run, and would soon merge all its data only to remove runs that are empty there.
//!
//! They are found while a job runs, before references move. A little I/O, no lock; any thread.

use crate::branch::{Branch, Purpose};
use crate::disk::runs::run::{self, Key};
use crate::merge::Cursor;
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result, SequenceNumber};
use std::collections::BTreeSet;

/// The branches that have no key in one range, and so none in any part of it.
#[derive(Debug, Default)]
pub struct EmptyOverlaps(BTreeSet<FileNumber>);

impl EmptyOverlaps {
    /// Those of the branches that span [lower, upper) without a key in it. At most one search for each.
    pub fn find<'a>(
        branches: impl IntoIterator<Item = &'a Arc<Branch>>,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) -> Result<Self> {
        let mut found = BTreeSet::new();
        for branch in branches {
            let (meta, past) = (branch.meta(), |key: &[u8]| upper.is_some_and(|upper| key >= upper));
            // A branch that begins or ends inside the range has a key there. The extent of range tombstones is unknown
            // here.
            let spans = meta.key_min[..] < *lower && past(&meta.key_max) && meta.range_tombstones == 0;
            if spans && run::overlaps(branch, lower, upper) && !found.contains(&meta.file) {
                let mut cursor = branch.cursor(Purpose::Read);
                cursor.seek(lower, SequenceNumber::MAX)?;
                if !cursor.valid() || past(cursor.entry().key) {
                    found.insert(meta.file);
                }
            }
        }
        Ok(Self(found))
    }

    /// Whether the branch has no key there.
    pub fn contains(&self, branch: &Branch) -> bool {
        self.0.contains(&branch.meta().file)
    }
}

/// Where a leaf will be split.
#[derive(Debug, Default)]
pub struct SplitPlan {
    /// The first keys of all parts but the first, ascending.
    pub keys: Vec<Key>,
    /// For each part, by its lower bound, its empty overlaps.
    pub empty_overlaps: Vec<(Key, EmptyOverlaps)>,
}
