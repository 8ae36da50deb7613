//! `fallocate`: growing, and holes.

use super::kept::{Before, replace};
use super::patch::Patch;
use super::read::check_file;
use super::resize::truncate;
use super::write::{is_small, put};
use crate::error::{FsError, FsResult};
use crate::format::{BLOCK_BYTES, CHUNK_BYTES, FILE_BYTES_MAX, Record, key};
use crate::fs::change::Changes;
use crate::fs::inodes::record_of;
use crate::fs::system::SkipFs;
use crate::store::{Batch, Store};
use std::ops::Range;

impl<S: Store> SkipFs<S> {
    /// Allocates or frees space, as `fallocate(2)` with the flags 0, `KEEP_SIZE`, `PUNCH_HOLE` and `ZERO_RANGE`. The
    /// store reserves no space, so an allocation only checks that there is enough now. Zeros cost one range delete
    /// for all whole chunks, and as a write for the rest. Takes away set-user-ID and set-group-ID.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for other flags, `EINVAL` for an empty range, `EFBIG`, `ENOSPC`, `ESTALE` if the file was deleted.
    pub fn fallocate(&self, ino: u64, offset: u64, length: u64, mode: i32) -> FsResult<()> {
        let keeps_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let (is_hole, is_zeros) = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => (false, false),
            libc::FALLOC_FL_PUNCH_HOLE if keeps_size => (true, false),
            libc::FALLOC_FL_ZERO_RANGE => (false, true),
            _ => return Err(FsError::new(libc::EOPNOTSUPP)),
        };
        if length == 0 {
            return Err(FsError::with_detail(libc::EINVAL, "an empty range"));
        }
        let end = offset.checked_add(length).filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or_else(|| FsError::new(libc::EFBIG))?;
        let mut locks = self.lock(&[ino])?;
        let mut record = record_of(locks.state(ino)?)?.clone();
        check_file(&record)?;
        locks.state(ino)?.check_kept()?;
        let size = record.attributes.size;
        if !is_hole && end > size && self.space()?.free < end - size {
            return Err(FsError::new(libc::ENOSPC));
        }
        let mut changes = Changes::new();
        changes.keep(&locks, ino)?;
        let now = changes.now;
        if (is_hole || is_zeros) && offset < size {
            zero(self, &mut changes.batch, &mut record, offset..end.min(size))?;
        }
        if is_hole {
            changes.free_space();
        }
        if !keeps_size && end > size {
            truncate(self, &mut changes.batch, &mut record, end)?;
        }
        record.attributes.modified(now);
        record.attributes.drop_privileges();
        self.drop_capability(&mut changes.batch, &record)?;
        *changes.record(&locks, ino)? = record;
        self.commit(changes, &mut locks)
    }
}

/// Zeros a range inside a file.
fn zero<S: Store>(fs: &SkipFs<S>, batch: &mut Batch, record: &mut Record, range: Range<u64>) -> FsResult<()> {
    let ino = record.attributes.ino;
    let (first, last) = (range.start.next_multiple_of(CHUNK_BYTES), range.end / CHUNK_BYTES * CHUNK_BYTES);
    let is_one_item = record.is_inline || (is_small(fs, record.attributes.size) && !record.has_blocks);
    let parts = match first < last && !is_one_item {
        true => {
            let former = Before::of(record).kept(&fs.store, first / BLOCK_BYTES..last / BLOCK_BYTES)?;
            replace(record, former, 0);
            let chunk = |offset: u64| u32::try_from(offset / CHUNK_BYTES).ok();
            let end = chunk(last).map_or_else(|| key::content_end(ino), |chunk| key::content(ino, chunk, 0));
            batch.delete_range(key::content(ino, (first / CHUNK_BYTES) as u32, 0), end);
            [range.start..first, last..range.end]
        }
        false => [range.clone(), range.end..range.end],
    };
    // What is behind the part that was zeroed first does not change with it, so the store still shows what is there.
    for part in parts {
        if !part.is_empty() {
            put(fs, batch, record, part.start, Patch::Zeros(part.end - part.start))?;
        }
    }
    Ok(())
}
