//! RocksDB's store with a time to live.

use super::Expiring;
use alluvium_bench::engine::Result;
use rocksdb::{BlockBasedOptions, Cache, DB, IteratorMode, Options, WaitForCompactOptions, WriteBatch};
use std::path::Path;
use std::time::Duration;

struct Rocks(DB);

/// Opens a store whose pairs have an age.
pub fn open(directory: &Path, memory: Option<u64>, age: Duration) -> Result<Box<dyn Expiring>> {
    let mut options = Options::default();
    options.create_if_missing(true);
    if let Some(memory) = memory {
        let half = usize::try_from(memory / 2)?;
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(half));
        options.set_block_based_table_factory(&table);
        options.set_db_write_buffer_size(half);
    }
    Ok(Box::new(Rocks(DB::open_with_ttl(&options, directory, age)?)))
}

impl Expiring for Rocks {
    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = WriteBatch::default();
        pairs.iter().for_each(|(key, value)| batch.put(key, value));
        Ok(self.0.write(batch)?)
    }

    fn has(&self, key: &[u8]) -> Result<bool> {
        Ok(self.0.get_pinned(key)?.is_some())
    }

    fn count(&self) -> Result<u64> {
        let mut count = 0;
        for pair in self.0.iterator(IteratorMode::Start) {
            pair?;
            count += 1;
        }
        Ok(count)
    }

    fn settle(&self) -> Result<()> {
        self.0.flush()?;
        Ok(self.0.wait_for_compact(&WaitForCompactOptions::default())?)
    }
}
