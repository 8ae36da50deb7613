//! `IdleContent`: which idle inodes of a part of the table have content in memory, in the order of their last use. The lock
//! of the part protects it.
//!
//! An inode is idle if it is looked up, and neither open nor used by a request.

use std::collections::BTreeMap;

/// The idle inodes with content in memory.
#[derive(Debug, Default)]
pub(super) struct IdleContent {
    /// Inode numbers by the time of their last use, which only counts.
    by_use: BTreeMap<u64, u64>,
    bytes: usize,
    next: u64,
}

/// The place of an inode in it.
#[derive(Debug)]
pub(super) struct IdlePlace {
    used_at: u64,
    bytes: usize,
}

impl IdleContent {
    /// Bytes of content of all.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an inode, which was used last.
    pub(super) fn add(&mut self, ino: u64, bytes: usize) -> IdlePlace {
        self.next += 1;
        self.by_use.insert(self.next, ino);
        self.bytes += bytes;
        IdlePlace { used_at: self.next, bytes }
    }

    /// Removes an inode from its place.
    pub(super) fn remove(&mut self, place: &IdlePlace) {
        if self.by_use.remove(&place.used_at).is_some() {
            self.bytes -= place.bytes;
        }
    }

    /// The inode that was used longest ago.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.by_use.first_key_value().map(|(_, ino)| *ino)
    }
}
