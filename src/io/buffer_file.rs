//! A file that is in memory only and has no name in any directory. Any thread.

use super::StorageFile;
use crate::util::sync::RwLock;
use crate::util::{Error, Result};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// See the module. It is gone with its last reference.
#[derive(Debug)]
pub struct BufferFile {
    path: PathBuf,
    bytes: RwLock<Vec<u8>>,
}

impl BufferFile {
    /// An empty file. `path` is for messages.
    pub fn new(path: PathBuf) -> Self {
        Self { path, bytes: RwLock::default() }
    }

    /// Gives back the memory that it reserved and does not need.
    pub fn shrink(&self) {
        self.bytes.write().shrink_to_fit();
    }

    fn ends_early(&self, operation: &'static str) -> Error {
        Error::io(operation, &self.path, ErrorKind::UnexpectedEof.into())
    }
}

impl StorageFile for BufferFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        Ok(self.bytes.read().len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let bytes = self.bytes.read();
        let found = usize::try_from(offset).ok().and_then(|from| bytes.get(from..)?.get(..buffer.len()));
        buffer.copy_from_slice(found.ok_or_else(|| self.ends_early("read"))?);
        Ok(())
    }

    fn write_all_at(&self, written: &[u8], offset: u64) -> Result<()> {
        let mut bytes = self.bytes.write();
        let from = usize::try_from(offset).map_err(|_| self.ends_early("write"))?;
        let end = from.checked_add(written.len()).ok_or_else(|| self.ends_early("write"))?;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[from..end].copy_from_slice(written);
        Ok(())
    }

    fn set_length(&self, length: u64) -> Result<()> {
        let length = usize::try_from(length).map_err(|_| self.ends_early("set the length"))?;
        self.bytes.write().resize(length, 0);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_was_written() {
        let file = BufferFile::new("buffer".into());
        file.write_all_at(b"silt", 2).unwrap();
        file.write_all_at(b"t", 6).unwrap();
        let mut found = [9; 7];
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(&found, b"\0\0siltt");
        assert!(file.read_exact_at(&mut found, 1).unwrap_err().to_string().contains("buffer"));
        file.set_length(3).unwrap();
        assert_eq!(file.length().unwrap(), 3);
    }
}
