//! Making, opening and closing a file system. One thread, before and after all requests.

use super::change::delete_data;
use super::counts::{Numbers, UsageCount, count};
use super::inodes::Table;
use super::system::{SkipFs, damaged};
use crate::error::{FsError, FsResult};
use crate::format::{Attributes, FileKind, Key, Layout, Limits, ROOT, Record, Superblock, Timestamp, Usage, key};
use crate::store::{Batch, Store};
use parking_lot::Mutex;
use std::ops::ControlFlow;

/// What is decided when a file system is made.
#[derive(Clone, Copy, Debug)]
pub struct MkfsOptions {
    /// Where the content of small files is.
    pub layout: Layout,
    /// Most bytes of a file whose content is one item that every write replaces; at most 256 KiB.
    pub small_bytes: u32,
    /// The owner of the root directory.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its permissions.
    pub permissions: u32,
    /// How much the file system may use.
    pub limits: Limits,
}

/// What holds until the file system is closed, in place of what `mkfs` was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Most allocated bytes of all files; 0: no limit.
    pub max_bytes: Option<u64>,
    /// Most inodes; 0: no limit.
    pub max_inodes: Option<u64>,
    /// Most bytes of content in memory of inodes that are looked up and not open [default: 16 MiB]. Beyond that the next use
    /// of the inode that was used longest ago reads its record again.
    pub idle_content_bytes: Option<u64>,
}

/// As much as 4,096 files of 4 KiB.
const IDLE_CONTENT_BYTES: u64 = 16 << 20;

impl OpenOptions {
    fn limits(&self, stored: Limits) -> Limits {
        let limit = |asked: Option<u64>, stored| match asked {
            None => stored,
            Some(0) => None,
            limit => limit,
        };
        Limits {
            max_bytes: limit(self.max_bytes, stored.max_bytes),
            max_inodes: limit(self.max_inodes, stored.max_inodes),
        }
    }
}

/// 4096 bytes: small enough for a record that is put again at each change of attributes.
impl Default for MkfsOptions {
    fn default() -> Self {
        Self {
            layout: Layout::Inline { up_to: 4096 },
            small_bytes: 16 << 10,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            permissions: 0o755,
            limits: Limits::default(),
        }
    }
}

impl<S: Store> SkipFs<S> {
    /// Makes an empty file system in an empty store, and syncs it. One batch.
    ///
    /// # Errors
    /// `EEXIST` if there is a file system, `ENOTEMPTY` if the store has other data, `EINVAL` for sizes out of range.
    pub fn mkfs(store: &S, options: &MkfsOptions) -> FsResult<()> {
        // Numbers begin after the root's.
        let MkfsOptions { layout, small_bytes, limits, .. } = *options;
        let superblock = Superblock { layout, small_bytes, unused_from: ROOT + 1, limits };
        if !superblock.is_valid() {
            return Err(FsError::with_detail(libc::EINVAL, format!("sizes out of range: {options:?}")));
        }
        if store.get(key::superblock())?.is_some() {
            return Err(FsError::with_detail(libc::EEXIST, "the store has a file system"));
        }
        let mut is_empty = true;
        store.scan(&[], &[0xff], &mut |_, _| {
            is_empty = false;
            ControlFlow::Break(())
        })?;
        if !is_empty {
            return Err(FsError::with_detail(libc::ENOTEMPTY, "the store has other data"));
        }
        let now = Timestamp::now();
        let mut root = Record::new(Attributes {
            ino: ROOT,
            kind: FileKind::Directory,
            permissions: options.permissions & 0o7777,
            uid: options.uid,
            gid: options.gid,
            nlink: 2,
            rdev: 0,
            size: 0,
            allocated: 0,
            atime: now,
            mtime: now,
            ctime: now,
        });
        root.parent = ROOT;
        let mut batch = Batch::new();
        batch.put(key::superblock(), superblock.encode());
        batch.put(key::inode(ROOT), root.encode());
        store.commit(batch)?;
        store.sync()
    }

    /// Opens the file system of a store. Three gets and one scan; then deletes what was unlinked while it was open when
    /// the last opening ended in a crash, one get and one batch for each. After a crash of a file system with limits, or with
    /// the first limits, another scan of all inodes.
    ///
    /// # Errors
    /// `ENOENT` if the store has no file system, `EIO` if its records are damaged.
    pub fn open(store: S) -> FsResult<Self> {
        Self::open_with(store, &OpenOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As for `open`.
    pub fn open_with(store: S, options: &OpenOptions) -> FsResult<Self> {
        let bytes = store.get(key::superblock())?;
        let bytes = bytes.ok_or_else(|| FsError::with_detail(libc::ENOENT, "the store has no file system"))?;
        let superblock = Superblock::decode(&bytes).map_err(damaged(key::superblock()))?;
        let root_key = key::inode(ROOT);
        let root = store.get(&root_key)?.ok_or_else(|| FsError::damaged(&root_key, "there is none"))?;
        let root = Record::decode(&root).map_err(damaged(&root_key))?;
        if root.attributes.ino != ROOT || !root.attributes.is_directory() {
            return Err(FsError::damaged(&root_key, "not a root directory"));
        }
        let usage = open_usage(&store, options.limits(superblock.limits))?;
        let idle = options.idle_content_bytes.unwrap_or(IDLE_CONTENT_BYTES);
        let (table, numbers) = (Table::new(root, idle), Numbers::new(superblock));
        Ok(Self { store, superblock, table, numbers, usage, renames: Mutex::new(()) })
    }

    /// Deletes the inodes without names that are not open, and syncs and closes the store. Requests that need the store
    /// fail afterwards; attributes and content that are in memory can still be read.
    ///
    /// # Errors
    /// Those of the store, which is closed in any case.
    pub fn close(&self) -> FsResult<()> {
        self.delete_closed_orphans();
        if let Some(used) = self.usage.close() {
            let mut batch = Batch::new();
            batch.put(key::usage(), used.encode());
            // *Otherwise:* the next opening counts.
            let _ = self.store.commit(batch);
        }
        self.store.close()
    }
}

/// Takes the sums of the last close out of the store before anything else changes, deletes orphans, and counts what is used if
/// there are limits and the sums are not known.
fn open_usage(store: &impl Store, limits: Limits) -> FsResult<UsageCount> {
    let mut known = None;
    if let Some(bytes) = store.get(key::usage())? {
        known = Some(Usage::decode(&bytes).map_err(damaged(key::usage()))?);
        let mut batch = Batch::new();
        batch.delete(key::usage());
        store.commit(batch)?;
    }
    let known = known.filter(|_| limits.any());
    let used = match (delete_orphans(store)?, known) {
        (0, Some(known)) => Some(known),
        _ if limits.any() => Some(count(store)?),
        _ => None,
    };
    Ok(UsageCount::new(limits, used))
}

/// Returns how many there were.
fn delete_orphans(store: &impl Store) -> FsResult<usize> {
    let mut orphans = Vec::new();
    let (start, end) = key::ORPHANS;
    store.scan(start, end, &mut |found, _| {
        if let Some(Key::Orphan(ino)) = Key::decode(found) {
            orphans.push(ino);
        }
        ControlFlow::Continue(())
    })?;
    for &ino in &orphans {
        let mut batch = Batch::new();
        let record_key = key::inode(ino);
        if let Some(bytes) = store.get(&record_key)? {
            let record = Record::decode(&bytes).map_err(damaged(&record_key))?;
            delete_data(&mut batch, &record);
        }
        batch.delete(record_key);
        batch.delete(key::orphan(ino));
        store.commit(batch)?;
    }
    Ok(orphans.len())
}
