//! `SkipFs`: the parts of an open file system, and what all requests need. Any thread.

use super::change::{self, Changes};
use super::counts::{Growth, Numbers, UsageCount};
use super::inodes::{Inode, Location, Pin, ReadGuard, State, Table, WriteGuard, record_of};
use super::locks::LockSet;
use crate::error::{FsError, FsResult};
use crate::format::{Entry, NAME_BYTES_MAX, Record, Superblock, key};
use crate::store::{Batch, Space, Store};
use parking_lot::Mutex;

/// Size of the units in which space is counted.
const STATISTICS_BLOCK_BYTES: u64 = 4096;

/// An open file system. Its requests are those of FUSE: inodes are named by number, and a number may be used between
/// the lookup that returned it and the `forget` that takes it back. The root is always there.
///
/// Every request that changes something is one atomic batch of the store. So after a crash the tree is as some prefix
/// of the requests left it, with everything before the last `fsync`.
///
/// The file system trusts its caller with permissions: FUSE's kernel module checks them.
#[derive(Debug)]
pub struct SkipFs<S> {
    pub(super) store: S,
    pub(super) superblock: Superblock,
    pub(super) table: Table,
    pub(super) numbers: Numbers,
    pub(super) usage: UsageCount,
    /// Held by renames between directories (rule 5).
    pub(super) renames: Mutex<()>,
}

/// What `statfs` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// All blocks.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// All inodes.
    pub files: u64,
    /// Inodes that the limit still allows. Without a limit: numbers that were never used; deleting a file gives none back.
    pub files_free: u64,
    /// The longest name.
    pub name_bytes_max: u32,
}

pub(super) fn damaged(key: &[u8]) -> impl FnOnce(crate::format::Malformed) -> FsError {
    move |error| FsError::damaged(key, error)
}

/// Takes a record that was read from the store under a key.
fn set_record(inode: &Inode, state: &mut State, key: &[u8], record: Record) -> FsResult<()> {
    if record.attributes.ino != inode.ino {
        let what = format!("inode number: expected {}, found {}", inode.ino, record.attributes.ino);
        return Err(FsError::damaged(key, what));
    }
    state.record = Some(record);
    Ok(())
}

/// Fails for names that no entry can have.
pub(super) fn check_name(name: &[u8]) -> FsResult<()> {
    match name {
        [] => Err(FsError::with_detail(libc::ENOENT, "an empty name")),
        b"." | b".." => Err(FsError::with_detail(libc::EINVAL, "`.` and `..` name no entry")),
        _ if name.len() > NAME_BYTES_MAX => {
            Err(FsError::with_detail(libc::ENAMETOOLONG, "a name has at most 255 bytes"))
        }
        _ if name.iter().any(|&byte| byte == b'/' || byte == 0) => {
            Err(FsError::with_detail(libc::EINVAL, "a name of an entry has neither `/` nor a zero byte"))
        }
        _ => Ok(()),
    }
}

impl<S: Store> SkipFs<S> {
    /// The store below.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// What holds for the whole file system.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The number of inodes that are in use.
    pub fn inodes_in_use(&self) -> usize {
        self.table.len()
    }

    /// Bytes of content in memory of inodes that are looked up, and neither open nor used by a request.
    pub fn idle_content_bytes(&self) -> usize {
        self.table.idle_bytes()
    }

    /// Pins an inode in use; `ESTALE` for others.
    pub(super) fn pin(&self, ino: u64) -> FsResult<Pin<'_>> {
        self.table.pin(ino).ok_or_else(|| FsError::with_detail(libc::ESTALE, "an inode that was not looked up"))
    }

    /// Locks an inode for reading, with its record.
    pub(super) fn read_locked(&self, inode: &Inode) -> FsResult<ReadGuard> {
        let state = inode.read();
        if state.record.is_some() {
            return Ok(state);
        }
        drop(state);
        let mut state = inode.write();
        self.load(inode, &mut state)?;
        Ok(WriteGuard::downgrade(state))
    }

    /// Reads the record unless it is there. Requires the write lock.
    pub(super) fn load(&self, inode: &Inode, state: &mut State) -> FsResult<()> {
        if state.record.is_some() {
            return Ok(());
        }
        let stored = |key: &[u8]| self.store.get(key)?.ok_or_else(|| FsError::damaged(key, "there is none"));
        if let Location::Entry { directory, name } = &state.location {
            let key = key::entry(*directory, name);
            match Entry::decode(&stored(&key)?).map_err(damaged(&key))? {
                Entry::Embedded(record) => return set_record(inode, state, &key, record),
                // It got another name after its entry was read and before it was locked.
                Entry::Link { .. } => state.location = Location::Own,
            }
        }
        let key = key::inode(inode.ino);
        let record = Record::decode(&stored(&key)?).map_err(damaged(&key))?;
        set_record(inode, state, &key, record)
    }

    /// The inode of a name; `None` if there is none. Requires a lock on the directory.
    pub(super) fn find(&self, directory: u64, name: &[u8]) -> FsResult<Option<Pin<'_>>> {
        let seen = self.table.removals();
        let key = key::entry(directory, name);
        let Some(bytes) = self.store.get(&key)? else { return Ok(None) };
        let entry = Entry::decode(&bytes).map_err(damaged(&key))?;
        Ok(Some(self.adopt(directory, name, entry, seen)))
    }

    /// Pins the inode of an entry that was read after `seen`. Requires a lock on the directory since then.
    pub(super) fn adopt(&self, directory: u64, name: &[u8], entry: Entry, seen: u64) -> Pin<'_> {
        let (ino, kind) = (entry.ino(), entry.kind());
        let state = match entry {
            Entry::Embedded(record) => State::new(Location::Entry { directory, name: name.into() }, Some(record)),
            Entry::Link { .. } => State::new(Location::Own, None),
        };
        self.table.insert(ino, kind, directory, state, seen)
    }

    /// Locks inodes for writing, with their records.
    pub(super) fn lock(&self, inos: &[u64]) -> FsResult<LockSet<'_>> {
        let mut pins = inos.iter().map(|&ino| self.pin(ino)).collect::<FsResult<Vec<_>>>()?;
        pins.sort_by_key(|pin| pin.ino);
        pins.dedup_by_key(|pin| pin.ino);
        let mut locks = LockSet::lock(pins);
        for (inode, state) in locks.iter_mut() {
            self.load(inode, state)?;
        }
        Ok(locks)
    }

    /// Locks directories and the inodes of names in them, and returns the numbers of these inodes. A name without an
    /// inode has `None`.
    ///
    /// # Errors
    /// `ENOENT` if a directory was removed, `ENOTDIR` if it is none.
    pub(super) fn lock_names<const N: usize>(
        &self,
        names: [(u64, &[u8]); N],
    ) -> FsResult<(LockSet<'_>, [Option<u64>; N])> {
        // Children that could not be locked after their parents: they are locked in order the next time.
        let mut children: Vec<Pin<'_>> = Vec::new();
        'again: loop {
            let inos: Vec<u64> =
                names.iter().map(|(directory, _)| *directory).chain(children.iter().map(|child| child.ino)).collect();
            let mut locks = self.lock(&inos)?;
            for (directory, _) in names {
                let state = locks.state(directory)?;
                if !record_of(state)?.attributes.is_directory() {
                    return Err(FsError::new(libc::ENOTDIR));
                }
                if !state.is_stored() {
                    return Err(FsError::new(libc::ENOENT));
                }
            }
            let mut found = [None; N];
            for (found, (directory, name)) in found.iter_mut().zip(names) {
                let Some(child) = self.find(directory, name)? else { continue };
                *found = Some(child.ino);
                if locks.holds(child.ino) {
                    continue;
                }
                if let Err(child) = locks.try_add(child) {
                    drop(locks);
                    children.push(child);
                    continue 'again;
                }
            }
            for (inode, state) in locks.iter_mut() {
                self.load(inode, state)?;
            }
            return Ok((locks, found));
        }
    }

    /// Commits the batch of a request, and then changes the states in memory.
    ///
    /// A full disk takes deletes, and not many puts of requests that free space. So there a request that removes
    /// something leaves out records in which nothing but times would change. The times are in memory until the next
    /// change of the record puts them, and are lost if it leaves memory before.
    pub(super) fn commit(&self, changes: Changes, locks: &mut LockSet<'_>) -> FsResult<()> {
        let removals = changes.removals();
        let reserved = self.usage.reserve(changes.growth(locks)?)?;
        let (mut batch, states) = changes.finish()?;
        let without_times = match removals {
            Some(removals) if change::is_only_times(&states, locks)? => Some(removals),
            _ => None,
        };
        if !batch.is_empty() {
            // What the full disk takes of puts is for requests that need it.
            batch.set_frees_space(batch.frees_space() && without_times.is_none());
            match (self.store.commit(batch), without_times) {
                (Err(error), Some(removals)) if error.errno() == libc::ENOSPC => self.store.commit(removals)?,
                (committed, _) => committed?,
            }
        }
        reserved.keep();
        for (ino, state) in states {
            locks.replace(ino, state)?;
        }
        Ok(())
    }

    /// Commits a batch without states.
    pub(super) fn commit_batch(&self, batch: Batch, growth: Growth) -> FsResult<()> {
        let reserved = self.usage.reserve(growth)?;
        if !batch.is_empty() {
            self.store.commit(batch)?;
        }
        reserved.keep();
        Ok(())
    }

    /// Makes everything that requests have changed so far durable. For `fsync`, `fdatasync` and `fsyncdir` of any
    /// inode: the store has one log.
    ///
    /// # Errors
    /// Those of the store.
    pub fn fsync(&self) -> FsResult<()> {
        self.store.sync()
    }

    /// What the store has, or the limit allows.
    pub(super) fn space(&self) -> FsResult<Space> {
        let Space { total, free } = self.store.space()?;
        Ok(match (self.usage.limits().max_bytes, self.usage.used()) {
            (Some(max), Some(used)) => Space { total: total.min(max), free: free.min(max.saturating_sub(used.bytes)) },
            _ => Space { total, free },
        })
    }

    /// The space of the file system, and its limits.
    ///
    /// # Errors
    /// Those of the store.
    pub fn statfs(&self) -> FsResult<Statistics> {
        let space = self.space()?;
        let (limits, numbers) = (self.usage.limits(), self.numbers.used());
        let files = limits.max_inodes.unwrap_or(u64::from(u32::MAX).max(numbers));
        let used = match (limits.max_inodes, self.usage.used()) {
            (Some(_), Some(used)) => used.inodes,
            _ => numbers,
        };
        Ok(Statistics {
            block_bytes: STATISTICS_BLOCK_BYTES,
            blocks: space.total / STATISTICS_BLOCK_BYTES,
            blocks_free: space.free / STATISTICS_BLOCK_BYTES,
            files,
            files_free: files.saturating_sub(used),
            name_bytes_max: NAME_BYTES_MAX as u32,
        })
    }
}
