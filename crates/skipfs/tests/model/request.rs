//! Requests, and random sequences of them.

use crate::support::{CALLER, Random};
use skipfs::{RenameMode, SetMode};

/// A path: the names from the root down.
pub type Path = Vec<&'static str>;

/// A file that a request uses: by path, or one that is open.
#[derive(Clone, Debug)]
pub enum File {
    At(Path),
    /// The open file with this number, modulo their count.
    Open(usize),
}

/// A request.
#[derive(Clone, Debug)]
pub enum Request {
    Create(Path, u32),
    Mkdir(Path, u32),
    Mknod(Path, u32),
    Symlink(Path, Vec<u8>),
    Readlink(Path),
    Link(Path, Path),
    Unlink(Path),
    Rmdir(Path),
    Rename(Path, Path, RenameMode),
    Open(Path, bool),
    Release(usize),
    /// Offset, length, first byte, whether it appends.
    Write(File, u64, usize, u8, bool),
    Read(File, u64, usize),
    Truncate(File, u64),
    /// Offset, length, mode.
    Allocate(File, u64, u64, i32),
    Permissions(Path, u32),
    Owner(Path, Option<u32>, Option<u32>),
    SetAttribute(Path, &'static str, usize, SetMode),
    GetAttribute(Path, &'static str),
    RemoveAttribute(Path, &'static str),
    List(Path),
    Fsync,
    Remount,
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const ATTRIBUTES: [&str; 3] = ["user.x", "user.y", "trusted.z"];

fn path(random: &mut Random) -> Path {
    let depth = 1 + random.below(3);
    (0..depth).map(|_| random.pick(&NAMES)).collect()
}

fn file(random: &mut Random) -> File {
    match random.one_in(3) {
        true => File::At(path(random)),
        false => File::Open(random.below(8) as usize),
    }
}

/// Sizes and offsets near the borders: of inline content, small files, blocks and chunks.
fn size(random: &mut Random, max: u64) -> u64 {
    let near = random.pick(&[0, 1000, 4096, 8192, 9000, 65536, 262_144, 266_240, 524_288]);
    let exact = match random.below(4) {
        0 => near,
        1 => near + random.below(200),
        2 => near.saturating_sub(random.below(200)),
        _ => random.below(max),
    };
    exact.min(max)
}

fn length(random: &mut Random) -> usize {
    let max = random.pick(&[50, 50, 1200, 1200, 5000, 20_000, 300_000]);
    if random.one_in(4) { size(random, max) as usize } else { random.below(max) as usize }
}

fn request(random: &mut Random) -> Request {
    let permissions = random.pick(&[0o644, 0o755, 0o4755, 0o2775, 0o2644, 0o6711]);
    match random.below(34) {
        0..=3 => Request::Create(path(random), permissions),
        4..=6 => Request::Mkdir(path(random), permissions),
        7 => Request::Mknod(
            path(random),
            random.pick(&[libc::S_IFIFO, libc::S_IFSOCK, libc::S_IFCHR, libc::S_IFREG, libc::S_IFDIR]),
        ),
        8 => Request::Symlink(path(random), vec![b't'; random.pick(&[0, 1, 30, 4095, 4096])]),
        9 => Request::Readlink(path(random)),
        10 | 11 => Request::Link(path(random), path(random)),
        12 | 13 => Request::Unlink(path(random)),
        14 => Request::Rmdir(path(random)),
        15..=17 => {
            let mode = random.pick(&[
                RenameMode::Replace,
                RenameMode::Replace,
                RenameMode::NoReplace,
                RenameMode::Exchange,
                RenameMode::Whiteout(CALLER),
            ]);
            Request::Rename(path(random), path(random), mode)
        }
        18 => Request::Open(path(random), random.one_in(4)),
        19 => Request::Release(random.below(8) as usize),
        20..=23 => {
            let (at, appends) = (size(random, 600_000), random.one_in(4));
            Request::Write(
                file(random),
                if random.one_in(3) { 0 } else { at },
                length(random),
                random.next() as u8,
                appends,
            )
        }
        24 | 25 => Request::Read(file(random), size(random, 600_000), length(random)),
        26 => Request::Truncate(file(random), size(random, 700_000)),
        27 => {
            let modes = [
                0,
                libc::FALLOC_FL_KEEP_SIZE,
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                libc::FALLOC_FL_ZERO_RANGE,
                libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
                libc::FALLOC_FL_COLLAPSE_RANGE,
            ];
            Request::Allocate(file(random), size(random, 600_000), size(random, 600_000), random.pick(&modes))
        }
        28 => Request::Permissions(path(random), permissions),
        29 => {
            let mut number = || if random.one_in(2) { Some(random.below(3) as u32) } else { None };
            let (uid, gid) = (number(), number());
            Request::Owner(path(random), uid, gid)
        }
        30 => {
            let mode = random.pick(&[SetMode::Any, SetMode::Create, SetMode::Replace]);
            Request::SetAttribute(
                path(random),
                random.pick(&ATTRIBUTES),
                random.pick(&[0, 5, 300, 65_536, 65_537]),
                mode,
            )
        }
        31 => match random.one_in(2) {
            true => Request::GetAttribute(path(random), random.pick(&ATTRIBUTES)),
            false => Request::RemoveAttribute(path(random), random.pick(&ATTRIBUTES)),
        },
        32 => Request::List(path(random)),
        _ if random.one_in(6) => Request::Remount,
        _ => Request::Fsync,
    }
}

/// A sequence of requests, which begins with some that make a tree.
pub fn requests(random: &mut Random, count: u64) -> Vec<Request> {
    let first = [vec!["a"], vec!["b"], vec!["a", "b"]].map(|path| Request::Mkdir(path, 0o755));
    let files = [vec!["c"], vec!["a", "c"], vec!["a", "b", "c"]].map(|path| Request::Create(path, 0o644));
    first.into_iter().chain(files).chain((0..count).map(|_| request(random))).collect()
}
