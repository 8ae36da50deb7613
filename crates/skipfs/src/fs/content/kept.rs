//! How much content is kept, for `st_blocks` and limits. The record has the sum. A change adds what it puts and takes away
//! what was there before.
//!
//! A file is *dense* if each of its blocks has content. The record shows that without a look at the content. Only a
//! change of a file with holes has to find out what was there, by a scan of the chunks that it changes.

use crate::error::FsResult;
use crate::format::{BLOCK_BYTES, BLOCKS_PER_CHUNK, ChunkMap, Key, Record, key};
use crate::store::Store;
use std::ops::{ControlFlow, Range};

/// Bytes in whole blocks.
pub(super) fn in_blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES)
}

/// A file before a change.
#[derive(Clone, Copy)]
pub(super) struct Before {
    ino: u64,
    blocks: u64,
    is_dense: bool,
}

impl Before {
    pub(super) fn of(record: &Record) -> Self {
        let of = &record.attributes;
        let is_dense = of.allocated == in_blocks(of.size);
        Self { ino: of.ino, blocks: of.size.div_ceil(BLOCK_BYTES), is_dense }
    }

    /// Bytes that were kept of a range of blocks. No operation of the store for a dense file and behind its end; otherwise
    /// one scan.
    pub(super) fn kept(&self, store: &impl Store, blocks: Range<u64>) -> FsResult<u64> {
        let blocks = blocks.start..blocks.end.min(self.blocks);
        if blocks.is_empty() {
            return Ok(0);
        }
        if self.is_dense {
            return Ok((blocks.end - blocks.start) * BLOCK_BYTES);
        }
        scan(store, self.ino, blocks)
    }
}

fn scan(store: &impl Store, ino: u64, blocks: Range<u64>) -> FsResult<u64> {
    let chunk_of = |block: u64| block / BLOCKS_PER_CHUNK;
    let end = match u32::try_from(blocks.end.div_ceil(BLOCKS_PER_CHUNK)) {
        Ok(chunk) => key::content(ino, chunk, 0),
        Err(_) => key::content_end(ino),
    };
    let (mut total, mut chunk, mut map) = (0, chunk_of(blocks.start), ChunkMap::default());
    let inside = |chunk: u64, map: ChunkMap| {
        let first = chunk * BLOCKS_PER_CHUNK;
        map.within(blocks.start.saturating_sub(first)..blocks.end.saturating_sub(first)).bytes()
    };
    store.scan(&key::content(ino, chunk as u32, 0), &end, &mut |found, content| {
        if let Some(Key::Content { chunk: next, block, .. }) = Key::decode(found) {
            if u64::from(next) != chunk {
                total += inside(chunk, map);
                (chunk, map) = (next.into(), ChunkMap::default());
            }
            match block.checked_sub(1) {
                None => map = ChunkMap::of_base(content.len() as u64),
                Some(block) => map.put_block(block, content.len()),
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(total + inside(chunk, map))
}

/// Content was replaced.
pub(super) fn replace(record: &mut Record, before: u64, after: u64) {
    let allocated = &mut record.attributes.allocated;
    *allocated = allocated.saturating_sub(before).saturating_add(after);
}
