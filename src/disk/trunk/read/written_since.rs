//! Whether anything in a key range is newer than a number, for a transaction that has read the range as of that number
//! (`docs/concurrency.md`, P2). Any thread.
//!
//! Every file knows its greatest number, so only files with newer entries are read. These are mostly the files written
//! since.

use crate::branch::{Branch, Purpose};
use crate::disk::runs::run::overlaps;
use crate::disk::trunk::tree::tree::Tree;
use crate::merge::Cursor;
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};
use std::collections::HashSet;

impl Tree {
    /// A key from `lower` to below `upper` of which some version, or a range tombstone over it, has a number above
    /// `since`. Versions that were dropped after `since` may not be found, so the caller holds a pin at `since`.
    pub fn written_since(&self, since: SequenceNumber, lower: &[u8], upper: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let mut seen = HashSet::new();
        let mut newer: Vec<&Arc<Branch>> = Vec::new();
        self.visit(&mut |node| {
            let branches = node.bundles.iter().flat_map(|bundle| &bundle.branches);
            let branches = branches.filter(|branch| branch.meta().number_max > since && overlaps(branch, lower, upper));
            newer.extend(branches.filter(|branch| seen.insert(branch.meta().file)));
        });
        for branch in newer {
            let deleted = branch.range_tombstones()?.clip(lower, upper);
            if let Some(deletion) = deleted.deletions().find(|deletion| deletion.number > since) {
                return Ok(Some(deletion.start));
            }
            let mut cursor = branch.cursor(Purpose::Read);
            cursor.seek(lower, SequenceNumber::MAX)?;
            while cursor.valid() && upper.is_none_or(|upper| cursor.entry().key < upper) {
                if cursor.entry().number > since {
                    return Ok(Some(cursor.entry().key.to_vec()));
                }
                cursor.next()?;
            }
        }
        Ok(None)
    }
}
