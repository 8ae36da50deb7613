//! redb: a copy-on-write B-tree in Rust. A commit writes a whole path of pages, so single puts are collected into
//! transactions of a thousand, which no other engine here needs. With `--sync` each put is its own transaction.

use super::pending::{Changes, Known, Pending};
use super::setup::{Defaults, Opened, STRIPED, Setup, mib, setting};
use super::versions;
use alluvium_bench::engine::{Direction, Engine, Figures, Result};
use alluvium_bench::{Increments, Striped};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("bench");
const PUTS_PER_TRANSACTION: usize = 1000;

struct Redb {
    database: Database,
    pending: Pending,
    sync: bool,
}

/// Opens it.
pub fn open(setup: &Setup) -> Result<Opened> {
    let mut builder = Database::builder();
    builder.set_cache_size(usize::try_from(setup.cache_bytes())?);
    let database = builder.create(setup.directory.join("bench.redb"))?;
    let puts = if setup.sync { 1 } else { PUTS_PER_TRANSACTION };
    let settings = vec![
        mib("cache", setup.cache_bytes()),
        setting("puts a transaction", puts),
        setting("durability", if setup.sync { "immediate" } else { "none until the store settles" }),
        setting("log", "none: copy on write"),
        setting("files read through", "the page cache, within the limit"),
        setting("read-modify-write", STRIPED),
    ];
    let engine = Redb { database, pending: Pending::new(puts), sync: setup.sync };
    // The table must exist before the first read.
    engine.commit(&Changes::new(), true)?;
    let engine = Striped::new(engine, Increments::Striped);
    Ok(Opened { engine: Box::new(engine), version: versions::of("redb").to_owned(), settings })
}

/// Opens it with its default options: every transaction is synced.
pub fn open_default(defaults: &Defaults) -> Result<Opened> {
    let database = Database::create(defaults.directory.join("bench.redb"))?;
    let puts = defaults.puts_per_transaction;
    let engine = Redb { database, pending: Pending::new(puts), sync: true };
    if engine.is_new()? {
        engine.commit(&Changes::new(), true)?;
    }
    let settings = vec![setting("options", "defaults"), setting("puts a transaction", puts)];
    Ok(Opened { engine: Box::new(engine), version: versions::of("redb").to_owned(), settings })
}

impl Redb {
    fn is_new(&self) -> Result<bool> {
        Ok(self.database.begin_read()?.list_tables()?.next().is_none())
    }

    fn commit(&self, changes: &Changes, durable: bool) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(if durable { Durability::Immediate } else { Durability::None })?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for (key, value) in changes {
                match value {
                    Some(value) => table.insert(&key[..], &value[..])?,
                    None => table.remove(&key[..])?,
                };
            }
        }
        Ok(transaction.commit()?)
    }
}

impl Engine for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.pending.add(key, Some(value), |changes| self.commit(changes, self.sync))
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        self.pending.flush(|changes| self.commit(changes, self.sync))?;
        let changes = pairs.iter().map(|(key, value)| ((*key).into(), Some((*value).into()))).collect();
        self.commit(&changes, self.sync)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.pending.add(key, None, |changes| self.commit(changes, self.sync))
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        match self.pending.get(key, value) {
            Known::Value => return Ok(true),
            Known::Removed => return Ok(false),
            Known::Nothing => {}
        }
        value.clear();
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let Some(found) = table.get(key)? else { return Ok(false) };
        value.extend_from_slice(found.value());
        Ok(true)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        self.pending.flush(|changes| self.commit(changes, self.sync))?;
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let mut range = match (direction, from) {
            (_, None) => table.iter()?,
            (Direction::Forward, Some(from)) => table.range(from..)?,
            (Direction::Backward, Some(from)) => table.range(..=from)?,
        };
        let mut visited = 0;
        while visited < limit {
            let pair = match direction {
                Direction::Forward => range.next(),
                Direction::Backward => range.next_back(),
            };
            let Some(pair) = pair else { break };
            let (key, value) = pair?;
            visit(key.value(), value.value());
            visited += 1;
        }
        Ok(visited)
    }

    fn settle(&self) -> Result<()> {
        self.pending.flush(|changes| self.commit(changes, false))?;
        self.commit(&Changes::new(), true)
    }

    fn figures(&self) -> Figures {
        Figures { log_bytes_written: Some(0), ..Figures::default() }
    }
}
