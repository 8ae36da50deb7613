//! `ChunkMap`: which blocks of a chunk have content. A bit for each block. Pure.

use super::{BLOCK_BYTES, BLOCKS_PER_CHUNK};
use std::ops::Range;

const _: () = assert!(BLOCKS_PER_CHUNK == u64::BITS as u64);

/// The blocks of a chunk that have content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkMap(u64);

/// The first so many bits.
fn first(count: u64) -> u64 {
    let rest = u64::from(u64::BITS).saturating_sub(count);
    u64::MAX.checked_shr(rest as u32).unwrap_or(0)
}

impl ChunkMap {
    /// The blocks of a base with so many bytes.
    pub fn of_base(bytes: u64) -> Self {
        Self(first(bytes.div_ceil(BLOCK_BYTES)))
    }

    /// A block over the base, counted from 0, with so many bytes. An empty one is a hole.
    pub fn put_block(&mut self, block: u8, bytes: usize) {
        let bit = 1_u64.checked_shl(block.into()).unwrap_or(0);
        self.0 = if bytes == 0 { self.0 & !bit } else { self.0 | bit };
    }

    /// What is in this map and not in the other.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// What lies in a range of blocks.
    pub fn within(self, blocks: Range<u64>) -> Self {
        Self(self.0 & first(blocks.end) & !first(blocks.start))
    }

    /// The blocks without content.
    pub fn holes(self) -> Self {
        Self(!self.0)
    }

    /// The first block.
    pub fn first(self) -> Option<u64> {
        (self.0 != 0).then(|| self.0.trailing_zeros().into())
    }

    /// The last block.
    pub fn last(self) -> Option<u64> {
        self.0.checked_ilog2().map(u64::from)
    }

    /// Bytes of the blocks.
    pub fn bytes(self) -> u64 {
        u64::from(self.0.count_ones()) * BLOCK_BYTES
    }
}
