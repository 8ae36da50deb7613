//! Tables that do not overlap, read one after the other: a level above 0, or one table of level 0.

use crate::error::Result;
use crate::file::table_path;
use crate::manifest::TableMeta;
use crate::table::Table;
use std::collections::VecDeque;
use std::path::PathBuf;

/// A cursor over the tables, initially before the first entry. One table is open at a time.
#[derive(Debug)]
pub struct Level {
    directory: PathBuf,
    table: Option<Table>,
    /// Length of the open table.
    open_bytes: u64,
    left: VecDeque<TableMeta>,
    /// Bytes of the tables that have been read.
    behind: u64,
}

impl Level {
    /// Creates a level from tables in key order.
    pub fn new(directory: PathBuf, tables: Vec<TableMeta>) -> Self {
        Self { directory, table: None, open_bytes: 0, left: tables.into(), behind: 0 }
    }

    /// Returns how many bytes of the files have been read.
    pub fn bytes_read(&self) -> u64 {
        self.behind + self.table.as_ref().map_or(0, |table| table.bytes_read().min(self.open_bytes))
    }

    /// Moves to the next entry; false if there is none. After an error it continues behind the damage.
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            if let Some(table) = &mut self.table {
                if table.advance()? {
                    return Ok(true);
                }
                self.table = None;
                self.behind += self.open_bytes;
            }
            let Some(next) = self.left.pop_front() else { return Ok(false) };
            self.open_bytes = next.bytes;
            match Table::open(table_path(&self.directory, next.number)) {
                Ok(table) => self.table = Some(table),
                Err(error) => {
                    self.behind += next.bytes;
                    return Err(error);
                }
            }
        }
    }

    /// Returns the key of the entry.
    pub fn key(&self) -> &[u8] {
        self.table.as_ref().map_or(&[], Table::key)
    }

    /// Returns the value of the entry.
    pub fn value(&self) -> &[u8] {
        self.table.as_ref().map_or(&[], Table::value)
    }
}
