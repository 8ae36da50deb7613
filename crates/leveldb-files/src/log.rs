//! The format of log files and of the manifest: records, split into fragments that fit into blocks of 32 KiB.
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 4 | masked CRC-32C of the type and the payload |
//! | 2 | length of the payload |
//! | 1 | type: 1 a whole record, 2 its first fragment, 3 a middle one, 4 its last; 0 with length 0: space that was never written |
//! | | payload |
//!
//! The rest of a block that is too short for a header is zero. If a file ends inside a fragment, or between two
//! fragments of a record, its writer died. The unfinished record is ignored, as in LevelDB itself.

use crate::checksum;
use crate::decode::Decoder;
use crate::error::{Error, LeftOut, Result};
use crate::file::ReadFile;

const BLOCK: usize = 32 << 10;
const HEADER: usize = 7;

/// Reads the records of a file in order.
pub struct LogReader {
    file: ReadFile,
    block: Vec<u8>,
    /// The block's offset in the file, and how much of the block was read.
    block_at: u64,
    at: usize,
    /// The fragments of an unfinished record, and the record's offset.
    begun: Option<(Vec<u8>, u64)>,
    /// Bytes of an unfinished record at the end.
    torn: u64,
}

/// A fragment of a record.
struct Fragment {
    kind: u8,
    payload: Vec<u8>,
    offset: u64,
}

impl LogReader {
    /// Starts at the beginning.
    pub fn new(file: ReadFile) -> Self {
        Self { file, block: Vec::new(), block_at: 0, at: 0, begun: None, torn: 0 }
    }

    /// Returns the file.
    pub fn file(&self) -> &ReadFile {
        &self.file
    }

    /// Returns the unfinished write at the end, if any. It is known once there are no more records.
    pub fn torn(&self) -> Option<LeftOut> {
        let why = || format!("{}: an unfinished write at the end, of a process that died", self.file.path().display());
        (self.torn > 0).then(|| LeftOut { bytes: Some(self.torn), why: why() })
    }

    /// Returns the next record and its offset. After an error, the next call continues behind the damage.
    pub fn next(&mut self) -> Result<Option<(Vec<u8>, u64)>> {
        loop {
            let Some(fragment) = self.fragment()? else {
                if let Some((_, began)) = self.begun.take() {
                    self.torn = self.file.length() - began;
                }
                return Ok(None);
            };
            // Old writers started a record with an empty fragment if only a header fitted into the block, and then
            // started the record again.
            let begun = self.begun.take().filter(|(record, _)| !(record.is_empty() && fragment.kind <= 2));
            let path = self.file.path();
            match (fragment.kind, begun) {
                (1, None) => return Ok(Some((fragment.payload, fragment.offset))),
                (2, None) => self.begun = Some((fragment.payload, fragment.offset)),
                (3, Some((mut record, began))) => {
                    record.extend_from_slice(&fragment.payload);
                    self.begun = Some((record, began));
                }
                (4, Some((mut record, began))) => {
                    record.extend_from_slice(&fragment.payload);
                    return Ok(Some((record, began)));
                }
                // Another record starts: it must not be joined with the unfinished one.
                (1 | 2, Some((_, began))) => {
                    let error = Error::damage(
                        path,
                        began,
                        "a record",
                        "all its fragments",
                        "the start of another record after the first ones",
                    );
                    self.at -= HEADER + fragment.payload.len();
                    return Err(error);
                }
                (kind, _) => {
                    return Err(Error::damage(
                        path,
                        fragment.offset,
                        "a record",
                        "its first fragment",
                        format!("a fragment of type {kind}"),
                    ));
                }
            }
        }
    }

    fn fragment(&mut self) -> Result<Option<Fragment>> {
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
                // The length cannot be trusted either, so the rest of the block is skipped, too.
                let error =
                    self.damage(offset, "checksum of a record", format!("{computed:08x}"), format!("{stored:08x}"));
                self.at = self.block.len();
                return Err(error);
            }
            let payload = payload.to_vec();
            self.at += HEADER + length;
            return Ok(Some(Fragment { kind, payload, offset }));
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
