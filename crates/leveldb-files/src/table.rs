//! Table files: blocks of entries, an index of them, and a footer.
//!
//! | bytes, from the end of the file | what |
//! | --- | --- |
//! | 48 | places of the block of metadata and of the index (varints), zeroes up to 40 bytes |
//! | 8, the last | 0xdb4775248b80fb57, little-endian |
//!
//! The index is a block with an entry for each block of data: a key at or behind its last one, and its place.

use crate::block::{Block, Handle, TRAILER};
use crate::decode::Decoder;
use crate::error::{Error, Result};
use crate::file::ReadFile;
use crate::internal_key;
use std::path::PathBuf;

const FOOTER: usize = 48;
const MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// A position in a table. New, it stands before the first entry.
#[derive(Debug)]
pub struct Table {
    file: ReadFile,
    index: Block,
    block: Block,
    /// Where the block lies.
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
            return Err(Error::damage(file.path(), footer_at, "a table's last eight bytes", expected, found));
        }
        let mut decoder = Decoder::new(&footer);
        let index = Handle::decode(&mut decoder).and_then(|_| Handle::decode(&mut decoder));
        let Some(index) = index else {
            return Err(Error::damage(file.path(), footer_at, "a table's footer", "two places", "neither"));
        };
        let index = Block::read(&file, index)?;
        Ok(Self { file, index, block: Block::default(), at: Handle { offset: 0, length: 0 } })
    }

    /// Bytes of the blocks that it has behind it, and of the one in which it stands.
    pub fn bytes_read(&self) -> u64 {
        self.at.offset + self.at.length + TRAILER
    }

    /// Moves to the next entry; false where there is none. After an error it goes on with the next block.
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
                return Err(self.damage("an entry of the index", "a key and a place"));
            }
        }
        let Some(handle) = Handle::decode(&mut Decoder::new(self.index.value())) else {
            return Err(self.damage("an entry of the index", "a place"));
        };
        self.at = handle;
        self.block = Block::default();
        self.block = Block::read(&self.file, handle)?;
        Ok(true)
    }

    fn damage(&self, what: &'static str, expected: &str) -> Error {
        Error::damage(self.file.path(), self.at.offset, what, expected, "bytes that are none")
    }

    /// The key of the entry.
    pub fn key(&self) -> &[u8] {
        self.block.key()
    }

    /// The value of the entry.
    pub fn value(&self) -> &[u8] {
        self.block.value()
    }
}
