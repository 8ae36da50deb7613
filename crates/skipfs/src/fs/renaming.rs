//! Renames.

use super::change::{Changes, Unused};
use super::creating::Caller;
use super::inodes::{Kept, Location, record_of};
use super::locks::LockSet;
use super::system::{SkipFs, check_name};
use crate::error::{FsError, FsResult};
use crate::format::{Attributes, Entry, FileKind, ROOT, Record, Timestamp, key};
use crate::store::Store;

/// What a rename does with an inode that has the new name already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces it.
    #[default]
    Replace,
    /// Fails: `RENAME_NOREPLACE`.
    NoReplace,
    /// Gives it the old name: `RENAME_EXCHANGE`.
    Exchange,
    /// Replaces it, and leaves a device 0:0 at the old name, which hides that name of a lower layer in an overlay:
    /// `RENAME_WHITEOUT`.
    Whiteout(Caller),
}

/// A place in a directory.
#[derive(Clone, Copy)]
struct Place<'n> {
    directory: u64,
    name: &'n [u8],
}

impl<S: Store> SkipFs<S> {
    /// Renames. Two gets, and one scan if a directory is replaced; deletes the old entry, puts the new one and the
    /// records of both directories. Subdirectories and content keep their keys.
    ///
    /// # Errors
    /// `ENOENT` if there is no such name, `EEXIST` for `NoReplace`, `EINVAL` if a directory would come below itself,
    /// `ENOTEMPTY`, `EISDIR` or `ENOTDIR` if the inode with the new name cannot be replaced.
    pub fn rename(&self, parent: u64, name: &[u8], new_parent: u64, new_name: &[u8], mode: RenameMode) -> FsResult<()> {
        check_name(name)?;
        check_name(new_name)?;
        let _mutex = (parent != new_parent).then(|| self.renames.lock());
        let (mut locks, [source, target]) = self.lock_names([(parent, name), (new_parent, new_name)])?;
        let source = source.ok_or_else(|| FsError::new(libc::ENOENT))?;
        match mode {
            RenameMode::NoReplace if target.is_some() => return Err(FsError::new(libc::EEXIST)),
            RenameMode::Exchange if target.is_none() => return Err(FsError::new(libc::ENOENT)),
            // Two names of one inode.
            _ if target == Some(source) => return Ok(()),
            _ => {}
        }
        let (from, to) = (Place { directory: parent, name }, Place { directory: new_parent, name: new_name });
        let is_exchange = mode == RenameMode::Exchange;
        if parent != new_parent {
            self.check_not_below(&locks, source, to.directory)?;
            if let Some(target) = target.filter(|_| is_exchange) {
                self.check_not_below(&locks, target, from.directory)?;
            }
        }
        let mut changes = Changes::new();
        changes.change_entries(&locks, from.directory, 0)?;
        changes.change_entries(&locks, to.directory, 0)?;
        let mut whiteout = None;
        match target {
            Some(target) if is_exchange => move_inode(&mut changes, &locks, target, to, from)?,
            Some(target) => {
                self.replace(&mut changes, &locks, source, target, to)?;
                changes.batch.delete(key::entry(from.directory, from.name));
            }
            None => changes.batch.delete(key::entry(from.directory, from.name)),
        }
        if let RenameMode::Whiteout(mut caller) = mode {
            let directory = record_of(locks.state(from.directory)?)?.attributes;
            if directory.permissions & libc::S_ISGID != 0 {
                caller.gid = directory.gid;
            }
            let number = self.numbers.take(&mut changes.batch);
            let record = whiteout_record(number.ino, caller, changes.now);
            changes.batch.put(key::entry(from.directory, from.name), record.encode());
            changes.create(&record);
            whiteout = Some(number);
        }
        move_inode(&mut changes, &locks, source, from, to)?;
        self.commit(changes, &mut locks)?;
        if let Some(number) = whiteout {
            number.committed();
        }
        if parent != new_parent {
            let exchanged = target.filter(|_| is_exchange).map(|target| (target, parent));
            for (moved, directory) in [(source, new_parent)].into_iter().chain(exchanged) {
                if record_of(locks.state(moved)?)?.attributes.is_directory() {
                    self.table.set_parent(locks.inode(moved)?, directory);
                }
            }
        }
        Ok(())
    }

    /// Fails if a directory would move to itself or to a place below itself. Requires the mutex of renames.
    fn check_not_below(&self, locks: &LockSet<'_>, moved: u64, place: u64) -> FsResult<()> {
        if !record_of(locks.state(moved)?)?.attributes.is_directory() {
            return Ok(());
        }
        let mut directory = place;
        while directory != moved {
            if directory == ROOT {
                return Ok(());
            }
            directory = self.pin(directory)?.parent();
        }
        Err(FsError::with_detail(libc::EINVAL, "a directory cannot move to a place below itself"))
    }

    /// The inode with the new name goes.
    fn replace(
        &self,
        changes: &mut Changes,
        locks: &LockSet<'_>,
        source: u64,
        target: u64,
        place: Place<'_>,
    ) -> FsResult<()> {
        let is_directory = |ino: u64| -> FsResult<bool> { Ok(record_of(locks.state(ino)?)?.attributes.is_directory()) };
        match (is_directory(source)?, is_directory(target)?) {
            (false, true) => Err(FsError::new(libc::EISDIR)),
            (true, false) => Err(FsError::new(libc::ENOTDIR)),
            (true, true) if !self.is_empty_directory(target)? => Err(FsError::new(libc::ENOTEMPTY)),
            (true, true) => {
                changes.add_subdirectories(locks, place.directory, -1)?;
                changes.touch(locks, target)?.attributes.nlink = 0;
                changes.delete(locks, target, Kept::Nowhere)
            }
            (false, false) => changes.drop_link(locks, target, Unused::Closed),
        }
    }
}

fn whiteout_record(ino: u64, caller: Caller, now: Timestamp) -> Record {
    Record::new(Attributes {
        ino,
        kind: FileKind::CharacterDevice,
        permissions: 0,
        uid: caller.uid,
        gid: caller.gid,
        nlink: 1,
        rdev: 0,
        size: 0,
        allocated: 0,
        atime: now,
        mtime: now,
        ctime: now,
    })
}

/// The inode gets its new place. The entry of the old one is the caller's.
fn move_inode(changes: &mut Changes, locks: &LockSet<'_>, ino: u64, from: Place<'_>, to: Place<'_>) -> FsResult<()> {
    let record = changes.touch(locks, ino)?;
    let kind = record.attributes.kind;
    if record.attributes.is_directory() {
        record.parent = to.directory;
        changes.add_subdirectories(locks, from.directory, -1)?;
        changes.add_subdirectories(locks, to.directory, 1)?;
    }
    let state = changes.state(locks, ino)?;
    match &mut state.location {
        location @ Location::Entry { .. } => {
            *location = Location::Entry { directory: to.directory, name: to.name.into() };
        }
        Location::Own => changes.batch.put(key::entry(to.directory, to.name), Entry::encode_link(ino, kind)),
    }
    Ok(())
}
