//! RocksDB's column families.

use super::{KeyspaceSetup, KeyspaceStore, NamedKeyspace};
use alluvium_bench::engine::Result;
use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, DB, IngestExternalFileOptions, Options, SstFileWriter,
    WaitForCompactOptions, WriteBatch,
};
use std::path::PathBuf;

/// The family that every store has, and that is not counted here.
const DEFAULT: &str = "default";

/// The size of the files that are ingested: that of a file of its levels by default.
const SST_BYTES: u64 = 64 << 20;

struct Rocks {
    db: DB,
    options: Options,
    directory: PathBuf,
}

struct Family<'s> {
    db: &'s DB,
    family: &'s ColumnFamily,
}

/// Opens a store with all its families, as RocksDB demands.
pub fn open(setup: &KeyspaceSetup) -> Result<Box<dyn KeyspaceStore>> {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.enable_statistics();
    options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    if let Some(memory) = setup.memory {
        let half = usize::try_from(memory / 2)?;
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(half));
        options.set_block_based_table_factory(&table);
        options.set_db_write_buffer_size(half);
    }
    if let Some(bytes) = setup.blobs_from {
        options.set_enable_blob_files(true);
        options.set_min_blob_size(bytes);
        options.set_enable_blob_gc(true);
    }
    let families = setup.names.iter().map(|name| (name, options.clone()));
    let db = DB::open_cf_with_opts(&options, &setup.directory, families)?;
    Ok(Box::new(Rocks { db, options, directory: setup.directory.clone() }))
}

impl KeyspaceStore for Rocks {
    fn create(&mut self, name: &str) -> Result<()> {
        Ok(self.db.create_cf(name, &self.options)?)
    }

    fn drop_keyspace(&mut self, name: &str) -> Result<()> {
        Ok(self.db.drop_cf(name)?)
    }

    fn names(&self) -> Result<Vec<String>> {
        let mut names = DB::list_cf(&self.options, &self.directory)?;
        names.retain(|name| name != DEFAULT);
        Ok(names)
    }

    fn keyspace<'s>(&'s self, name: &str) -> Result<Box<dyn NamedKeyspace + 's>> {
        let family = self.db.cf_handle(name).ok_or_else(|| format!("column family {name} is not open"))?;
        Ok(Box::new(Family { db: &self.db, family }))
    }

    fn logged_bytes(&self) -> Result<u64> {
        Ok(self.options.get_ticker_count(Ticker::WalFileBytes))
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self);
        Ok(())
    }
}

impl NamedKeyspace for Family<'_> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put_cf(self.family, key, value)?)
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = WriteBatch::default();
        pairs.iter().for_each(|(key, value)| batch.put_cf(self.family, key, value));
        Ok(self.db.write(batch)?)
    }

    fn ingest(&self, count: u64, value_size: usize, fill: &dyn Fn(u64, &mut [u8])) -> Result<()> {
        let (mut value, mut files) = (vec![0; value_size], Vec::new());
        let options = Options::default();
        let mut number = 0;
        while number < count {
            let path = self.db.path().join(format!("ingest{}.sst", files.len()));
            let mut writer = SstFileWriter::create(&options);
            writer.open(&path)?;
            while number < count && writer.file_size() < SST_BYTES {
                fill(number, &mut value);
                writer.put(number.to_be_bytes(), &value)?;
                number += 1;
            }
            writer.finish()?;
            files.push(path);
        }
        let mut ingest = IngestExternalFileOptions::default();
        ingest.set_move_files(true);
        Ok(self.db.ingest_external_file_cf_opts(&self.family, &ingest, files)?)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let Some(found) = self.db.get_pinned_cf(self.family, key)? else { return Ok(false) };
        value.extend_from_slice(&found);
        Ok(true)
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        Ok(self.db.delete_range_cf(self.family, from, to)?)
    }

    fn seek(&self, from: &[u8], pairs: u64, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut iterator = self.db.raw_iterator_cf(self.family);
        iterator.seek(from);
        let mut visited = 0;
        while visited < pairs {
            let Some((key, value)) = iterator.item() else { break };
            visit(key, value);
            visited += 1;
            if visited < pairs {
                iterator.next();
            }
        }
        iterator.status()?;
        Ok(visited)
    }

    fn flush(&self) -> Result<()> {
        self.db.flush_cf(self.family)?;
        Ok(self.db.wait_for_compact(&WaitForCompactOptions::default())?)
    }

    fn compact(&self) -> Result<()> {
        self.db.compact_range_cf(self.family, None::<&[u8]>, None::<&[u8]>);
        Ok(self.db.wait_for_compact(&WaitForCompactOptions::default())?)
    }
}
