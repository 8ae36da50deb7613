//! What the logs hold, sorted. It is kept in memory, as LevelDB does when it opens: logs are about as long as a write buffer.

use crate::batch;
use crate::error::{Error, LeftOut, Result};
use crate::file::ReadFile;
use crate::internal_key;
use crate::log::LogReader;
use std::path::PathBuf;

/// See the module. A position in it, too; new, it stands before the first entry.
#[derive(Debug, Default)]
pub struct Memory {
    /// Keys as in tables, and values.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// How many entries it has come to, the one that it stands on included.
    next: usize,
}

impl Memory {
    /// Reads a log to its end. Damage goes to `skip`, which says by an error that it is to end there.
    pub fn read_log(&mut self, path: PathBuf, skip: &mut dyn FnMut(Error) -> Result<()>) -> Result<Option<LeftOut>> {
        let mut log = LogReader::new(ReadFile::open(path)?);
        loop {
            let (record, offset) = match log.next() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) => {
                    skip(error)?;
                    continue;
                }
            };
            let Some(writes) = batch::decode(&record) else {
                let found = format!("{} bytes that are none", record.len());
                skip(Error::damage(log.file().path(), offset, "a batch", "a number and writes", found))?;
                continue;
            };
            for (number, key, value) in writes {
                let key = internal_key::make(key, number, value.is_some());
                self.entries.push((key, value.unwrap_or_default().to_vec()));
            }
        }
        Ok(log.torn())
    }

    /// Puts everything into order; nothing may be read after that.
    pub fn sort(&mut self) {
        self.entries.sort_by(|one, other| internal_key::compare(&one.0, &other.0));
    }

    /// Moves to the next entry; false where there is none.
    pub fn advance(&mut self) -> bool {
        self.next += 1;
        self.next <= self.entries.len()
    }

    fn entry(&self) -> Option<&(Vec<u8>, Vec<u8>)> {
        self.entries.get(self.next.checked_sub(1)?)
    }

    /// The key of the entry.
    pub fn key(&self) -> &[u8] {
        self.entry().map_or(&[], |(key, _)| key)
    }

    /// The value of the entry.
    pub fn value(&self) -> &[u8] {
        self.entry().map_or(&[], |(_, value)| value)
    }
}
