//! Layer 1: the one door to files and to the time, so that tests run the real store on a simulated disk in simulated time.
//!
//! A `Storage` is a directory of a store. Names are plain file names (no separators). All methods may be called from
//! any thread. Errors carry the path and the operation.

use crate::util::Result;
use crate::util::sync::Arc;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub mod aligned;
mod clock;
pub mod frames;
pub mod posix;
pub mod reads;
mod shared_memory;
#[cfg(any(test, feature = "testing"))]
pub mod simulated;
#[cfg(test)]
mod tests;

pub use aligned::AlignedBuffer;
pub use clock::{Clock, SystemClock};
pub use posix::PosixStorage;
pub use reads::{PendingReads, ReadDone, ReadRequest};
pub use shared_memory::SharedMemory;

/// Bytes that are copied at once where a file cannot be linked.
const COPY_BYTES: usize = 64 << 10;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// It exists; for reading. Direct I/O where the file system has it, then offsets, lengths and buffers must be
    /// multiples of `limits::IO_ALIGNMENT`.
    ReadDirect,
    /// It exists; for reading what users ask for, aligned as for `ReadDirect`: direct, or through the page cache where the storage was
    /// made so. What is checked or recovered is read by `ReadDirect`.
    ReadPages,
    /// It exists; for reading through the page cache, any offset and length.
    Read,
    /// It exists; for reading and writing through the page cache, any offset and length.
    ReadWrite,
    /// It exists; for reading and writing, direct where possible, aligned as for `ReadDirect`.
    WriteDirect,
    /// It must not exist; for writing (and reading back), direct where possible, aligned as for `ReadDirect`.
    CreateDirect,
    /// It must not exist; for reading and writing through the page cache, any offset and length.
    Create,
}

/// Identifies one life of the machine's kernel and of the file system's mount (`protocol.md`, Recovery). Two equal
/// lives: what was written before is still in the kernel's hands. Different or unknown: only synced bytes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Hash of the kernel's boot id.
    pub boot: u64,
    /// The mount's instance.
    pub mount: u64,
}

/// Which of the locks of a lock file; each is taken by itself. The numbers are the byte of the file that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LockPart {
    /// Alone: the one writer, as long as it lives.
    Writer = 0,
    /// Shared: read-only openers, as long as they live. Alone: whoever removes files.
    Files = 1,
    /// Shared: read-only openers, while they open. Alone: whoever opens for writing, or recycles the log.
    Opening = 2,
}

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Beside other shared holders.
    Shared,
    /// Alone.
    Exclusive,
}

/// A directory that holds a store.
pub trait Storage: Send + Sync + std::fmt::Debug {
    /// The directory, for messages.
    fn path(&self) -> &Path;
    /// The full path of a name, for messages.
    fn path_of(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
    /// Makes the directory and its parents where they are missing; syncs the parent of each one made.
    fn create_directory(&self) -> Result<()>;
    /// Whether the directory exists. An error if the path is something else than a directory.
    fn directory_exists(&self) -> Result<bool>;
    /// The names in the directory, in no order; directories among them end with '/'.
    fn list(&self) -> Result<Vec<String>>;
    /// Opens a file.
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn StorageFile>>;
    /// Starts reads that overlap with each other and with what the caller does until it waits for them (`reads`). A storage that
    /// cannot do better performs them at once, one by one in order.
    fn start_reads(&self, requests: Vec<ReadRequest>) -> Box<dyn PendingReads> {
        Box::new(reads::PerformedReads::new(requests))
    }
    /// Maps a whole existing file, shared and writable.
    fn map(&self, name: &str) -> Result<Arc<dyn MappedFile>>;
    /// Renames within the directory, replacing what is there. Durable after `sync_directory`.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Gives a file a second name, which must not exist, so that it outlives its first. A copy where the storage has no links: what
    /// cannot be read is zeroes there. Durable after `sync_directory`.
    fn link(&self, from: &str, to: &str) -> Result<()> {
        copy_file(self, from, to)
    }
    /// Removes a file. Durable after `sync_directory`.
    fn remove(&self, name: &str) -> Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_directory(&self) -> Result<()>;
    /// Takes one of the locks that live in the file `name`; `None` where others hold it in a way that forbids it. Does not
    /// wait. An exclusive lock makes the file where it is missing; a shared one needs no right to write. The file stays;
    /// the lock goes when the guard is dropped or the process dies.
    fn lock(&self, name: &str, part: LockPart, mode: LockMode) -> Result<Option<Box<dyn LockGuard>>>;
    /// Removes the directory itself, which must be empty.
    fn remove_directory(&self) -> Result<()>;
    /// The present life, or `None` where it cannot be told.
    fn life(&self) -> Option<Life>;
    /// Memory beside the directory that outlives the process; `None` where the system has none.
    fn shared_memory(&self) -> Option<Arc<dyn SharedMemory>> {
        None
    }
    /// Bytes that may still be written to the file system, `None` where it does not say. A figure of this moment.
    fn available(&self) -> Result<Option<u64>> {
        Ok(None)
    }
    /// The clock that a store in this directory goes by.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }
    /// The time since 1970 as other processes have it; `None` where no other process can look into the directory.
    fn wall_time(&self) -> Option<Duration> {
        None
    }
    /// The same for a store without threads. A storage that simulates time lets it stand still there, but for what the store does.
    #[cfg(any(test, feature = "testing"))]
    fn deterministic_clock(&self) -> Arc<dyn Clock> {
        self.clock()
    }
    /// 64 bits that nobody drew before. A storage that runs from a seed draws them from that.
    fn random(&self) -> u64 {
        // `RandomState` takes its keys from the system's random source.
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        hasher.finish()
    }
}

/// An open file. Reads and writes name their offset; there is no cursor.
pub trait StorageFile: Send + Sync + std::fmt::Debug {
    /// The file's path, for messages.
    fn path(&self) -> &Path;
    /// The kernel's name for it; `None` for a file that is none of the kernel's.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Its length, bytes.
    fn length(&self) -> Result<u64>;
    /// Fills `buffer` from `offset`; an error where the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()>;
    /// Writes all of `bytes` at `offset`.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()>;
    /// Cuts or extends (with zeroes that reserve nothing) to `length`.
    fn set_length(&self, length: u64) -> Result<()>;
    /// Extends to `length`, with blocks that are the file's own: whoever cuts it again finds as much room. After an error part
    /// of it may be done. Not for files opened for direct I/O.
    fn reserve(&self, length: u64) -> Result<()> {
        write_zeroes(self, length)
    }
    /// Makes the contents and the length durable (`fdatasync`).
    fn sync(&self) -> Result<()>;
}

/// Extends a file to `length` by writing zeroes.
fn write_zeroes(file: &(impl StorageFile + ?Sized), length: u64) -> Result<()> {
    let zeroes = vec![0; 1 << 20];
    let mut at = file.length()?;
    while at < length {
        let piece = (length - at).min(zeroes.len() as u64);
        file.write_all_at(&zeroes[..piece as usize], at)?;
        at += piece;
    }
    Ok(())
}

/// A file mapped into memory, shared: a store to the mapping is in the kernel's hands at once, and outlives the
/// process, but not the machine until `sync`.
pub trait MappedFile: Send + Sync + std::fmt::Debug {
    /// The file's path, for messages.
    fn path(&self) -> &Path;
    /// The first byte, page-aligned. Valid for reads and writes of `length()` bytes as long as the value lives; the
    /// caller keeps racing accesses apart.
    fn pointer(&self) -> *mut u8;
    /// Bytes mapped.
    fn length(&self) -> usize;
    /// Makes pages present and writable ahead, so that stores to them do not fault. A hint; cannot fail.
    fn prepare(&self, offset: usize, length: usize);
    /// Takes the pages out of this process's memory; the kernel keeps what was stored, and the next access faults. A hint.
    fn rest(&self) {}
    /// Makes all that was stored before the call durable.
    fn sync(&self) -> Result<()>;
}

/// What `Storage::link` does where there are no links.
pub fn copy_file<S: Storage + ?Sized>(storage: &S, from: &str, to: &str) -> Result<()> {
    let (source, target) = (storage.open(from, OpenMode::Read)?, storage.open(to, OpenMode::Create)?);
    let (length, mut piece) = (source.length()?, vec![0; COPY_BYTES]);
    for at in (0..length).step_by(COPY_BYTES) {
        let piece = &mut piece[..(length - at).min(COPY_BYTES as u64) as usize];
        match source.read_exact_at(piece, at) {
            Err(error) if error.is_damage() => piece.fill(0),
            read => read?,
        }
        target.write_all_at(piece, at)?;
    }
    target.sync()
}

/// Holds a lock until dropped.
pub trait LockGuard: Send + Sync + std::fmt::Debug {}
