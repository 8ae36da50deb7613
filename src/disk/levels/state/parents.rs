//! The parents of a version: branch files that are in no run, but have entries that are in buffered branches (SkipStore
//! §5.2.2). Immutable; any thread.
//!
//! Invariants:
//! 1. Every file that a buffered branch of the version names is a parent. *Otherwise:* it is removed, and the entries are
//!    lost with the next crash.
//! 2. Every parent has at least one such entry. What no buffered branch names any more leaves the store.
//! 3. No run has a parent. *Otherwise:* reads find versions of keys that merges have dropped or placed elsewhere.

use crate::branch::Branch;
use crate::util::FileNumber;
use crate::util::planted::planted;
use crate::util::sync::Arc;
use std::collections::BTreeMap;

/// A parent.
#[derive(Clone, Debug)]
pub struct Parent {
    pub branch: Arc<Branch>,
    /// Its entries that are in buffered branches (the paper's `PSST->CC`).
    pub items: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Parents {
    by_file: BTreeMap<FileNumber, Parent>,
    bytes: u64,
}

impl Parents {
    /// The parents of these branches, of which some may be in memory. `find` finds the branch of a file.
    pub fn of<'a>(
        branches: impl Iterator<Item = &'a Arc<Branch>>,
        find: impl Fn(FileNumber) -> Option<Arc<Branch>>,
    ) -> Self {
        let mut items: BTreeMap<FileNumber, u64> = BTreeMap::new();
        for (file, count) in
            branches.filter_map(|branch| branch.in_buffer()).flat_map(|buffered| buffered.origins().parents())
        {
            *items.entry(*file).or_default() += count;
        }
        let parent = |(file, items): (FileNumber, u64)| match find(file) {
            Some(branch) => (file, Parent { branch, items }),
            None => unreachable!("the parent {file} of a buffered branch is gone (invariant 1)"),
        };
        planted!(Bug::LostParent => { items.clear(); });
        let by_file: BTreeMap<_, _> = items.into_iter().map(parent).collect();
        let bytes = by_file.values().map(|parent| parent.branch.meta().bytes).sum();
        Self { by_file, bytes }
    }

    /// The parent with this number.
    pub fn get(&self, file: FileNumber) -> Option<&Parent> {
        self.by_file.get(&file)
    }

    /// All of them, by file number.
    pub fn iter(&self) -> impl Iterator<Item = (FileNumber, &Parent)> {
        self.by_file.iter().map(|(file, parent)| (*file, parent))
    }

    /// Bytes of their files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
