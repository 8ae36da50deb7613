//! A file that is in memory only and has no name in any directory. Any thread. It is written from its start to its end.
//!
//! Its memory is mapped, not of the global allocator, which would keep what many such files of many sizes have freed.

use super::{AlignedBuffer, StorageFile};
use crate::util::limits::IO_ALIGNMENT;
use crate::util::sync::RwLock;
use crate::util::{Error, Result};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// See the module. It is gone with its last reference.
#[derive(Debug)]
pub struct BufferFile {
    path: PathBuf,
    pieces: RwLock<Vec<Piece>>,
}

/// What was written at once.
#[derive(Debug)]
struct Piece {
    start: u64,
    length: usize,
    buffer: AlignedBuffer,
}

impl Piece {
    fn end(&self) -> u64 {
        self.start + self.length as u64
    }
}

impl BufferFile {
    /// An empty file. `path` is for messages.
    pub fn new(path: PathBuf) -> Self {
        Self { path, pieces: RwLock::default() }
    }

    fn error(&self, operation: &'static str, kind: ErrorKind) -> Error {
        Error::io(operation, &self.path, io::Error::from(kind))
    }
}

impl StorageFile for BufferFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        Ok(self.pieces.read().last().map_or(0, Piece::end))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let pieces = self.pieces.read();
        let first = pieces.partition_point(|piece| piece.end() <= offset);
        let (mut filled, mut at) = (0, offset);
        for piece in &pieces[first..] {
            if filled == buffer.len() {
                break;
            }
            let from = (at - piece.start) as usize;
            let count = (piece.length - from).min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&piece.buffer[from..from + count]);
            (filled, at) = (filled + count, at + count as u64);
        }
        if filled < buffer.len() { Err(self.error("read", ErrorKind::UnexpectedEof)) } else { Ok(()) }
    }

    /// All of it is in memory.
    fn read_resident(&self, buffer: &mut [u8], offset: u64) -> bool {
        self.read_exact_at(buffer, offset).is_ok()
    }

    /// At the end of the file only.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut pieces = self.pieces.write();
        if offset != pieces.last().map_or(0, Piece::end) {
            return Err(self.error("write", ErrorKind::InvalidInput));
        }
        if !bytes.is_empty() {
            let mut buffer = AlignedBuffer::new(bytes.len().next_multiple_of(IO_ALIGNMENT));
            buffer[..bytes.len()].copy_from_slice(bytes);
            pieces.push(Piece { start: offset, length: bytes.len(), buffer });
        }
        Ok(())
    }

    /// It only grows, by writing.
    fn set_length(&self, _: u64) -> Result<()> {
        Err(self.error("set the length", ErrorKind::Unsupported))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_was_written_across_pieces() {
        let file = BufferFile::new("buffer".into());
        file.write_all_at(b"sil", 0).unwrap();
        file.write_all_at(b"", 3).unwrap();
        file.write_all_at(b"ts and sands", 3).unwrap();
        assert_eq!(file.length().unwrap(), 15);
        for (offset, expected) in [(0, &b"silts"[..]), (2, b"l"), (3, b"ts"), (10, b"sands"), (15, b"")] {
            let mut found = vec![9; expected.len()];
            file.read_exact_at(&mut found, offset).unwrap();
            assert_eq!(found, expected);
        }
        assert!(file.read_exact_at(&mut [0; 6], 10).unwrap_err().to_string().contains("buffer"));
        assert!(file.write_all_at(b"x", 14).is_err() && file.write_all_at(b"x", 16).is_err());
        assert!(file.set_length(3).is_err());
    }
}
