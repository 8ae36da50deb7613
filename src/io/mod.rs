//! Layer 1: the only access to files and time, so that tests can run the real store on a simulated disk in simulated
//! time.
//!
//! A `Storage` is a store's directory. Names are plain file names without separators. Any thread may call any method.
//! Errors contain the path and the operation.

use crate::util::Result;
use crate::util::limits::IO_ALIGNMENT;
use crate::util::sync::Arc;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub mod aligned;
mod buffer_file;
mod clock;
pub mod frames;
pub(crate) mod memory;
pub mod posix;
pub mod reads;
#[cfg(any(test, feature = "testing"))]
pub mod simulated;
#[cfg(test)]
mod tests;

pub use aligned::{AlignedBuffer, FRAME_BYTES_MAX};
pub use buffer_file::BufferFile;
pub use clock::{Clock, SystemClock};
pub use posix::{MemoryStorage, PosixStorage, TemporaryDirectory, lower_priority};
pub use reads::{PendingReads, ReadDone, ReadRequest};

/// Bytes that are copied at once if a file cannot be linked.
const COPY_BYTES: usize = 64 << 10;
/// The same with direct I/O, where larger requests cost less.
const COPY_DIRECT_BYTES: usize = 1 << 20;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading. Direct I/O if the file system supports it; then offsets, lengths and buffers must
    /// be multiples of `limits::IO_ALIGNMENT`.
    ReadDirect,
    /// An existing file, for reading what users ask for, aligned as for `ReadDirect`. Direct, or as `ReadCached` if the
    /// storage was made so. Merges, checks and recovery use `ReadDirect`.
    ReadPages,
    /// As `ReadPages`, but through the system's page cache while memory has room for it: for a store whose memory budget
    /// nobody named.
    ReadCached,
    /// An existing file, for reading through the page cache, with any offset and length.
    Read,
    /// An existing file, for reading and writing through the page cache, with any offset and length.
    ReadWrite,
    /// An existing file, for reading and writing, direct if possible, aligned as for `ReadDirect`.
    WriteDirect,
    /// A new file, for writing and reading back, direct if possible, aligned as for `ReadDirect`.
    CreateDirect,
    /// A new file, for reading and writing through the page cache, with any offset and length.
    Create,
}

/// Identifies a life: one boot of the kernel and one instance of the file system (`docs/recovery.md`). If two lives are
/// equal, the kernel still has what was written before. If they differ or are unknown, only synced bytes are certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Hash of the kernel's boot id.
    pub boot: u64,
    /// Identifies the instance of the file system: the same in all mounts and namespaces that show it, another one once
    /// it was unmounted everywhere and mounted again.
    pub instance: u64,
}

/// One of the locks in a lock file. Each is taken separately. The value is the byte of the file that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LockPart {
    /// Exclusive: the one writer, as long as it has the store open.
    Writer = 0,
    /// Shared: read-only openers, as long as they have the store open. Exclusive: a process that removes files.
    Files = 1,
    /// Shared: read-only openers, while they open. Exclusive: a process that opens for writing, or recycles the log.
    Opening = 2,
}

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// With other shared holders.
    Shared,
    /// Exclusively.
    Exclusive,
}

/// A directory that holds a store.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::storage::*;
/// use alluvium::{Db, Options, Result};
/// use std::path::Path;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// /// Counts the files that a store opens.
/// #[derive(Debug)]
/// struct Counting {
///     inner: PosixStorage,
///     opened: AtomicU64,
/// }
///
/// impl Storage for Counting {
///     fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn StorageFile>> {
///         self.opened.fetch_add(1, Ordering::Relaxed);
///         self.inner.open(name, mode)
///     }
///
///     fn path(&self) -> &Path {
///         self.inner.path()
///     }
///
///     // And so on. What has a default is passed on, too: the default may do less than `inner` does.
/// #     fn create_directory(&self) -> Result<()> {
/// #         self.inner.create_directory()
/// #     }
/// #     fn directory_exists(&self) -> Result<bool> {
/// #         self.inner.directory_exists()
/// #     }
/// #     fn list(&self) -> Result<Vec<String>> {
/// #         self.inner.list()
/// #     }
/// #     fn map(&self, name: &str) -> Result<Arc<dyn MappedFile>> {
/// #         self.inner.map(name)
/// #     }
/// #     fn rename(&self, from: &str, to: &str) -> Result<()> {
/// #         self.inner.rename(from, to)
/// #     }
/// #     fn remove(&self, name: &str) -> Result<()> {
/// #         self.inner.remove(name)
/// #     }
/// #     fn sync_directory(&self) -> Result<()> {
/// #         self.inner.sync_directory()
/// #     }
/// #     fn lock(&self, name: &str, part: LockPart, mode: LockMode) -> Result<Option<Box<dyn LockGuard>>> {
/// #         self.inner.lock(name, part, mode)
/// #     }
/// #     fn lock_directory(&self) -> Result<Option<Box<dyn LockGuard>>> {
/// #         self.inner.lock_directory()
/// #     }
/// #     fn remove_directory(&self) -> Result<()> {
/// #         self.inner.remove_directory()
/// #     }
/// #     fn life(&self) -> Option<Life> {
/// #         self.inner.life()
/// #     }
/// }
///
/// let storage = Arc::new(Counting { inner: PosixStorage::new(directory.path()), opened: AtomicU64::new(0) });
/// Db::open_with(storage.clone(), Options::default())?.put("river", "silt")?;
/// assert!(storage.opened.load(Ordering::Relaxed) > 0);
/// # Ok::<(), alluvium::Error>(())
/// ```
pub trait Storage: Send + Sync + std::fmt::Debug {
    /// The directory, for messages.
    fn path(&self) -> &Path;
    /// The full path of a name, for messages.
    fn path_of(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
    /// Creates the directory and its missing parents; syncs the parent of each one created.
    fn create_directory(&self) -> Result<()>;
    /// Whether the directory exists. An error if the path is not a directory.
    fn directory_exists(&self) -> Result<bool>;
    /// The names in the directory, unordered; names of directories end with '/'.
    fn list(&self) -> Result<Vec<String>>;
    /// Opens a file.
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn StorageFile>>;
    /// Performs a read that the caller waits for, and does so in the way that takes the least time.
    fn read(&self, request: ReadRequest) -> ReadDone {
        request.perform()
    }
    /// Starts reads that overlap with each other and with the caller, until the caller waits for them (`reads`). By
    /// default they are performed at once, one after the other.
    fn start_reads(&self, requests: Vec<ReadRequest>) -> Box<dyn PendingReads> {
        Box::new(reads::PerformedReads::new(requests))
    }
    /// Maps a whole existing file, shared and writable.
    fn map(&self, name: &str) -> Result<Arc<dyn MappedFile>>;
    /// Renames within the directory; replaces an existing file. Durable after `sync_directory`.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Links a file to a second name, which must not exist. A copy if the storage has no links; unreadable parts are
    /// zeroes in it. Durable after `sync_directory`.
    fn link(&self, from: &str, to: &str) -> Result<()> {
        copy_file(self, from, to)
    }
    /// The storage of another directory, which need not exist yet, for a copy of this store. An `InvalidArgument` if it is this
    /// directory or lies in it. By default a `PosixStorage`.
    fn other_directory(&self, path: &Path) -> Result<Arc<dyn Storage>> {
        posix::other_directory(self.path(), path)
    }
    /// Links a file to a name in another directory, which must not exist there. Durable after `target.sync_directory`. False,
    /// and nothing is done, if the storage cannot link the file there: it has no links, or `target` is on another file system.
    fn link_into(&self, _from: &str, _target: &dyn Storage, _to: &str) -> Result<bool> {
        Ok(false)
    }
    /// Removes a file. Durable after `sync_directory`.
    fn remove(&self, name: &str) -> Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_directory(&self) -> Result<()>;
    /// Takes one of the locks in the file `name`; `None` if another holder excludes it. Does not wait. An exclusive
    /// lock creates the file if it is missing; a shared lock needs no permission to write. The file stays. The lock
    /// ends when the guard is dropped or the process dies.
    fn lock(&self, name: &str, part: LockPart, mode: LockMode) -> Result<Option<Box<dyn LockGuard>>>;
    /// Locks the directory itself exclusively, for its writer; `None` if another holder excludes it. Does not wait. The
    /// lock holds although files in the directory are removed. While it is held, this storage continues to use the
    /// same directory if that is renamed. A storage that cannot lock directories returns a guard that locks nothing.
    fn lock_directory(&self) -> Result<Option<Box<dyn LockGuard>>>;
    /// Removes the directory itself, which must be empty.
    fn remove_directory(&self) -> Result<()>;
    /// The present life; `None` if it is unknown.
    fn life(&self) -> Option<Life>;
    /// Whether the log may be written through a mapping: a store to a page of a file that was filled with zeroes and
    /// synced never fails for lack of space, and is in the kernel's hands at once. Not so on copy-on-write, network and
    /// user-space file systems (`docs/recovery.md`, File systems).
    fn maps_safely(&self) -> bool {
        true
    }
    /// A hint: users may read this many bytes of pages, the size of the store.
    fn set_store_bytes(&self, _bytes: u64) {}
    /// Bytes that may still be written to the file system now; `None` if it is unknown.
    fn available(&self) -> Result<Option<u64>> {
        Ok(None)
    }
    /// The size of the file system in bytes; `None` if it is unknown. The directory need not exist yet.
    fn capacity(&self) -> Result<Option<u64>> {
        Ok(None)
    }
    /// The clock of a store in this directory.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }
    /// The time since 1970 as other processes see it; `None` if no other process can access the directory.
    fn wall_time(&self) -> Option<Duration> {
        None
    }
    /// The clock of a store without threads. On simulated storage, time then passes only by what the store does.
    #[cfg(any(test, feature = "testing"))]
    fn deterministic_clock(&self) -> Arc<dyn Clock> {
        self.clock()
    }
    /// 64 random bits. A storage that runs from a seed derives them from it.
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
    /// The file descriptor for a read of these bytes, which will follow; `None` if `read_exact_at` must read them.
    fn descriptor_for(&self, _offset: u64, _length: usize) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Whether reads go through the system's page cache although they could be direct (`OpenMode::ReadCached`).
    fn reads_through_page_cache(&self) -> bool {
        false
    }
    /// Fills `buffer` if the system's page cache has all of it, or the file is in memory only. Does not wait. If it
    /// returns false, `buffer` is unspecified.
    fn read_resident(&self, _buffer: &mut [u8], _offset: u64) -> bool {
        false
    }
    /// Its length in bytes.
    fn length(&self) -> Result<u64>;
    /// Fills `buffer` from `offset`; an error if the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()>;
    /// Writes all of `bytes` at `offset`.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()>;
    /// Truncates, or extends with zeroes that reserve no blocks, to `length`.
    fn set_length(&self, length: u64) -> Result<()>;
    /// Extends to `length` with blocks of the file's own, so that truncating it frees as many. After an error a part of
    /// it may be done. Not for files opened for direct I/O.
    fn reserve(&self, length: u64) -> Result<()> {
        write_zeroes(self, length)
    }
    /// Makes the contents and the length durable (`fdatasync`).
    fn sync(&self) -> Result<()>;
}

/// Extends a file to `length` by writing zeroes.
fn write_zeroes(file: &(impl StorageFile + ?Sized), length: u64) -> Result<()> {
    // Pages of the kernel that are only read take no memory. The allocator would keep a megabyte for each thread.
    let zeroes = AlignedBuffer::new(1 << 20);
    let mut at = file.length()?;
    while at < length {
        let piece = (length - at).min(zeroes.len() as u64);
        file.write_all_at(&zeroes[..piece as usize], at)?;
        at += piece;
    }
    Ok(())
}

/// A file mapped into memory, shared. A store to the mapping is in the kernel's page cache at once. It outlives the
/// process, but not the machine until `sync`.
pub trait MappedFile: Send + Sync + std::fmt::Debug {
    /// The file's path, for messages.
    fn path(&self) -> &Path;
    /// The first byte, page-aligned. Valid for reads and writes of `length()` bytes while the value lives. The caller
    /// prevents data races.
    fn pointer(&self) -> *mut u8;
    /// Bytes mapped.
    fn length(&self) -> usize;
    /// Makes pages present and writable, so that stores to them do not fault. A hint; cannot fail.
    fn prepare(&self, offset: usize, length: usize);
    /// Drops the pages from this process's memory. The kernel keeps their contents, and the next access faults. A hint.
    fn rest(&self) {}
    /// Makes all stores before the call durable.
    fn sync(&self) -> Result<()>;
    /// An error if the system has failed to write the file back since the last call. Starts no writeback and does not
    /// wait for any.
    fn check_writeback(&self) -> Result<()>;
}

/// `Storage::link` for storages without links.
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

/// Copies a file to a new file of another directory, with direct I/O where the file systems have it, and syncs it. Returns its
/// length. Unlike `copy_file`, it fails if a part cannot be read. Calls `check` before each piece; its error ends the copy.
pub fn copy_into(
    (source, from): (&dyn Storage, &str),
    (target, to): (&dyn Storage, &str),
    check: &dyn Fn() -> Result<()>,
) -> Result<u64> {
    let length = source.open(from, OpenMode::Read)?.length()?;
    let is_aligned = length.is_multiple_of(IO_ALIGNMENT as u64);
    let modes =
        if is_aligned { (OpenMode::ReadDirect, OpenMode::CreateDirect) } else { (OpenMode::Read, OpenMode::Create) };
    let (source, target) = (source.open(from, modes.0)?, target.open(to, modes.1)?);
    let mut piece = AlignedBuffer::new(COPY_DIRECT_BYTES);
    for at in (0..length).step_by(COPY_DIRECT_BYTES) {
        check()?;
        let piece = &mut piece[..(length - at).min(COPY_DIRECT_BYTES as u64) as usize];
        source.read_exact_at(piece, at)?;
        target.write_all_at(piece, at)?;
    }
    target.sync()?;
    Ok(length)
}

/// Holds a lock until it is dropped.
pub trait LockGuard: Send + Sync + std::fmt::Debug {
    /// Whether the name that was locked still leads to the file that is locked. If not, somebody removed or replaced
    /// that file, and another process can take the same lock.
    fn is_in_place(&self) -> Result<bool>;
}
