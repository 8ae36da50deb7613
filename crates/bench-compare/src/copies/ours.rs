//! Alluvium's checkpoints and backups.

use super::Copied;
use alluvium::{Db, Options};
use alluvium_bench::engine::Result;
use std::path::Path;

struct Ours(Db);

/// Opens a store.
pub fn open(directory: &Path, memory: Option<u64>) -> Result<Box<dyn Copied>> {
    Ok(Box::new(Ours(Db::open(directory, Options::new().memory_budget(memory))?)))
}

/// Opens a copy and counts its pairs.
pub fn count(directory: &Path) -> Result<u64> {
    let db = Db::open(directory, Options::new())?;
    let mut count = 0;
    for key in db.iter()?.keys() {
        key?;
        count += 1;
    }
    db.close()?;
    Ok(count)
}

impl Copied for Ours {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }

    fn settle(&self) -> Result<()> {
        self.0.flush()?;
        Ok(self.0.settle()?)
    }

    fn checkpoint(&self, directory: &Path) -> Result<()> {
        self.0.checkpoint(directory)?;
        Ok(())
    }

    fn backup(&self, directory: &Path) -> Result<()> {
        self.0.backup(directory)?;
        Ok(())
    }
}
