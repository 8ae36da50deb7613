//! Whether anything in a key range is newer than a number, for a transaction that has read the range as of that number
//! (`docs/concurrency.md`, P2). Any thread.
//!
//! Every file knows its greatest number, so only files with newer entries are read. These are mostly the files written
//! since.

use crate::branch::Branch;
use crate::disk::runs::run::overlaps;
use crate::disk::runs::run_cursor::newer_key;
use crate::disk::trunk::tree::tree::Tree;
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
            let found = newer_key(branch, since, lower, upper)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}
