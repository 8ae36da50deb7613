//! Files of real zeroes, whose blocks exist. Not on the write path.

use crate::format::log_segment::PAGE_BYTES;
use crate::io::{AlignedBuffer, OpenMode, Storage, StorageFile};
use crate::util::Result;

/// Zeroes are written in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// Makes a new file of zeroes, whose blocks exist.
pub fn write_zeroes(storage: &dyn Storage, name: &str, bytes: usize) -> Result<()> {
    fill_with_zeroes(&*storage.open(name, OpenMode::Create)?, 0, bytes)
}

/// Writes real zeroes and syncs. A hole could not be filled on a full disk, and a store to a mapping cannot report that.
pub fn fill_with_zeroes(file: &dyn StorageFile, from: usize, bytes: usize) -> Result<()> {
    // Pages of the kernel that are only read take no memory. The allocator would keep a megabyte for each thread.
    let zeroes = AlignedBuffer::new(PIECE_BYTES.min((bytes - from).next_multiple_of(PAGE_BYTES)).max(PAGE_BYTES));
    for at in (from..bytes).step_by(zeroes.len()) {
        let piece = zeroes.len().min(bytes - at);
        file.write_all_at(&zeroes[..piece], at as u64)?;
    }
    file.sync()
}
