//! Which chunks of a log file a writer may still write to (`segment.rs`, invariant 1). Any thread.

use crate::util::sync::{AtomicBool, Ordering};

/// Which chunks of a file some writer may still write to. See the module.
#[derive(Debug)]
pub struct ChunkOwners(Box<[AtomicBool]>);

impl ChunkOwners {
    /// Nobody owns any of `chunks` chunks.
    pub fn new(chunks: usize) -> Self {
        Self((0..chunks).map(|_| AtomicBool::new(false)).collect())
    }

    /// Takes `count` chunks from `first` on, or none of them.
    pub(super) fn take(&self, first: usize, count: usize) -> bool {
        // Acquire pairs with `release`: what the former owner wrote there comes before what the new one writes.
        for (at, owned) in self.0[first..first + count].iter().enumerate() {
            if owned.swap(true, Ordering::Acquire) {
                self.release(first, at);
                return false;
            }
        }
        true
    }

    /// How many chunks somebody may write to.
    pub fn owned(&self) -> usize {
        self.0.iter().filter(|owned| owned.load(Ordering::Acquire)).count()
    }

    /// Whether idle writers have left enough of it for another use.
    pub fn leave_enough(&self) -> bool {
        2 * self.owned() <= self.0.len()
    }

    /// The first of so many adjacent chunks, from `from` on, that nobody owns.
    pub(super) fn free_run(&self, from: usize, count: usize) -> Option<usize> {
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

    pub(super) fn release(&self, first: usize, count: usize) {
        for owned in &self.0[first..first + count] {
            owned.store(false, Ordering::Release);
        }
    }
}
