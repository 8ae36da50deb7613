//! The files of a database: their names and contents.

use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Returns the number of a log file from its name.
pub fn log_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Returns the path of a log file.
pub fn log_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:06}.log"))
}

/// Returns the path of a table file: `.ldb`, or `.sst` from older versions. If neither exists, the first.
pub fn table_path(directory: &Path, number: u64) -> PathBuf {
    let [new, old] = ["ldb", "sst"].map(|ending| directory.join(format!("{number:06}.{ending}")));
    if !new.exists() && old.exists() { old } else { new }
}

/// An open file with its path.
#[derive(Debug)]
pub struct ReadFile {
    file: File,
    path: PathBuf,
    length: u64,
}

impl ReadFile {
    /// Opens a file.
    pub fn open(path: PathBuf) -> Result<Self> {
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        match opened {
            Ok((length, file)) => Ok(Self { file, path, length }),
            Err(error) => Err(Error::io("open", &path, error)),
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length at the time of opening.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Reads bytes at an offset.
    pub fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        // A damaged length must not allocate memory.
        if length as u64 > self.length.saturating_sub(offset) {
            return Err(Error::io("read", &self.path, io::ErrorKind::UnexpectedEof.into()));
        }
        let mut bytes = vec![0; length];
        match self.file.read_exact_at(&mut bytes, offset) {
            Ok(()) => Ok(bytes),
            Err(error) => Err(Error::io("read", &self.path, error)),
        }
    }
}
