//! Changing the size of a file.

use super::read::block_key;
use super::write::{base, fits_record};
use crate::error::FsResult;
use crate::format::{BLOCK_BYTES, CHUNK_BYTES, Record, key};
use crate::fs::change::delete_content;
use crate::fs::system::SkipFs;
use crate::store::{Batch, Store};

/// Cuts a file, or lets it grow with zeros. The record is changed, but not put. Requires that `size` is at most the
/// greatest size of a file.
pub(in crate::fs) fn truncate<S: Store>(
    fs: &SkipFs<S>,
    batch: &mut Batch,
    record: &mut Record,
    size: u64,
) -> FsResult<()> {
    let (ino, former) = (record.attributes.ino, record.attributes.size);
    if size == 0 {
        delete_content(batch, record);
        (record.has_blocks, record.is_inline) = (false, false);
        record.body.clear();
    } else if former == 0 {
        record.is_inline = fits_record(fs, size);
    } else if record.is_inline && size < former {
        record.body.truncate(usize::try_from(size).unwrap_or(usize::MAX));
    } else if record.is_inline && !fits_record(fs, size) {
        record.is_inline = false;
        let body = std::mem::take(&mut record.body);
        if !body.is_empty() {
            batch.put(key::content(ino, 0, 0), body);
        }
    } else if !record.is_inline && size < former {
        let last = (size - 1) / CHUNK_BYTES;
        if former > (last + 1) * CHUNK_BYTES {
            batch.delete_range(key::chunk_end(ino, last as u32), key::content_end(ino));
        }
        cut_chunk(fs, batch, record, last as u32, size - last * CHUNK_BYTES)?;
    }
    record.attributes.size = size;
    Ok(())
}

/// Cuts a chunk to `size` bytes, at least one.
fn cut_chunk<S: Store>(fs: &SkipFs<S>, batch: &mut Batch, record: &Record, chunk: u32, size: u64) -> FsResult<()> {
    let ino = record.attributes.ino;
    if size == CHUNK_BYTES {
        return Ok(());
    }
    let mut base = base(&fs.store, ino, chunk)?;
    if base.len() as u64 > size {
        base.truncate(size as usize);
        batch.put(key::content(ino, chunk, 0), base);
    }
    if !record.has_blocks {
        return Ok(());
    }
    let (last, inside) = ((size - 1) / BLOCK_BYTES, (size - 1) % BLOCK_BYTES + 1);
    if (last + 1) * BLOCK_BYTES < CHUNK_BYTES {
        batch.delete_range(block_key(ino, chunk, last + 1), key::chunk_end(ino, chunk));
    }
    let key = block_key(ino, chunk, last);
    if let Some(mut block) = fs.store.get(&key)?
        && block.len() as u64 > inside
    {
        block.truncate(inside as usize);
        batch.put(key, block);
    }
    Ok(())
}
