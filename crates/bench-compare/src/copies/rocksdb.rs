//! RocksDB's checkpoints, and its backup engine.

use super::Copied;
use alluvium_bench::engine::Result;
use rocksdb::backup::{BackupEngine, BackupEngineOptions};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{BlockBasedOptions, Cache, DB, Env, IteratorMode, Options, WaitForCompactOptions};
use std::path::Path;

struct Rocks(DB);

/// Opens a store.
pub fn open(directory: &Path, memory: Option<u64>) -> Result<Box<dyn Copied>> {
    let mut options = Options::default();
    options.create_if_missing(true);
    if let Some(memory) = memory {
        let half = usize::try_from(memory / 2)?;
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(half));
        options.set_block_based_table_factory(&table);
        options.set_db_write_buffer_size(half);
    }
    Ok(Box::new(Rocks(DB::open(&options, directory)?)))
}

/// Opens a copy and counts its pairs.
pub fn count(directory: &Path) -> Result<u64> {
    let db = DB::open(&Options::default(), directory)?;
    let mut count = 0;
    for pair in db.iterator(IteratorMode::Start) {
        pair?;
        count += 1;
    }
    Ok(count)
}

impl Copied for Rocks {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }

    fn settle(&self) -> Result<()> {
        self.0.flush()?;
        Ok(self.0.wait_for_compact(&WaitForCompactOptions::default())?)
    }

    fn checkpoint(&self, directory: &Path) -> Result<()> {
        Ok(Checkpoint::new(&self.0)?.create_checkpoint(directory)?)
    }

    fn backup(&self, directory: &Path) -> Result<()> {
        let mut backups = BackupEngine::open(&BackupEngineOptions::new(directory)?, &Env::new()?)?;
        Ok(backups.create_new_backup_flush(&self.0, true)?)
    }
}
