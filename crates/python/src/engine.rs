//! An open store, writable or read-only. Any thread.

use crate::errors::{Failure, Outcome};
use crate::keys::Range;
use crate::place::{Opened, Place};
use alluvium::{BranchFile, Db, Keyspace, ReadOnlyDb, Readable, Snapshot, Stats, WriteOptions};

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

/// Reads a keyspace, whatever type has its contents.
macro_rules! read {
    ($engine:expr, $place:expr, $reader:ident => $read:expr) => {
        match ($engine, $place.opened()) {
            (Engine::Writer($reader), None) => $read,
            (Engine::Reader($reader), None) => $read,
            (_, Some(Opened::Writer($reader))) => $read,
            (_, Some(Opened::Reader($reader))) => $read,
        }
    };
}

impl Engine {
    /// Returns the store if it is writable.
    pub fn writer(&self) -> Outcome<&Db> {
        match self {
            Self::Writer(db) => Ok(db),
            Self::Reader(_) => Err(Failure::ReadOnly),
        }
    }

    /// Returns a keyspace of the store if it is writable.
    pub fn keyspace<'e>(&'e self, place: &'e Place) -> Outcome<&'e Keyspace> {
        let db = self.writer()?;
        match place.opened() {
            None => Ok(db),
            Some(Opened::Writer(keyspace)) => Ok(keyspace),
            Some(Opened::Reader(_)) => Err(Failure::ReadOnly),
        }
    }

    /// Returns the names of the keyspaces, without the default one.
    pub fn keyspace_names(&self) -> alluvium::Result<Vec<String>> {
        match self {
            Self::Writer(db) => db.keyspace_names(),
            Self::Reader(db) => db.keyspace_names(),
        }
    }

    /// Reads a value into `out`. Returns false if the key is absent.
    pub fn get_into(&self, place: &Place, key: &[u8], out: &mut Vec<u8>) -> alluvium::Result<bool> {
        read!(self, place, reader => reader.get_into(key, out))
    }

    /// Whether a key has a value.
    pub fn contains(&self, place: &Place, key: &[u8]) -> alluvium::Result<bool> {
        read!(self, place, reader => reader.contains_key(key))
    }

    /// Returns the values of many keys at one snapshot.
    pub fn multi_get(&self, place: &Place, keys: &[Vec<u8>]) -> alluvium::Result<Vec<Option<Vec<u8>>>> {
        read!(self, place, reader => reader.multi_get(keys))
    }

    /// Takes a snapshot.
    pub fn snapshot(&self, place: &Place) -> Snapshot {
        match (self, place.opened()) {
            (Self::Writer(db), None) => db.snapshot(),
            (Self::Reader(db), None) => db.snapshot(),
            (_, Some(Opened::Writer(keyspace))) => keyspace.snapshot(),
            (_, Some(Opened::Reader(contents))) => contents.clone(),
        }
    }

    /// Takes a snapshot for an iterator. Returns an error if the keyspace was dropped, of which a snapshot would be empty.
    pub fn moment(&self, place: &Place) -> Outcome<Snapshot> {
        let moment = self.snapshot(place);
        if let Some(Opened::Writer(keyspace)) = place.opened() {
            // Any read after the snapshot finds that out.
            keyspace.contains_key("")?;
        }
        Ok(moment)
    }

    /// Estimates the size of a range in bytes.
    pub fn approximate_size(&self, place: &Place, range: Range) -> Outcome<u64> {
        match (self, place.opened()) {
            (Self::Writer(db), None) => Ok(db.approximate_size(range)?),
            (Self::Reader(db), None) => Ok(db.approximate_size(range)?),
            (_, Some(Opened::Writer(keyspace))) => Ok(keyspace.approximate_size(range)?),
            (_, Some(Opened::Reader(_))) => {
                let why = "sizes in keyspaces cannot be estimated while the store is open for reading only";
                Err(Failure::Other(why.into()))
            }
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
