//! Branches that span a range and have no key in it: a Memtable of a nearly sequential load has a few keys far behind, and its branch
//! reaches over every leaf in between. Such a leaf would count a run, and soon merge all it has to be rid of runs that are
//! empty there. A little I/O, no lock; done when a job runs, before references move.

use super::node::Key;
use super::run;
use crate::branch::{Branch, Purpose};
use crate::merge::Cursor;
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result, SequenceNumber};
use std::collections::BTreeSet;

/// Which branches have no key in one range, and so none in any part of it.
#[derive(Debug, Default)]
pub struct Hollow(BTreeSet<FileNumber>);

impl Hollow {
    /// Looks at those of the branches that span [lower, upper). One search each at most.
    pub fn find<'a>(
        branches: impl IntoIterator<Item = &'a Arc<Branch>>,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) -> Result<Self> {
        let mut hollow = BTreeSet::new();
        for branch in branches {
            let (meta, past) = (branch.meta(), |key: &[u8]| upper.is_some_and(|upper| key >= upper));
            // An end inside the range is a key inside the range; and what a range tombstone covers need not be told here.
            let spans = meta.key_min[..] < *lower && past(&meta.key_max) && meta.range_tombstones == 0;
            if spans && run::overlaps(branch, lower, upper) && !hollow.contains(&meta.file) {
                let mut cursor = branch.cursor(Purpose::Read);
                cursor.seek(lower, SequenceNumber::MAX)?;
                if !cursor.valid() || past(cursor.entry().key) {
                    hollow.insert(meta.file);
                }
            }
        }
        Ok(Self(hollow))
    }

    /// Whether the branch was found to have no key there.
    pub fn holds(&self, branch: &Branch) -> bool {
        self.0.contains(&branch.meta().file)
    }
}

/// The parts of a split, each with what is hollow in it.
#[derive(Debug, Default)]
pub struct Cuts {
    /// Where the leaf is split, ascending.
    pub keys: Vec<Key>,
    /// For each part, by its lower bound.
    pub hollow: Vec<(Key, Hollow)>,
}
