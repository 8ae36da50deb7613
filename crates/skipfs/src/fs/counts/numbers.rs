//! Inode numbers. Any thread; the lock is the last that a request takes.
//!
//! 1. A number is used at most once, also after a crash: the superblock says from where on none was used.
//! 2. Numbers are reserved in ranges. The superblock with the end of a new range is in the batch of the first inode
//!    that has a number of the range. Until that batch is committed no other request gets a number, because a batch that
//!    passes it could survive a crash without it.

use crate::format::{Superblock, key};
use crate::store::Batch;
use parking_lot::{Mutex, MutexGuard};

/// So many numbers are reserved together.
const RANGE: u64 = 1024;

/// The numbers that are still unused.
#[derive(Debug)]
pub(in crate::fs) struct Numbers {
    reserved: Mutex<Reserved>,
}

#[derive(Debug)]
struct Reserved {
    next: u64,
    superblock: Superblock,
}

/// A number for a new inode. It must live until the batch is committed.
pub(in crate::fs) struct NewNumber<'n> {
    pub(in crate::fs) ino: u64,
    /// The numbers, if this one is the first of a range.
    first: Option<(MutexGuard<'n, Reserved>, Superblock)>,
}

impl Numbers {
    pub(in crate::fs) fn new(superblock: Superblock) -> Self {
        Self { reserved: Mutex::new(Reserved { next: superblock.unused_from, superblock }) }
    }

    /// Takes a number, and adds a superblock to the batch if one is needed.
    pub(in crate::fs) fn take(&self, batch: &mut Batch) -> NewNumber<'_> {
        let mut reserved = self.reserved.lock();
        let ino = reserved.next;
        reserved.next += 1;
        if ino < reserved.superblock.unused_from {
            return NewNumber { ino, first: None };
        }
        let superblock = Superblock { unused_from: ino + RANGE, ..reserved.superblock };
        batch.put(key::superblock(), superblock.encode());
        NewNumber { ino, first: Some((reserved, superblock)) }
    }

    /// How many numbers were given out.
    pub(in crate::fs) fn used(&self) -> u64 {
        self.reserved.lock().next
    }
}

impl NewNumber<'_> {
    /// To be called after the commit.
    pub(in crate::fs) fn committed(self) {
        if let Some((mut reserved, superblock)) = self.first {
            reserved.superblock = superblock;
        }
    }
}
