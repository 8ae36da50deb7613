//! The present life: one boot of the kernel and one instance of the file system (`docs/recovery.md`). Only reads; any
//! thread.
//!
//! Invariant: if two results are equal, no byte that was written between them was lost. A life that is not known for
//! certain is `None`.
//!
//! The instance is that of the file system's superblock, not the mount: a container that is started again after a kill
//! sees the same file system through another mount in another namespace, and nothing was lost.

use super::file_system::{self, Kind};
use crate::io::Life;
use crate::util::hash::bytes_hash;
use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What an instance was told by, in its top bits, so that numbers of different kinds are never equal.
const BY_SYSFS: u64 = 1 << 62;
const BY_DEVICE: u64 = 2 << 62;
const BY_MOUNT: u64 = 3 << 62;

/// The present life of the file system that holds `directory`.
pub(super) fn life(directory: &Path) -> Option<Life> {
    let boot_id = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let instance = instance(directory)?;
    Some(Life { boot: bytes_hash(boot_id.trim_ascii()), instance })
}

fn instance(directory: &Path) -> Option<u64> {
    let known = match file_system::kind(directory)? {
        Kind::Ext4 => sysfs_instance("ext4", device_name(directory)?),
        Kind::Xfs => sysfs_instance("xfs", device_name(directory)?),
        Kind::F2fs => sysfs_instance("f2fs", device_name(directory)?),
        Kind::Btrfs => sysfs_instance("btrfs", btrfs_id(directory)?),
        // Its files end with it, so whoever finds them finds the same instance. (The device number may be used again
        // by another one, whose files are then a copy.)
        Kind::Tmpfs => fs::metadata(directory).ok().map(|found| found.dev() | BY_DEVICE),
        Kind::Overlay | Kind::Other => None,
    };
    // A mount that still exists keeps its file system from being unmounted.
    known.or_else(|| unique_mount_id(directory).map(|id| id | BY_MOUNT))
}

/// The inode of a file system's directory in sysfs, which is made anew each time that it is mounted while no other
/// mount shows it. The inode is the same in every namespace.
fn sysfs_instance(kind: &str, name: String) -> Option<u64> {
    let instance = fs::metadata(Path::new("/sys/fs").join(kind).join(name)).ok()?;
    Some(instance.ino() & !(3 << 62) | BY_SYSFS)
}

/// The name of the block device that holds `directory`.
fn device_name(directory: &Path) -> Option<String> {
    let device = fs::metadata(directory).ok()?.dev();
    let link = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    Some(fs::canonicalize(link).ok()?.file_name()?.to_str()?.to_owned())
}

/// The id of a btrfs, as sysfs spells it.
fn btrfs_id(directory: &Path) -> Option<String> {
    /// `BTRFS_IOC_FS_INFO` of `linux/btrfs.h`: fills 1,024 bytes, the id from byte 16 on.
    const FS_INFO: libc::c_ulong = 0x8400_941f;
    let directory = File::open(directory).ok()?;
    let mut answer = [0u64; 128];
    // SAFETY: the request writes 1,024 bytes at the address, which `answer` has; it outlives the call.
    if unsafe { libc::ioctl(directory.as_raw_fd(), FS_INFO as _, answer.as_mut_ptr()) } != 0 {
        return None;
    }
    let hex: String =
        answer[2..4].iter().flat_map(|word| word.to_ne_bytes()).map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

/// The mount's id that is unique within one boot; Linux 6.8 and later.
fn unique_mount_id(directory: &Path) -> Option<u64> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    // SAFETY: `statx` holds integers only, for which zeroes are valid.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero byte, and `answer` is a `statx` to be filled; both outlive the call.
    let failed = unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), 0, libc::STATX_MNT_ID_UNIQUE, &mut answer) };
    (failed == 0 && answer.stx_mask & libc::STATX_MNT_ID_UNIQUE != 0).then_some(answer.stx_mnt_id)
}
