//! Branch files with disjoint key ranges, read one after the other past all damage. One thread.

use crate::branch::{BranchContext, LostRange, SalvageCursor};
use crate::merge::{Cursor, EntryRef};
use crate::util::sync::{Arc, Mutex};
use crate::util::{Error, FileNumber, Result, SequenceNumber};

/// What reading one file to its end gave.
#[derive(Clone, Debug)]
pub(crate) struct BlockingPages {
    pub(crate) file: FileNumber,
    pub(crate) entries: u64,
    pub(crate) lost: Vec<LostRange>,
    /// The last key that was read.
    pub(crate) last_key: Option<Vec<u8>>,
}

/// What became of the files read so far; shared by all chains of a merge.
pub(crate) type Readings = Arc<Mutex<Vec<BlockingPages>>>;

/// A forward cursor over the files, in their order.
pub(crate) struct Chain {
    context: Arc<BranchContext>,
    files: Vec<FileNumber>,
    next: usize,
    current: Option<SalvageCursor>,
    readings: Readings,
}

impl Chain {
    /// `files` stand in key order.
    pub(crate) fn new(context: &Arc<BranchContext>, files: Vec<FileNumber>, readings: &Readings) -> Self {
        Self { context: Arc::clone(context), files, next: 0, current: None, readings: Arc::clone(readings) }
    }

    /// Goes on to the next file that has an entry, once the present one has no more.
    fn settle(&mut self) -> Result<()> {
        loop {
            if let Some(cursor) = &self.current {
                if cursor.valid() {
                    return Ok(());
                }
                let (file, entries) = (self.files[self.next - 1], cursor.entries());
                let (lost, last_key) = (cursor.lost().to_vec(), cursor.last_key().map(<[u8]>::to_vec));
                self.readings.lock().push(BlockingPages { file, entries, lost, last_key });
                self.current = None;
            }
            let Some(file) = self.files.get(self.next) else { return Ok(()) };
            self.next += 1;
            let mut cursor = SalvageCursor::open(&self.context, *file)?;
            cursor.seek_first()?;
            self.current = Some(cursor);
        }
    }
}

fn forward_only() -> Error {
    Error::InvalidArgument("what is saved of damaged files is read forward only".into())
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
            None => unreachable!("an entry is asked for only where there is one"),
        }
    }
}
