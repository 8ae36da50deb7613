//! `SEEK_DATA` and `SEEK_HOLE`, in units of a block.

use super::read::check_file;
use crate::error::{FsError, FsResult};
use crate::format::{BLOCK_BYTES, CHUNK_BYTES, Key, key};
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

/// The content of one chunk: a bit for each block.
#[derive(Clone, Copy, Default)]
struct Map {
    chunk: u64,
    data: u64,
}

const BLOCKS: u64 = CHUNK_BYTES / BLOCK_BYTES;
const _: () = assert!(BLOCKS == u64::BITS as u64);

impl Map {
    /// A base of so many bytes covers the first blocks.
    fn add_base(&mut self, bytes: usize) {
        let blocks = (bytes as u64).div_ceil(BLOCK_BYTES).min(BLOCKS);
        self.data |= u64::MAX.checked_shr((BLOCKS - blocks) as u32).unwrap_or(0);
    }

    /// A block over the base. An empty one is a hole.
    fn add_block(&mut self, block: u8, bytes: usize) {
        let bit = 1 << (block - 1);
        self.data = if bytes == 0 { self.data & !bit } else { self.data | bit };
    }

    /// The first byte from `offset` on in this chunk that is what is looked for.
    fn find(self, offset: u64, to: SeekTo) -> Option<u64> {
        let start = self.chunk * CHUNK_BYTES;
        let first = offset.saturating_sub(start) / BLOCK_BYTES;
        let wanted = if to == SeekTo::Data { self.data } else { !self.data };
        let rest = wanted & u64::MAX.checked_shl(first as u32).unwrap_or(0);
        (rest != 0).then(|| (start + u64::from(rest.trailing_zeros()) * BLOCK_BYTES).max(offset))
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
        if state.is_deleted {
            return Err(FsError::new(libc::ESTALE));
        }
        let size = record.attributes.size;
        if offset >= size {
            return Err(FsError::new(libc::ENXIO));
        }
        let mut map = Map { chunk: offset / CHUNK_BYTES, data: 0 };
        let mut found = None;
        if record.is_inline {
            map.add_base(record.body.len());
        } else {
            let start = key::content(ino, (offset / CHUNK_BYTES) as u32, 0);
            self.store.scan(&start, &key::content_end(ino), &mut |key, content| {
                let Some(Key::Content { chunk, block, .. }) = Key::decode(key) else {
                    return ControlFlow::Continue(());
                };
                if u64::from(chunk) != map.chunk {
                    // Between the two there may be chunks without content.
                    let next = Map { chunk: map.chunk + 1, data: 0 };
                    let gap = (u64::from(chunk) > next.chunk).then_some(next);
                    found = map.find(offset, to).or_else(|| gap?.find(offset, to));
                    if found.is_some() {
                        return ControlFlow::Break(());
                    }
                    map = Map { chunk: chunk.into(), data: 0 };
                }
                match block {
                    0 => map.add_base(content.len()),
                    _ => map.add_block(block, content.len()),
                }
                ControlFlow::Continue(())
            })?;
        }
        match (found.or_else(|| map.find(offset, to)).filter(|place| *place < size), to) {
            (Some(place), _) => Ok(place),
            (None, SeekTo::Data) => Err(FsError::new(libc::ENXIO)),
            // The chunk behind the last content, or the end.
            (None, SeekTo::Hole) => Ok(((map.chunk + 1) * CHUNK_BYTES).min(size)),
        }
    }
}
