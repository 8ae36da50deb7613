//! Which files an open store reads through the system's page cache: those that users read, if no budget is named.

use super::{Db, ReadOnlyDb};
use crate::Options;
use crate::io::{Life, LockGuard, LockMode, LockPart, MappedFile, OpenMode, PosixStorage, Storage, StorageFile};
use crate::util::Result;
use crate::util::sync::{Arc, Mutex};
use std::path::Path;

/// A storage that remembers how branch and value files were opened.
#[derive(Debug)]
struct Recording {
    inner: PosixStorage,
    modes: Mutex<Vec<OpenMode>>,
}

impl Recording {
    fn new(path: &Path) -> Arc<Self> {
        Arc::new(Self { inner: PosixStorage::new(path), modes: Mutex::default() })
    }

    /// How often files were opened in this mode since the last call for it.
    fn take(&self, mode: OpenMode) -> usize {
        let mut modes = self.modes.lock();
        let before = modes.len();
        modes.retain(|other| *other != mode);
        before - modes.len()
    }
}

impl Storage for Recording {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn create_directory(&self) -> Result<()> {
        self.inner.create_directory()
    }
    fn directory_exists(&self) -> Result<bool> {
        self.inner.directory_exists()
    }
    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn StorageFile>> {
        if [".branch", ".maplet", ".value"].iter().any(|end| name.ends_with(end)) {
            self.modes.lock().push(mode);
        }
        self.inner.open(name, mode)
    }
    fn map(&self, name: &str) -> Result<Arc<dyn MappedFile>> {
        self.inner.map(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }
    fn sync_directory(&self) -> Result<()> {
        self.inner.sync_directory()
    }
    fn lock(&self, name: &str, part: LockPart, mode: LockMode) -> Result<Option<Box<dyn LockGuard>>> {
        self.inner.lock(name, part, mode)
    }
    fn remove_directory(&self) -> Result<()> {
        self.inner.remove_directory()
    }
    fn life(&self) -> Option<Life> {
        self.inner.life()
    }
    fn lock_directory(&self) -> Result<Option<Box<dyn LockGuard>>> {
        self.inner.lock_directory()
    }

    fn maps_safely(&self) -> bool {
        self.inner.maps_safely()
    }
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Two runs of 2,000 pairs each.
fn load(db: &Db) {
    for round in 0..2 {
        for number in 0..2000 {
            db.put(key(number * 2 + round), [round as u8; 100]).unwrap();
        }
        db.flush().unwrap();
    }
}

fn options(memory_budget: Option<u64>) -> Options {
    Options { memory_budget, background_threads: Some(1), ..Options::default() }
}

#[test]
fn without_a_budget_users_read_through_the_page_cache_and_merges_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let storage = Recording::new(directory.path());
    let db = Db::open_with(Arc::clone(&storage) as Arc<dyn Storage>, options(None)).unwrap();
    load(&db);
    assert_eq!(db.get(key(4)).unwrap().as_deref(), Some(&[0; 100][..]));
    assert!(storage.take(OpenMode::ReadCached) > 0);
    storage.take(OpenMode::ReadDirect);
    db.compact().unwrap();
    assert!(storage.take(OpenMode::ReadDirect) > 0, "the merge");
    db.verify().unwrap();
    assert!(storage.take(OpenMode::ReadDirect) + storage.take(OpenMode::ReadPages) > 0, "the check");
    storage.take(OpenMode::ReadCached);
    assert_eq!(db.iter().unwrap().count(), 4000);
    db.close().unwrap();
    let db = ReadOnlyDb::open_with(Arc::clone(&storage) as Arc<dyn Storage>, options(None)).unwrap();
    assert_eq!(db.get(key(5)).unwrap().as_deref(), Some(&[1; 100][..]));
    assert!(storage.take(OpenMode::ReadCached) > 0);
}

/// A budget is all the memory that the store may take, and the page cache would be more.
#[test]
fn with_a_budget_nothing_is_read_through_the_page_cache() {
    let directory = tempfile::tempdir().unwrap();
    let storage = Recording::new(directory.path());
    let db = Db::open_with(Arc::clone(&storage) as Arc<dyn Storage>, options(Some(64 << 20))).unwrap();
    load(&db);
    assert_eq!(db.get(key(4)).unwrap().as_deref(), Some(&[0; 100][..]));
    db.compact().unwrap();
    db.verify().unwrap();
    assert_eq!(db.iter().unwrap().count(), 4000);
    db.close().unwrap();
    assert!(storage.take(OpenMode::ReadPages) > 0);
    assert_eq!(storage.take(OpenMode::ReadCached), 0);
}
