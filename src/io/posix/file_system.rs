//! Which kind of file system holds a directory, and what that means for the log (`docs/recovery.md`, File systems).
//! Pure calls; any thread.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Magic numbers of `statfs` that the C library's bindings lack.
const F2FS: u64 = 0xf2f5_2010;

/// The kinds that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// ext2, ext3 and ext4, which have one magic number.
    Ext4,
    Xfs,
    F2fs,
    Btrfs,
    Tmpfs,
    Overlay,
    /// Network and user-space file systems, and all that are not known here.
    Other,
}

/// The kind of the file system of `directory`; `None` if it cannot be asked.
pub(super) fn kind(directory: &Path) -> Option<Kind> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    // SAFETY: `statfs` holds integers only, for which zeroes are valid.
    let mut answer: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero byte, and `answer` is a `statfs` to be filled; both outlive the call.
    let failed = unsafe { libc::statfs(path.as_ptr(), &mut answer) };
    (failed == 0).then(|| of_magic(answer.f_type as u64 & 0xffff_ffff))
}

fn of_magic(magic: u64) -> Kind {
    let is = |known: libc::c_long| magic == known as u64 & 0xffff_ffff;
    match () {
        () if is(libc::EXT4_SUPER_MAGIC as _) => Kind::Ext4,
        () if is(libc::XFS_SUPER_MAGIC as _) => Kind::Xfs,
        () if magic == F2FS => Kind::F2fs,
        () if is(libc::BTRFS_SUPER_MAGIC as _) => Kind::Btrfs,
        () if is(libc::TMPFS_MAGIC as _) => Kind::Tmpfs,
        () if is(libc::OVERLAYFS_SUPER_MAGIC as _) => Kind::Overlay,
        () => Kind::Other,
    }
}

/// Whether a store to a mapped page whose zeroes were synced always finds its block. On btrfs each writeback moves the
/// page to a new block, for which there may be no space; on a network or in user space the page is not in the kernel's
/// hands alone. Whatever is not known to be safe is written.
pub(super) fn maps_safely(directory: &Path) -> bool {
    matches!(kind(directory), Some(Kind::Ext4 | Kind::Xfs | Kind::F2fs | Kind::Tmpfs | Kind::Overlay))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_systems_that_overwrite_in_place_are_mapped() {
        assert_eq!(of_magic(0xef53), Kind::Ext4);
        assert_eq!(of_magic(0x5846_5342), Kind::Xfs);
        assert_eq!(of_magic(0x9123_683e), Kind::Btrfs);
        assert_eq!(of_magic(0x794c_7630), Kind::Overlay);
        // NFS, SMB, FUSE, 9p, ZFS.
        for magic in [0x6969, 0xff53_4d42, 0x6573_5546, 0x0102_1997, 0x2fc1_2fc1] {
            assert_eq!(of_magic(magic), Kind::Other, "{magic:#x}");
        }
        assert!(kind(Path::new("/no such directory")).is_none());
        if kind(Path::new("/dev/shm")) == Some(Kind::Tmpfs) {
            assert!(maps_safely(Path::new("/dev/shm")));
        }
        assert!(!maps_safely(Path::new("/proc")), "nothing that is not known is mapped");
    }
}
