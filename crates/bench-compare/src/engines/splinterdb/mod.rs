//! SplinterDB, from a shared library that `--splinterdb-lib` or `SPLINTERDB_LIB` names. It has no call that syncs, so
//! it takes no part in the synced set.

mod ffi;

use super::setup::{MIB, Opened, STRIPED, Setup, mib, setting};
use super::{library, quiet};
use alluvium_bench::engine::{Direction, Engine, Figures, Result};
use alluvium_bench::{Increments, Striped};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The library's default.
const MEMTABLE_BYTES: u64 = 24 * MIB;
const MEMTABLE_THREADS: u64 = 1;
/// Its file is created with this size and stays sparse.
const DISK_BYTES_MIN: u64 = 8 << 30;
const DISK_BYTES_PER_DATA_BYTE: u64 = 10;
/// The log's own bytes around a record: generation (8), lengths and flags of key and message (6).
const LOG_BYTES_PER_WRITE: u64 = 8 + 6;
/// Of the budget; the rest is for its tables, task queues and compaction arrays.
const CACHE_NUMERATOR: u64 = 7;
const CACHE_DENOMINATOR: u64 = 8;

struct Splinter {
    store: ffi::Store,
    logged: AtomicU64,
}

/// Opens it.
pub fn open(setup: &Setup) -> Result<Opened> {
    if setup.sync {
        return Err("splinterdb has no call that syncs: not available with --sync".into());
    }
    let library = library::path().ok_or("splinterdb: no shared library was given")?;
    let file = CString::new(setup.directory.join("bench.splinterdb").as_os_str().as_bytes())?;
    let cache_bytes = (setup.budget_bytes() / CACHE_DENOMINATOR * CACHE_NUMERATOR).next_multiple_of(MIB);
    let normal_threads = setup.background_threads as u64;
    let disk_bytes = (setup.data_bytes * DISK_BYTES_PER_DATA_BYTE).max(DISK_BYTES_MIN).next_multiple_of(1 << 30);
    let memtable_bytes = MEMTABLE_BYTES.min(setup.write_buffer_bytes());
    let store = ffi::Store::create(
        &library,
        &ffi::Config {
            file: &file,
            cache_bytes,
            disk_bytes,
            memtable_bytes,
            io_flags: libc::O_RDWR | libc::O_CREAT | libc::O_DIRECT,
            memtable_threads: MEMTABLE_THREADS,
            normal_threads,
        },
    )?;
    let settings = vec![
        mib("cache, memtables in it", cache_bytes),
        mib("memtable", memtable_bytes),
        mib("file (sparse)", disk_bytes),
        setting("background threads", format!("{normal_threads} and {MEMTABLE_THREADS} for memtables")),
        setting("filter", "quotient, 26-bit fingerprints"),
        setting("compression", "none"),
        setting("log", "on, not synced"),
        setting("files read through", "direct I/O"),
        setting("log bytes", "computed from its format"),
        setting("read-modify-write", STRIPED),
        setting("when it settles", "the memtable stays in memory: it has no call for a flush"),
    ];
    let version = store.version();
    let engine = Splinter { store, logged: AtomicU64::new(0) };
    Ok(Opened { engine: Box::new(Striped::new(engine, Increments::Striped)), version, settings })
}

impl Splinter {
    fn wrote(&self, user_bytes: usize) {
        self.logged.fetch_add(user_bytes as u64 + LOG_BYTES_PER_WRITE, Ordering::Relaxed);
    }
}

impl Engine for Splinter {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.insert(key, value)?;
        self.wrote(key.len() + value.len());
        Ok(())
    }

    /// It has no atomic batches: one put after the other.
    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        pairs.iter().try_for_each(|(key, value)| self.put(key, value))
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
        let start = match direction {
            Direction::Forward => ffi::Start::AtOrBehind,
            Direction::Backward => ffi::Start::AtOrBefore,
        };
        let mut iterator = self.store.iterator(start, from)?;
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

    /// It cannot report background work: the process is polled until it is idle.
    fn settle(&self) -> Result<()> {
        quiet::wait(|| ());
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures { log_bytes_written: Some(self.logged.load(Ordering::Relaxed)), ..Figures::default() }
    }
}
