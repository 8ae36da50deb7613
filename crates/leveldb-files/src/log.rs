//! The form of log files and of the manifest: records, cut to fit into blocks of 32 KiB.
//!
//! | bytes | what |
//! | --- | --- |
//! | 4 | masked CRC-32C of the kind and the payload |
//! | 2 | length of the payload |
//! | 1 | kind: 1 a whole record, 2 its first piece, 3 one between, 4 its last; 0 with length 0: room that was never written to |
//! | | payload |
//!
//! What is left of a block where no header fits is zero. A file that ends inside a piece, or between two pieces of a record, is one whose
//! writer died: what it had begun is not there, as for LevelDB itself.

use crate::checksum;
use crate::decode::Decoder;
use crate::error::{Error, LeftOut, Result};
use crate::file::ReadFile;

const BLOCK: usize = 32 << 10;
const HEADER: usize = 7;

/// Reads the records of a file, one after the other.
pub struct LogReader {
    file: ReadFile,
    block: Vec<u8>,
    /// Where the block lies in the file, and how much of it was read.
    block_at: u64,
    at: usize,
    /// Pieces of a record whose end was not met yet, and where it began.
    begun: Option<(Vec<u8>, u64)>,
    /// Bytes at the end that a writer had begun and not finished.
    torn: u64,
}

/// A piece of a record.
struct Piece {
    kind: u8,
    payload: Vec<u8>,
    offset: u64,
}

impl LogReader {
    /// At the beginning.
    pub fn new(file: ReadFile) -> Self {
        Self { file, block: Vec::new(), block_at: 0, at: 0, begun: None, torn: 0 }
    }

    /// The file.
    pub fn file(&self) -> &ReadFile {
        &self.file
    }

    /// What a writer had begun to write when it died; known once there are no more records.
    pub fn torn(&self) -> Option<LeftOut> {
        let why = || format!("{}: what a process that died had begun to write at its end", self.file.path().display());
        (self.torn > 0).then(|| LeftOut { bytes: Some(self.torn), why: why() })
    }

    /// The next record and where it begins. After an error the next call goes on behind what was damaged.
    pub fn next(&mut self) -> Result<Option<(Vec<u8>, u64)>> {
        loop {
            let Some(piece) = self.piece()? else {
                if let Some((_, began)) = self.begun.take() {
                    self.torn = self.file.length() - began;
                }
                return Ok(None);
            };
            // Old writers began a record with an empty piece where nothing more went into the block, and then began it again.
            let begun = self.begun.take().filter(|(record, _)| !(record.is_empty() && piece.kind <= 2));
            let path = self.file.path();
            match (piece.kind, begun) {
                (1, None) => return Ok(Some((piece.payload, piece.offset))),
                (2, None) => self.begun = Some((piece.payload, piece.offset)),
                (3, Some((mut record, began))) => {
                    record.extend_from_slice(&piece.payload);
                    self.begun = Some((record, began));
                }
                (4, Some((mut record, began))) => {
                    record.extend_from_slice(&piece.payload);
                    return Ok(Some((record, began)));
                }
                // The new record is whole, or begins: it must not go with the one before.
                (1 | 2, Some((_, began))) => {
                    let error = Error::damage(
                        path,
                        began,
                        "a record",
                        "all its pieces",
                        "another record behind the first ones",
                    );
                    self.at -= HEADER + piece.payload.len();
                    return Err(error);
                }
                (kind, _) => {
                    return Err(Error::damage(
                        path,
                        piece.offset,
                        "a record",
                        "its first piece",
                        format!("a piece of kind {kind}"),
                    ));
                }
            }
        }
    }

    fn piece(&mut self) -> Result<Option<Piece>> {
        loop {
            let offset = self.block_at + self.at as u64;
            let left = &self.block[self.at..];
            let ends_here = self.block_at + self.block.len() as u64 >= self.file.length();
            if left.len() < HEADER {
                if ends_here {
                    self.torn = left.len() as u64;
                    return Ok(None);
                }
                self.read_block()?;
                continue;
            }
            let mut decoder = Decoder::new(left);
            let (Some(stored), Some(low), Some(high), Some(kind)) =
                (decoder.fixed32(), decoder.byte(), decoder.byte(), decoder.byte())
            else {
                return Ok(None);
            };
            let length = usize::from(u16::from_le_bytes([low, high]));
            if kind == 0 && length == 0 {
                self.at = self.block.len();
                continue;
            }
            let Some(payload) = decoder.bytes(length) else {
                let found = left.len() - HEADER;
                self.at = self.block.len();
                if ends_here {
                    self.torn = self.file.length() - offset;
                    return Ok(None);
                }
                return Err(self.damage(offset, "length of a record", format!("at most {found}"), length));
            };
            let computed = checksum::masked(&[&[kind], payload]);
            if computed != stored {
                // Its length cannot be trusted either, so the rest of the block goes with it.
                let error =
                    self.damage(offset, "checksum of a record", format!("{computed:08x}"), format!("{stored:08x}"));
                self.at = self.block.len();
                return Err(error);
            }
            let payload = payload.to_vec();
            self.at += HEADER + length;
            return Ok(Some(Piece { kind, payload, offset }));
        }
    }

    fn damage(&mut self, offset: u64, what: &'static str, expected: String, found: impl ToString) -> Error {
        self.begun = None;
        Error::damage(self.file.path(), offset, what, expected, found)
    }

    fn read_block(&mut self) -> Result<()> {
        self.block_at += self.block.len() as u64;
        let length = (self.file.length() - self.block_at).min(BLOCK as u64) as usize;
        self.at = 0;
        self.block = self.file.read(self.block_at, length)?;
        Ok(())
    }
}
