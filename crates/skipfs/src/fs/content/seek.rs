//! `SEEK_DATA` and `SEEK_HOLE`, in units of a block.

use super::read::check_file;
use crate::error::{FsError, FsResult};
use crate::format::{BLOCK_BYTES, BLOCKS_PER_CHUNK, CHUNK_BYTES, ChunkMap, Key, key};
use crate::fs::inodes::record_of;
use crate::fs::system::SkipFs;
use crate::store::Store;
use std::ops::ControlFlow;

/// What to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// Content: `SEEK_DATA`.
    Data,
    /// A hole, which is also at the end of the file: `SEEK_HOLE`.
    Hole,
}

/// The content of one chunk.
#[derive(Clone, Copy, Default)]
struct Chunk {
    number: u64,
    map: ChunkMap,
}

impl Chunk {
    /// The first byte from `offset` on in this chunk that is what is looked for.
    fn find(self, offset: u64, to: SeekTo) -> Option<u64> {
        let start = self.number * CHUNK_BYTES;
        let first = offset.saturating_sub(start) / BLOCK_BYTES;
        let wanted = if to == SeekTo::Data { self.map } else { self.map.holes() };
        let found = wanted.within(first..BLOCKS_PER_CHUNK).first()?;
        Some((start + found * BLOCK_BYTES).max(offset))
    }
}

impl<S: Store> SkipFs<S> {
    /// The first byte from `offset` on that is content, or in a hole. One scan over the content up to there, which reads
    /// it; none if it is in the record.
    ///
    /// # Errors
    /// `ENXIO` if `offset` is not before the end of the file, or there is no content behind it; as for `read`.
    pub fn seek(&self, ino: u64, offset: u64, to: SeekTo) -> FsResult<u64> {
        let inode = self.pin(ino)?;
        let state = self.read_locked(&inode)?;
        let record = record_of(&state)?;
        check_file(record)?;
        state.check_kept()?;
        let size = record.attributes.size;
        if offset >= size {
            return Err(FsError::new(libc::ENXIO));
        }
        let empty = |number: u64| Chunk { number, map: ChunkMap::default() };
        let mut current = empty(offset / CHUNK_BYTES);
        let mut found = None;
        if record.is_inline {
            current.map = ChunkMap::of_base(record.body.len() as u64);
        } else {
            let start = key::content(ino, (offset / CHUNK_BYTES) as u32, 0);
            self.store.scan(&start, &key::content_end(ino), &mut |key, content| {
                let Some(Key::Content { chunk, block, .. }) = Key::decode(key) else {
                    return ControlFlow::Continue(());
                };
                if u64::from(chunk) != current.number {
                    // Between the two there may be chunks without content.
                    let next = empty(current.number + 1);
                    let gap = (u64::from(chunk) > next.number).then_some(next);
                    found = current.find(offset, to).or_else(|| gap?.find(offset, to));
                    if found.is_some() {
                        return ControlFlow::Break(());
                    }
                    current = empty(chunk.into());
                }
                match block.checked_sub(1) {
                    None => current.map = ChunkMap::of_base(content.len() as u64),
                    Some(block) => current.map.put_block(block, content.len()),
                }
                ControlFlow::Continue(())
            })?;
        }
        match (found.or_else(|| current.find(offset, to)).filter(|place| *place < size), to) {
            (Some(place), _) => Ok(place),
            (None, SeekTo::Data) => Err(FsError::new(libc::ENXIO)),
            // The chunk behind the last content, or the end.
            (None, SeekTo::Hole) => Ok(((current.number + 1) * CHUNK_BYTES).min(size)),
        }
    }
}
