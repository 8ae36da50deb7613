//! Amounts of data in branches. Plain data; any thread.

use crate::branch::Branch;

/// An amount of data. An estimate where branches are shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes of branch files.
    pub bytes: u64,
    /// Entries, all versions counted.
    pub entries: u64,
    /// Entries that are tombstones.
    pub tombstones: u64,
    /// Range tombstones. Each branch counts with all of its own, because a few may hide anything.
    pub range_tombstones: u64,
}

impl Load {
    /// All of a branch.
    pub fn of(branch: &Branch) -> Self {
        let meta = branch.meta();
        Self {
            bytes: meta.bytes,
            entries: meta.entries,
            tombstones: meta.tombstones,
            range_tombstones: meta.range_tombstones,
        }
    }
}

impl std::ops::AddAssign for Load {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.entries += other.entries;
        self.tombstones += other.tombstones;
        self.range_tombstones += other.range_tombstones;
    }
}
