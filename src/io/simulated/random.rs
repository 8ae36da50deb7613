//! The simulated disk's random numbers (splitmix64): a pure function of the seed, the same everywhere and for ever, so
//! that the seed that a failed test printed reproduces the failure.

use crate::util::random::splitmix64;

/// A generator.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True in `percent` of a hundred cases.
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
