//! Writes a change file. One thread.

use super::{ChangeReader, Names, change_file_name};
use crate::format::change_file::{ChangeFileHeader, FRAME_BYTES, FrameKind, HEADER_BYTES, encode_frame};
use crate::io::{OpenMode, Storage, StorageFile};
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};

/// A change file that grows.
#[derive(Debug)]
pub struct ChangeWriter {
    file: Arc<dyn StorageFile>,
    header: ChangeFileHeader,
    end: u64,
    through: SequenceNumber,
    is_synced: bool,
}

impl ChangeWriter {
    /// A new file, whose name is durable, with these names of keyspaces. After an error it is removed, if the disk allows it.
    pub fn create(storage: &dyn Storage, header: ChangeFileHeader, names: &Names) -> Result<Self> {
        let name = change_file_name(header.file);
        let file = storage.open(&name, OpenMode::Create)?;
        let (end, through) = (HEADER_BYTES as u64, header.after);
        let mut writer = Self { file, header, end, through, is_synced: false };
        let written = writer.file.write_all_at(&header.encode(), 0);
        let written = written.and_then(|()| writer.frame(FrameKind::Names, through, &names.encode()));
        let durable = written.and_then(|()| writer.sync()).and_then(|()| storage.sync_directory());
        match durable {
            Ok(()) => Ok(writer),
            Err(error) => {
                // What stays is found at the next opening.
                let _ = storage.remove(&name);
                Err(error)
            }
        }
    }

    /// Goes on where a reader of the file has stopped. What follows there is cut off.
    pub fn resume(storage: &dyn Storage, reader: &ChangeReader) -> Result<Self> {
        let file = storage.open(&change_file_name(reader.header().file), OpenMode::ReadWrite)?;
        let (header, end, through) = (*reader.header(), reader.position(), reader.through());
        file.set_length(end)?;
        let mut writer = Self { file, header, end, through, is_synced: false };
        // Nothing of it was known to be durable.
        writer.sync()?;
        Ok(writer)
    }

    /// Appends that the write with this number, the next one, is an ingest.
    pub fn append_ingest(&mut self, number: SequenceNumber) -> Result<()> {
        debug_assert!(number > self.through);
        self.frame(FrameKind::Ingest, number, &[])
    }

    /// Appends pairs of an ingest: the body of a batch.
    pub fn append_pairs(&mut self, body: &[u8]) -> Result<()> {
        self.frame(FrameKind::Pairs, self.header.after, body)
    }

    /// Gives the file of an ingest its number, durably.
    pub fn give_number(&mut self, number: SequenceNumber) -> Result<()> {
        self.header.ingest = Some(number);
        self.is_synced = false;
        self.file.write_all_at(&self.header.encode(), 0)?;
        self.sync()
    }

    /// Appends writes, in the payload of a frame, after which the file has everything up to `through`.
    pub fn append(&mut self, through: SequenceNumber, payload: &[u8]) -> Result<()> {
        debug_assert!(through > self.through);
        self.frame(FrameKind::Writes, through, payload)
    }

    fn frame(&mut self, kind: FrameKind, through: SequenceNumber, payload: &[u8]) -> Result<()> {
        let front = encode_frame(&self.header, self.end, kind, through, payload);
        self.is_synced = false;
        self.file.write_all_at(&[&front, payload].concat(), self.end)?;
        self.end += (FRAME_BYTES + payload.len()) as u64;
        self.through = through;
        Ok(())
    }

    /// Makes all frames durable.
    pub fn sync(&mut self) -> Result<()> {
        if !self.is_synced {
            self.file.sync()?;
            self.is_synced = true;
        }
        Ok(())
    }

    /// Its header.
    pub fn header(&self) -> &ChangeFileHeader {
        &self.header
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// It has every write up to this number.
    pub fn through(&self) -> SequenceNumber {
        self.through
    }
}
