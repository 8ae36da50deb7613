//! `copy_file_range`: content goes from file to file without passing through the caller.

use super::patch::Patch;
use super::read::check_file;
use super::write::{WRITE_BYTES_MAX, put};
use crate::error::{FsError, FsResult};
use crate::format::{FILE_BYTES_MAX, Record};
use crate::fs::change::Changes;
use crate::fs::inodes::record_of;
use crate::fs::system::SkipFs;
use crate::store::Store;

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// The file.
    pub ino: u64,
    /// Bytes before the place.
    pub offset: u64,
}

impl<S: Store> SkipFs<S> {
    /// Copies a range to another file, or to another range of the same one. Returns how many bytes were copied: fewer
    /// than all if there are over 4 MiB, or at the end of the source. Costs a read and a write. Holes become zeros.
    /// Takes away set-user-ID and set-group-ID of the target.
    ///
    /// # Errors
    /// As for `read` and `write`; `EINVAL` if the ranges overlap.
    pub fn copy_file_range(&self, from: FilePlace, to: FilePlace, length: u64) -> FsResult<usize> {
        let mut locks = self.lock(&[from.ino, to.ino])?;
        let file = |ino: u64| -> FsResult<Record> {
            let state = locks.state(ino)?;
            check_file(record_of(state)?)?;
            state.check_kept()?;
            Ok(record_of(state)?.clone())
        };
        let (source, mut target) = (file(from.ino)?, file(to.ino)?);
        let length = length.min(source.attributes.size.saturating_sub(from.offset)).min(WRITE_BYTES_MAX as u64);
        if from.ino == to.ino && from.offset.abs_diff(to.offset) < length {
            return Err(FsError::with_detail(libc::EINVAL, "the ranges overlap"));
        }
        if length == 0 {
            return Ok(0);
        }
        if to.offset.checked_add(length).is_none_or(|end| end > FILE_BYTES_MAX) {
            return Err(FsError::new(libc::EFBIG));
        }
        let bytes = self.read_range(&source, from.offset..from.offset + length)?;
        let mut changes = Changes::new();
        changes.keep(&locks, to.ino)?;
        put(self, &mut changes.batch, &mut target, to.offset, Patch::Bytes(&bytes))?;
        target.attributes.modified(changes.now);
        target.attributes.drop_privileges();
        self.drop_capability(&mut changes.batch, &target)?;
        *changes.record(&locks, to.ino)? = target;
        self.commit(changes, &mut locks)?;
        Ok(bytes.len())
    }
}
