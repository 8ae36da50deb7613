//! What `stat` shows of an inode. Plain data.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment, to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds after that second, below 10^9.
    pub nanoseconds: u32,
}

const NANOSECONDS: u32 = 1_000_000_000;

impl Timestamp {
    /// The system's time.
    pub fn now() -> Self {
        SystemTime::now().into()
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self { seconds: seconds(after), nanoseconds: after.subsec_nanos() },
            Err(before) => {
                let before = before.duration();
                match before.subsec_nanos() {
                    0 => Self { seconds: -seconds(before), nanoseconds: 0 },
                    nanoseconds => Self { seconds: -seconds(before) - 1, nanoseconds: NANOSECONDS - nanoseconds },
                }
            }
        }
    }
}

/// Moments that the system cannot represent become 1970.
impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let whole = Duration::from_secs(time.seconds.unsigned_abs());
        let at_second = if time.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        let nanoseconds = Duration::from_nanos(time.nanoseconds.into());
        at_second.and_then(|second| second.checked_add(nanoseconds)).unwrap_or(UNIX_EPOCH)
    }
}

/// The type of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
}

impl FileKind {
    /// The kind in the type bits of a mode.
    pub fn of_mode(mode: u32) -> Option<Self> {
        Some(match mode & libc::S_IFMT {
            libc::S_IFREG => Self::File,
            libc::S_IFDIR => Self::Directory,
            libc::S_IFLNK => Self::Symlink,
            libc::S_IFIFO => Self::Fifo,
            libc::S_IFSOCK => Self::Socket,
            libc::S_IFCHR => Self::CharacterDevice,
            libc::S_IFBLK => Self::BlockDevice,
            _ => return None,
        })
    }

    /// The type bits of a mode.
    pub fn mode(self) -> u32 {
        match self {
            Self::File => libc::S_IFREG,
            Self::Directory => libc::S_IFDIR,
            Self::Symlink => libc::S_IFLNK,
            Self::Fifo => libc::S_IFIFO,
            Self::Socket => libc::S_IFSOCK,
            Self::CharacterDevice => libc::S_IFCHR,
            Self::BlockDevice => libc::S_IFBLK,
        }
    }
}

/// What `stat` shows of an inode. The kind is apart from the permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The inode number.
    pub ino: u64,
    /// The type.
    pub kind: FileKind,
    /// The permission bits, with set-user-ID, set-group-ID and the sticky bit: 12 bits.
    pub permissions: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The number of names; of a directory 2 and the number of its subdirectories.
    pub nlink: u32,
    /// The number of a device.
    pub rdev: u32,
    /// Bytes of content, or of a link's target. 0 for others.
    pub size: u64,
    /// Bytes of a file's content that are kept, in whole blocks of 4 KiB: holes do not count. 0 for others.
    pub allocated: u64,
    /// The last access that was recorded. Reads record none, as on a file system mounted with `noatime`.
    pub atime: Timestamp,
    /// The last change of content.
    pub mtime: Timestamp,
    /// The last change of content or attributes.
    pub ctime: Timestamp,
}

impl Attributes {
    /// `allocated` in units of 512 bytes, as `stat` has it. What the store needs, or saves by compression, is not in it.
    pub fn blocks(&self) -> u64 {
        self.allocated / 512
    }

    /// Whether this is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Records a change of content now.
    pub fn modified(&mut self, now: Timestamp) {
        (self.mtime, self.ctime) = (now, now);
    }

    /// Takes away what would give others the file's rights: set-user-ID, and set-group-ID if the group may execute.
    pub fn drop_privileges(&mut self) {
        self.permissions &= !libc::S_ISUID;
        if self.permissions & libc::S_IXGRP != 0 {
            self.permissions &= !libc::S_ISGID;
        }
    }
}
