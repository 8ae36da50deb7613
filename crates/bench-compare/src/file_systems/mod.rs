//! File systems that are compared: SkipFS over several stores, through its library or a FUSE mount, ext4, and a mount that
//! passes requests on to ext4.
//!
//! A `FileSystem` has two faces: `Requests`, which a benchmark times, and `Backing`, which settles and counts. One
//! thread uses both.

mod backing;
mod comparison;
mod library;
mod passthrough;
mod paths;
mod private_mounts;
#[cfg(feature = "rocksdb")]
mod rocks_store;
mod stores;
mod targets;
#[cfg(test)]
mod tests;

pub use comparison::{Comparison, Shared};
pub use targets::{EXT4, LayoutName, PASSTHROUGH, ROCKSDB, TARGETS, Target, open, select};

use alluvium_bench::engine::Result;
use skipfs::store::Counts;

/// The directory that is there from the beginning.
pub const ROOT_DIRECTORY: usize = 0;

/// What benchmarks ask of a file system. A directory is a number: `ROOT_DIRECTORY`, or what `make_directory` returned.
pub trait Requests {
    /// Makes a directory in the root.
    fn make_directory(&mut self, name: &str) -> Result<usize>;

    /// Removes an empty directory, whose number must not be used afterwards.
    fn remove_directory(&mut self, directory: usize) -> Result<()>;

    /// Makes a file, writes its content unless it is empty, and closes it.
    fn create(&mut self, directory: usize, name: &str, content: &[u8]) -> Result<()>;

    /// Opens a file, writes at its end, and closes it.
    fn append(&mut self, directory: usize, name: &str, content: &[u8]) -> Result<()>;

    /// Opens a file, reads all of it, which fits into `content`, and closes it. Returns its size.
    fn read(&mut self, directory: usize, name: &str, content: &mut [u8]) -> Result<usize>;

    /// The size of a file, by its name.
    fn stat(&mut self, directory: usize, name: &str) -> Result<u64>;

    /// Reads the names in a directory; returns how many there are, without `.` and `..`.
    fn list(&mut self, directory: usize) -> Result<u64>;

    /// Renames a file within its directory.
    fn rename(&mut self, directory: usize, name: &str, new_name: &str) -> Result<()>;

    /// Removes a file.
    fn unlink(&mut self, directory: usize, name: &str) -> Result<()>;
}

/// What lies below a file system.
pub trait Backing {
    /// Makes everything durable, and waits until background work is done.
    fn settle(&self) -> Result<()>;

    /// The operations of the store so far; `None` without a store.
    fn counts(&self) -> Option<Counts>;

    /// Bytes that were written so far, data and log, by the engine's own figures. For ext4 those of the pages that the
    /// process dirtied: content without metadata and journal.
    fn written_bytes(&self) -> Option<u64>;

    /// Unmounts and closes it.
    fn close(self: Box<Self>) -> Result<()>;
}

/// An open file system.
pub struct FileSystem {
    /// Its requests.
    pub requests: Box<dyn Requests>,
    /// What lies below.
    pub backing: Box<dyn Backing>,
}

impl FileSystem {
    /// Closes it.
    pub fn close(self) -> Result<()> {
        drop(self.requests);
        self.backing.close()
    }
}
