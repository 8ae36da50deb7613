//! The sorted contents of the logs. They are kept in memory, as LevelDB does when it opens a database: logs are about
//! as long as a write buffer.

use crate::batch;
use crate::error::{Error, LeftOut, Result};
use crate::file::ReadFile;
use crate::internal_key;
use crate::log::LogReader;
use std::path::PathBuf;

/// See the module. Also a cursor, initially before the first entry.
#[derive(Debug, Default)]
pub struct Memory {
    /// Internal keys and values.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// Number of entries up to and including the current one.
    next: usize,
}

impl Memory {
    /// Reads a log to its end. Damage is passed to `skip`, which returns an error to stop.
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
                let found = format!("{} invalid bytes", record.len());
                skip(Error::damage(log.file().path(), offset, "a batch", "a sequence number and writes", found))?;
                continue;
            };
            for (number, key, value) in writes {
                let key = internal_key::make(key, number, value.is_some());
                self.entries.push((key, value.unwrap_or_default().to_vec()));
            }
        }
        Ok(log.torn())
    }

    /// Sorts the entries. No log may be read afterwards.
    pub fn sort(&mut self) {
        self.entries.sort_by(|one, other| internal_key::compare(&one.0, &other.0));
    }

    /// Moves to the next entry; false if there is none.
    pub fn advance(&mut self) -> bool {
        self.next += 1;
        self.next <= self.entries.len()
    }

    fn entry(&self) -> Option<&(Vec<u8>, Vec<u8>)> {
        self.entries.get(self.next.checked_sub(1)?)
    }

    /// Returns the key of the entry.
    pub fn key(&self) -> &[u8] {
        self.entry().map_or(&[], |(key, _)| key)
    }

    /// Returns the value of the entry.
    pub fn value(&self) -> &[u8] {
        self.entry().map_or(&[], |(_, value)| value)
    }
}
