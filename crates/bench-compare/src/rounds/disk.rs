//! The disk space of a directory's files, and their apparent length.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a sector, in which the kernel counts blocks on every file system.
const SECTOR_BYTES: u64 = 512;

/// Space of all files of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Bytes of the blocks that the file system allocated.
    pub allocated: u64,
    /// Sum of the lengths.
    pub length: u64,
    /// Number of files.
    pub files: u64,
}

impl Disk {
    /// That of a directory and its subdirectories, whose own blocks do not count. Files that disappear meanwhile count
    /// nothing.
    pub fn of(directory: &Path) -> Result<Self, String> {
        let mut disk = Self::default();
        let mut waiting = vec![directory.to_path_buf()];
        while let Some(directory) = waiting.pop() {
            let entries = fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
            for entry in entries.flatten() {
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    waiting.push(entry.path());
                } else {
                    disk.allocated += metadata.blocks() * SECTOR_BYTES;
                    disk.length += metadata.len();
                    disk.files += 1;
                }
            }
        }
        Ok(disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_lengths_are_summed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/a"), vec![1; 100_000]).unwrap();
        fs::File::create(folder.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        let disk = Disk::of(folder.path()).unwrap();
        assert_eq!((disk.length, disk.files), (100_000 + (1 << 30), 2));
        assert!((100_000..200_000).contains(&disk.allocated), "{disk:?}");
        assert!(Disk::of(&folder.path().join("absent")).is_err());
    }
}
