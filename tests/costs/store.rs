//! The store whose costs are counted: 8-byte keys in random order, identified by numbers.

use alluvium::internals::splitmix64;
use alluvium::{Db, Options};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of keys in the store.
pub const KEYS: u64 = 20_000;
/// The number of operations that are counted.
pub const OPERATIONS: u64 = if cfg!(debug_assertions) { 200_000 } else { 1_000_000 };
/// Short, so that the operations of a count fit into one memory generation.
pub const VALUE: [u8; 16] = *b"alluvial deposit";

/// The key of a number.
pub fn key(mut number: u64) -> [u8; 8] {
    splitmix64(&mut number).to_be_bytes()
}

/// The numbers of `count` random operations, each below `KEYS`.
pub fn numbers(count: u64) -> impl Iterator<Item = u64> {
    let mut state = 7;
    (0..count).map(move |_| splitmix64(&mut state) % KEYS)
}

/// Allows one store at a time: whichever thread reads next frees pages that any store of the process has released.
static ALONE: Mutex<()> = Mutex::new(());

/// A store in its own directory, with all keys in memory. A test warms it up before it counts.
pub struct Store {
    pub db: Db,
    _directory: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Store {
    /// Opens a store with a budget in MiB.
    pub fn new(budget_mib: u64) -> Self {
        Self::open(budget_mib, Options::new())
    }

    /// The same without background syncs: the first put after each of them starts the next interval, and under a tracer an
    /// interval has passed after each operation.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub fn without_syncs(budget_mib: u64) -> Self {
        Self::open(budget_mib, Options::new().sync_interval(std::time::Duration::from_secs(3600)))
    }

    fn open(budget_mib: u64, options: Options) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        // All generations have the same size, as those of a store that has been written to for a while.
        let write_buffer = Some((budget_mib << 20) / 12).map(|bytes| bytes.min(32 << 20));
        let memory_budget = Some(budget_mib << 20);
        let options = options.memory_budget(memory_budget).write_buffer(write_buffer).background_threads(2);
        let db = Db::open(directory.path(), options).unwrap();
        (0..KEYS).for_each(|number| db.put(key(number), VALUE).unwrap());
        Self { db, _directory: directory, _alone: alone }
    }

    /// Moves everything into branch files and reads it once.
    pub fn into_files(self) -> Self {
        self.db.flush().unwrap();
        self.db.settle().unwrap();
        assert_eq!(self.db.stats().memory_entries, 0);
        self.read(0..KEYS);
        self
    }

    /// Puts keys again.
    pub fn put(&self, numbers: impl Iterator<Item = u64>) {
        numbers.for_each(|number| self.db.put(key(number), VALUE).unwrap());
    }

    /// Gets present keys.
    pub fn read(&self, numbers: impl Iterator<Item = u64>) {
        let mut out = Vec::with_capacity(VALUE.len());
        self.read_into(numbers, &mut out);
    }

    /// Gets present keys into a buffer that is large enough.
    pub fn read_into(&self, numbers: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
        for number in numbers {
            assert!(self.db.get_into(key(number), out).unwrap() && *out == VALUE, "key {number}");
        }
    }

    /// Gets absent keys.
    pub fn miss(&self, numbers: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
        for number in numbers {
            assert!(!self.db.get_into(key(KEYS + number), out).unwrap(), "key {number}");
        }
    }
}
