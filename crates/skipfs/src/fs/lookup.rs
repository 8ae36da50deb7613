//! Lookups: from names to inode numbers.

use super::inodes::record_of;
use super::system::{SkipFs, check_name};
use crate::error::{FsError, FsResult};
use crate::format::{Attributes, FileKind};
use crate::store::Store;

impl<S: Store> SkipFs<S> {
    /// Finds a name in a directory, and adds a lookup to its inode: the number may be used until `forget`. One get;
    /// two if the inode has several names and is not in use.
    ///
    /// # Errors
    /// `ENOENT` if there is no such name, `ENOTDIR` if `parent` is no directory, `ENAMETOOLONG`.
    pub fn lookup(&self, parent: u64, name: &[u8]) -> FsResult<Attributes> {
        check_name(name)?;
        let directory = self.pin(parent)?;
        let child = {
            let state = self.read_locked(&directory)?;
            if !record_of(&state)?.attributes.is_directory() {
                return Err(FsError::new(libc::ENOTDIR));
            }
            let child = self.find(parent, name)?.ok_or_else(|| FsError::new(libc::ENOENT))?;
            child.look_up();
            child
        };
        // The directory is unlocked: waiting for the child must not hold up others (rule 4).
        let attributes = self.read_locked(&child).and_then(|state| Ok(record_of(&state)?.attributes));
        if attributes.is_err() {
            self.forget(child.ino, 1);
        }
        attributes
    }

    /// The attributes of an inode in use. No operation of the store, unless its record was dropped from memory:
    /// then one get, or two.
    ///
    /// # Errors
    /// `ESTALE` if the inode was not looked up.
    pub fn getattr(&self, ino: u64) -> FsResult<Attributes> {
        let inode = self.pin(ino)?;
        let state = self.read_locked(&inode)?;
        Ok(record_of(&state)?.attributes)
    }

    /// The target of a symbolic link. No operation of the store.
    ///
    /// # Errors
    /// `EINVAL` for other inodes.
    pub fn readlink(&self, ino: u64) -> FsResult<Vec<u8>> {
        let inode = self.pin(ino)?;
        let state = self.read_locked(&inode)?;
        let record = record_of(&state)?;
        match record.attributes.kind {
            FileKind::Symlink => Ok(record.body.clone()),
            _ => Err(FsError::with_detail(libc::EINVAL, "not a symbolic link")),
        }
    }
}
