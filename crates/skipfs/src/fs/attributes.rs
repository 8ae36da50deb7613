//! Changes of attributes: `setattr`.

use super::change::Changes;
use super::content::truncate;
use super::inodes::record_of;
use super::system::SkipFs;
use crate::error::{FsError, FsResult};
use crate::format::{Attributes, FILE_BYTES_MAX, FileKind, Timestamp};
use crate::store::Store;

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time of the request.
    Now,
    /// This time.
    To(Timestamp),
}

/// The attributes to set; `None` keeps one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// The permission bits; other bits are ignored.
    pub permissions: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The size of a file: content beyond it goes, or zeros come.
    pub size: Option<u64>,
    /// The time of the last access.
    pub atime: Option<SetTime>,
    /// The time of the last modification.
    pub mtime: Option<SetTime>,
    /// The time of the last change. `None`: now.
    pub ctime: Option<Timestamp>,
    /// Takes away set-user-ID and set-group-ID of a file that is cut or grows, as without privileges.
    pub drop_privileges: bool,
}

impl<S: Store> SkipFs<S> {
    /// Sets attributes. Puts the record; truncation also deletes and puts content, with a get for each block, base or
    /// item that is cut.
    ///
    /// A new owner or group of a file takes away set-user-ID, and set-group-ID if the group may execute, unless
    /// `permissions` says otherwise.
    ///
    /// # Errors
    /// `EISDIR` or `EINVAL` for the size of what is no file, `EFBIG`, `ESTALE` for the size of a deleted file.
    pub fn setattr(&self, ino: u64, set: &SetAttributes) -> FsResult<Attributes> {
        let mut locks = self.lock(&[ino])?;
        let mut changes = Changes::new();
        let now = changes.now;
        let mut record = record_of(locks.state(ino)?)?.clone();
        if let Some(size) = set.size {
            let former = record.attributes.size;
            match record.attributes.kind {
                FileKind::File if size > FILE_BYTES_MAX => return Err(FsError::new(libc::EFBIG)),
                FileKind::File => {
                    changes.keep(&locks, ino)?;
                    truncate(self, &mut changes.batch, &mut record, size)?;
                }
                FileKind::Directory => return Err(FsError::new(libc::EISDIR)),
                _ => return Err(FsError::with_detail(libc::EINVAL, "only regular files can be cut")),
            }
            record.attributes.mtime = now;
            if size < former {
                changes.free_space();
            }
        }
        let is_given = set.uid.is_some() || set.gid.is_some();
        if is_given || set.size.is_some() {
            self.drop_capability(&mut changes.batch, &record)?;
        }
        let attributes = &mut record.attributes;
        if (is_given || (set.size.is_some() && set.drop_privileges)) && attributes.kind == FileKind::File {
            attributes.drop_privileges();
        }
        attributes.uid = set.uid.unwrap_or(attributes.uid);
        attributes.gid = set.gid.unwrap_or(attributes.gid);
        attributes.permissions = set.permissions.map_or(attributes.permissions, |permissions| permissions & 0o7777);
        let time = |set: Option<SetTime>, old| match set {
            None => old,
            Some(SetTime::Now) => now,
            Some(SetTime::To(time)) => time,
        };
        attributes.atime = time(set.atime, attributes.atime);
        attributes.mtime = time(set.mtime, attributes.mtime);
        attributes.ctime = set.ctime.unwrap_or(now);
        let attributes = *attributes;
        *changes.record(&locks, ino)? = record;
        self.commit(changes, &mut locks)?;
        Ok(attributes)
    }
}
