//! An open file. Any thread may call anything here; the kernel orders overlapping calls.
//!
//! Invariants:
//! 1. If `aligned` is set, every offset, length and buffer address of a caller is a multiple of `limits::IO_ALIGNMENT`
//!    (asserted), and so is every system call's: after a short transfer the next call starts at the last aligned
//!    position, not at the odd one.
//! 2. `direct` says how the file was opened. The flag may have been removed from the descriptor since
//!    (`give_up_direct`). Several threads may do so at once; removing it again changes nothing.

use super::room;
use crate::io::{StorageFile, write_zeroes};
use crate::util::limits::IO_ALIGNMENT;
use crate::util::{Error, Result};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The number of `cachestat` (Linux 6.5) on every architecture, which `libc` lacks.
const CACHESTAT: libc::c_long = 451;

/// The kernel's `struct cachestat_range`.
#[repr(C)]
struct CacheStatRange {
    offset: u64,
    bytes: u64,
}

/// The kernel's `struct cachestat`: numbers of pages.
#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cached: u64,
    dirty: u64,
    written_back: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// A file with direct or page-cache I/O.
#[derive(Debug)]
pub(super) struct PosixFile {
    file: File,
    path: PathBuf,
    aligned: bool,
    direct: bool,
}

impl PosixFile {
    /// Wraps an open file. `aligned`: callers must follow the alignment rules; `direct`: it was opened with `O_DIRECT`.
    pub(super) fn new(file: File, path: PathBuf, aligned: bool, direct: bool) -> Self {
        Self { file, path, aligned, direct }
    }

    fn granularity(&self) -> usize {
        if self.aligned { IO_ALIGNMENT } else { 1 }
    }

    fn assert_aligned(&self, bytes: &[u8], offset: u64) {
        if self.aligned {
            let all = bytes.as_ptr().addr() | bytes.len() | offset as usize;
            assert!(all.is_multiple_of(IO_ALIGNMENT), "unaligned direct I/O on {}", self.path.display());
        }
    }

    /// Reads as much as the page cache has, without waiting for the device. What is missing is read into the page cache
    /// all the same, in the background: that is how the kernel takes this flag.
    pub(super) fn read_without_waiting(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.assert_aligned(buffer, offset);
        let part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let at = libc::off_t::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: `part` describes `buffer`, which is writable and outlives the call; `self.file` keeps the descriptor
        // open.
        let read = unsafe { libc::preadv2(self.file.as_raw_fd(), &raw const part, 1, at, libc::RWF_NOWAIT) };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    }

    /// Whether the page cache has all of these bytes; false if the kernel cannot tell. Reads nothing.
    pub(super) fn is_cached(&self, offset: u64, bytes: u64) -> bool {
        let range = CacheStatRange { offset, bytes };
        let mut found = CacheStat::default();
        // SAFETY: the kernel reads `range` and fills `found`, which have the layouts of its interface and outlive the
        // call; `self.file` keeps the descriptor open.
        let answer = unsafe {
            libc::syscall(CACHESTAT, self.file.as_raw_fd(), &raw const range, &raw mut found, 0 as libc::c_uint)
        };
        // The pages of the kernel may be larger than ours. Then few of them are many of ours, and this is false.
        answer == 0 && found.cached.saturating_mul(IO_ALIGNMENT as u64) >= bytes
    }

    /// Turns the kernel's read-ahead off. A hint.
    pub(super) fn advise_random(&self) {
        self.advise(0, 0, libc::POSIX_FADV_RANDOM);
    }

    /// Starts to read these bytes into the page cache. A hint.
    pub(super) fn read_soon(&self, offset: u64, bytes: u64) {
        self.advise(offset, bytes, libc::POSIX_FADV_WILLNEED);
    }

    fn advise(&self, offset: u64, bytes: u64, advice: libc::c_int) {
        let (Ok(offset), Ok(bytes)) = (libc::off_t::try_from(offset), libc::off_t::try_from(bytes)) else { return };
        // SAFETY: a plain call on a descriptor that `self.file` keeps open; no memory is passed.
        unsafe { libc::posix_fadvise(self.file.as_raw_fd(), offset, bytes, advice) };
    }

    /// Removes `O_DIRECT` from the descriptor. Some file systems accept the flag at opening and refuse the transfer, or
    /// want a coarser alignment than ours. Returns whether the transfer should be tried again.
    fn give_up_direct(&self, error: &io::Error) -> bool {
        if error.raw_os_error() != Some(libc::EINVAL) || !self.direct {
            return false;
        }
        let descriptor = self.file.as_raw_fd();
        // SAFETY: plain calls on a descriptor that `self.file` keeps open; no memory is passed.
        unsafe {
            let flags = libc::fcntl(descriptor, libc::F_GETFL);
            flags >= 0 && libc::fcntl(descriptor, libc::F_SETFL, flags & !libc::O_DIRECT) >= 0
        }
    }
}

impl StorageFile for PosixFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn descriptor_for(&self, _: u64, _: usize) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn length(&self) -> Result<u64> {
        match self.file.metadata() {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) => Err(Error::io("read the length of", &self.path, error)),
        }
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.assert_aligned(buffer, offset);
        let read = |piece: &mut [u8], at: u64| match self.file.read_at(piece, at) {
            Err(error) if self.give_up_direct(&error) => self.file.read_at(piece, at),
            done => done,
        };
        read_fully(read, buffer, offset, self.granularity()).map_err(|error| Error::io("read", &self.path, error))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.assert_aligned(bytes, offset);
        let write = |piece: &[u8], at: u64| match self.file.write_at(piece, at) {
            Err(error) if self.give_up_direct(&error) => self.file.write_at(piece, at),
            done => done,
        };
        write_fully(write, bytes, offset, self.granularity()).map_err(|error| Error::io("write", &self.path, error))
    }

    fn set_length(&self, length: u64) -> Result<()> {
        self.file.set_len(length).map_err(|error| Error::io("set the length of", &self.path, error))
    }

    fn reserve(&self, length: u64) -> Result<()> {
        debug_assert!(!self.aligned);
        match room::reserve(&self.file, length) {
            Ok(true) => Ok(()),
            Ok(false) => write_zeroes(self, length),
            Err(error) => Err(Error::io("reserve space in", &self.path, error)),
        }
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("sync", &self.path, error))
    }
}

/// Transfers in a row that make no progress and are no error. After more than this the file counts as stuck.
const IDLE_TRANSFERS_MAX: u32 = 16;

/// Fills `buffer`, continuing after interruptions and short reads, always from a multiple of `granularity`.
pub(super) fn read_fully(
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
    buffer: &mut [u8],
    offset: u64,
    granularity: usize,
) -> io::Result<()> {
    let mut done = 0;
    let mut idle = 0;
    while done < buffer.len() {
        match read(&mut buffer[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                let whole = if done + count == buffer.len() { count } else { count - count % granularity };
                idle = if whole == 0 { idle + 1 } else { 0 };
                // The same unaligned length twice: the file ends inside it.
                if idle == 2 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                done += whole;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `bytes`, continuing after interruptions and short writes, always from a multiple of `granularity`.
pub(super) fn write_fully(
    mut write: impl FnMut(&[u8], u64) -> io::Result<usize>,
    bytes: &[u8],
    offset: u64,
    granularity: usize,
) -> io::Result<()> {
    let mut done = 0;
    let mut idle = 0;
    while done < bytes.len() {
        match write(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                let whole = if done + count == bytes.len() { count } else { count - count % granularity };
                idle = if whole == 0 { idle + 1 } else { 0 };
                if idle == IDLE_TRANSFERS_MAX {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                done += whole;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
