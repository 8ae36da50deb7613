//! Words of memory that a test shares with its child processes, so that the test knows what a child had done when it
//! died. They are in a mapped file outside the store, so a process can load what another one stored, even after its
//! death.

use alluvium::storage::{MappedFile, PosixStorage, Storage};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const NAME: &str = "shared";

/// The words of the file in one directory.
pub struct Shared {
    mapped: Arc<dyn MappedFile>,
}

impl Shared {
    /// Makes the file, filled with zeroes.
    pub fn create(directory: &Path, words: usize) -> Self {
        let file = std::fs::File::create(directory.join(NAME)).unwrap();
        file.set_len((words * 8).next_multiple_of(4096) as u64).unwrap();
        Self::open(directory)
    }

    /// Maps the file that `create` made.
    pub fn open(directory: &Path) -> Self {
        Self { mapped: PosixStorage::new(directory).map(NAME).unwrap() }
    }

    /// A word.
    pub fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.mapped.length() / 8);
        // SAFETY: the mapping is page-aligned, `at * 8 + 8` lies inside, and every access to these bytes, in all
        // processes, is through an `AtomicU64`. The reference cannot outlive `self`, which keeps the mapping.
        unsafe { &*self.mapped.pointer().cast::<AtomicU64>().add(at) }
    }
}
