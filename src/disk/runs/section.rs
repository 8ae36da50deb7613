//! A section of a version: a key range with all branches that have data there. Sections are for reading all data of a
//! version once, in key order, in pieces that are merged one after the other. Plain data; any thread.

use super::run::Key;
use crate::branch::Branch;
use crate::util::sync::Arc;

/// See the module. The keys are from `lower` to below `upper`.
#[derive(Clone, Debug)]
pub struct Section {
    pub lower: Key,
    pub upper: Option<Key>,
    /// Oldest first.
    pub branches: Vec<Arc<Branch>>,
}

impl Section {
    /// Divides it into sections in which branches of about `bytes_min` bytes begin, in key order. Each costs a search in each of
    /// its runs, and its range tombstones are in memory together. O(n log n) for n branches, and the references of the
    /// pieces.
    pub fn pieces(self, bytes_min: u64) -> Vec<Self> {
        let Self { mut lower, upper, branches } = self;
        let mut waiting: Vec<(usize, Arc<Branch>)> = branches.into_iter().enumerate().collect();
        waiting.sort_by(|(_, one), (_, other)| one.meta().key_min.cmp(&other.meta().key_min));
        let mut waiting = waiting.into_iter().peekable();
        // The branches that may have keys in the piece, with their age.
        let mut inside: Vec<(usize, Arc<Branch>)> = Vec::new();
        let mut pieces = Vec::new();
        loop {
            let mut bytes = 0;
            // Branches that begin where the piece begins belong to it, so no piece is empty.
            let is_of_piece = |bytes: u64, branch: &Branch| bytes < bytes_min || branch.meta().key_min[..] <= *lower;
            while let Some((age, branch)) = waiting.next_if(|(_, branch)| is_of_piece(bytes, branch)) {
                bytes += branch.meta().bytes;
                inside.push((age, branch));
            }
            inside.sort_by_key(|(age, _)| *age);
            let next: Option<Key> = waiting.peek().map(|(_, branch)| branch.meta().key_min[..].into());
            let branches = inside.iter().map(|(_, branch)| Arc::clone(branch)).collect();
            let Some(next) = next else {
                pieces.push(Self { lower, upper, branches });
                return pieces;
            };
            inside.retain(|(_, branch)| !branch.meta().ends_before(&next));
            pieces.push(Self { lower, upper: Some(Arc::clone(&next)), branches });
            lower = next;
        }
    }
}
