//! The table of the inodes in use: those that the kernel, or another caller, has looked up, and those that requests
//! pin. Any thread.
//!
//! 1. An inode is in the table as long as it has lookups or pins; each open of a file is a pin. Then it is removed,
//!    with what its state holds.
//! 2. `removals` grows with each removal of an inode that was changed while it was here, before the removal is visible.
//!    A record that was read from the store is current if its inode is not here and `removals` has not grown since
//!    before the read: no request can have changed the inode meanwhile.
//! 3. A directory pins its parent (rule 2 of `fs/mod.rs`).
//! 4. The content in records of idle inodes is bounded (`idle.rs`): beyond that the record of the one that was used longest
//!    ago is dropped, and its next use reads it again. Never one that is not in the store.

use super::idle::{IdleContent, IdlePlace};
use crate::error::{FsError, FsResult};
use crate::format::{FileKind, ROOT, Record};
use parking_lot::lock_api::{ArcRwLockReadGuard, ArcRwLockWriteGuard};
use parking_lot::{Mutex, RawRwLock, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// More than the threads that a file system has.
const SHARDS: u64 = 64;

pub(super) type ReadGuard = ArcRwLockReadGuard<RawRwLock, State>;
pub(super) type WriteGuard = ArcRwLockWriteGuard<RawRwLock, State>;

/// Where the record of an inode is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// In the entry of its only name.
    Entry { directory: u64, name: Arc<[u8]> },
    /// Under its number.
    Own,
}

/// Where an inode is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// In the store.
    Stored,
    /// Only in memory: it lost its last name while it was in use, and its record is all of it.
    Memory,
    /// Nowhere. What is in memory shows what it was.
    Nowhere,
}

/// What may change of an inode. Its lock protects all of it.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) location: Location,
    /// `None`: it is to be read from the store.
    pub(super) record: Option<Record>,
    /// How often it is open.
    pub(super) opens: u64,
    pub(super) kept: Kept,
    /// Changes with the entries of a directory, and with each stay in the table: no two states of the entries that a
    /// table has seen have the same.
    pub(super) entries: EntriesVersion,
}

/// A state of the entries of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EntriesVersion {
    stay: u64,
    changes: u64,
}

impl EntriesVersion {
    pub(super) fn change(&mut self) {
        self.changes += 1;
    }
}

impl State {
    pub(super) fn new(location: Location, record: Option<Record>) -> Self {
        Self { location, record, opens: 0, kept: Kept::Stored, entries: EntriesVersion::default() }
    }
}

impl State {
    /// Whether something of it is in the store.
    pub(super) fn is_stored(&self) -> bool {
        self.kept == Kept::Stored
    }

    /// Fails if it is nowhere any more.
    pub(super) fn check_kept(&self) -> FsResult<()> {
        match self.kept {
            Kept::Nowhere => Err(FsError::with_detail(libc::ESTALE, "the inode was deleted")),
            _ => Ok(()),
        }
    }

    /// Bytes in memory that the store has, too, and that an idle inode need not keep.
    fn droppable_bytes(&self) -> usize {
        let has_name = |record: &&Record| record.attributes.nlink > 0;
        let record = self.record.as_ref().filter(has_name).filter(|_| self.is_stored() && self.opens == 0);
        record.map_or(0, |record| record.body.capacity())
    }

    /// Whether it is in the store without a name, and not open.
    pub(super) fn is_closed_orphan(&self) -> bool {
        let is_nameless = |record: &Record| record.attributes.nlink == 0 && !record.attributes.is_directory();
        self.is_stored() && self.opens == 0 && self.record.as_ref().is_some_and(is_nameless)
    }
}

/// The record of a state that was loaded.
pub(super) fn record_of(state: &State) -> FsResult<&Record> {
    state.record.as_ref().ok_or_else(|| FsError::with_detail(libc::EIO, "an inode without a record"))
}

/// An inode in use.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) ino: u64,
    pub(super) kind: FileKind,
    /// Of a directory: its parent. Changes only under the mutex of renames; a reader needs no order with other memory.
    parent: AtomicU64,
    /// Whether its record was changed since it is in the table.
    is_changed: AtomicBool,
    state: Arc<RwLock<State>>,
}

impl Inode {
    pub(super) fn parent(&self) -> u64 {
        self.parent.load(Ordering::Relaxed)
    }

    /// Called under its write lock. The removal that reads it comes later, under the lock of the shard.
    pub(super) fn mark_changed(&self) {
        self.is_changed.store(true, Ordering::Release);
    }

    pub(super) fn read(&self) -> ReadGuard {
        RwLock::read_arc(&self.state)
    }

    pub(super) fn write(&self) -> WriteGuard {
        RwLock::write_arc(&self.state)
    }

    pub(super) fn try_write(&self) -> Option<WriteGuard> {
        RwLock::try_write_arc(&self.state)
    }
}

#[derive(Debug)]
struct Slot {
    inode: Arc<Inode>,
    lookups: u64,
    pins: u64,
    /// Set if it is idle and has content in memory.
    idle: Option<IdlePlace>,
}

/// A part of the table.
#[derive(Debug, Default)]
struct Shard {
    slots: HashMap<u64, Slot>,
    idle: IdleContent,
}

impl Shard {
    /// Pins an inode that is here.
    fn pin(&mut self, ino: u64) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(&ino)?;
        if let Some(place) = slot.idle.take() {
            self.idle.remove(&place);
        }
        slot.pins += 1;
        Some(slot)
    }

    /// An inode is idle from now on. Drops records of idle inodes until their content has at most `most` bytes.
    fn rest(&mut self, ino: u64, most: usize) {
        let Some(slot) = self.slots.get_mut(&ino) else { return };
        let bytes = slot.inode.state.try_read().map_or(0, |state| state.droppable_bytes());
        if bytes > 0 {
            slot.idle = Some(self.idle.add(ino, bytes));
        }
        while self.idle.bytes() > most
            && let Some(slot) = self.idle.oldest().and_then(|ino| self.slots.get_mut(&ino))
            && let Some(place) = slot.idle.take()
        {
            self.idle.remove(&place);
            // The lock is free: a thread pins an inode before it locks it.
            if let Some(mut state) = slot.inode.state.try_write() {
                state.record = None;
            }
        }
    }
}

/// The table.
#[derive(Debug)]
pub(super) struct Table {
    shards: Vec<Mutex<Shard>>,
    /// Most bytes of content of the idle inodes of each shard.
    idle_bytes_max: usize,
    removals: AtomicU64,
    /// The number of inodes that were added so far. The root is the first, 1.
    stays: AtomicU64,
}

impl Table {
    /// A table with the root, which stays. `idle_bytes_max`: for content of idle inodes.
    pub(super) fn new(root: Record, idle_bytes_max: u64) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let idle_bytes_max = usize::try_from(idle_bytes_max / SHARDS).unwrap_or(usize::MAX);
        let table = Self { shards, idle_bytes_max, removals: AtomicU64::new(0), stays: AtomicU64::new(0) };
        let state = State::new(Location::Own, Some(root));
        table.insert(ROOT, FileKind::Directory, ROOT, state, 0).look_up();
        table
    }

    fn shard(&self, ino: u64) -> &Mutex<Shard> {
        &self.shards[(ino % SHARDS) as usize]
    }

    /// To be read before an entry that is passed to `insert`. `Acquire`: what was written before the removal is
    /// visible.
    pub(super) fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// Pins an inode that is in the table.
    pub(super) fn pin(&self, ino: u64) -> Option<Pin<'_>> {
        let mut shard = self.shard(ino).lock();
        let slot = shard.pin(ino)?;
        Some(Pin { table: self, inode: Arc::clone(&slot.inode) })
    }

    /// Pins an inode, which is added to the table unless it is there. `seen` is `removals` from before the entry was
    /// read; its record is used only if nothing has changed since. Requires that `parent` is in the table.
    pub(super) fn insert(&self, ino: u64, kind: FileKind, parent: u64, mut state: State, seen: u64) -> Pin<'_> {
        let mut shard = self.shard(ino).lock();
        if let Some(slot) = shard.pin(ino) {
            return Pin { table: self, inode: Arc::clone(&slot.inode) };
        }
        if self.removals() != seen {
            state.record = None;
        }
        // Only distinct numbers matter, not their order.
        state.entries.stay = self.stays.fetch_add(1, Ordering::Relaxed) + 1;
        let (parent, is_changed) = (AtomicU64::new(parent), AtomicBool::new(false));
        let inode = Arc::new(Inode { ino, kind, parent, is_changed, state: Arc::new(RwLock::new(state)) });
        shard.slots.insert(ino, Slot { inode: Arc::clone(&inode), lookups: 0, pins: 1, idle: None });
        drop(shard);
        if kind == FileKind::Directory && ino != ROOT {
            self.add_pin(inode.parent());
        }
        Pin { table: self, inode }
    }

    /// A directory moves to another parent.
    pub(super) fn set_parent(&self, directory: &Inode, parent: u64) {
        self.add_pin(parent);
        let former = directory.parent.swap(parent, Ordering::Relaxed);
        self.unpin(former);
    }

    /// An open of an inode is a pin.
    pub(super) fn add_pin(&self, ino: u64) {
        self.shard(ino).lock().pin(ino);
    }

    pub(super) fn unpin(&self, ino: u64) {
        self.leave(ino);
    }

    /// Takes back lookups. Returns a pin of the inode if these were the last ones.
    pub(super) fn forget(&self, ino: u64, lookups: u64) -> Option<Pin<'_>> {
        if ino == ROOT {
            return None;
        }
        let mut shard = self.shard(ino).lock();
        let slot = shard.slots.get_mut(&ino)?;
        slot.lookups = slot.lookups.saturating_sub(lookups);
        if slot.lookups > 0 {
            return None;
        }
        let slot = shard.pin(ino)?;
        Some(Pin { table: self, inode: Arc::clone(&slot.inode) })
    }

    /// Whether the inode has lookups.
    pub(super) fn is_looked_up(&self, ino: u64) -> bool {
        self.shard(ino).lock().slots.get(&ino).is_some_and(|slot| slot.lookups > 0)
    }

    /// The inodes that are in the table now.
    pub(super) fn inos(&self) -> Vec<u64> {
        self.shards.iter().flat_map(|shard| shard.lock().slots.keys().copied().collect::<Vec<_>>()).collect()
    }

    /// Takes back a pin. Removes the inode if nothing holds it any more, and then perhaps its parents.
    fn leave(&self, ino: u64) {
        let mut next = Some(ino);
        while let Some(ino) = next.take() {
            let mut shard = self.shard(ino).lock();
            let Some(slot) = shard.slots.get_mut(&ino) else { return };
            slot.pins = slot.pins.saturating_sub(1);
            match (slot.pins, slot.lookups) {
                (0, 0) => {}
                (0, _) => return shard.rest(ino, self.idle_bytes_max),
                _ => return,
            }
            let inode = Arc::clone(&slot.inode);
            if inode.is_changed.load(Ordering::Acquire) {
                self.removals.fetch_add(1, Ordering::Release);
            }
            shard.slots.remove(&ino);
            if inode.kind == FileKind::Directory && ino != ROOT {
                next = Some(inode.parent());
            }
        }
    }

    /// Bytes of content of idle inodes.
    pub(super) fn idle_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().idle.bytes()).sum()
    }

    /// The number of inodes in the table.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().slots.len()).sum()
    }
}

/// Keeps an inode in the table.
#[derive(Debug)]
pub(super) struct Pin<'t> {
    table: &'t Table,
    inode: Arc<Inode>,
}

impl Pin<'_> {
    /// Whether it has lookups. New ones come only under a lock on a directory that has a name of it, or on itself.
    pub(super) fn is_looked_up(&self) -> bool {
        self.table.is_looked_up(self.ino)
    }

    /// Adds a lookup, which `forget` takes back.
    pub(super) fn look_up(&self) {
        if let Some(slot) = self.table.shard(self.ino).lock().slots.get_mut(&self.ino) {
            slot.lookups += 1;
        }
    }
}

impl std::ops::Deref for Pin<'_> {
    type Target = Inode;

    fn deref(&self) -> &Inode {
        &self.inode
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.table.unpin(self.inode.ino);
    }
}
