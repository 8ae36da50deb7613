//! A storage that lets a test act before any chosen operation of its user, and change the bytes that are read.

use alluvium::Result;
use alluvium::storage::{Life, LockGuard, LockMode, LockPart, MappedFile, OpenMode, Storage, StorageFile};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Called before every operation with its number, from 1.
type Before = dyn Fn(u64) + Send + Sync;
/// Called with the bytes that were read.
type Read = dyn Fn(&mut [u8]) + Send + Sync;

/// The storage of this module. Clones share everything.
#[derive(Clone)]
pub struct Hooked {
    storage: Arc<dyn Storage>,
    before: Arc<Before>,
    read: Arc<Read>,
    count: Arc<AtomicU64>,
}

impl Hooked {
    pub fn new(
        storage: Arc<dyn Storage>,
        before: impl Fn(u64) + Send + Sync + 'static,
        read: impl Fn(&mut [u8]) + Send + Sync + 'static,
    ) -> Self {
        Self { storage, before: Arc::new(before), read: Arc::new(read), count: Arc::default() }
    }

    /// The number of operations so far.
    pub fn operations(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn step(&self) {
        (self.before)(self.count.fetch_add(1, Ordering::Relaxed) + 1);
    }
}

impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooked")
    }
}

impl Storage for Hooked {
    fn path(&self) -> &Path {
        self.storage.path()
    }

    fn create_directory(&self) -> Result<()> {
        self.step();
        self.storage.create_directory()
    }

    fn directory_exists(&self) -> Result<bool> {
        self.step();
        self.storage.directory_exists()
    }

    fn list(&self) -> Result<Vec<String>> {
        self.step();
        self.storage.list()
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn StorageFile>> {
        self.step();
        let file = self.storage.open(name, mode)?;
        Ok(Arc::new(HookedFile { file, hooked: self.clone() }))
    }

    fn map(&self, name: &str) -> Result<Arc<dyn MappedFile>> {
        self.step();
        let map = self.storage.map(name)?;
        Ok(Arc::new(HookedMap { map, hooked: self.clone() }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.step();
        self.storage.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.step();
        self.storage.remove(name)
    }

    fn sync_directory(&self) -> Result<()> {
        self.step();
        self.storage.sync_directory()
    }

    fn lock(&self, name: &str, part: LockPart, mode: LockMode) -> Result<Option<Box<dyn LockGuard>>> {
        self.step();
        self.storage.lock(name, part, mode)
    }

    fn lock_directory(&self) -> Result<Option<Box<dyn LockGuard>>> {
        self.step();
        self.storage.lock_directory()
    }

    fn remove_directory(&self) -> Result<()> {
        self.step();
        self.storage.remove_directory()
    }

    fn life(&self) -> Option<Life> {
        self.storage.life()
    }

    fn maps_safely(&self) -> bool {
        self.storage.maps_safely()
    }
}

#[derive(Debug)]
struct HookedFile {
    file: Arc<dyn StorageFile>,
    hooked: Hooked,
}

impl StorageFile for HookedFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn length(&self) -> Result<u64> {
        self.hooked.step();
        self.file.length()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.hooked.step();
        self.file.read_exact_at(buffer, offset)?;
        (self.hooked.read)(buffer);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.hooked.step();
        self.file.write_all_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> Result<()> {
        self.hooked.step();
        self.file.set_length(length)
    }

    fn sync(&self) -> Result<()> {
        self.hooked.step();
        self.file.sync()
    }
}

/// A mapped file. A store to the mapping is not an operation; a sync is.
#[derive(Debug)]
struct HookedMap {
    map: Arc<dyn MappedFile>,
    hooked: Hooked,
}

impl MappedFile for HookedMap {
    fn path(&self) -> &Path {
        self.map.path()
    }

    fn pointer(&self) -> *mut u8 {
        self.map.pointer()
    }

    fn length(&self) -> usize {
        self.map.length()
    }

    fn prepare(&self, offset: usize, length: usize) {
        self.map.prepare(offset, length);
    }

    fn rest(&self) {
        self.map.rest();
    }

    fn sync(&self) -> Result<()> {
        self.hooked.step();
        self.map.sync()
    }

    fn check_writeback(&self) -> Result<()> {
        self.hooked.step();
        self.map.check_writeback()
    }
}
