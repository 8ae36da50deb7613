//! The present life: one boot of the kernel and one mount of the file system (`docs/recovery.md`). Only reads; any
//! thread.
//!
//! Invariant: if two results are equal, no byte that was written between them was lost. A life that is not known for
//! certain is `None`.

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

/// The mount's id that is unique within one boot; Linux 6.8 and later.
pub(super) fn unique_mount_id(directory: &Path) -> Option<u64> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    // SAFETY: `statx` holds integers only, for which zeroes are valid.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero byte, and `answer` is a `statx` to be filled; both outlive the call.
    let failed = unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), 0, libc::STATX_MNT_ID_UNIQUE, &mut answer) };
    (failed == 0 && answer.stx_mask & libc::STATX_MNT_ID_UNIQUE != 0).then_some(answer.stx_mnt_id)
}

/// On ext4: the inode of the file system's directory in sysfs, which each mount makes anew. The top bit distinguishes
/// these numbers from mount ids.
pub(super) fn ext4_instance(directory: &Path) -> Option<u64> {
    let device = fs::metadata(directory).ok()?.dev();
    let link = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    let name = fs::canonicalize(link).ok()?;
    let instance = fs::metadata(Path::new("/sys/fs/ext4").join(name.file_name()?)).ok()?;
    Some(instance.ino() | 1 << 63)
}
