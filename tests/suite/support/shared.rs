//! Words of memory that a test and its child processes share, so that the test knows what a child had done when it died. A
//! file outside the store, mapped: what one process stores the other loads, also after the first is gone.

use alluvium::storage::{MappedFile, PosixStorage, Storage};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const NAME: &str = "shared";

/// The words of one directory's file.
pub struct Shared {
    mapped: Arc<dyn MappedFile>,
}

impl Shared {
    /// Makes the file, all zeroes.
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
        // SAFETY: the mapping is page-aligned, `at * 8 + 8` lies inside, and every access to these bytes, in all processes,
        // is through an `AtomicU64`. The reference cannot outlive `self`, which keeps the mapping.
        unsafe { &*self.mapped.pointer().cast::<AtomicU64>().add(at) }
    }
}
