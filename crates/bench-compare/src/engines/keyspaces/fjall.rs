//! fjall's keyspaces. It has no range delete: each key of the range is found and deleted.

use super::super::quiet;
use super::{KeyspaceSetup, KeyspaceStore, NamedKeyspace};
use alluvium_bench::engine::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Deletes of a batch.
const DELETES_PER_BATCH: usize = 1000;
/// The journal's own bytes around a batch (start marker with count and number, end marker with checksum and magic), and
/// around each of its entries (tag, type, keyspace and lengths).
const JOURNAL_BYTES_PER_BATCH: u64 = 13 + 13;
const JOURNAL_BYTES_PER_ENTRY: u64 = 21;

struct Fjall {
    database: Database,
    open: BTreeMap<String, Keyspace>,
    /// Computed: the journal's files do not tell.
    journaled: Cell<u64>,
}

struct FjallKeyspace<'s> {
    database: &'s Database,
    keyspace: &'s Keyspace,
    journaled: &'s Cell<u64>,
}

/// Opens a store.
pub fn open(setup: &KeyspaceSetup) -> Result<Box<dyn KeyspaceStore>> {
    let mut builder = Database::builder(&setup.directory);
    if let Some(memory) = setup.memory {
        // The other half is for memtables, which have no limit in common.
        builder = builder.cache_size(memory / 2);
    }
    let mut store = Fjall { database: builder.open()?, open: BTreeMap::new(), journaled: Cell::new(0) };
    setup.names.iter().try_for_each(|name| store.create(name))?;
    Ok(Box::new(store))
}

impl KeyspaceStore for Fjall {
    /// Also opens one that exists.
    fn create(&mut self, name: &str) -> Result<()> {
        let keyspace = self.database.keyspace(name, KeyspaceCreateOptions::default)?;
        self.open.insert(name.to_owned(), keyspace);
        Ok(())
    }

    fn drop_keyspace(&mut self, name: &str) -> Result<()> {
        let keyspace = self.open.remove(name).ok_or_else(|| format!("keyspace {name} is not open"))?;
        Ok(self.database.delete_keyspace(keyspace)?)
    }

    fn names(&self) -> Result<Vec<String>> {
        Ok(self.database.list_keyspace_names().iter().map(ToString::to_string).collect())
    }

    fn keyspace<'s>(&'s self, name: &str) -> Result<Box<dyn NamedKeyspace + 's>> {
        let keyspace = self.open.get(name).ok_or_else(|| format!("keyspace {name} is not open"))?;
        Ok(Box::new(FjallKeyspace { database: &self.database, keyspace, journaled: &self.journaled }))
    }

    fn logged_bytes(&self) -> Result<u64> {
        Ok(self.journaled.get())
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self);
        Ok(())
    }
}

impl FjallKeyspace<'_> {
    fn journals(&self, entries: usize, user_bytes: usize) {
        let bytes = JOURNAL_BYTES_PER_BATCH + JOURNAL_BYTES_PER_ENTRY * entries as u64 + user_bytes as u64;
        self.journaled.set(self.journaled.get() + bytes);
    }

    fn is_quiet(&self) -> bool {
        self.database.outstanding_flushes() == 0
            && self.keyspace.sealed_memtable_count() == 0
            && self.database.active_compactions() == 0
    }
}

impl NamedKeyspace for FjallKeyspace<'_> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspace.insert(key, value)?;
        self.journals(1, key.len() + value.len());
        Ok(())
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = self.database.batch();
        pairs.iter().for_each(|(key, value)| batch.insert(self.keyspace, *key, *value));
        batch.commit()?;
        self.journals(pairs.len(), pairs.iter().map(|(key, value)| key.len() + value.len()).sum());
        Ok(())
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let Some(found) = self.keyspace.get(key)? else { return Ok(false) };
        value.extend_from_slice(&found);
        Ok(true)
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let mut keys = self.keyspace.range(from..to);
        loop {
            let mut batch = self.database.batch();
            let mut bytes = 0;
            for pair in keys.by_ref().take(DELETES_PER_BATCH) {
                let key = pair.key()?;
                bytes += key.len();
                batch.remove(self.keyspace, key);
            }
            let deletes = batch.len();
            if deletes == 0 {
                return Ok(());
            }
            batch.commit()?;
            self.journals(deletes, bytes);
        }
    }

    fn seek(&self, from: &[u8], pairs: u64, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut visited = 0;
        for pair in self.keyspace.range(from..).take(usize::try_from(pairs).unwrap_or(usize::MAX)) {
            let (key, value) = pair.into_inner()?;
            visit(&key, &value);
            visited += 1;
        }
        Ok(visited)
    }

    fn flush(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        while !self.is_quiet() {
            quiet::wait(|| self.database.compactions_completed());
        }
        quiet::wait(|| (self.database.compactions_completed(), self.is_quiet()));
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        self.keyspace.major_compact()?;
        self.flush()
    }
}
