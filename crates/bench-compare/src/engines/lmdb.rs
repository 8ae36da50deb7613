//! LMDB: a memory-mapped B+tree, in two configurations. `lmdb` writes through the map and leaves syncing to the kernel,
//! so a power loss can corrupt the file. `lmdb-durable` has its defaults, where every commit is synced.

use super::pending::{Changes, Known, Pending};
use super::setup::{Defaults, MIB, Opened, STRIPED, Setup, mib, setting};
use alluvium_bench::engine::{Direction, Engine, Figures, Result};
use alluvium_bench::{Increments, Striped};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RwTxn};
use std::ops::Bound;

const PUTS_PER_TRANSACTION: usize = 1000;
const GIB: u64 = 1 << 30;
/// Space for pages that are half full and for pages that wait to be freed.
const MAP_BYTES_PER_DATA_BYTE: u64 = 8;

struct Lmdb {
    env: Env,
    database: Database<Bytes, Bytes>,
    /// Only if commits are synced and many puts share one.
    pending: Option<Pending>,
}

/// Opens it with `NOSYNC|WRITEMAP|MAPASYNC`: a transaction for each put.
pub fn open_unsynced(setup: &Setup) -> Result<Opened> {
    if setup.sync {
        return Err("lmdb does not sync: use lmdb-durable with --sync".into());
    }
    open(setup, EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP | EnvFlags::MAP_ASYNC, 1)
}

/// Opens it with its defaults: every commit is synced. Without `--sync` a thousand puts share a transaction.
pub fn open_durable(setup: &Setup) -> Result<Opened> {
    open(setup, EnvFlags::empty(), if setup.sync { 1 } else { PUTS_PER_TRANSACTION })
}

/// Opens it with its defaults, except for the map, whose default of 1 MiB holds little.
pub fn open_default(defaults: &Defaults) -> Result<Opened> {
    let map_bytes = (defaults.data_bytes * MAP_BYTES_PER_DATA_BYTE).next_multiple_of(64 * MIB).max(64 * MIB);
    let puts = defaults.puts_per_transaction;
    let mut options = EnvOpenOptions::new();
    options.map_size(usize::try_from(map_bytes)?);
    // SAFETY: the directory was made for this process, which opens it once; no other process changes the mapped file.
    let env = unsafe { options.open(&defaults.directory)? };
    let mut transaction = env.write_txn()?;
    let database = env.create_database(&mut transaction, None)?;
    transaction.commit()?;
    let version = heed::lmdb_version();
    let settings = vec![setting("options", "defaults"), mib("map", map_bytes), setting("puts a transaction", puts)];
    let engine = Box::new(Lmdb { env, database, pending: (puts > 1).then(|| Pending::new(puts)) });
    Ok(Opened { engine, version: format!("{}.{}.{}", version.major, version.minor, version.patch), settings })
}

fn open(setup: &Setup, flags: EnvFlags, puts: usize) -> Result<Opened> {
    let larger_than_memory = setup.data_bytes > setup.memory_bytes;
    let flags = if larger_than_memory { flags | EnvFlags::NO_READ_AHEAD } else { flags };
    let map_bytes = (setup.data_bytes * MAP_BYTES_PER_DATA_BYTE).max(4 * GIB).next_multiple_of(GIB);
    let mut options = EnvOpenOptions::new();
    options.map_size(usize::try_from(map_bytes)?).max_readers(64);
    // SAFETY: these flags only weaken what survives a power loss; none of them disables its locks.
    unsafe { options.flags(flags) };
    // SAFETY: the directory was made for this process, which opens it once; no other process changes the mapped file.
    let env = unsafe { options.open(&setup.directory)? };
    let mut transaction = env.write_txn()?;
    let database = env.create_database(&mut transaction, None)?;
    transaction.commit()?;
    let version = heed::lmdb_version();
    let settings = vec![
        mib("map", map_bytes),
        setting("flags", flags_text(flags)),
        setting("puts a transaction", puts),
        setting("log", "none: copy on write"),
        setting("files read through", "a memory map of the page cache, within the limit"),
        setting("read-modify-write", if puts > 1 { STRIPED } else { "a write transaction" }),
    ];
    let version = format!("{}.{}.{}", version.major, version.minor, version.patch);
    let lmdb = Lmdb { env, database, pending: (puts > 1).then(|| Pending::new(puts)) };
    let engine: Box<dyn Engine> =
        if puts > 1 { Box::new(Striped::new(lmdb, Increments::Striped)) } else { Box::new(lmdb) };
    Ok(Opened { engine, version, settings })
}

fn flags_text(flags: EnvFlags) -> String {
    let names: Vec<&str> = flags.iter_names().map(|(name, _)| name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join("|") }
}

impl Lmdb {
    fn write(&self, change: impl FnOnce(&mut RwTxn<'_>) -> Result<()>) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        change(&mut transaction)?;
        Ok(transaction.commit()?)
    }

    fn commit(&self, changes: &Changes) -> Result<()> {
        self.write(|transaction| {
            for (key, value) in changes {
                match value {
                    Some(value) => self.database.put(transaction, key, value)?,
                    None => self.remove(transaction, key)?,
                }
            }
            Ok(())
        })
    }

    fn remove(&self, transaction: &mut RwTxn<'_>, key: &[u8]) -> Result<()> {
        self.database.delete(transaction, key)?;
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.pending.as_ref().map_or(Ok(()), |pending| pending.flush(|changes| self.commit(changes)))
    }
}

impl Engine for Lmdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match &self.pending {
            Some(pending) => pending.add(key, Some(value), |changes| self.commit(changes)),
            None => self.write(|transaction| Ok(self.database.put(transaction, key, value)?)),
        }
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        self.flush()?;
        self.write(|transaction| {
            for (key, value) in pairs {
                self.database.put(transaction, key, value)?;
            }
            Ok(())
        })
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        match &self.pending {
            Some(pending) => pending.add(key, None, |changes| self.commit(changes)),
            None => self.write(|transaction| self.remove(transaction, key)),
        }
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        match self.pending.as_ref().map_or(Known::Nothing, |pending| pending.get(key, value)) {
            Known::Value => return Ok(true),
            Known::Removed => return Ok(false),
            Known::Nothing => {}
        }
        value.clear();
        let transaction = self.env.read_txn()?;
        let Some(found) = self.database.get(&transaction, key)? else { return Ok(false) };
        value.extend_from_slice(found);
        Ok(true)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        self.flush()?;
        let transaction = self.env.read_txn()?;
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        let mut visited = 0;
        let mut see = |pair: heed::Result<(&[u8], &[u8])>| -> Result<()> {
            let (key, value) = pair?;
            visit(key, value);
            visited += 1;
            Ok(())
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        match direction {
            Direction::Forward => {
                let range = (from, Bound::Unbounded);
                self.database.range(&transaction, &range)?.take(limit).try_for_each(&mut see)?;
            }
            Direction::Backward => {
                let range = (Bound::Unbounded, from);
                self.database.rev_range(&transaction, &range)?.take(limit).try_for_each(&mut see)?;
            }
        }
        Ok(visited)
    }

    /// Reads and writes in one transaction, of which there is one at a time. If puts wait for a shared transaction,
    /// locks are around this engine, and they call only its get and put.
    fn update(&self, key: &[u8], change: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> bool) -> Result<()> {
        self.write(|transaction| {
            let mut new = Vec::new();
            if change(self.database.get(transaction, key)?, &mut new) {
                self.database.put(transaction, key, &new)?;
            }
            Ok(())
        })
    }

    fn settle(&self) -> Result<()> {
        self.flush()?;
        Ok(self.env.force_sync()?)
    }

    fn figures(&self) -> Figures {
        Figures { log_bytes_written: Some(0), ..Figures::default() }
    }
}
