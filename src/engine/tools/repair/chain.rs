//! Reads branch files with disjoint key ranges one after the other and skips damaged parts. One thread.

use crate::branch::{BranchContext, LostRange, SalvageCursor};
use crate::format::manifest_edit::BranchMeta;
use crate::merge::{Cursor, EntryRef};
use crate::util::sync::{Arc, Mutex};
use crate::util::{Error, FileNumber, Result, SequenceNumber};

/// What could be read of one file.
#[derive(Clone, Debug)]
pub(crate) struct FileReading {
    pub(crate) file: FileNumber,
    pub(crate) entries: u64,
    pub(crate) lost: Vec<LostRange>,
    /// The last key that was read.
    pub(crate) last_key: Option<Vec<u8>>,
}

/// The files read so far. All chains of a merge share it.
pub(crate) type FileReadings = Arc<Mutex<Vec<FileReading>>>;

/// A forward cursor over the files, in key order.
pub(crate) struct Chain {
    context: Arc<BranchContext>,
    files: Vec<FileNumber>,
    next: usize,
    current: Option<SalvageCursor>,
    readings: FileReadings,
    /// The number of the entries of ingested files, if the manifest has it.
    common_number: SequenceNumber,
}

impl Chain {
    /// Requires `files` in key order.
    pub(crate) fn new(context: &Arc<BranchContext>, files: Vec<FileNumber>, readings: &FileReadings) -> Self {
        let (context, readings) = (Arc::clone(context), Arc::clone(readings));
        Self { context, files, next: 0, current: None, readings, common_number: SequenceNumber::ZERO }
    }

    /// Of one file that the manifest has.
    pub(crate) fn of(context: &Arc<BranchContext>, meta: &BranchMeta, readings: &FileReadings) -> Self {
        Self { common_number: meta.number_max, ..Self::new(context, vec![meta.file], readings) }
    }

    /// If the current file has no more entries, moves to the next file that has one.
    fn settle(&mut self) -> Result<()> {
        loop {
            if let Some(cursor) = &self.current {
                if cursor.valid() {
                    return Ok(());
                }
                let (file, entries) = (self.files[self.next - 1], cursor.entries());
                let (lost, last_key) = (cursor.lost().to_vec(), cursor.last_key().map(<[u8]>::to_vec));
                self.readings.lock().push(FileReading { file, entries, lost, last_key });
                self.current = None;
            }
            let Some(file) = self.files.get(self.next) else { return Ok(()) };
            self.next += 1;
            let mut cursor = SalvageCursor::open(&self.context, *file, self.common_number)?;
            cursor.seek_first()?;
            self.current = Some(cursor);
        }
    }
}

fn forward_only() -> Error {
    Error::InvalidArgument("damaged files can only be read forward".into())
}

impl Cursor for Chain {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.seek_first()?;
        while self.valid() && self.entry().order(key, number).is_lt() {
            self.next()?;
        }
        Ok(())
    }

    fn seek_for_prev(&mut self, _: &[u8], _: SequenceNumber) -> Result<()> {
        Err(forward_only())
    }

    fn seek_first(&mut self) -> Result<()> {
        (self.next, self.current) = (0, None);
        self.settle()
    }

    fn seek_last(&mut self) -> Result<()> {
        Err(forward_only())
    }

    fn next(&mut self) -> Result<()> {
        if let Some(cursor) = &mut self.current {
            cursor.next()?;
        }
        self.settle()
    }

    fn prev(&mut self) -> Result<()> {
        Err(forward_only())
    }

    fn valid(&self) -> bool {
        self.current.as_ref().is_some_and(Cursor::valid)
    }

    fn entry(&self) -> EntryRef<'_> {
        match &self.current {
            Some(cursor) => cursor.entry(),
            None => unreachable!("entry() requires a valid cursor"),
        }
    }
}
