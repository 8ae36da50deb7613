//! Converts between the types of `SkipFs` and those of `fuser`. Pure.

use crate::error::FsError;
use crate::format::{Attributes, FileKind, Timestamp};
use crate::fs::SetTime;
use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};
use std::time::{SystemTime, UNIX_EPOCH};

/// The unit of I/O that `stat` recommends.
const BLOCK_BYTES: u32 = 4096;

pub(super) fn errno(error: &FsError) -> Errno {
    Errno::from_i32(error.errno())
}

pub(super) fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharacterDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

pub(super) fn attributes(of: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(of.ino),
        size: of.size,
        blocks: of.blocks(),
        atime: of.atime.into(),
        mtime: of.mtime.into(),
        ctime: of.ctime.into(),
        crtime: UNIX_EPOCH,
        kind: kind(of.kind),
        perm: of.permissions as u16,
        nlink: of.nlink,
        uid: of.uid,
        gid: of.gid,
        rdev: of.rdev,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// The attributes of a name that does not exist: inode 0.
pub(super) fn nothing() -> FileAttr {
    let time = Timestamp::default();
    attributes(&Attributes {
        ino: 0,
        kind: FileKind::File,
        permissions: 0,
        uid: 0,
        gid: 0,
        nlink: 0,
        rdev: 0,
        size: 0,
        allocated: 0,
        atime: time,
        mtime: time,
        ctime: time,
    })
}

pub(super) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::To(requested(time)),
    }
}

/// A moment as the kernel has sent it. Of one before 1970 `fuser` subtracts the nanoseconds, which the kernel adds.
pub(super) fn requested(time: SystemTime) -> Timestamp {
    match UNIX_EPOCH.duration_since(time) {
        Ok(before) if !before.is_zero() => Timestamp {
            seconds: i64::try_from(before.as_secs()).map_or(i64::MIN, |seconds| -seconds),
            nanoseconds: before.subsec_nanos(),
        },
        _ => time.into(),
    }
}
