//! A value that is kept where it lies. Any thread.

use crate::util::sync::Arc;
use std::ops::{Deref, Range};

/// Bytes that several may hold: a page of the cache.
pub type Memory = Arc<dyn Deref<Target = [u8]> + Send + Sync>;

/// At most so much memory is held for each byte of a value, so that many small values do not keep many times their size.
const HELD_PART: usize = 16;

/// A value within memory that it shares with others, and a reference of its own to that memory.
#[derive(Clone)]
pub struct PinnedValue {
    memory: Memory,
    at: Range<usize>,
}

impl PinnedValue {
    /// The value at a place of `memory`; `None` where that is so much larger that a copy is the better choice.
    pub fn new(memory: Memory, at: Range<usize>) -> Option<Self> {
        (at.len() >= memory.len() / HELD_PART && at.end <= memory.len()).then_some(Self { memory, at })
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
