//! Extended attributes.

use super::change::Changes;
use super::inodes::record_of;
use super::system::SkipFs;
use crate::error::{FsError, FsResult};
use crate::format::{Key, NAME_BYTES_MAX, Record, key};
use crate::store::{Batch, Store};
use std::ops::ControlFlow;

/// Longest value, as in Linux.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Most bytes of names that can be listed, each with a zero byte, as in Linux.
const LIST_BYTES_MAX: usize = 64 << 10;
/// Where names may be. `system.` has access control lists, which would be stored, but not obeyed.
const NAMESPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

/// What `setxattr` does with an attribute that exists, or does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetMode {
    /// Sets it in any case.
    #[default]
    Any,
    /// Fails if it exists: `XATTR_CREATE`.
    Create,
    /// Fails if it does not exist: `XATTR_REPLACE`.
    Replace,
}

fn check_attribute_name(name: &[u8]) -> FsResult<()> {
    match name {
        [] => Err(FsError::with_detail(libc::EINVAL, "an empty name")),
        _ if name.len() > NAME_BYTES_MAX => Err(FsError::new(libc::ERANGE)),
        _ if name.contains(&0) => Err(FsError::with_detail(libc::EINVAL, "a name has no zero byte")),
        _ if NAMESPACES.contains(&name) => {
            Err(FsError::with_detail(libc::EINVAL, "the name of an extended attribute has nothing after its namespace"))
        }
        _ if NAMESPACES.iter().any(|namespace| name.starts_with(namespace)) => Ok(()),
        _ => {
            Err(FsError::with_detail(libc::EOPNOTSUPP, "extended attributes are in user., trusted. and security. only"))
        }
    }
}

impl<S: Store> SkipFs<S> {
    /// Sets an extended attribute. Puts it and the inode's record; one get, unless the inode never had an attribute. A new
    /// attribute beside others costs a scan of these.
    ///
    /// # Errors
    /// `EEXIST` and `ENODATA` as the mode says, `ERANGE` for a name over 255 bytes, `E2BIG` for a value over 64 KiB,
    /// `EINVAL` for a name that is only a namespace, `EOPNOTSUPP` for one outside `user.`, `trusted.` and `security.`,
    /// `ENOSPC` if the list of names would have over 64 KiB, `ESTALE` if the inode was deleted.
    pub fn setxattr(&self, ino: u64, name: &[u8], value: &[u8], mode: SetMode) -> FsResult<()> {
        check_attribute_name(name)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(FsError::new(libc::E2BIG));
        }
        let mut locks = self.lock(&[ino])?;
        locks.state(ino)?.check_kept()?;
        let key = key::attribute(ino, name);
        let has_attributes = record_of(locks.state(ino)?)?.has_attributes;
        let exists = has_attributes && self.store.get(&key)?.is_some();
        match (mode, exists) {
            (SetMode::Create, true) => return Err(FsError::new(libc::EEXIST)),
            (SetMode::Replace, false) => return Err(FsError::new(libc::ENODATA)),
            _ => {}
        }
        if has_attributes && !exists && self.attribute_names(ino)?.len() + name.len() + 1 > LIST_BYTES_MAX {
            let what = "the list of the names of extended attributes has at most 64 KiB";
            return Err(FsError::with_detail(libc::ENOSPC, what));
        }
        let mut changes = Changes::new();
        changes.keep(&locks, ino)?;
        changes.touch(&locks, ino)?.has_attributes = true;
        changes.batch.put(key, value);
        self.commit(changes, &mut locks)
    }

    /// The value of an extended attribute. One get; none if the inode never had an attribute.
    ///
    /// # Errors
    /// `ENODATA` if there is none, `ERANGE`, `EOPNOTSUPP` as for `setxattr`.
    pub fn getxattr(&self, ino: u64, name: &[u8]) -> FsResult<Vec<u8>> {
        check_attribute_name(name)?;
        let inode = self.pin(ino)?;
        let state = self.read_locked(&inode)?;
        let value = match record_of(&state)?.has_attributes {
            true => self.store.get(&key::attribute(ino, name))?,
            false => None,
        };
        value.ok_or_else(|| FsError::new(libc::ENODATA))
    }

    /// The names of the extended attributes, each with a zero byte after it. One scan; none if the inode never had an
    /// attribute.
    ///
    /// # Errors
    /// `E2BIG` if they have over 64 KiB.
    pub fn listxattr(&self, ino: u64) -> FsResult<Vec<u8>> {
        let inode = self.pin(ino)?;
        let state = self.read_locked(&inode)?;
        let names = if record_of(&state)?.has_attributes { self.attribute_names(ino)? } else { Vec::new() };
        // Stores of former versions may have more than can be set now.
        if names.len() > LIST_BYTES_MAX { Err(FsError::new(libc::E2BIG)) } else { Ok(names) }
    }

    /// The names, each with a zero byte after it. One scan. Requires a lock on the inode.
    fn attribute_names(&self, ino: u64) -> FsResult<Vec<u8>> {
        let mut names = Vec::new();
        let (start, end) = key::attributes(ino);
        self.store.scan(&start, &end, &mut |found, _| {
            if let Some(Key::Attribute { name, .. }) = Key::decode(found) {
                names.extend_from_slice(name);
                names.push(0);
            }
            ControlFlow::Continue(())
        })?;
        Ok(names)
    }

    /// Removes an extended attribute. One get; deletes it and puts the inode's record.
    ///
    /// # Errors
    /// `ENODATA` if there is none.
    pub fn removexattr(&self, ino: u64, name: &[u8]) -> FsResult<()> {
        check_attribute_name(name)?;
        let mut locks = self.lock(&[ino])?;
        locks.state(ino)?.check_kept()?;
        let key = key::attribute(ino, name);
        if !record_of(locks.state(ino)?)?.has_attributes || self.store.get(&key)?.is_none() {
            return Err(FsError::new(libc::ENODATA));
        }
        let mut changes = Changes::new();
        changes.touch(&locks, ino)?;
        changes.batch.delete(key);
        changes.free_space();
        self.commit(changes, &mut locks)
    }
}

/// The capabilities that a program gets from its file.
const CAPABILITY: &[u8] = b"security.capability";

impl<S: Store> SkipFs<S> {
    /// Deletes the capabilities of a file whose content or owner changes. One get; none if it never had an attribute.
    pub(super) fn drop_capability(&self, batch: &mut Batch, record: &Record) -> FsResult<()> {
        let key = key::attribute(record.attributes.ino, CAPABILITY);
        if record.has_attributes && self.store.get(&key)?.is_some() {
            batch.delete(key);
        }
        Ok(())
    }
}
