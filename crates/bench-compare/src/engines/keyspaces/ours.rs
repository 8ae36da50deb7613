//! Alluvium's keyspaces.

use super::{KeyspaceSetup, KeyspaceStore, NamedKeyspace};
use alluvium::{Db, Keyspace, KeyspaceOptions, Options, WriteBatch};
use alluvium_bench::engine::Result;
use std::collections::BTreeMap;

struct Ours {
    db: Db,
    open: BTreeMap<String, Keyspace>,
}

/// A keyspace, and the store that it is in.
struct OurKeyspace<'s> {
    db: &'s Db,
    keyspace: &'s Keyspace,
}

/// Opens a store.
pub fn open(setup: &KeyspaceSetup) -> Result<Box<dyn KeyspaceStore>> {
    let db = Db::open(&setup.directory, Options::new().memory_budget(setup.memory))?;
    let mut store = Ours { db, open: BTreeMap::new() };
    setup.names.iter().try_for_each(|name| store.create(name))?;
    Ok(Box::new(store))
}

impl KeyspaceStore for Ours {
    /// Also opens one that exists.
    fn create(&mut self, name: &str) -> Result<()> {
        let keyspace = self.db.keyspace(name, KeyspaceOptions::default())?;
        self.open.insert(name.to_owned(), keyspace);
        Ok(())
    }

    fn drop_keyspace(&mut self, name: &str) -> Result<()> {
        self.open.remove(name);
        if self.db.drop_keyspace(name)? { Ok(()) } else { Err(format!("there is no keyspace {name}").into()) }
    }

    fn names(&self) -> Result<Vec<String>> {
        Ok(self.db.keyspace_names()?)
    }

    fn keyspace<'s>(&'s self, name: &str) -> Result<Box<dyn NamedKeyspace + 's>> {
        let keyspace = self.open.get(name).ok_or_else(|| format!("keyspace {name} is not open"))?;
        Ok(Box::new(OurKeyspace { db: &self.db, keyspace }))
    }

    fn logged_bytes(&self) -> Result<u64> {
        Ok(self.db.stats().logged_bytes)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

impl NamedKeyspace for OurKeyspace<'_> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.keyspace.put(key, value)?)
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = WriteBatch::new();
        let mut part = batch.within(self.keyspace);
        for (key, value) in pairs {
            part.put(*key, *value);
        }
        Ok(self.db.write(batch)?)
    }

    fn ingest(&self, count: u64, value_size: usize, fill: &dyn Fn(u64, &mut [u8])) -> Result<()> {
        let (mut ingest, mut value) = (self.keyspace.ingest()?, vec![0; value_size]);
        for number in 0..count {
            fill(number, &mut value);
            ingest.put(number.to_be_bytes(), &value)?;
        }
        Ok(ingest.commit().map(drop)?)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(self.keyspace.get_into(key, value)?)
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        Ok(self.keyspace.delete_range(from..to)?)
    }

    fn seek(&self, from: &[u8], pairs: u64, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut iter = self.keyspace.iter()?;
        iter.seek(from)?;
        let mut visited = 0;
        while visited < pairs {
            let Some((key, value)) = iter.pair() else { break };
            visit(key, value);
            visited += 1;
            if visited < pairs {
                iter.step()?;
            }
        }
        Ok(visited)
    }

    fn flush(&self) -> Result<()> {
        self.db.flush()?;
        Ok(self.db.settle()?)
    }

    fn compact(&self) -> Result<()> {
        self.keyspace.compact_range(..)?;
        Ok(self.db.settle()?)
    }
}
