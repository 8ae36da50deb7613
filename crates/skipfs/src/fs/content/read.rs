//! Reading content.

use crate::error::{FsError, FsResult};
use crate::format::{BLOCK_BYTES, CHUNK_BYTES, FileKind, Key, Record, key};
use crate::fs::inodes::record_of;
use crate::fs::system::SkipFs;
use crate::store::Store;
use std::ops::{ControlFlow, Range};

/// A read of at most so many blocks of a chunk gets each of them; a longer one scans.
const GETS_MAX: u64 = 2;
/// Most bytes of one read. A longer one returns this much.
const READ_BYTES_MAX: u64 = 16 << 20;

/// The part of a range that lies in a chunk: the chunk, and the range in it.
pub(super) fn chunks(range: Range<u64>) -> impl Iterator<Item = (u32, Range<u64>)> {
    let first = range.start / CHUNK_BYTES;
    (first..range.end.div_ceil(CHUNK_BYTES)).map(move |chunk| {
        let start = chunk * CHUNK_BYTES;
        let (from, to) = (range.start.max(start) - start, range.end.min(start + CHUNK_BYTES) - start);
        (chunk as u32, from..to)
    })
}

/// The parts of a range of a chunk that lie in its blocks: the block, and the range in it.
pub(super) fn blocks(range: Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> {
    let first = range.start / BLOCK_BYTES;
    (first..range.end.div_ceil(BLOCK_BYTES)).map(move |block| {
        let start = block * BLOCK_BYTES;
        let (from, to) = (range.start.max(start) - start, range.end.min(start + BLOCK_BYTES) - start);
        (block, from..to)
    })
}

/// The key of a block.
pub(super) fn block_key(ino: u64, chunk: u32, block: u64) -> Vec<u8> {
    key::content(ino, chunk, block as u8 + 1)
}

/// Copies the part of `content` from `from` on that there is; the rest of `out` stays zeros.
fn copy(out: &mut [u8], content: &[u8], from: u64) {
    let content = content.get(from as usize..).unwrap_or_default();
    let count = out.len().min(content.len());
    out[..count].copy_from_slice(&content[..count]);
}

impl<S: Store> SkipFs<S> {
    /// Reads a file: fewer bytes than `length` only at its end, or if that is over 16 MiB. Inline content costs
    /// nothing, a small file one get. Otherwise one get for each chunk, and if the file has blocks, one for each of
    /// two blocks or one scan for more.
    ///
    /// # Errors
    /// `EISDIR` or `EINVAL` for what is no file, `ESTALE` if it was deleted.
    pub fn read(&self, ino: u64, offset: u64, length: usize) -> FsResult<Vec<u8>> {
        let inode = self.pin(ino)?;
        let state = self.read_locked(&inode)?;
        let record = record_of(&state)?;
        check_file(record)?;
        state.check_kept()?;
        let end = offset.saturating_add((length as u64).min(READ_BYTES_MAX)).min(record.attributes.size);
        self.read_range(record, offset..end)
    }

    /// Reads a range that ends at most where the file does. Requires a lock on the inode.
    pub(super) fn read_range(&self, record: &Record, Range { start: offset, end }: Range<u64>) -> FsResult<Vec<u8>> {
        if offset >= end {
            return Ok(Vec::new());
        }
        let mut out = vec![0; (end - offset) as usize];
        if record.is_inline {
            copy(&mut out, &record.body, offset);
            return Ok(out);
        }
        let mut rest = &mut out[..];
        for (chunk, range) in chunks(offset..end) {
            let (part, after) = rest.split_at_mut((range.end - range.start) as usize);
            self.read_chunk(record, chunk, range, part)?;
            rest = after;
        }
        Ok(out)
    }

    /// Reads a range of a chunk. Requires that `out` is zeros.
    fn read_chunk(&self, record: &Record, chunk: u32, range: Range<u64>, out: &mut [u8]) -> FsResult<()> {
        let ino = record.attributes.ino;
        let base = || self.store.get(&key::content(ino, chunk, 0));
        if !record.has_blocks {
            copy(out, &base()?.unwrap_or_default(), range.start);
            return Ok(());
        }
        if blocks(range.clone()).count() as u64 <= GETS_MAX {
            let mut cached = None;
            let mut rest = out;
            for (block, inside) in blocks(range) {
                let (part, after) = rest.split_at_mut((inside.end - inside.start) as usize);
                match self.store.get(&block_key(ino, chunk, block))? {
                    Some(content) => copy(part, &content, inside.start),
                    None => {
                        if cached.is_none() {
                            cached = Some(base()?.unwrap_or_default());
                        }
                        copy(part, cached.as_deref().unwrap_or_default(), block * BLOCK_BYTES + inside.start);
                    }
                }
                rest = after;
            }
            return Ok(());
        }
        copy(out, &base()?.unwrap_or_default(), range.start);
        let first = block_key(ino, chunk, range.start / BLOCK_BYTES);
        let last = range.end.div_ceil(BLOCK_BYTES);
        let end =
            if last * BLOCK_BYTES < CHUNK_BYTES { block_key(ino, chunk, last) } else { key::chunk_end(ino, chunk) };
        self.store.scan(&first, &end, &mut |found, content| {
            if let Some(Key::Content { block: 1.., .. }) = Key::decode(found) {
                let at = u64::from(found[found.len() - 1] - 1) * BLOCK_BYTES;
                let (from, to) = (at.max(range.start), (at + BLOCK_BYTES).min(range.end));
                let part = &mut out[(from - range.start) as usize..(to - range.start) as usize];
                part.fill(0);
                copy(part, content, from - at);
            }
            ControlFlow::Continue(())
        })
    }
}

/// Fails unless this is a regular file.
pub(super) fn check_file(record: &Record) -> FsResult<()> {
    match record.attributes.kind {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(FsError::new(libc::EISDIR)),
        _ => Err(FsError::with_detail(libc::EINVAL, "not a regular file")),
    }
}
