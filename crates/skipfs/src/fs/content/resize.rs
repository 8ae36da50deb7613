//! Changing the size of a file.

use super::kept::{Before, in_blocks, replace};
use super::read::block_key;
use super::write::{base, fits_record};
use crate::error::FsResult;
use crate::format::{BLOCK_BYTES, CHUNK_BYTES, FILE_BYTES_MAX, Record, key};
use crate::fs::change::delete_content;
use crate::fs::system::SkipFs;
use crate::store::{Batch, Store};

/// Most bytes of a base that a truncation puts again.
const PUT_BYTES_MAX: u64 = 16 << 10;

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
        record.attributes.allocated = 0;
    } else if former == 0 {
        record.is_inline = fits_record(fs, size);
    } else if record.is_inline && size < former {
        record.body.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        record.attributes.allocated = in_blocks(record.body.len() as u64);
    } else if record.is_inline && !fits_record(fs, size) {
        record.is_inline = false;
        let body = std::mem::take(&mut record.body);
        if !body.is_empty() {
            batch.put(key::content(ino, 0, 0), body);
        }
    } else if !record.is_inline && size < former {
        let last = (size - 1) / CHUNK_BYTES;
        let cut = size.div_ceil(BLOCK_BYTES)..FILE_BYTES_MAX / BLOCK_BYTES;
        let cut_bytes = Before::of(record).kept(&fs.store, cut)?;
        replace(record, cut_bytes, 0);
        if former > (last + 1) * CHUNK_BYTES {
            batch.delete_range(key::chunk_end(ino, last as u32), key::content_end(ino));
        }
        cut_chunk(fs, batch, record, last as u32, size - last * CHUNK_BYTES)?;
    }
    record.attributes.size = size;
    Ok(())
}

/// Cuts a chunk to `size` bytes, at least one. A long base is not put again, because a full disk takes small puts only:
/// empty blocks hide what is behind the cut.
fn cut_chunk<S: Store>(fs: &SkipFs<S>, batch: &mut Batch, record: &mut Record, chunk: u32, size: u64) -> FsResult<()> {
    let ino = record.attributes.ino;
    if size == CHUNK_BYTES {
        return Ok(());
    }
    let mut base = base(&fs.store, ino, chunk)?;
    let (last, inside) = ((size - 1) / BLOCK_BYTES, (size - 1) % BLOCK_BYTES + 1);
    let key = block_key(ino, chunk, last);
    let mut block = if record.has_blocks { fs.store.get(&key)? } else { None };
    if record.has_blocks && (last + 1) * BLOCK_BYTES < CHUNK_BYTES {
        batch.delete_range(block_key(ino, chunk, last + 1), key::chunk_end(ino, chunk));
    }
    let base_blocks = (base.len() as u64).min(CHUNK_BYTES).div_ceil(BLOCK_BYTES);
    if base.len() as u64 > size && size <= PUT_BYTES_MAX {
        base.truncate(size as usize);
        batch.put(key::content(ino, chunk, 0), base);
    } else if base.len() as u64 > size {
        record.has_blocks = true;
        for hidden in last + 1..base_blocks {
            batch.put(block_key(ino, chunk, hidden), []);
        }
        if block.is_none() {
            block = base.get((last * BLOCK_BYTES) as usize..).map(<[u8]>::to_vec);
        }
    }
    if let Some(mut block) = block
        && block.len() as u64 > inside
    {
        block.truncate(inside as usize);
        batch.put(key, block);
    }
    Ok(())
}
