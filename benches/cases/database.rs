//! Cases of the store as a whole: puts and gets through `Db` on a real directory, background threads and all.

use super::{BATCH, Case, Keys, LARGE, SMALL, VALUE, key};
use alluvium::{Db, Iter, Options};
use std::hint::black_box;
use std::path::Path;

/// Where `make_store` leaves a store of `LARGE` entries in branch files.
const STORE_DIRECTORY: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/", env!("CARGO_CRATE_NAME"), "-store");

fn options() -> Options {
    Options::new().memory_budget(512 << 20)
}

fn open(path: &Path) -> Db {
    Db::open(path, options()).expect("an open store")
}

/// Makes the store of the `Stored` cases, unless it is there. Apart from them, so that callgrind need not watch it.
pub fn make_store() {
    let path = Path::new(STORE_DIRECTORY);
    if path.exists() {
        return;
    }
    let db = open(path);
    (0..LARGE).for_each(|number| db.put(key(number), VALUE).expect("a put"));
    db.flush().expect("a flush");
    db.settle().expect("quiet");
    db.close().expect("closed");
}

/// Removes it.
pub fn forget_store() {
    if Path::new(STORE_DIRECTORY).exists() {
        std::fs::remove_dir_all(STORE_DIRECTORY).expect("the store removed");
    }
}

/// Reads everything once, so that all pages are cached.
fn read_all(db: &Db) {
    let mut out = Vec::new();
    for number in 0..LARGE {
        assert!(db.get_into(key(number), &mut out).expect("a get"));
    }
}

/// A store of its own with `SMALL` entries, all in memory.
pub(super) struct MemoryStore {
    pub(super) db: Db,
    _directory: tempfile::TempDir,
}

impl MemoryStore {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let db = open(directory.path());
        (0..SMALL).for_each(|number| db.put(key(number), VALUE).expect("a put"));
        Self { db, _directory: directory }
    }
}

/// Puts of new keys into a store of `SMALL` entries; made anew when it has grown by a tenth.
pub struct Fresh {
    store: MemoryStore,
    present: u64,
    keys: Keys,
}

impl Fresh {
    pub fn new() -> Self {
        Self { store: MemoryStore::new(), present: SMALL, keys: Keys::default() }
    }
}

impl Case for Fresh {
    fn ready(&mut self) {
        if self.present + BATCH > SMALL + SMALL / 10 {
            self.store = MemoryStore::new();
            self.present = SMALL;
        }
        self.keys.take(self.present);
        self.present += BATCH;
    }

    fn run(&mut self) {
        for key in &self.keys.batch {
            self.store.db.put(key, VALUE).expect("a put");
        }
    }
}

/// Puts of keys that are there, among `SMALL` in memory; made anew when every key has, on average, been put again.
pub struct Existing {
    store: MemoryStore,
    puts: u64,
    keys: Keys,
}

impl Existing {
    pub fn new() -> Self {
        Self { store: MemoryStore::new(), puts: 0, keys: Keys::default() }
    }
}

impl Case for Existing {
    fn ready(&mut self) {
        if self.puts + BATCH > SMALL {
            self.store = MemoryStore::new();
            self.puts = 0;
        }
        self.keys.draw(0, SMALL);
        self.puts += BATCH;
    }

    fn run(&mut self) {
        for key in &self.keys.batch {
            self.store.db.put(key, VALUE).expect("a put");
        }
    }
}

/// Where the entries of a get are.
#[derive(Clone, Copy, PartialEq)]
pub enum Place {
    /// `SMALL` entries in a Memtable.
    Memory,
    /// `LARGE` entries in the branch files of `make_store`, all pages cached.
    Files,
}

/// Gets of keys that are there or of others.
pub struct Stored {
    db: Db,
    entries: u64,
    hit: bool,
    keys: Keys,
    out: Vec<u8>,
    _directory: Option<tempfile::TempDir>,
}

impl Stored {
    pub fn new(place: Place, hit: bool) -> Self {
        let (keys, out) = (Keys::default(), Vec::with_capacity(VALUE.len()));
        match place {
            Place::Memory => {
                let MemoryStore { db, _directory } = MemoryStore::new();
                Self { db, entries: SMALL, hit, keys, out, _directory: Some(_directory) }
            }
            Place::Files => {
                Self { db: open(Path::new(STORE_DIRECTORY)), entries: LARGE, hit, keys, out, _directory: None }
            }
        }
    }
}

impl Case for Stored {
    fn ready(&mut self) {
        self.keys.draw(if self.hit { 0 } else { self.entries }, self.entries);
    }

    fn run(&mut self) {
        for key in &self.keys.batch {
            assert_eq!(self.db.get_into(key, &mut self.out).expect("a get"), self.hit);
            black_box(&self.out);
        }
    }

    fn warm(&mut self) {
        self.run();
    }

    fn warm_all(&mut self) {
        read_all(&self.db);
    }
}

/// Moves of an iterator over the store of `make_store`: to random keys, or one pair on.
pub struct Walk {
    iter: Iter,
    seek: bool,
    keys: Keys,
    db: Db,
}

impl Walk {
    pub fn new(seek: bool) -> Self {
        let db = open(Path::new(STORE_DIRECTORY));
        Self { iter: db.iter().expect("an iterator"), seek, keys: Keys::default(), db }
    }

    /// To a key in the first half, so that a batch of steps does not come to the end.
    fn start(&mut self) {
        let mut first = self.keys.batch[0];
        first[0] &= 0x7f;
        self.iter.seek(first).expect("a seek");
    }
}

impl Case for Walk {
    fn ready(&mut self) {
        self.keys.draw(0, LARGE);
        self.start();
    }

    fn run(&mut self) {
        if self.seek {
            for key in &self.keys.batch {
                self.iter.seek(key).expect("a seek");
                assert!(self.iter.valid());
            }
        } else {
            for _ in 0..BATCH {
                self.iter.step().expect("a step");
                assert!(self.iter.valid());
            }
        }
    }

    /// A seek leaves the leaves that it reads in the cache, a step does not, a get does.
    fn warm(&mut self) {
        self.run();
        self.start();
        let mut out = Vec::new();
        for _ in 0..=BATCH {
            assert!(self.db.get_into(self.iter.key().expect("a pair"), &mut out).expect("a get"));
            self.iter.step().expect("a step");
        }
        self.start();
    }

    fn warm_all(&mut self) {
        read_all(&self.db);
    }
}
