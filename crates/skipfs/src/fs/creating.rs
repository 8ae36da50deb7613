//! New inodes: files, directories, symbolic links, devices.

use super::change::Changes;
use super::inodes::{Location, State, record_of};
use super::system::{SkipFs, check_name};
use crate::error::{FsError, FsResult};
use crate::format::{Attributes, FileKind, Record, TARGET_BYTES_MAX};
use crate::store::Store;

/// Who makes an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The owner of the new inode.
    pub uid: u32,
    /// Its group, unless the directory gives it its own.
    pub gid: u32,
}

/// A new inode.
struct New<'n> {
    kind: FileKind,
    permissions: u32,
    rdev: u32,
    target: &'n [u8],
    opens: u64,
}

impl<S: Store> SkipFs<S> {
    /// Makes a regular file and opens it: `release` closes it. Adds a lookup. One get; puts the entry and the
    /// directory's record.
    ///
    /// The permissions are as the caller's file mode mask left them.
    ///
    /// # Errors
    /// `EEXIST` if the name exists, `ENOENT` if the directory was removed, `ENOTDIR`, `ENAMETOOLONG`.
    pub fn create(&self, parent: u64, name: &[u8], permissions: u32, caller: Caller) -> FsResult<Attributes> {
        let new = New { kind: FileKind::File, permissions, rdev: 0, target: &[], opens: 1 };
        self.add(parent, name, caller, &new)
    }

    /// Makes an inode of the type in `mode`: a file, a pipe, a socket or a device. Adds a lookup. Costs as for
    /// `create`.
    ///
    /// # Errors
    /// As for `create`; `EINVAL` for other types.
    pub fn mknod(&self, parent: u64, name: &[u8], mode: u32, rdev: u32, caller: Caller) -> FsResult<Attributes> {
        // No type is a file, as in mknod(2).
        let kind = if mode & libc::S_IFMT == 0 { Some(FileKind::File) } else { FileKind::of_mode(mode) };
        let kind = kind.filter(|kind| !matches!(kind, FileKind::Directory | FileKind::Symlink));
        let kind =
            kind.ok_or_else(|| FsError::with_detail(libc::EINVAL, "a type of inode that mknod does not make"))?;
        let rdev = if matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice) { rdev } else { 0 };
        let new = New { kind, permissions: mode, rdev, target: &[], opens: 0 };
        self.add(parent, name, caller, &new)
    }

    /// Makes a directory. Adds a lookup. Costs as for `create`.
    ///
    /// # Errors
    /// As for `create`; `EMLINK` if the parent has too many subdirectories.
    pub fn mkdir(&self, parent: u64, name: &[u8], permissions: u32, caller: Caller) -> FsResult<Attributes> {
        let new = New { kind: FileKind::Directory, permissions, rdev: 0, target: &[], opens: 0 };
        self.add(parent, name, caller, &new)
    }

    /// Makes a symbolic link. Adds a lookup. Costs as for `create`.
    ///
    /// # Errors
    /// As for `create`; `ENOENT` for an empty target, `ENAMETOOLONG` for one over 4095 bytes.
    pub fn symlink(&self, parent: u64, name: &[u8], target: &[u8], caller: Caller) -> FsResult<Attributes> {
        if target.is_empty() {
            return Err(FsError::new(libc::ENOENT));
        }
        if target.len() > TARGET_BYTES_MAX {
            return Err(FsError::new(libc::ENAMETOOLONG));
        }
        let new = New { kind: FileKind::Symlink, permissions: 0o777, rdev: 0, target, opens: 0 };
        self.add(parent, name, caller, &new)
    }

    fn add(&self, parent: u64, name: &[u8], caller: Caller, new: &New<'_>) -> FsResult<Attributes> {
        check_name(name)?;
        let (mut locks, [existing]) = self.lock_names([(parent, name)])?;
        if existing.is_some() {
            return Err(FsError::new(libc::EEXIST));
        }
        let mut changes = Changes::new();
        let is_directory = new.kind == FileKind::Directory;
        changes.change_entries(&locks, parent, is_directory.into())?;
        let of_parent = record_of(locks.state(parent)?)?.attributes;
        let number = self.numbers.take(&mut changes.batch);
        let now = changes.now;
        let mut attributes = Attributes {
            ino: number.ino,
            kind: new.kind,
            permissions: new.permissions & 0o7777,
            uid: caller.uid,
            gid: caller.gid,
            nlink: if is_directory { 2 } else { 1 },
            rdev: new.rdev,
            size: new.target.len() as u64,
            allocated: 0,
            atime: now,
            mtime: now,
            ctime: now,
        };
        if of_parent.permissions & libc::S_ISGID != 0 {
            attributes.gid = of_parent.gid;
            attributes.permissions |= if is_directory { libc::S_ISGID } else { 0 };
        }
        let mut record = Record::new(attributes);
        record.parent = if is_directory { parent } else { 0 };
        record.body = new.target.to_vec();
        let location = Location::Entry { directory: parent, name: name.into() };
        changes.batch.put(crate::format::key::entry(parent, name), record.encode());
        changes.create(&record);
        self.commit(changes, &mut locks)?;
        number.committed();
        // No request can find the inode before the directory is unlocked, so its record is current.
        let state = State { opens: new.opens, ..State::new(location, Some(record)) };
        let seen = self.table.removals();
        let pin = self.table.insert(attributes.ino, new.kind, parent, state, seen);
        pin.mark_changed();
        pin.look_up();
        if new.opens > 0 {
            self.table.add_pin(attributes.ino);
        }
        Ok(attributes)
    }
}
