//! LevelDB of the system, through its C interface.

mod ffi;

use super::quiet;
use super::setup::{Defaults, MIB, Opened, STRIPED, Setup, mib, setting};
use alluvium_bench::engine::{Direction, Engine, Figures, Result};
use alluvium_bench::{Increments, Striped};
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOOM_BITS: i32 = 10;
/// Its files have 2 MiB: enough to keep all files of a few gigabytes open.
const OPEN_FILES: i32 = 8000;
/// The log's own bytes around a record of one put: header (7), number and count (12), kind and two lengths of a byte (3).
const LOG_BYTES_PER_WRITE: u64 = 7 + 12 + 3;
/// A key after all others, where there is nothing to compact.
const BEHIND_ALL: [u8; 64] = [0xff; 64];

struct Level {
    store: ffi::Store,
    logged: AtomicU64,
}

/// Opens it.
pub fn open(setup: &Setup) -> Result<Opened> {
    let directory = setup.directory.to_str().ok_or("leveldb: the directory's name is not valid text")?;
    let directory = CString::new(directory)?;
    let tuning = ffi::Tuning {
        write_buffer_bytes: usize::try_from(setup.write_buffer_bytes())?,
        cache_bytes: usize::try_from(setup.cache_bytes())?,
        bloom_bits: BLOOM_BITS,
        open_files: OPEN_FILES,
    };
    let store = ffi::Store::open(&ffi::Config { directory: &directory, tuning: Some(tuning), sync: setup.sync })?;
    let (major, minor) = ffi::version();
    let settings = vec![
        mib("block cache", setup.cache_bytes()),
        mib("write buffer", setup.write_buffer_bytes()),
        setting("open files", OPEN_FILES),
        setting("background threads", "1, not settable"),
        setting("filter", format!("Bloom, {BLOOM_BITS} bits per key")),
        setting("compression", "none"),
        setting("log", if setup.sync { "on, every write synced" } else { "on, not synced" }),
        setting("files read through", "the page cache, within the limit"),
        setting("log bytes", "computed from its format"),
        setting("read-modify-write", STRIPED),
    ];
    let engine = Level { store, logged: AtomicU64::new(0) };
    let engine = Box::new(Striped::new(engine, Increments::Striped));
    Ok(Opened { engine, version: format!("{major}.{minor}"), settings })
}

/// Opens it with its default options.
pub fn open_default(defaults: &Defaults) -> Result<Opened> {
    let directory = defaults.directory.to_str().ok_or("leveldb: the directory's name is not valid text")?;
    let directory = CString::new(directory)?;
    let store = ffi::Store::open(&ffi::Config { directory: &directory, tuning: None, sync: false })?;
    let (major, minor) = ffi::version();
    let engine = Box::new(Level { store, logged: AtomicU64::new(0) });
    Ok(Opened { engine, version: format!("{major}.{minor}"), settings: vec![setting("options", "defaults")] })
}

impl Level {
    fn wrote(&self, user_bytes: usize) {
        self.logged.fetch_add(user_bytes as u64 + LOG_BYTES_PER_WRITE, Ordering::Relaxed);
    }

    fn statistics(&self) -> String {
        self.store.property("leveldb.stats").unwrap_or_default()
    }
}

/// The bytes that flushes and compactions wrote: the last column of the table in `leveldb.stats`, in MiB.
fn written_bytes(statistics: &str) -> Option<u64> {
    let rows = statistics.lines().skip_while(|line| !line.starts_with("---")).skip(1);
    let mut mebibytes = 0.0;
    for row in rows.filter(|row| !row.trim().is_empty()) {
        mebibytes += row.split_whitespace().nth(5)?.parse::<f64>().ok()?;
    }
    Some((mebibytes * MIB as f64) as u64)
}

impl Engine for Level {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.put(key, value)?;
        self.wrote(key.len() + value.len());
        Ok(())
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        self.store.put_batch(pairs)?;
        self.wrote(pairs.iter().map(|(key, value)| key.len() + value.len() + 3).sum());
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.store.delete(key)?;
        self.wrote(key.len());
        Ok(())
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(self.store.get(key, value)?)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let mut iterator = self.store.iterator();
        match (direction, from) {
            (Direction::Forward, None) => iterator.seek_to_first(),
            (Direction::Forward, Some(from)) => iterator.seek(from),
            (Direction::Backward, None) => iterator.seek_to_last(),
            (Direction::Backward, Some(from)) => {
                iterator.seek(from);
                match iterator.pair().map(|(key, _)| key > from) {
                    None => iterator.seek_to_last(),
                    Some(true) => iterator.prev(),
                    Some(false) => {}
                }
            }
        }
        let mut visited = 0;
        while visited < limit {
            let Some((key, value)) = iterator.pair() else { break };
            visit(key, value);
            visited += 1;
            if visited < limit {
                match direction {
                    Direction::Forward => iterator.next(),
                    Direction::Backward => iterator.prev(),
                }
            }
        }
        iterator.status()?;
        Ok(visited)
    }

    /// Its interface has no call for this. A compaction where there is nothing to compact flushes the memtable; then
    /// its figures are polled until they stop changing.
    fn settle(&self) -> Result<()> {
        self.store.compact_at(&BEHIND_ALL);
        quiet::wait(|| (self.statistics(), self.store.property("leveldb.sstables")));
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures {
            data_bytes_written: written_bytes(&self.statistics()),
            log_bytes_written: Some(self.logged.load(Ordering::Relaxed)),
            ..Figures::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_column_is_added_up() {
        let text = "                               Compactions\n\
                    Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
                    --------------------------------------------------\n  \
                    0        1       10         2        0        64\n  \
                    1        5       30         9      120       100\n";
        assert_eq!(written_bytes(text), Some(164 * MIB));
        assert_eq!(written_bytes(""), Some(0));
        assert_eq!(written_bytes("---\n1 2 3\n"), None);
    }
}
