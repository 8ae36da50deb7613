//! A value for each of some groups of threads: counters that many threads change, without a cache line that all of them
//! share. Any thread.

use super::{OnceLock, thread_number};
use crossbeam_utils::CachePadded;

/// Enough that threads rarely share a value.
const STRIPES_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Striped<T>(Box<[CachePadded<T>]>);

impl<T> Striped<T> {
    /// The value of this thread's group.
    #[inline]
    pub fn mine(&self) -> &T {
        &self.0[thread_number() & (self.0.len() - 1)]
    }

    /// The values of all groups.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|value| &**value)
    }

    /// The sum over all groups.
    pub fn sum(&self, of: impl Fn(&T) -> u64) -> u64 {
        self.0.iter().map(|value| of(value)).sum()
    }
}

impl<T: Default> Default for Striped<T> {
    fn default() -> Self {
        Self((0..stripes()).map(|_| CachePadded::default()).collect())
    }
}

/// The number of groups, a power of two.
fn stripes() -> usize {
    static STRIPES: OnceLock<usize> = OnceLock::new();
    *STRIPES.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (2 * cores).next_power_of_two().min(STRIPES_MAX)
    })
}
