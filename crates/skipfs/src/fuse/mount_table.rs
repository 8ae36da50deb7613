//! The system's table of mounts: which directories are mounts of SkipFS, and of which stores. Any thread.

use crate::error::{FsError, FsResult};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The type of SkipFS in the table.
pub(super) const SUBTYPE: &str = "skipfs";
const TYPE: &[u8] = b"fuse.skipfs";
const TABLE: &str = "/proc/self/mountinfo";

/// The source of a mount in the table: the path of its store, if mounting and the table pass it on unchanged.
pub(super) fn source(store: Option<&Path>) -> String {
    let is_plain = |path: &&str| path.starts_with('/') && !path.contains([',', '\\']);
    store.and_then(Path::to_str).filter(is_plain).unwrap_or(SUBTYPE).to_owned()
}

/// A mount of SkipFS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedAt {
    /// Its store, if the table has it.
    pub store: Option<PathBuf>,
}

/// The SkipFS that is mounted at a directory; `None` if nothing is, or something else. Requires an absolute path
/// without links.
///
/// # Errors
/// Those of reading the table.
pub fn mounted_at(directory: &Path) -> FsResult<Option<MountedAt>> {
    let table = std::fs::read(TABLE).map_err(|error| {
        FsError::with_detail(error.raw_os_error().unwrap_or(libc::EIO), format!("cannot read {TABLE}"))
    })?;
    Ok(find(&table, directory))
}

/// The last mount of a directory hides the others.
fn find(table: &[u8], directory: &Path) -> Option<MountedAt> {
    let wanted = directory.as_os_str().as_bytes();
    let mut mounts = table.split(|&byte| byte == b'\n').filter_map(fields);
    let (_, kind, source) = mounts.rfind(|(place, ..)| place == wanted)?;
    let store = source.starts_with(b"/").then(|| OsString::from_vec(source).into());
    (kind == TYPE).then_some(MountedAt { store })
}

/// Mount point, type and source of a line. Optional fields end with a hyphen.
fn fields(line: &[u8]) -> Option<(Vec<u8>, &[u8], Vec<u8>)> {
    let mut fields = line.split(|&byte| byte == b' ');
    let place = fields.nth(4)?;
    fields.find(|field| *field == b"-")?;
    Some((unescape(place), fields.next()?, unescape(fields.next()?)))
}

/// Spaces, tabs, newlines and backslashes are a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((&byte, behind)) = rest.split_first() {
        let octal = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) if byte == b'\\' => {
                bytes.push(escaped);
                rest = &behind[3..];
            }
            _ => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_of_a_directory_counts() {
        let table = b"22 1 0:5 / /mnt/a rw,noatime shared:1 - fuse.skipfs /data/store rw,user_id=0\n\
            23 1 0:6 / /mnt/b\\040c rw - fuse.skipfs /data/a\\040b rw\n\
            24 1 0:7 / /mnt/d rw - fuse.skipfs skipfs rw\n\
            25 1 0:8 / /mnt/e rw - fuse.skipfs /x rw\n\
            26 1 0:9 / /mnt/e rw - tmpfs none rw\n";
        let store = |path: &str| find(table, Path::new(path)).map(|mount| mount.store);
        assert_eq!(store("/mnt/a"), Some(Some("/data/store".into())));
        assert_eq!(store("/mnt/b c"), Some(Some("/data/a b".into())));
        assert_eq!(store("/mnt/d"), Some(None));
        assert_eq!([store("/mnt/e"), store("/mnt"), store("/")], [None, None, None]);
    }

    #[test]
    fn only_plain_paths_are_sources() {
        assert_eq!(source(Some(Path::new("/a b"))), "/a b");
        for other in [None, Some("a"), Some("/a,b"), Some("/a\\b")] {
            assert_eq!(source(other.map(Path::new)), "skipfs");
        }
    }
}
