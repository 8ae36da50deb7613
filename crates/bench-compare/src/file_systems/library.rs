//! SkipFS by its library: the requests that the kernel would send for the same system calls, without the kernel.
//!
//! An inode is looked up before each use and forgotten afterwards, so that every request finds its file in the store.

use super::Requests;
use alluvium_bench::engine::Result;
use skipfs::store::Store;
use skipfs::{Caller, ROOT, RenameMode, SkipFs, Visit, WriteOptions};
use std::sync::Arc;

const CALLER: Caller = Caller { uid: 0, gid: 0 };
const FILE_PERMISSIONS: u32 = 0o644;
const DIRECTORY_PERMISSIONS: u32 = 0o755;

/// A file system in this process.
pub struct Library<S> {
    fs: Arc<SkipFs<S>>,
    directories: Vec<Directory>,
}

struct Directory {
    ino: u64,
    name: String,
}

impl<S: Store> Library<S> {
    /// Of an open file system.
    pub fn new(fs: Arc<SkipFs<S>>) -> Self {
        Self { fs, directories: vec![Directory { ino: ROOT, name: String::new() }] }
    }

    /// Looks up a file, opens it, uses it, closes it, and forgets it.
    fn with_open<T>(&self, directory: usize, name: &str, request: impl FnOnce(u64) -> Result<T>) -> Result<T> {
        let ino = self.fs.lookup(self.directories[directory].ino, name.as_bytes())?.ino;
        self.fs.open_file(ino, false)?;
        let done = request(ino)?;
        self.fs.release(ino)?;
        self.fs.forget(ino, 1);
        Ok(done)
    }
}

impl<S: Store> Requests for Library<S> {
    fn make_directory(&mut self, name: &str) -> Result<usize> {
        let ino = self.fs.mkdir(ROOT, name.as_bytes(), DIRECTORY_PERMISSIONS, CALLER)?.ino;
        self.directories.push(Directory { ino, name: name.to_owned() });
        Ok(self.directories.len() - 1)
    }

    fn remove_directory(&mut self, directory: usize) -> Result<()> {
        let Directory { ino, name } = &self.directories[directory];
        self.fs.rmdir(ROOT, name.as_bytes())?;
        self.fs.forget(*ino, 1);
        Ok(())
    }

    fn create(&mut self, directory: usize, name: &str, content: &[u8]) -> Result<()> {
        let ino = self.fs.create(self.directories[directory].ino, name.as_bytes(), FILE_PERMISSIONS, CALLER)?.ino;
        if !content.is_empty() {
            self.fs.write(ino, 0, content, WriteOptions::default())?;
        }
        self.fs.release(ino)?;
        self.fs.forget(ino, 1);
        Ok(())
    }

    fn append(&mut self, directory: usize, name: &str, content: &[u8]) -> Result<()> {
        let options = WriteOptions { append: true, ..WriteOptions::default() };
        self.with_open(directory, name, |ino| {
            let written = self.fs.write(ino, 0, content, options)?;
            if written == content.len() { Ok(()) } else { Err("a write was short".into()) }
        })
    }

    fn read(&mut self, directory: usize, name: &str, content: &mut [u8]) -> Result<usize> {
        self.with_open(directory, name, |ino| {
            let found = self.fs.read(ino, 0, content.len())?;
            content[..found.len()].copy_from_slice(&found);
            Ok(found.len())
        })
    }

    fn stat(&mut self, directory: usize, name: &str) -> Result<u64> {
        let found = self.fs.lookup(self.directories[directory].ino, name.as_bytes())?;
        self.fs.forget(found.ino, 1);
        Ok(found.size)
    }

    fn list(&mut self, directory: usize) -> Result<u64> {
        let mut handle = self.fs.opendir(self.directories[directory].ino)?;
        let mut entries = 0;
        self.fs.readdir(&mut handle, 0, &mut |entry| {
            entries += u64::from(!matches!(entry.name, b"." | b".."));
            Visit::Taken
        })?;
        Ok(entries)
    }

    fn rename(&mut self, directory: usize, name: &str, new_name: &str) -> Result<()> {
        let ino = self.directories[directory].ino;
        Ok(self.fs.rename(ino, name.as_bytes(), ino, new_name.as_bytes(), RenameMode::Replace)?)
    }

    fn unlink(&mut self, directory: usize, name: &str) -> Result<()> {
        Ok(self.fs.unlink(self.directories[directory].ino, name.as_bytes())?)
    }
}
