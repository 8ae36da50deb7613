//! Alluvium's keyspaces with an expiry.

use super::Expiring;
use alluvium::{Db, Keyspace, KeyspaceOptions, Options};
use alluvium_bench::engine::Result;
use std::path::Path;
use std::time::Duration;

struct Ours {
    db: Db,
    keyspace: Keyspace,
}

/// Opens a store whose pairs have an age.
pub fn open(directory: &Path, memory: Option<u64>, age: Duration) -> Result<Box<dyn Expiring>> {
    let db = Db::open(directory, Options::new().memory_budget(memory))?;
    let keyspace = db.keyspace("data", KeyspaceOptions::new().expiry(age))?;
    Ok(Box::new(Ours { db, keyspace }))
}

impl Expiring for Ours {
    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = alluvium::WriteBatch::new();
        batch.within(&self.keyspace).extend(pairs.iter().copied());
        Ok(self.db.write(batch)?)
    }

    fn has(&self, key: &[u8]) -> Result<bool> {
        Ok(self.keyspace.get_pinned(key)?.is_some())
    }

    fn count(&self) -> Result<u64> {
        let mut count = 0;
        for key in self.keyspace.iter()?.keys() {
            key?;
            count += 1;
        }
        Ok(count)
    }

    fn settle(&self) -> Result<()> {
        self.db.flush()?;
        Ok(self.db.settle()?)
    }
}
