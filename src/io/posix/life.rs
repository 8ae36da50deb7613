//! Which life of the kernel and of the mount this is (`protocol.md`, Recovery). Pure look-ups; any thread.
//!
//! Invariant: two equal answers mean that no byte handed to the kernel between them was lost. What cannot be told
//! for certain is `None`.

use crate::io::Life;
use crate::util::hash::bytes_hash;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The present life of the file system that holds `directory`.
pub(super) fn life(directory: &Path) -> Option<Life> {
    let boot_id = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let mount = unique_mount_id(directory).or_else(|| ext4_instance(directory))?;
    Some(Life { boot: bytes_hash(boot_id.trim_ascii()), mount })
}

/// The mount's id that is not used twice within one boot; Linux 6.8 and later.
pub(super) fn unique_mount_id(directory: &Path) -> Option<u64> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    // SAFETY: `statx` holds integers only, for which zeroes are a value.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero byte and `answer` is a `statx` to be filled; both outlive the call.
    let failed = unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), 0, libc::STATX_MNT_ID_UNIQUE, &mut answer) };
    (failed == 0 && answer.stx_mask & libc::STATX_MNT_ID_UNIQUE != 0).then_some(answer.stx_mnt_id)
}

/// On ext4: the inode of the file system's directory in sysfs, made anew at each mount. The top bit keeps these
/// numbers apart from mount ids.
pub(super) fn ext4_instance(directory: &Path) -> Option<u64> {
    let device = fs::metadata(directory).ok()?.dev();
    let link = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    let name = fs::canonicalize(link).ok()?;
    let instance = fs::metadata(Path::new("/sys/fs/ext4").join(name.file_name()?)).ok()?;
    Some(instance.ino() | 1 << 63)
}
