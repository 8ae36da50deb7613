//! Names that go: `unlink` and `rmdir`.

use super::change::{Changes, Unused};
use super::inodes::{Kept, record_of};
use super::system::{SkipFs, check_name};
use crate::error::{FsError, FsResult};
use crate::format::key;
use crate::store::Store;
use std::ops::ControlFlow;

impl<S: Store> SkipFs<S> {
    /// Removes a name of an inode that is no directory. With the last name the inode and its content go; if it is open or
    /// looked up, they go with the last `release` or `forget`. One get; deletes the entry and puts the directory's record.
    /// Puts two more keys if the inode stays and has content or extended attributes outside its record; on a full disk
    /// such an inode goes at once unless it is open.
    ///
    /// # Errors
    /// `ENOENT` if there is no such name, `EISDIR` if it is a directory.
    pub fn unlink(&self, parent: u64, name: &[u8]) -> FsResult<()> {
        check_name(name)?;
        let (mut locks, [child]) = self.lock_names([(parent, name)])?;
        let child = child.ok_or_else(|| FsError::new(libc::ENOENT))?;
        if record_of(locks.state(child)?)?.attributes.is_directory() {
            return Err(FsError::new(libc::EISDIR));
        }
        let mut unlink = |unused: Unused| {
            let mut changes = Changes::new();
            changes.change_entries(&locks, parent, 0)?;
            changes.batch.delete(key::entry(parent, name));
            changes.drop_link(&locks, child, unused)?;
            // What the full disk takes of puts is for requests that need it.
            if unused == Unused::LookedUp || !changes.is_closed_orphan(&locks, child)? {
                changes.free_space();
            } else {
                changes.never_wait();
            }
            self.commit(changes, &mut locks)
        };
        match unlink(Unused::Closed) {
            Err(error) if error.errno() == libc::ENOSPC => unlink(Unused::LookedUp),
            done => done,
        }
    }

    /// Removes an empty directory. One get and one scan; deletes the entry and puts the parent's record.
    ///
    /// # Errors
    /// `ENOENT` if there is no such name, `ENOTDIR` if it is no directory, `ENOTEMPTY`.
    pub fn rmdir(&self, parent: u64, name: &[u8]) -> FsResult<()> {
        check_name(name)?;
        let (mut locks, [child]) = self.lock_names([(parent, name)])?;
        let child = child.ok_or_else(|| FsError::new(libc::ENOENT))?;
        if !record_of(locks.state(child)?)?.attributes.is_directory() {
            return Err(FsError::new(libc::ENOTDIR));
        }
        if !self.is_empty_directory(child)? {
            return Err(FsError::new(libc::ENOTEMPTY));
        }
        let mut changes = Changes::new();
        changes.change_entries(&locks, parent, -1)?;
        changes.batch.delete(key::entry(parent, name));
        changes.touch(&locks, child)?.attributes.nlink = 0;
        changes.delete(&locks, child, Kept::Nowhere)?;
        changes.free_space();
        self.commit(changes, &mut locks)
    }

    /// Whether a directory has no entries. One scan. Requires its lock.
    pub(super) fn is_empty_directory(&self, directory: u64) -> FsResult<bool> {
        let (start, end) = key::entries(directory);
        let mut is_empty = true;
        self.store.scan(&start, &end, &mut |_, _| {
            is_empty = false;
            ControlFlow::Break(())
        })?;
        Ok(is_empty)
    }
}
