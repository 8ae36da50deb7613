//! Table files: blocks of entries, an index of them, and a footer.
//!
//! | bytes, from the end of the file | meaning |
//! | --- | --- |
//! | 48 | block handles of the metadata block and of the index (varints), zeroes up to 40 bytes |
//! | the last 8 | 0xdb4775248b80fb57, little-endian |
//!
//! The index is a block with an entry for each data block: a key at or after its last key, and its block handle.

use crate::block::{Block, Handle, TRAILER};
use crate::decode::Decoder;
use crate::error::{Error, Result};
use crate::file::ReadFile;
use crate::internal_key;
use std::path::PathBuf;

const FOOTER: usize = 48;
const MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// A cursor in a table, initially before the first entry.
#[derive(Debug)]
pub struct Table {
    file: ReadFile,
    index: Block,
    block: Block,
    /// The location of the block.
    at: Handle,
}

impl Table {
    /// Opens a table and reads its index.
    pub fn open(path: PathBuf) -> Result<Self> {
        let file = ReadFile::open(path)?;
        let Some(footer_at) = file.length().checked_sub(FOOTER as u64) else {
            return Err(Error::damage(
                file.path(),
                0,
                "length of a table",
                format!("at least {FOOTER}"),
                file.length(),
            ));
        };
        let footer = file.read(footer_at, FOOTER)?;
        let magic = footer.last_chunk().map_or(0, |magic| u64::from_le_bytes(*magic));
        if magic != MAGIC {
            let (expected, found) = (format!("{MAGIC:016x}"), format!("{magic:016x}"));
            return Err(Error::damage(file.path(), footer_at, "magic number of a table", expected, found));
        }
        let mut decoder = Decoder::new(&footer);
        let index = Handle::decode(&mut decoder).and_then(|_| Handle::decode(&mut decoder));
        let Some(index) = index else {
            return Err(Error::damage(
                file.path(),
                footer_at,
                "a table's footer",
                "two block handles",
                "invalid bytes",
            ));
        };
        let index = Block::read(&file, index)?;
        Ok(Self { file, index, block: Block::default(), at: Handle { offset: 0, length: 0 } })
    }

    /// Returns the bytes of the blocks that have been read, including the current one.
    pub fn bytes_read(&self) -> u64 {
        self.at.offset + self.at.length + TRAILER
    }

    /// Moves to the next entry; false if there is none. After an error it continues with the next block.
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            match self.block.advance() {
                Some(true) if internal_key::user_key(self.block.key()).is_some() => return Ok(true),
                Some(false) => {
                    if !self.next_block()? {
                        return Ok(false);
                    }
                }
                _ => {
                    self.block = Block::default();
                    return Err(self.damage("an entry", "a key and a value"));
                }
            }
        }
    }

    fn next_block(&mut self) -> Result<bool> {
        match self.index.advance() {
            Some(true) => {}
            Some(false) => return Ok(false),
            None => {
                self.index = Block::default();
                return Err(self.damage("an entry of the index", "a key and a block handle"));
            }
        }
        let Some(handle) = Handle::decode(&mut Decoder::new(self.index.value())) else {
            return Err(self.damage("an entry of the index", "a block handle"));
        };
        self.at = handle;
        self.block = Block::default();
        self.block = Block::read(&self.file, handle)?;
        Ok(true)
    }

    fn damage(&self, what: &'static str, expected: &str) -> Error {
        Error::damage(self.file.path(), self.at.offset, what, expected, "invalid bytes")
    }

    /// Returns the key of the entry.
    pub fn key(&self) -> &[u8] {
        self.block.key()
    }

    /// Returns the value of the entry.
    pub fn value(&self) -> &[u8] {
        self.block.value()
    }
}
