//! The disk space of a directory's files: the blocks that the file system allocated, so holes are free and preallocated
//! space is not.

use crate::engine::Result;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a sector, in which the kernel counts blocks on every file system.
const SECTOR_BYTES: u64 = 512;

/// Disk space of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// All files but the log's.
    pub data: u64,
    /// The log's.
    pub log: u64,
}

impl Space {
    /// Of all files.
    pub fn all(self) -> u64 {
        self.data + self.log
    }
}

/// The space of a directory and its subdirectories. Files that disappear meanwhile count nothing.
pub fn of(directory: &Path, is_log: &dyn Fn(&Path) -> bool) -> Result<Space> {
    let mut space = Space::default();
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))? {
            let path = entry?.path();
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let bytes = metadata.blocks() * SECTOR_BYTES;
            if metadata.is_dir() {
                waiting.push(path);
            } else if is_log(&path) {
                space.log += bytes;
            } else {
                space.data += bytes;
            }
        }
    }
    Ok(space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_by_kind_and_holes_are_free() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(directory.path().join("a.data"), vec![1; 100_000]).unwrap();
        fs::write(inner.join("b.log"), vec![1; 50_000]).unwrap();
        fs::File::create(inner.join("hole")).unwrap().set_len(1 << 30).unwrap();
        let space = of(directory.path(), &|path| path.extension().is_some_and(|end| end == "log")).unwrap();
        assert!((100_000..140_000).contains(&space.data), "{space:?}");
        assert!((50_000..70_000).contains(&space.log), "{space:?}");
        assert!(of(&inner.join("absent"), &|_| false).is_err());
    }
}
