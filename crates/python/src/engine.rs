//! An open store, writable or read-only. Any thread.

use crate::errors::{Failure, Outcome};
use crate::keys::Range;
use alluvium::{BranchFile, Db, ReadOnlyDb, Snapshot, Stats, WriteOptions};

/// A store that is open for reading and writing, or for reading only.
pub enum Engine {
    /// The single writer.
    Writer(Db),
    /// A read-only store; any number may be open.
    Reader(Box<ReadOnlyDb>),
}

/// Returns the options of a write.
pub fn write_options(sync: bool) -> WriteOptions {
    if sync { WriteOptions::sync() } else { WriteOptions::default() }
}

impl Engine {
    /// Returns the store if it is writable.
    pub fn writer(&self) -> Outcome<&Db> {
        match self {
            Self::Writer(db) => Ok(db),
            Self::Reader(_) => Err(Failure::ReadOnly),
        }
    }

    /// Reads a value into `out`. Returns false if the key is absent.
    pub fn get_into(&self, key: &[u8], out: &mut Vec<u8>) -> alluvium::Result<bool> {
        match self {
            Self::Writer(db) => db.get_into(key, out),
            Self::Reader(db) => db.get_into(key, out),
        }
    }

    /// Whether a key has a value.
    pub fn contains(&self, key: &[u8]) -> alluvium::Result<bool> {
        let found = match self {
            Self::Writer(db) => db.get_pinned(key),
            Self::Reader(db) => db.get_pinned(key),
        };
        Ok(found?.is_some())
    }

    /// Returns the values of many keys at one snapshot.
    pub fn multi_get(&self, keys: &[Vec<u8>]) -> alluvium::Result<Vec<Option<Vec<u8>>>> {
        match self {
            Self::Writer(db) => db.multi_get(keys),
            Self::Reader(db) => db.multi_get(keys),
        }
    }

    /// Takes a snapshot.
    pub fn snapshot(&self) -> Snapshot {
        match self {
            Self::Writer(db) => db.snapshot(),
            Self::Reader(db) => db.snapshot(),
        }
    }

    /// Estimates the size of a range in bytes.
    pub fn approximate_size(&self, range: Range) -> alluvium::Result<u64> {
        match self {
            Self::Writer(db) => db.approximate_size(range),
            Self::Reader(db) => db.approximate_size(range),
        }
    }

    /// Returns the branch files.
    pub fn branch_files(&self) -> Vec<BranchFile> {
        match self {
            Self::Writer(db) => db.branch_files(),
            Self::Reader(db) => db.branch_files(),
        }
    }

    /// Returns the current statistics.
    pub fn stats(&self) -> Stats {
        match self {
            Self::Writer(db) => db.stats(),
            Self::Reader(db) => db.stats(),
        }
    }

    /// Closes the store.
    pub fn close(self) -> alluvium::Result<()> {
        match self {
            Self::Writer(db) => db.close(),
            Self::Reader(_) => Ok(()),
        }
    }
}
