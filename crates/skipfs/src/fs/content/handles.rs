//! Opening and releasing files. A file that is open keeps its content when its last name goes (`fs/nameless.rs`).

use super::read::check_file;
use super::resize::truncate;
use crate::error::{FsError, FsResult};
use crate::fs::change::Changes;
use crate::fs::inodes::record_of;
use crate::fs::system::SkipFs;
use crate::store::Store;

impl<S: Store> SkipFs<S> {
    /// Opens a file: its content stays until it is released as often as it was opened. No operation of the store,
    /// except for `truncates` (`O_TRUNC`), which also takes away set-user-ID and set-group-ID.
    ///
    /// # Errors
    /// `ESTALE` if it was deleted, `EISDIR` for a directory, `EINVAL` for others that are no files.
    pub fn open_file(&self, ino: u64, truncates: bool) -> FsResult<()> {
        let mut locks = self.lock(&[ino])?;
        check_file(record_of(locks.state(ino)?)?)?;
        locks.state(ino)?.check_kept()?;
        if truncates {
            let mut changes = Changes::new();
            changes.keep(&locks, ino)?;
            let mut record = record_of(locks.state(ino)?)?.clone();
            truncate(self, &mut changes.batch, &mut record, 0)?;
            record.attributes.modified(changes.now);
            record.attributes.drop_privileges();
            self.drop_capability(&mut changes.batch, &record)?;
            changes.free_space();
            *changes.record(&locks, ino)? = record;
            self.commit(changes, &mut locks)?;
        }
        locks.state_mut(ino)?.opens += 1;
        self.table.add_pin(ino);
        Ok(())
    }

    /// Closes a file that was opened or created. With the last release of a file that has no names and no lookups its
    /// content is deleted.
    ///
    /// # Errors
    /// `EBADF` if it is not open. Those of the store: then the content is deleted when the file system is opened again.
    pub fn release(&self, ino: u64) -> FsResult<()> {
        let mut locks = self.lock(&[ino])?;
        let (inode, state) = locks.of(ino)?;
        if state.opens == 0 {
            return Err(FsError::with_detail(libc::EBADF, "a file that is not open"));
        }
        state.opens -= 1;
        self.table.unpin(ino);
        self.delete_unused(inode, state)
    }
}
