//! Hard links.

use super::change::Changes;
use super::inodes::{Location, record_of};
use super::system::{SkipFs, check_name};
use crate::error::{FsError, FsResult};
use crate::format::{Attributes, Entry, key};
use crate::store::Store;

impl<S: Store> SkipFs<S> {
    /// Gives an inode one more name, and adds a lookup. With the second name its record moves from its entry to its
    /// number, and stays there. One get; puts the entry, the record, the directory's record, and the first time the
    /// former entry.
    ///
    /// # Errors
    /// `EEXIST` if the name exists, `EPERM` for a directory, `ENOENT` if the inode has no name any more, `EMLINK`.
    pub fn link(&self, ino: u64, parent: u64, name: &[u8]) -> FsResult<Attributes> {
        check_name(name)?;
        let inode = self.pin(ino)?;
        loop {
            let (mut locks, [existing]) = self.lock_names([(parent, name)])?;
            if existing.is_some() {
                return Err(FsError::new(libc::EEXIST));
            }
            if ino == parent {
                return Err(FsError::new(libc::EPERM));
            }
            if locks.try_add(self.pin(ino)?).is_err() {
                // Another thread has it. Waits for that without any lock, and then tries again.
                drop(locks);
                drop(inode.write());
                continue;
            }
            let (inode, state) = locks.of(ino)?;
            self.load(inode, state)?;
            let attributes = record_of(state)?.attributes;
            if attributes.is_directory() {
                return Err(FsError::new(libc::EPERM));
            }
            if !state.is_stored() || attributes.nlink == 0 {
                return Err(FsError::new(libc::ENOENT));
            }
            let nlink = attributes.nlink.checked_add(1).ok_or_else(|| FsError::new(libc::EMLINK))?;
            let mut changes = Changes::new();
            changes.change_entries(&locks, parent, 0)?;
            let entry = Entry::encode_link(ino, attributes.kind);
            let state = changes.state(&locks, ino)?;
            if let Location::Entry { directory, name } = std::mem::replace(&mut state.location, Location::Own) {
                changes.batch.put(key::entry(directory, &name), entry.clone());
            }
            changes.batch.put(key::entry(parent, name), entry);
            let record = changes.touch(&locks, ino)?;
            record.attributes.nlink = nlink;
            let attributes = record.attributes;
            self.commit(changes, &mut locks)?;
            locks.pin(ino)?.look_up();
            return Ok(attributes);
        }
    }
}
