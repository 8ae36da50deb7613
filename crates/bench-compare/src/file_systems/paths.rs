//! A file system by system calls: those of postmark, with paths from the mount point on.

use super::Requests;
use alluvium_bench::engine::Result;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A directory of a mounted file system.
pub struct Paths {
    directories: Vec<PathBuf>,
}

impl Paths {
    /// Below a directory.
    pub fn new(root: &Path) -> Self {
        Self { directories: vec![root.to_owned()] }
    }

    fn path(&self, directory: usize, name: &str) -> PathBuf {
        self.directories[directory].join(name)
    }
}

impl Requests for Paths {
    fn make_directory(&mut self, name: &str) -> Result<usize> {
        let path = self.directories[0].join(name);
        fs::create_dir(&path)?;
        self.directories.push(path);
        Ok(self.directories.len() - 1)
    }

    fn remove_directory(&mut self, directory: usize) -> Result<()> {
        Ok(fs::remove_dir(&self.directories[directory])?)
    }

    fn create(&mut self, directory: usize, name: &str, content: &[u8]) -> Result<()> {
        let mut file = File::create(self.path(directory, name))?;
        if !content.is_empty() {
            file.write_all(content)?;
        }
        Ok(())
    }

    fn append(&mut self, directory: usize, name: &str, content: &[u8]) -> Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(self.path(directory, name))?;
        file.seek(SeekFrom::End(0))?;
        Ok(file.write_all(content)?)
    }

    /// One `read`: a file that fits into `content` comes at once.
    fn read(&mut self, directory: usize, name: &str, content: &mut [u8]) -> Result<usize> {
        let mut file = File::open(self.path(directory, name))?;
        Ok(file.read(content)?)
    }

    fn stat(&mut self, directory: usize, name: &str) -> Result<u64> {
        Ok(fs::symlink_metadata(self.path(directory, name))?.len())
    }

    fn list(&mut self, directory: usize) -> Result<u64> {
        let entries = fs::read_dir(&self.directories[directory])?;
        Ok(entries.collect::<std::io::Result<Vec<_>>>()?.len() as u64)
    }

    fn rename(&mut self, directory: usize, name: &str, new_name: &str) -> Result<()> {
        Ok(fs::rename(self.path(directory, name), self.path(directory, new_name))?)
    }

    fn unlink(&mut self, directory: usize, name: &str) -> Result<()> {
        Ok(fs::remove_file(self.path(directory, name))?)
    }
}
