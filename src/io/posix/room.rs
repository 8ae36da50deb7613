//! Space on the file system: how much is free, and reserving some. Pure calls; any thread.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that a process without privileges may still write to the file system of `directory`.
pub(super) fn available(directory: &Path) -> io::Result<u64> {
    let answer = statistics(directory)?;
    Ok(answer.f_bavail.saturating_mul(answer.f_frsize))
}

/// The size of the file system of `directory`.
pub(super) fn capacity(directory: &Path) -> io::Result<u64> {
    let answer = statistics(directory)?;
    Ok(answer.f_blocks.saturating_mul(answer.f_frsize))
}

fn statistics(directory: &Path) -> io::Result<libc::statvfs> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: `statvfs` holds integers only, for which zeroes are valid.
    let mut answer: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero byte, and `answer` is a `statvfs` to be filled; both outlive the call.
    if unsafe { libc::statvfs(path.as_ptr(), &mut answer) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(answer)
}

/// Extends a file to `length` with blocks of its own; false if the file system cannot reserve blocks.
pub(super) fn reserve(file: &File, length: u64) -> io::Result<bool> {
    let bytes = libc::off_t::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    // SAFETY: a plain call on a descriptor that `file` keeps open.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => Ok(false),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{OpenMode, PosixStorage, Storage};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn reserved_blocks_belong_to_the_file() {
        let directory = tempfile::tempdir().unwrap();
        assert!(available(directory.path()).unwrap() > 0);
        assert!(available(&directory.path().join("absent")).is_err());
        let size = capacity(directory.path()).unwrap();
        assert!(size >= available(directory.path()).unwrap());
        assert_eq!(PosixStorage::new(directory.path().join("absent/store")).capacity().unwrap(), Some(size));
        for (name, with_zeroes) in [("reserved", false), ("zeroes", true)] {
            let file = PosixStorage::new(directory.path()).open(name, OpenMode::Create).unwrap();
            for length in [3 << 20, 5 << 20] {
                if with_zeroes {
                    crate::io::write_zeroes(&*file, length).unwrap();
                } else {
                    file.reserve(length).unwrap();
                }
            }
            file.sync().unwrap();
            let metadata = std::fs::metadata(directory.path().join(name)).unwrap();
            assert_eq!(metadata.len(), 5 << 20, "{name}");
            assert!(metadata.blocks() * 512 >= 5 << 20, "{name}: {} blocks", metadata.blocks());
        }
    }
}
