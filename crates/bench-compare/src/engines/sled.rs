//! sled: a log-structured tree in Rust, with its log as the only file. It flushes in the background.

use super::setup::{Defaults, Opened, STRIPED, Setup, mib, setting};
use super::versions;
use alluvium_bench::engine::{Direction, Engine, Figures, Result};
use alluvium_bench::{Increments, Striped};
use sled::{Batch, Config, Db};

struct Sled {
    db: Db,
    sync: bool,
}

/// Opens it.
pub fn open(setup: &Setup) -> Result<Opened> {
    let db = Config::new().path(&setup.directory).cache_capacity(setup.cache_bytes()).open()?;
    let settings = vec![
        mib("cache", setup.cache_bytes()),
        setting(
            "log",
            if setup.sync { "the store itself, every write synced" } else { "the store itself, not synced" },
        ),
        setting("compression", "none"),
        setting("files read through", "the page cache, within the limit"),
        setting("read-modify-write", STRIPED),
    ];
    let engine = Box::new(Striped::new(Sled { db, sync: setup.sync }, Increments::Striped));
    Ok(Opened { engine, version: versions::of("sled").to_owned(), settings })
}

/// Opens it as `sled::open` does.
pub fn open_default(defaults: &Defaults) -> Result<Opened> {
    let engine = Box::new(Sled { db: sled::open(&defaults.directory)?, sync: false });
    Ok(Opened { engine, version: versions::of("sled").to_owned(), settings: vec![setting("options", "defaults")] })
}

impl Sled {
    fn wrote(&self) -> Result<()> {
        if self.sync {
            self.db.flush()?;
        }
        Ok(())
    }
}

impl Engine for Sled {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.insert(key, value)?;
        self.wrote()
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = Batch::default();
        pairs.iter().for_each(|(key, value)| batch.insert(*key, *value));
        self.db.apply_batch(batch)?;
        self.wrote()
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.remove(key)?;
        self.wrote()
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let Some(found) = self.db.get(key)? else { return Ok(false) };
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
        let mut range = match (direction, from) {
            (_, None) => self.db.iter(),
            (Direction::Forward, Some(from)) => self.db.range(from..),
            (Direction::Backward, Some(from)) => self.db.range(..=from),
        };
        let mut visited = 0;
        while visited < limit {
            let pair = match direction {
                Direction::Forward => range.next(),
                Direction::Backward => range.next_back(),
            };
            let Some(pair) = pair else { break };
            let (key, value) = pair?;
            visit(&key, &value);
            visited += 1;
        }
        Ok(visited)
    }

    fn settle(&self) -> Result<()> {
        self.db.flush()?;
        Ok(())
    }

    fn figures(&self) -> Figures {
        // Its log is its data.
        Figures { log_bytes_written: Some(0), ..Figures::default() }
    }
}
