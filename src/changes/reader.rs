//! Reads a change file, frame by frame. One thread.

use super::{Names, change_file_name};
use crate::format::change_file::{ChangeFileHeader, FRAME_BYTES, FrameHeader, FrameKind, HEADER_BYTES, next_write};
use crate::format::log_record::Operations;
use crate::io::{OpenMode, Storage, StorageFile};
use crate::util::sync::Arc;
use crate::util::{DatabaseId, Error, FileNumber, Kind, Result, SequenceNumber};

/// A change file that is read. See the module.
#[derive(Debug)]
pub struct ChangeReader {
    file: Arc<dyn StorageFile>,
    header: ChangeFileHeader,
    position: u64,
    through: SequenceNumber,
}

/// The writes of a frame.
#[derive(Debug, Default)]
pub struct Frame {
    /// The number of the ingest that it stands for, if it has no writes.
    pub ingest: Option<SequenceNumber>,
    payload: Vec<u8>,
    at: usize,
    last: SequenceNumber,
}

/// The store of a change file according to its header; `None` if that is invalid.
pub fn claimed_owner(storage: &dyn Storage, name: &str) -> Result<Option<DatabaseId>> {
    let file = storage.open(name, OpenMode::Read)?;
    let mut bytes = [0; HEADER_BYTES];
    if file.length()? < HEADER_BYTES as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut bytes, 0)?;
    Ok(ChangeFileHeader::decode(&bytes, file.path()).ok().map(|header| header.database))
}

impl ChangeReader {
    /// Opens a file of a store. Returns the names of the keyspaces at its beginning, too.
    pub fn open(storage: &dyn Storage, database: DatabaseId, number: FileNumber) -> Result<(Self, Names)> {
        let file = storage.open(&change_file_name(number), OpenMode::Read)?;
        let mut bytes = [0; HEADER_BYTES];
        let length = file.length()?;
        if length < HEADER_BYTES as u64 {
            let what = "length of a change file";
            return Err(Error::corruption(file.path(), length, what, format!("at least {HEADER_BYTES}"), length));
        }
        file.read_exact_at(&mut bytes, 0)?;
        let header = ChangeFileHeader::decode(&bytes, file.path())?;
        let bad = |offset, what, expected: String, found: String| {
            Err(Error::corruption(file.path(), offset, what, expected, found))
        };
        if header.database != database {
            return bad(16, "database id of a change file", database.to_string(), header.database.to_string());
        }
        if header.file != number {
            return bad(24, "number of a change file", number.to_string(), header.file.to_string());
        }
        let mut reader = Self { file, header, position: HEADER_BYTES as u64, through: header.after };
        let names = match reader.frame(length)? {
            Some((FrameKind::Names, payload)) => Names::decode(&payload),
            _ => None,
        };
        let malformed = || Error::corruption(reader.file.path(), HEADER_BYTES as u64, "first frame", "names", "none");
        let names = names.ok_or_else(malformed)?;
        Ok((reader, names))
    }

    /// The next frame in front of `end`; `None` if there is none. What is there must be whole and valid.
    pub fn next_frame(&mut self, end: u64) -> Result<Option<Frame>> {
        let (start, last) = (self.position, self.through);
        let Some((kind, payload)) = self.frame(end)? else { return Ok(None) };
        let ingest = (kind == FrameKind::Ingest).then_some(self.through);
        let frame = Frame { ingest, payload, at: 0, last };
        let is_valid = match kind {
            FrameKind::Writes => frame.is_valid(self.through),
            FrameKind::Ingest => frame.payload.is_empty() && self.through > last,
            FrameKind::Names | FrameKind::Pairs => false,
        };
        if !is_valid {
            self.position = start;
            self.through = last;
            return Err(Error::corruption(self.file.path(), start, "frame", "writes in ascending order", "others"));
        }
        Ok(Some(frame))
    }

    /// The next pairs of an ingest: the body of a batch; `None` at the end of the file.
    pub fn next_pairs(&mut self) -> Result<Option<Vec<u8>>> {
        let start = self.position;
        match self.frame(self.file.length()?)? {
            None => Ok(None),
            Some((FrameKind::Pairs, body)) if Operations::parse(Kind::Batch, &body).is_some() => Ok(Some(body)),
            Some(_) => Err(Error::corruption(self.file.path(), start, "frame", "pairs of an ingest", "others")),
        }
    }

    fn frame(&mut self, end: u64) -> Result<Option<(FrameKind, Vec<u8>)>> {
        let start = self.position;
        if start >= end {
            return Ok(None);
        }
        let bad = |found: &str| Err(Error::corruption(self.file.path(), start, "frame", "a valid one", found));
        let mut front = [0; FRAME_BYTES];
        if end - start < FRAME_BYTES as u64 {
            return bad("fewer bytes");
        }
        self.file.read_exact_at(&mut front, start)?;
        let Some(header) = FrameHeader::decode(&front) else { return bad("no front of a frame") };
        let Some(next) = header.end(start).filter(|next| *next <= end) else { return bad("the end of the file") };
        let mut payload = vec![0; header.length as usize];
        self.file.read_exact_at(&mut payload, start + FRAME_BYTES as u64)?;
        if !header.accepts(&payload, &self.header, start) {
            return bad("another checksum");
        }
        if header.through < self.through {
            return bad("numbers that the file had before");
        }
        self.position = next;
        self.through = header.through;
        Ok(Some((header.kind, payload)))
    }

    /// Bytes of the file now.
    pub fn length(&self) -> Result<u64> {
        self.file.length()
    }

    /// Its header.
    pub fn header(&self) -> &ChangeFileHeader {
        &self.header
    }

    /// The offset behind the last frame that was read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// All writes up to this one were read.
    pub fn through(&self) -> SequenceNumber {
        self.through
    }
}

impl Frame {
    /// Whether all of its writes can be understood, and none has a number above `through`.
    fn is_valid(&self, through: SequenceNumber) -> bool {
        let (mut payload, mut last) = (&self.payload[..], self.last);
        while !payload.is_empty() {
            match next_write(last, &mut payload) {
                Some((number, body)) if number <= through && Operations::parse(Kind::Batch, body).is_some() => {
                    last = number;
                }
                _ => return false,
            }
        }
        true
    }

    /// The next write: its number, and the body of its batch.
    pub fn next_write(&mut self) -> Option<(SequenceNumber, &[u8])> {
        let mut rest = &self.payload[self.at..];
        let (number, body) = next_write(self.last, &mut rest)?;
        self.at = self.payload.len() - rest.len();
        self.last = number;
        Some((number, body))
    }
}
