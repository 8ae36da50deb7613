//! A file whose pages users read through the system's page cache, as long as memory has room for it (`memory_room`). Any
//! thread.
//!
//! With room, a read first takes what the page cache has, without waiting: one system call in the calling thread. What it
//! lacks is read into the page cache, together with its surroundings if the page cache could hold all of the store: the
//! files were written with direct I/O, so a store is read for the first time page by page, and 64 KiB take little longer
//! than 4. Without room the read is direct, except for pages that the page cache already has. (The kernel is asked for
//! them first, since a read that does not wait would start to fill the page cache.)
//!
//! Invariants:
//! 1. Callers follow the alignment rules of direct I/O, since any read may be one.
//! 2. The kernel's own read-ahead is off. So a read brings in what is claimed here, and no more.
//! 3. At most `DIRECT_MAX` files of a storage have a second descriptor, for direct reads. The others are opened for
//!    each such read, so that a store does not use up the process's descriptors.

use super::memory_room::MemoryRoom;
use crate::io::StorageFile;
use crate::io::posix::file::PosixFile;
use crate::util::limits::IO_ALIGNMENT;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, OnceLock, Ordering};
use crate::util::{Error, Result};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What is read around a page, aligned to its size.
const AROUND_BYTES: u64 = 64 << 10;
/// See invariant 3.
const DIRECT_MAX: usize = 64;

/// What the files of a storage share.
#[derive(Debug)]
pub(crate) struct CachedFiles {
    room: Arc<MemoryRoom>,
    /// Bytes that users may read: the size of the store.
    store_bytes: AtomicU64,
    /// The file system cannot read without waiting. Only changes from false to true; a hint.
    nowait_refused: AtomicBool,
    direct_open: AtomicUsize,
}

impl CachedFiles {
    pub(crate) fn new(room: Arc<MemoryRoom>) -> Arc<Self> {
        Arc::new(Self {
            room,
            store_bytes: AtomicU64::new(0),
            nowait_refused: AtomicBool::new(false),
            direct_open: AtomicUsize::new(0),
        })
    }

    /// Users may read this many bytes.
    pub(crate) fn set_store_bytes(&self, bytes: u64) {
        self.store_bytes.store(bytes, Ordering::Relaxed);
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct CachedFile {
    buffered: PosixFile,
    /// Opened at the first direct read; `None` if it cannot be.
    direct: OnceLock<Option<PosixFile>>,
    files: Arc<CachedFiles>,
}

/// How bytes that the page cache lacks are read.
enum Way {
    Buffered,
    Direct,
}

impl CachedFile {
    /// Wraps a file that was opened for reading.
    pub(crate) fn new(file: File, path: PathBuf, files: Arc<CachedFiles>) -> Self {
        let buffered = PosixFile::new(file, path, true, false);
        buffered.advise_random();
        Self { buffered, direct: OnceLock::new(), files }
    }

    /// Claims room for bytes that the page cache lacks, and starts to read their surroundings.
    fn way(&self, offset: u64, length: usize) -> Way {
        let Self { buffered, files, .. } = self;
        let length = length as u64;
        if length < AROUND_BYTES && files.room.could_hold(files.store_bytes.load(Ordering::Relaxed)) {
            let start = offset / AROUND_BYTES * AROUND_BYTES;
            let end = (offset + length).next_multiple_of(AROUND_BYTES);
            if files.room.claim(end - start) {
                buffered.read_soon(start, end - start);
                return Way::Buffered;
            }
        }
        if files.room.claim(length) { Way::Buffered } else { Way::Direct }
    }

    /// The second descriptor, if this file may have one.
    fn direct(&self) -> Option<&PosixFile> {
        let open = || {
            if self.files.direct_open.fetch_add(1, Ordering::Relaxed) >= DIRECT_MAX {
                self.files.direct_open.fetch_sub(1, Ordering::Relaxed);
                return None;
            }
            let opened = self.open_direct();
            if opened.is_none() {
                self.files.direct_open.fetch_sub(1, Ordering::Relaxed);
            }
            opened
        };
        self.direct.get_or_init(open).as_ref()
    }

    /// `None` if the file system has no direct I/O, or the file has lost its name. Then reads stay buffered.
    fn open_direct(&self) -> Option<PosixFile> {
        // Through its descriptor: the store's directory may have another name by now.
        let descriptor = self.buffered.descriptor_for(0, 0)?.as_raw_fd();
        let again = format!("/proc/self/fd/{descriptor}");
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(again).ok()?;
        Some(PosixFile::new(file, self.path().to_path_buf(), true, true))
    }
}

impl StorageFile for CachedFile {
    fn path(&self) -> &Path {
        self.buffered.path()
    }

    fn reads_through_page_cache(&self) -> bool {
        true
    }

    fn descriptor_for(&self, offset: u64, length: usize) -> Option<BorrowedFd<'_>> {
        match self.way(offset, length) {
            Way::Buffered => self.buffered.descriptor_for(offset, length),
            Way::Direct => self.direct()?.descriptor_for(offset, length),
        }
    }

    fn length(&self) -> Result<u64> {
        self.buffered.length()
    }

    fn read_resident(&self, buffer: &mut [u8], offset: u64) -> bool {
        if !self.files.room.has(buffer.len() as u64) {
            return self.buffered.is_cached(offset, buffer.len() as u64)
                && self.buffered.read_exact_at(buffer, offset).is_ok();
        }
        if self.files.nowait_refused.load(Ordering::Relaxed) {
            return false;
        }
        match self.buffered.read_without_waiting(buffer, offset) {
            Ok(read) => read == buffer.len(),
            Err(error) => {
                if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) {
                    self.files.nowait_refused.store(true, Ordering::Relaxed);
                }
                // Whatever it was, the read that waits returns it.
                false
            }
        }
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        debug_assert!(offset.is_multiple_of(IO_ALIGNMENT as u64));
        if self.read_resident(buffer, offset) {
            return Ok(());
        }
        match self.way(offset, buffer.len()) {
            Way::Buffered => self.buffered.read_exact_at(buffer, offset),
            Way::Direct => match self.direct() {
                Some(direct) => direct.read_exact_at(buffer, offset),
                None => match self.open_direct() {
                    Some(direct) => direct.read_exact_at(buffer, offset),
                    None => self.buffered.read_exact_at(buffer, offset),
                },
            },
        }
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> Result<()> {
        Err(read_only("write", self.path()))
    }

    fn set_length(&self, _: u64) -> Result<()> {
        Err(read_only("set the length of", self.path()))
    }

    fn sync(&self) -> Result<()> {
        self.buffered.sync()
    }
}

fn read_only(operation: &'static str, path: &Path) -> Error {
    Error::io(operation, path, std::io::ErrorKind::PermissionDenied.into())
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        if matches!(self.direct.get(), Some(Some(_))) {
            self.files.direct_open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
