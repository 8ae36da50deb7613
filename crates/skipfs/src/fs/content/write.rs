//! Writing content.

use super::kept::{Before, in_blocks, replace};
use super::patch::Patch;
use super::read::{block_key, blocks, check_file, chunks};
use crate::error::{FsError, FsResult};
use crate::format::{BLOCK_BYTES, BLOCKS_PER_CHUNK, CHUNK_BYTES, FILE_BYTES_MAX, Layout, Record, key};
use crate::fs::change::Changes;
use crate::fs::inodes::record_of;
use crate::fs::system::SkipFs;
use crate::store::{Batch, Store};
use std::ops::Range;

/// Most bytes of one write, which is one batch. A longer one writes this much.
pub(super) const WRITE_BYTES_MAX: usize = 4 << 20;

/// How to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// At the end of the file, whatever the offset is: `O_APPEND`.
    pub append: bool,
    /// Takes away set-user-ID and set-group-ID, as a write without privileges does.
    pub drop_privileges: bool,
}

impl<S: Store> SkipFs<S> {
    /// Writes to a file, and returns how many bytes were written: fewer than all if there are over 4 MiB, or at the
    /// greatest size of a file. Always puts the record. Inline content needs nothing else. A small file: one get,
    /// unless all its content is replaced, and one put. Otherwise one put for each whole chunk and one for each
    /// block; a block that is written in part costs a get or two. If the file has holes, each chunk in which something is
    /// replaced costs a scan.
    ///
    /// # Errors
    /// `EISDIR` or `EINVAL` for what is no file, `EFBIG`, `ESTALE` if it was deleted, `ENOSPC`.
    pub fn write(&self, ino: u64, offset: u64, data: &[u8], options: WriteOptions) -> FsResult<usize> {
        let mut locks = self.lock(&[ino])?;
        let mut record = {
            let record = record_of(locks.state(ino)?)?;
            check_file(record)?;
            record.clone()
        };
        locks.state(ino)?.check_kept()?;
        if data.is_empty() {
            return Ok(0);
        }
        let offset = if options.append { record.attributes.size } else { offset };
        let space = usize::try_from(FILE_BYTES_MAX.saturating_sub(offset)).unwrap_or(usize::MAX);
        if space == 0 {
            return Err(FsError::new(libc::EFBIG));
        }
        let data = &data[..data.len().min(WRITE_BYTES_MAX).min(space)];
        let mut changes = Changes::new();
        changes.keep(&locks, ino)?;
        put(self, &mut changes.batch, &mut record, offset, Patch::Bytes(data))?;
        record.attributes.modified(changes.now);
        self.drop_capability(&mut changes.batch, &record)?;
        if options.drop_privileges {
            record.attributes.drop_privileges();
        }
        *changes.record(&locks, ino)? = record;
        self.commit(changes, &mut locks)?;
        Ok(data.len())
    }
}

/// The base of a chunk, as the store has it.
pub(super) fn base(store: &impl Store, ino: u64, chunk: u32) -> FsResult<Vec<u8>> {
    Ok(store.get(&key::content(ino, chunk, 0))?.unwrap_or_default())
}

/// Whether a file of this size is one item, or in its record, if it has no blocks.
pub(super) fn is_small<S: Store>(fs: &SkipFs<S>, size: u64) -> bool {
    size <= u64::from(fs.superblock.small_bytes)
}

/// Whether content of this size may be in the record.
pub(super) fn fits_record<S: Store>(fs: &SkipFs<S>, size: u64) -> bool {
    match fs.superblock.layout {
        Layout::Items => false,
        Layout::Inline { up_to } => size <= u64::from(up_to),
    }
}

/// Replaces a range of a file, which may grow. The record is changed, but not put. Requires that the range is not empty
/// and ends at most at the greatest size of a file.
pub(super) fn put<S: Store>(
    fs: &SkipFs<S>,
    batch: &mut Batch,
    record: &mut Record,
    offset: u64,
    patch: Patch<'_>,
) -> FsResult<()> {
    let (ino, size, before) = (record.attributes.ino, record.attributes.size, Before::of(record));
    let end = offset + patch.len();
    let new_size = size.max(end);
    record.attributes.size = new_size;
    if fits_record(fs, new_size) && (record.is_inline || size == 0) {
        record.is_inline = true;
        patch.apply(&mut record.body, offset);
        record.attributes.allocated = in_blocks(record.body.len() as u64);
        return Ok(());
    }
    let was_inline = std::mem::take(&mut record.is_inline);
    let body = std::mem::take(&mut record.body);
    if is_small(fs, new_size) && !record.has_blocks {
        let is_replaced = size == 0 || (offset == 0 && end >= size);
        let mut content = match (was_inline, is_replaced) {
            (true, _) => body,
            (false, true) => Vec::new(),
            (false, false) => base(&fs.store, ino, 0)?,
        };
        patch.apply(&mut content, offset);
        record.attributes.allocated = in_blocks(content.len() as u64);
        batch.put(key::content(ino, 0, 0), content);
        return Ok(());
    }
    let mut body = was_inline.then_some(body);
    if offset >= CHUNK_BYTES
        && let Some(body) = body.take()
        && !body.is_empty()
    {
        batch.put(key::content(ino, 0, 0), body);
    }
    for (chunk, range) in chunks(offset..end) {
        let start = u64::from(chunk) * CHUNK_BYTES;
        let patch = patch.part(start + range.start - offset, start + range.end - offset);
        if chunk == 0
            && let Some(mut body) = body.take()
        {
            patch.apply(&mut body, range.start);
            record.attributes.allocated = in_blocks(body.len() as u64);
            batch.put(key::content(ino, 0, 0), body);
            continue;
        }
        let first = u64::from(chunk) * BLOCKS_PER_CHUNK;
        let former = before.kept(
            &fs.store,
            match range.start == 0 && start + range.end >= size {
                true => first..first + BLOCKS_PER_CHUNK,
                false => first + range.start / BLOCK_BYTES..first + range.end.div_ceil(BLOCK_BYTES),
            },
        )?;
        let size = size.saturating_sub(start).min(CHUNK_BYTES);
        let new = put_in_chunk(fs, batch, record, size, (chunk, range), patch)?;
        replace(record, former, new);
    }
    Ok(())
}

/// Replaces a range of a chunk that had `size` bytes. Returns how many bytes are kept of the blocks that it replaces.
fn put_in_chunk<S: Store>(
    fs: &SkipFs<S>,
    batch: &mut Batch,
    record: &mut Record,
    size: u64,
    (chunk, range): (u32, Range<u64>),
    patch: Patch<'_>,
) -> FsResult<u64> {
    let ino = record.attributes.ino;
    if range.start == 0 && range.end >= size {
        if record.has_blocks && size > 0 {
            batch.delete_range(key::content(ino, chunk, 1), key::chunk_end(ino, chunk));
        }
        return Ok(match patch {
            Patch::Bytes(bytes) => {
                batch.put(key::content(ino, chunk, 0), bytes);
                in_blocks(range.end)
            }
            Patch::Zeros(_) => {
                batch.delete(key::content(ino, chunk, 0));
                0
            }
        });
    }
    let had_blocks = std::mem::replace(&mut record.has_blocks, true);
    let (mut chunk_base, mut kept) = (None, 0);
    let bytes_of = |content: &[u8]| if content.is_empty() { 0 } else { BLOCK_BYTES };
    for (block, inside) in blocks(range.clone()) {
        let at = block * BLOCK_BYTES;
        let patch = patch.part(at + inside.start - range.start, at + inside.end - range.start);
        let size = size.saturating_sub(at).min(BLOCK_BYTES);
        let key = block_key(ino, chunk, block);
        if inside.start == 0 && inside.end >= size {
            let content = patch.to_content();
            kept += bytes_of(&content);
            batch.put(key, content);
            continue;
        }
        let former = if had_blocks && size > 0 { fs.store.get(&key)? } else { None };
        let mut content = match former {
            Some(content) => content,
            None if size == 0 => Vec::new(),
            None => {
                if chunk_base.is_none() {
                    chunk_base = Some(base(&fs.store, ino, chunk)?);
                }
                let base = chunk_base.as_deref().unwrap_or_default();
                let base = base.get(at as usize..).unwrap_or_default();
                base[..base.len().min(BLOCK_BYTES as usize)].to_vec()
            }
        };
        patch.apply(&mut content, inside.start);
        kept += bytes_of(&content);
        batch.put(key, content);
    }
    Ok(kept)
}
