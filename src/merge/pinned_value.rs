//! A value that is used in place, without a copy. Any thread.

use crate::util::sync::Arc;
use std::ops::{Deref, Range};

/// Shared memory: a page of the cache.
pub type Memory = Arc<dyn Deref<Target = [u8]> + Send + Sync>;

/// At most this many bytes of memory are pinned for each byte of a value, so that many small values do not pin many
/// times their size.
const PINNED_PART: usize = 16;

/// A value within shared memory, and a counted reference to that memory.
#[derive(Clone)]
pub struct PinnedValue {
    memory: Memory,
    at: Range<usize>,
}

impl PinnedValue {
    /// The value at this range of `memory`. `None` if the memory is so much larger that a copy is better.
    pub fn new(memory: Memory, at: Range<usize>) -> Option<Self> {
        (at.len() >= memory.len() / PINNED_PART && at.end <= memory.len()).then_some(Self { memory, at })
    }
}

impl Deref for PinnedValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.memory.get(self.at.clone()).unwrap_or_default()
    }
}

impl std::fmt::Debug for PinnedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinnedValue").field("at", &self.at).finish_non_exhaustive()
    }
}
