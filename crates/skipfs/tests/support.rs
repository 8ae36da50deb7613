//! Helpers of several tests: a random generator, stores in memory and in directories.

pub use crate::private_mounts::with_private_mounts;

use alluvium::storage::{MemoryStorage, Storage};
use alluvium::{Db, Options};
use skipfs::store::AlluviumStore;
use skipfs::{Caller, Layout, Limits, MkfsOptions, SkipFs};
use std::path::Path;
use std::sync::Arc;

/// SplitMix64: small, with equal numbers for equal seeds on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// Both layouts, with sizes so small that files of every representation appear.
pub const LAYOUTS: [Layout; 2] = [Layout::Items, Layout::Inline { up_to: 1000 }];

/// The owner of new inodes.
pub const CALLER: Caller = Caller { uid: 7, gid: 8 };

/// Options with small sizes.
pub fn small(layout: Layout) -> MkfsOptions {
    MkfsOptions { layout, small_bytes: 9000, uid: 7, gid: 8, permissions: 0o755, limits: Limits::default() }
}

/// Options of a store that is opened often.
pub fn options() -> Options {
    Options::new().memory_budget(16 << 20).background_threads(1).sync_interval(None)
}

/// Opens the store in a directory. A process that another test starts has the lock of a closed store until it executes
/// its program.
pub fn open_store(path: &Path) -> AlluviumStore {
    loop {
        match AlluviumStore::open(path, options()) {
            Err(error) if error.errno() == libc::EBUSY => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

/// A store in memory that can be opened again.
pub struct Memory {
    storage: Arc<dyn Storage>,
}

impl Memory {
    pub fn new() -> Self {
        Self { storage: Arc::new(MemoryStorage::new()) }
    }

    pub fn open(&self) -> AlluviumStore {
        AlluviumStore::of(Db::open_with(Arc::clone(&self.storage), options()).unwrap(), None)
    }
}

/// A new file system in memory.
pub fn new_fs(options: &MkfsOptions) -> SkipFs<AlluviumStore> {
    let store = Memory::new().open();
    SkipFs::mkfs(&store, options).unwrap();
    SkipFs::open(store).unwrap()
}

/// A number from the environment, for longer runs; otherwise the default.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
