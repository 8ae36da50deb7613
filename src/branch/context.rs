//! State that all branches of a store share. Any thread.

use super::buffer_pool::BufferPool;
use super::extent_memory::ExtentMemory;
use super::read_counters::ReadCounters;
use crate::cache::{FileTable, PageCache};
use crate::format::manifest_edit::BranchMeta;
use crate::format::page::{Compression, PageOwner};
use crate::io::Storage;
use crate::merge::Expired;
use crate::util::fork::ForkCount;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, KeyspaceMap, Mutex, Ordering};
use crate::util::{DatabaseId, FileNumber, FileNumbers, KeyspaceId};
use arc_swap::ArcSwap;

/// Bytes that a builder writes with one request. Direct writes of this size cost 0.08 ns of CPU time a byte.
pub const WRITE_BYTES: usize = 1 << 20;

const FILE_SUFFIX: &str = ".branch";
const MAPLET_SUFFIX: &str = ".maplet";

/// How new branch files are written. Files of every form can be read.
#[derive(Clone, Copy, Debug)]
pub struct BranchForm {
    /// How leaves are stored.
    pub compression: Compression,
    /// How they are stored in the deepest level.
    pub deep_compression: Compression,
    /// Whether fingerprints are written. Only maplets are built from them.
    pub fingerprints: bool,
}

impl From<Compression> for BranchForm {
    fn from(compression: Compression) -> Self {
        Self { compression, deep_compression: compression, fingerprints: true }
    }
}

/// What a `BranchContext` is made from.
#[derive(Debug)]
pub struct BranchResources {
    /// The directory of the store.
    pub storage: Arc<dyn Storage>,
    /// The identity of the store.
    pub database: DatabaseId,
    /// The page cache.
    pub cache: Arc<PageCache>,
    /// Open files.
    pub files: Arc<FileTable>,
    /// The source of file numbers.
    pub numbers: Arc<FileNumbers>,
    /// How new files are written.
    pub form: BranchForm,
    /// The memory of cursors.
    pub extents: Arc<ExtentMemory>,
}

/// Shared by the branches of a store.
#[derive(Debug)]
pub struct BranchContext {
    /// The directory of the store.
    pub storage: Arc<dyn Storage>,
    /// The identity of the store.
    pub database: DatabaseId,
    /// The page cache.
    pub cache: Arc<PageCache>,
    /// Open files.
    pub files: Arc<FileTable>,
    /// The source of file numbers.
    pub numbers: Arc<FileNumbers>,
    /// How new files are written.
    pub form: BranchForm,
    /// How leaves of keyspaces are stored that have a compression of their own.
    pub compressions: KeyspaceMap<Option<Compression>>,
    /// Which versions have expired for readers without a snapshot.
    expired: ArcSwap<Expired>,
    /// What reads of users have cost.
    pub reads: ReadCounters,
    pub(super) write_buffers: BufferPool,
    pub(super) extents: Arc<ExtentMemory>,
    /// Bytes of the branches in memory that are not dropped yet. (`CacheMemory` counts those of all stores that share it.)
    buffered_bytes: AtomicU64,
    /// Entries that cursors of users have passed in branches in memory.
    buffered_rows: AtomicU64,
    obsolete_branches: Mutex<Vec<FileNumber>>,
    obsolete_maplets: Mutex<Vec<FileNumber>>,
    /// The process that has opened the store.
    process: ForkCount,
    is_closed: AtomicBool,
}

impl BranchContext {
    /// A context without obsolete files.
    pub fn new(resources: BranchResources) -> Arc<Self> {
        let BranchResources { storage, database, cache, files, numbers, form, extents } = resources;
        Arc::new(Self {
            reads: ReadCounters::new(storage.clock()),
            storage,
            database,
            cache,
            files,
            numbers,
            form,
            compressions: KeyspaceMap::default(),
            expired: ArcSwap::default(),
            write_buffers: BufferPool::new(WRITE_BYTES, 4),
            extents,
            buffered_bytes: AtomicU64::new(0),
            buffered_rows: AtomicU64::new(0),
            obsolete_branches: Mutex::new(Vec::new()),
            obsolete_maplets: Mutex::new(Vec::new()),
            process: ForkCount::current(),
            is_closed: AtomicBool::new(false),
        })
    }

    /// The store is being closed: `discard` removes nothing any more.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// Removes a file that never became part of the store. What stays is removed by the next opening. *Otherwise,* in a forked child
    /// or after the end: it is the file of a batch that another process still has, or of another store by now.
    pub fn discard(&self, file: FileNumber) {
        if self.is_closed.load(Ordering::Acquire) || !self.process.is_current() {
            return;
        }
        self.cache.remove_file(file);
        self.files.close(file);
        let _ = self.storage.remove(&file_name(file));
    }

    /// How the leaves of a keyspace are stored in new files, or in those of the deepest level.
    pub fn compression_of(&self, keyspace: KeyspaceId, is_deep: bool) -> Compression {
        let common = if is_deep { self.form.deep_compression } else { self.form.compression };
        self.compressions.get(keyspace).flatten().unwrap_or(common)
    }

    /// Sets which versions have expired for readers without a snapshot.
    pub fn set_expired(&self, expired: Arc<Expired>) {
        self.expired.store(expired);
    }

    /// Whether at least half of a branch has expired for readers without a snapshot, as far as its numbers tell.
    pub(super) fn has_half_expired(&self, meta: &BranchMeta) -> bool {
        let expired = self.expired.load();
        let (keys, numbers) = ((&meta.key_min[..], &meta.key_max[..]), (meta.number_min, meta.number_max));
        !expired.is_empty() && expired.halves(keys, numbers, None).next().is_some()
    }

    /// The files of obsolete branches that nobody reads any more. Each is returned once; the caller removes it
    /// (`file_name`).
    pub fn take_obsolete_branches(&self) -> Vec<FileNumber> {
        std::mem::take(&mut *self.obsolete_branches.lock())
    }

    /// As `take_obsolete_branches`, for the files of obsolete maplets (`maplet_name`).
    pub fn take_obsolete_maplets(&self) -> Vec<FileNumber> {
        std::mem::take(&mut *self.obsolete_maplets.lock())
    }

    /// The bytes of branches in memory, those included that only a reader or a running merge has.
    pub fn buffered_bytes(&self) -> u64 {
        self.buffered_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn buffered_comes(&self, bytes: u64) {
        self.buffered_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn buffered_goes(&self, bytes: u64) {
        self.buffered_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The entries that scans have taken from branches in memory. A cursor counts when it ends or seeks again.
    pub fn buffered_rows(&self) -> u64 {
        self.buffered_rows.load(Ordering::Relaxed)
    }

    pub(super) fn note_buffered_rows(&self, rows: u64) {
        self.buffered_rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Whether there are obsolete files to remove.
    pub fn has_obsolete_files(&self) -> bool {
        !self.obsolete_branches.lock().is_empty() || !self.obsolete_maplets.lock().is_empty()
    }

    pub(super) fn branch_is_obsolete(&self, file: FileNumber) {
        self.cache.remove_file(file);
        self.files.close(file);
        self.obsolete_branches.lock().push(file);
    }

    pub(super) fn maplet_is_obsolete(&self, file: FileNumber) {
        self.cache.remove_file(file);
        self.files.close(file);
        self.obsolete_maplets.lock().push(file);
    }

    pub(super) fn owner(&self, file: FileNumber) -> PageOwner {
        PageOwner { database: self.database, file }
    }
}

/// The name of a branch file.
pub fn file_name(file: FileNumber) -> String {
    format!("{file}{FILE_SUFFIX}")
}

/// The name of a maplet's file.
pub fn maplet_name(file: FileNumber) -> String {
    format!("{file}{MAPLET_SUFFIX}")
}

/// The number of the maplet file with this name; `None` if the name is not that of a maplet file.
pub fn parse_maplet_name(name: &str) -> Option<FileNumber> {
    let file = FileNumber(name.strip_suffix(MAPLET_SUFFIX)?.parse().ok()?);
    (maplet_name(file) == name).then_some(file)
}

/// The number of the branch file with this name; `None` if the name is not that of a branch file.
pub fn parse_file_name(name: &str) -> Option<FileNumber> {
    let file = FileNumber(name.strip_suffix(FILE_SUFFIX)?.parse().ok()?);
    (file_name(file) == name).then_some(file)
}
