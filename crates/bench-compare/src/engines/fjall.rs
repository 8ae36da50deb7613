//! fjall: a log-structured merge tree in Rust, leveled.

use super::quiet;
use super::setup::{Defaults, MIB, Opened, STRIPED, Setup, mib, setting};
use super::versions;
use alluvium_bench::engine::{Direction, Engine, Figures, Result};
use alluvium_bench::{Increments, Striped};
use fjall::config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{CompressionType, Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::sync::atomic::{AtomicU64, Ordering};

const BLOOM_BITS: f32 = 10.0;
/// The journal's own bytes around a single record: start marker with count and number (13), the item's tag, type,
/// keyspace and lengths (21), end marker with checksum and magic (13).
const JOURNAL_BYTES_PER_WRITE: u64 = 13 + 21 + 13;

struct Fjall {
    keyspace: Keyspace,
    database: Database,
    sync: bool,
    journaled: AtomicU64,
}

/// Opens it.
pub fn open(setup: &Setup) -> Result<Opened> {
    let database = Database::builder(&setup.directory)
        .cache_size(setup.cache_bytes())
        .worker_threads(setup.background_threads)
        .max_journaling_size(512 * MIB)
        .journal_compression(CompressionType::None)
        .open()?;
    let keyspace = database.keyspace("bench", || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(setup.write_buffer_bytes())
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
            .index_block_compression_policy(CompressionPolicy::all(CompressionType::None))
            .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(BLOOM_BITS))))
    })?;
    let settings = vec![
        mib("block cache", setup.cache_bytes()),
        mib("memtable", setup.write_buffer_bytes()),
        setting("worker threads", setup.background_threads),
        setting("compaction", "leveled"),
        setting("filter", format!("Bloom, {BLOOM_BITS} bits per key")),
        setting("compression", "none"),
        setting("log", if setup.sync { "on, every write synced" } else { "on, not synced" }),
        setting("files read through", "the page cache, within the limit"),
        setting("log bytes", "computed from its format"),
        setting("read-modify-write", STRIPED),
    ];
    let engine = Fjall { keyspace, database, sync: setup.sync, journaled: AtomicU64::new(0) };
    let engine = Box::new(Striped::new(engine, Increments::Striped));
    Ok(Opened { engine, version: versions::of("fjall").to_owned(), settings })
}

/// Opens it with its default options.
pub fn open_default(defaults: &Defaults) -> Result<Opened> {
    let database = Database::builder(&defaults.directory).open()?;
    let keyspace = database.keyspace("bench", KeyspaceCreateOptions::default)?;
    let engine = Box::new(Fjall { keyspace, database, sync: false, journaled: AtomicU64::new(0) });
    let settings = vec![setting("options", "defaults")];
    Ok(Opened { engine, version: versions::of("fjall").to_owned(), settings })
}

impl Fjall {
    fn wrote(&self, user_bytes: usize) -> Result<()> {
        self.journaled.fetch_add(user_bytes as u64 + JOURNAL_BYTES_PER_WRITE, Ordering::Relaxed);
        if self.sync {
            self.database.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.database.outstanding_flushes() == 0
            && self.keyspace.sealed_memtable_count() == 0
            && self.database.active_compactions() == 0
    }
}

impl Engine for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspace.insert(key, value)?;
        self.wrote(key.len() + value.len())
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = self.database.batch();
        pairs.iter().for_each(|(key, value)| batch.insert(&self.keyspace, *key, *value));
        batch.commit()?;
        self.wrote(pairs.iter().map(|(key, value)| key.len() + value.len()).sum())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.keyspace.remove(key)?;
        self.wrote(key.len())
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let Some(found) = self.keyspace.get(key)? else { return Ok(false) };
        value.extend_from_slice(&found);
        Ok(true)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let pairs: Box<dyn Iterator<Item = Guard>> = match (direction, from) {
            (Direction::Forward, None) => Box::new(self.keyspace.iter()),
            (Direction::Forward, Some(from)) => Box::new(self.keyspace.range(from..)),
            (Direction::Backward, None) => Box::new(self.keyspace.iter().rev()),
            (Direction::Backward, Some(from)) => Box::new(self.keyspace.range(..=from).rev()),
        };
        let mut visited = 0;
        for pair in pairs.take(usize::try_from(limit).unwrap_or(usize::MAX)) {
            let (key, value) = pair.into_inner()?;
            visit(&key, &value);
            visited += 1;
        }
        Ok(visited)
    }

    fn settle(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        quiet::wait(|| (self.database.compactions_completed(), self.is_quiet()));
        while !self.is_quiet() {
            quiet::wait(|| self.database.compactions_completed());
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures { log_bytes_written: Some(self.journaled.load(Ordering::Relaxed)), ..Figures::default() }
    }
}
