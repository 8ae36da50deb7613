//! `Changes`: what one request changes: a batch for the store, and the new states of locked inodes. One thread.
//!
//! The states in memory stay as they are until the batch is committed. A request that fails has changed nothing.

use super::counts::Growth;
use super::inodes::{Kept, Location, State, record_of};
use super::locks::LockSet;
use crate::error::{FsError, FsResult};
use crate::format::{CHUNK_BYTES, FileKind, Record, Timestamp, key};
use crate::store::{Batch, Change};

/// Which inodes without names go at once, because nothing uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unused {
    /// Those that are neither open nor looked up.
    Closed,
    /// Those that are not open. What was looked up before cannot be opened any more.
    LookedUp,
}

/// The changes of a request.
pub(super) struct Changes {
    /// Changes beyond the records of `states`, which come after them.
    pub(super) batch: Batch,
    /// The time of the request.
    pub(super) now: Timestamp,
    states: Vec<(u64, State)>,
    created: Growth,
}

impl Changes {
    /// No changes so far. On a full disk the request waits while the space of what was removed comes back.
    pub(super) fn new() -> Self {
        let mut batch = Batch::new();
        batch.set_waits_for_space(true);
        Self { batch, now: Timestamp::now(), states: Vec::new(), created: Growth::default() }
    }

    /// The new state of a locked inode. Its record will be put where the state says, if it is stored.
    pub(super) fn state(&mut self, locks: &LockSet<'_>, ino: u64) -> FsResult<&mut State> {
        let place = match self.states.iter().position(|(changed, _)| *changed == ino) {
            Some(place) => place,
            None => {
                self.states.push((ino, locks.state(ino)?.clone()));
                self.states.len() - 1
            }
        };
        Ok(&mut self.states[place].1)
    }

    /// The new record of a locked inode.
    pub(super) fn record(&mut self, locks: &LockSet<'_>, ino: u64) -> FsResult<&mut Record> {
        let record = self.state(locks, ino)?.record.as_mut();
        record.ok_or_else(|| FsError::with_detail(libc::EIO, "an inode without a record"))
    }

    /// The entries of a directory change, and it gets or loses subdirectories.
    pub(super) fn change_entries(&mut self, locks: &LockSet<'_>, directory: u64, subdirectories: i32) -> FsResult<()> {
        let now = self.now;
        self.state(locks, directory)?.entries.change();
        self.record(locks, directory)?.attributes.modified(now);
        self.add_subdirectories(locks, directory, subdirectories)
    }

    /// A directory gets or loses subdirectories.
    pub(super) fn add_subdirectories(&mut self, locks: &LockSet<'_>, directory: u64, count: i32) -> FsResult<()> {
        let attributes = &mut self.record(locks, directory)?.attributes;
        let nlink = attributes.nlink.checked_add_signed(count);
        attributes.nlink = nlink.ok_or_else(|| FsError::new(libc::EMLINK))?;
        Ok(())
    }

    /// The attributes of an inode change now.
    pub(super) fn touch(&mut self, locks: &LockSet<'_>, ino: u64) -> FsResult<&mut Record> {
        let now = self.now;
        let record = self.record(locks, ino)?;
        record.attributes.ctime = now;
        Ok(record)
    }

    /// A name of an inode that is no directory goes. With the last one the inode goes, too, unless it is in use: then it
    /// stays in memory if its record is all of it, and otherwise becomes an orphan. The entry itself is the caller's to
    /// delete.
    pub(super) fn drop_link(&mut self, locks: &LockSet<'_>, ino: u64, unused: Unused) -> FsResult<()> {
        let attributes = &mut self.touch(locks, ino)?.attributes;
        attributes.nlink = attributes.nlink.saturating_sub(1);
        if attributes.nlink > 0 {
            return Ok(());
        }
        let state = self.state(locks, ino)?;
        let is_in_use = state.opens > 0 || (unused == Unused::Closed && locks.pin(ino)?.is_looked_up());
        match is_in_use {
            false => self.delete(locks, ino, Kept::Nowhere),
            true if is_all_in_record(record_of(state)?) => self.delete(locks, ino, Kept::Memory),
            true => {
                state.location = Location::Own;
                self.batch.put(key::orphan(ino), []);
                Ok(())
            }
        }
    }

    /// The request is about to change content or extended attributes of an inode. If that is only in memory, it becomes
    /// an orphan in the store, as if it had been one since it lost its name.
    pub(super) fn keep(&mut self, locks: &LockSet<'_>, ino: u64) -> FsResult<()> {
        let former = locks.state(ino)?;
        former.check_kept()?;
        if former.kept == Kept::Memory {
            let state = self.state(locks, ino)?;
            (state.kept, state.location) = (Kept::Stored, Location::Own);
            self.batch.put(key::orphan(ino), []);
        }
        Ok(())
    }

    /// Whether an inode is an orphan with this request, and not open.
    pub(super) fn is_closed_orphan(&mut self, locks: &LockSet<'_>, ino: u64) -> FsResult<bool> {
        Ok(self.state(locks, ino)?.is_closed_orphan())
    }

    /// Deletes everything of an inode in the store except its entry.
    pub(super) fn delete(&mut self, locks: &LockSet<'_>, ino: u64, kept: Kept) -> FsResult<()> {
        let state = self.state(locks, ino)?;
        let is_own = state.location == Location::Own;
        state.kept = kept;
        let record = record_of(state)?.clone();
        if is_own {
            self.batch.delete(key::inode(ino));
        }
        delete_data(&mut self.batch, &record);
        Ok(())
    }

    /// A new inode, whose record the caller puts.
    pub(super) fn create(&mut self, record: &Record) {
        self.created.add(record);
    }

    /// What the request adds to what is used, or takes away.
    pub(super) fn growth(&self, locks: &LockSet<'_>) -> FsResult<Growth> {
        let mut growth = self.created;
        for (ino, state) in &self.states {
            let former = locks.state(*ino)?;
            if former.is_stored() {
                growth.remove(record_of(former)?);
            }
            if state.is_stored() {
                growth.add(record_of(state)?);
            }
        }
        Ok(growth)
    }

    /// What the request deletes, if it puts nothing but records of `states`.
    pub(super) fn removals(&self) -> Option<Batch> {
        let is_removal = |change: &Change| !matches!(change, Change::Put(..));
        let changes = self.batch.changes();
        (!changes.is_empty() && changes.iter().all(is_removal)).then(|| self.batch.clone())
    }

    /// On a full disk the request does not wait while the space of what was removed comes back: it has another way there.
    pub(super) fn never_wait(&mut self) {
        self.batch.set_waits_for_space(false);
    }

    /// The request frees space: a full disk is to take its small puts, too.
    pub(super) fn free_space(&mut self) {
        self.batch.set_frees_space(true);
        self.never_wait();
    }

    /// The whole batch, and the states.
    pub(super) fn finish(mut self) -> FsResult<(Batch, Vec<(u64, State)>)> {
        for (ino, state) in &self.states {
            if !state.is_stored() {
                continue;
            }
            let key = match &state.location {
                Location::Entry { directory, name } => key::entry(*directory, name),
                Location::Own => key::inode(*ino),
            };
            self.batch.put(key, record_of(state)?.encode());
        }
        Ok((self.batch, self.states))
    }
}

/// Whether the new states differ from the locked ones in times only, apart from those of inodes that leave the store.
pub(super) fn is_only_times(states: &[(u64, State)], locks: &LockSet<'_>) -> FsResult<bool> {
    for (ino, state) in states.iter().filter(|(_, state)| state.is_stored()) {
        let before = locks.state(*ino)?;
        let mut record = record_of(state)?.clone();
        let old = record_of(before)?;
        (record.attributes.mtime, record.attributes.ctime) = (old.attributes.mtime, old.attributes.ctime);
        if record != *old || state.location != before.location {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether an inode has neither content nor extended attributes outside its record.
fn is_all_in_record(record: &Record) -> bool {
    let attributes = &record.attributes;
    let has_content = attributes.kind == FileKind::File && !record.is_inline && attributes.size > 0;
    !has_content && !record.has_attributes
}

/// Deletes the content of a file, wherever it is outside its record. One key if there can be only one.
pub(super) fn delete_content(batch: &mut Batch, record: &Record) {
    let attributes = &record.attributes;
    let ino = attributes.ino;
    if attributes.kind != FileKind::File || record.is_inline || attributes.size == 0 {
        return;
    }
    if record.has_blocks || attributes.size > CHUNK_BYTES {
        batch.delete_range(key::content(ino, 0, 0), key::content_end(ino));
    } else {
        batch.delete(key::content(ino, 0, 0));
    }
}

/// Deletes content and extended attributes.
pub(super) fn delete_data(batch: &mut Batch, record: &Record) {
    delete_content(batch, record);
    if record.has_attributes {
        let (start, end) = key::attributes(record.attributes.ino);
        batch.delete_range(start, end);
    }
}
