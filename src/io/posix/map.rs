//! A mapped file. Any thread may call anything here; the caller prevents data races in it.
//!
//! Invariants:
//! 1. `pointer` is a shared, writable mapping of `length` bytes that lives exactly as long as this value.
//! 2. A forked child does not have the mapping: it cannot store into the parent's log.

use crate::io::MappedFile;
use crate::util::arena::system_page_bytes;
use crate::util::{Error, Result};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// A file that has no name and is gone with its last descriptor and mapping.
pub(super) fn anonymous_file() -> io::Result<File> {
    // SAFETY: the name ends with a zero byte and outlives the call.
    let descriptor = unsafe { libc::memfd_create(c"alluvium".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just opened and that nothing else owns.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// A whole file, mapped.
#[derive(Debug)]
pub(super) struct PosixMap {
    file: File,
    path: PathBuf,
    pointer: NonNull<u8>,
    length: usize,
}

// SAFETY: the value is an address, a length and a descriptor; a mapping belongs to the process, not to a thread. The
// caller is responsible for stores through `pointer()` (see the trait).
unsafe impl Send for PosixMap {}
// SAFETY: as for `Send`; the methods here only read the fields.
unsafe impl Sync for PosixMap {}

impl PosixMap {
    /// Maps a file that is open for reading and writing, and not empty.
    pub(super) fn new(file: File, path: PathBuf) -> io::Result<Self> {
        let length =
            usize::try_from(file.metadata()?.len()).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        if length == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "an empty file cannot be mapped"));
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(pointer) = NonNull::new(address.cast::<u8>()) else {
            return Err(io::Error::other("mapped at address zero"));
        };
        let map = Self { file, path, pointer, length };
        map.advise(0, length, libc::MADV_DONTFORK)?;
        Ok(map)
    }

    fn advise(&self, offset: usize, length: usize, advice: libc::c_int) -> io::Result<()> {
        debug_assert!(offset <= self.length && length <= self.length - offset);
        // SAFETY: the range lies inside the mapping (invariant 1); the advice given here changes no byte of a shared
        // mapping.
        let failed = unsafe { libc::madvise(self.pointer.as_ptr().add(offset).cast(), length, advice) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl MappedFile for PosixMap {
    fn path(&self) -> &Path {
        &self.path
    }

    fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    fn length(&self) -> usize {
        self.length
    }

    fn prepare(&self, offset: usize, length: usize) {
        let page = system_page_bytes();
        let start = offset.min(self.length) / page * page;
        let end = offset.saturating_add(length).min(self.length);
        if start < end {
            // A hint: if the kernel does not support it (before 5.14), or the disk is full, the stores fault instead.
            let _ = self.advise(start, end - start, libc::MADV_POPULATE_WRITE);
        }
    }

    fn rest(&self) {
        // In a shared mapping this drops no contents: dirty pages stay in the page cache. It is a hint, so an error
        // does not matter.
        let _ = self.advise(0, self.length, libc::MADV_DONTNEED);
    }

    fn check_writeback(&self) -> Result<()> {
        // Waiting for writeback of a range without pages waits for nothing, and returns the error that the kernel has
        // noted for the file since this descriptor was opened or asked last.
        let end = self.length as libc::off64_t;
        // SAFETY: a plain call on a descriptor that `file` keeps open.
        let failed = unsafe { libc::sync_file_range(self.file.as_raw_fd(), end, 1, libc::SYNC_FILE_RANGE_WAIT_BEFORE) };
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            _ if failed == 0 => Ok(()),
            // A kernel without the call (or a filter of system calls) reports errors at the next sync of the segment.
            Some(libc::ENOSYS | libc::EPERM | libc::ESPIPE) => Ok(()),
            _ => Err(Error::io("write back", &self.path, error)),
        }
    }

    fn sync(&self) -> Result<()> {
        // `fdatasync` also writes pages that were dirtied through mappings, so `msync` would add nothing.
        self.file.sync_data().map_err(|error| Error::io("sync", &self.path, error))
    }
}

impl Drop for PosixMap {
    fn drop(&mut self) {
        // SAFETY: invariant 1; nothing may use `pointer` after the value is dropped (see the trait).
        unsafe { libc::munmap(self.pointer.as_ptr().cast(), self.length) };
    }
}
