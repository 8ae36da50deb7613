//! Which chunks of a log file a writer may still write to (`segment.rs`, invariant 1). Any thread.

use crate::util::sync::{AtomicBool, Ordering};

/// The ownership of each chunk of a file. See the module.
#[derive(Debug)]
pub struct ChunkOwners(Box<[AtomicBool]>);

impl ChunkOwners {
    /// `chunks` chunks without owners.
    pub fn new(chunks: usize) -> Self {
        Self((0..chunks).map(|_| AtomicBool::new(false)).collect())
    }

    /// Takes `count` chunks from `first` on, or none of them.
    pub(in crate::log) fn take(&self, first: usize, count: usize) -> bool {
        // Acquire pairs with `release`: the former owner's stores there come before the new owner's.
        for (at, owned) in self.0[first..first + count].iter().enumerate() {
            if owned.swap(true, Ordering::Acquire) {
                self.release(first, at);
                return false;
            }
        }
        true
    }

    /// The number of chunks that have an owner.
    pub fn owned(&self) -> usize {
        self.0.iter().filter(|owned| owned.load(Ordering::Acquire)).count()
    }

    /// Whether idle writers own so few chunks that the file is worth reusing.
    pub fn leave_enough(&self) -> bool {
        2 * self.owned() <= self.0.len()
    }

    /// The first of `count` adjacent chunks without owners, from `from` on.
    pub(in crate::log) fn free_run(&self, from: usize, count: usize) -> Option<usize> {
        let mut start = from;
        for (chunk, owned) in self.0.iter().enumerate().skip(from) {
            if owned.load(Ordering::Acquire) {
                start = chunk + 1;
            } else if chunk + 1 - start == count {
                return Some(start);
            }
        }
        None
    }

    /// The word that says whether a chunk is owned.
    pub fn owner(&self, chunk: usize) -> &AtomicBool {
        &self.0[chunk]
    }

    pub(in crate::log) fn release(&self, first: usize, count: usize) {
        for owned in &self.0[first..first + count] {
            owned.store(false, Ordering::Release);
        }
    }
}
