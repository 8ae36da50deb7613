//! What `parts` and `instructions` measure: the same cases for nanoseconds and for instructions.
//!
//! A case is a state of a stated size and one batch of operations on it. `ready` draws the keys of the next batch and puts
//! back what the last one changed, so that batch after batch meets the same size; only `run` is measured. Keys have 8
//! bytes, in random order; values 100.

#![allow(dead_code, unused_imports, reason = "each of the two programs uses its part")]

mod database;
mod expiry;
mod files;
mod maplets;
mod memory;
mod streams;

pub use alluvium::internals::splitmix64;
pub use database::{Existing, Fresh, Place, Stored, Walk, forget_store, make_store};
pub use expiry::InKeyspace;
pub use files::{BranchBuild, FilterBuild, FilterProbe, PageSearch};
pub use maplets::{FiltersProbe, MapletBuild, MapletMerge, MapletProbe};
pub use memory::{MemtableGet, MemtableInsert, SkiplistSearch};
pub use streams::{LogAppend, Merge};

/// Operations of a batch, where a case does not say otherwise.
pub const BATCH: u64 = 1000;
/// Entries of the smaller states.
pub const SMALL: u64 = 60_000;
/// Entries of the larger states: past the second-level cache, about a full Memtable of the largest size.
pub const LARGE: u64 = 600_000;
/// What every entry holds.
pub const VALUE: [u8; 100] = [0xa5; 100];

/// A part, ready to be measured.
pub trait Case {
    /// Operations that one `run` does.
    fn operations(&self) -> u64 {
        BATCH
    }
    /// Prepares the next batch.
    fn ready(&mut self);
    /// Does the batch.
    fn run(&mut self);
    /// Brings what the batch will read into caches, where a batch can be repeated.
    fn warm(&mut self) {}
    /// The same for all batches to come.
    fn warm_all(&mut self) {}
}

/// A case made ready for its first batch.
pub fn warmed(mut case: impl Case + 'static) -> Box<dyn Case> {
    case.ready();
    case.warm();
    Box::new(case)
}

/// The key of a number: a bijection, so different numbers have different keys.
pub fn key(mut number: u64) -> [u8; 8] {
    splitmix64(&mut number).to_be_bytes()
}

/// Draws the keys of batches.
pub struct Keys {
    state: u64,
    /// Keys of the batch.
    pub batch: Vec<[u8; 8]>,
}

impl Default for Keys {
    fn default() -> Self {
        Self { state: 42, batch: Vec::with_capacity(BATCH as usize) }
    }
}

impl Keys {
    /// A batch of random keys with numbers in `from..from + count`.
    pub fn draw(&mut self, from: u64, count: u64) {
        self.batch.clear();
        self.batch.extend((0..BATCH).map(|_| key(from + splitmix64(&mut self.state) % count)));
    }

    /// The batch of the keys with numbers from `from` on.
    pub fn take(&mut self, from: u64) {
        self.batch.clear();
        self.batch.extend((from..from + BATCH).map(key));
    }
}
