//! From the common arguments to an open store.

use crate::arguments::{Common, LogPlace};
use crate::bytes;
use crate::failure::Failure;
use alluvium::{Db, Durability, LogMemory, Options, ReadOnlyDb};
use std::path::Path;

impl Common {
    /// The store's directory; an error if none was given.
    pub fn directory(&self) -> Result<&Path, Failure> {
        self.db
            .as_deref()
            .ok_or_else(|| Failure::Usage("no store given: pass --db DIR, or set ALLUVIUM_DB".to_string()))
    }

    /// Opens a store for reading, which works beside a process that writes and on a read-only file system.
    pub fn open_to_read(&self) -> Result<ReadOnlyDb, Failure> {
        Ok(ReadOnlyDb::open(self.directory()?, self.options(false))?)
    }

    /// Opens a store that must be there.
    pub fn open_existing(&self) -> Result<Db, Failure> {
        Ok(Db::open(self.directory()?, self.options(false))?)
    }

    /// The same; background work keeps to a limit, if there is one, from the opening on: much of what is due begins at once.
    pub fn open_existing_limited(&self, background_write_limit: Option<u64>) -> Result<Db, Failure> {
        Ok(Db::open(self.directory()?, Options { background_write_limit, ..self.options(false) })?)
    }

    /// Opens a store, or makes it.
    pub fn open_or_create(&self) -> Result<Db, Failure> {
        self.refuse_other_order()?;
        Ok(Db::open(self.directory()?, self.options(true))?)
    }

    /// An error for a store whose pairs are not what a program with LevelDB's interface put in: what is put in as it is would be none.
    pub fn refuse_other_order(&self) -> Result<(), Failure> {
        let directory = self.directory()?;
        if let Ok(order) = std::fs::read(directory.join("COMPARATOR")) {
            return Err(Failure::Usage(format!(
                "{} is in an order of its program's own, \"{}\": only that program can write to it, and commands that read show keys as they \
                 are kept there",
                directory.display(),
                order.escape_ascii()
            )));
        }
        Ok(())
    }

    fn options(&self, create_if_missing: bool) -> Options {
        let durability = if self.sync { Durability::Sync } else { Durability::Buffered };
        Options {
            memory_budget: self.memory,
            durability,
            create_if_missing,
            force_cut: self.force_cut,
            log_memory: self.log_memory(),
            ..Options::default()
        }
    }

    /// Where writes go before they are on the disk.
    pub fn log_memory(&self) -> LogMemory {
        match self.log_memory {
            None => LogMemory::default(),
            Some(LogPlace::Auto) => LogMemory::Auto,
            Some(LogPlace::File) => LogMemory::File,
            Some(LogPlace::Shared) => LogMemory::SharedMemory,
        }
    }

    /// The same for a benchmark of any engine: whether the log goes to shared memory, where that was said.
    pub fn shared_log(&self) -> Option<bool> {
        match self.log_memory? {
            LogPlace::Auto => None,
            place => Some(place == LogPlace::Shared),
        }
    }

    /// The bytes of a key or value that stood on the command line.
    pub fn argument(&self, what: &str, text: &str) -> Result<Vec<u8>, Failure> {
        if self.hex {
            bytes::from_hex(text.as_bytes()).map_err(|why| Failure::Usage(format!("{what} {text:?}: {why}")))
        } else {
            Ok(text.as_bytes().to_vec())
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::arguments::Arguments;
    use clap::Parser;

    /// Once, the limit was set behind the opening, with which much of the work begins.
    #[test]
    fn a_limit_holds_from_the_opening_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let arguments = ["alluvium".as_ref(), "--db".as_ref(), path.as_os_str(), "compact".as_ref()];
        let common = Arguments::parse_from(arguments).common;
        common.open_or_create().unwrap().close().unwrap();
        for limit in [None, Some(5000)] {
            let db = common.open_existing_limited(limit).unwrap();
            assert_eq!(db.stats().background_write_limit, limit);
            db.close().unwrap();
        }
    }
}
