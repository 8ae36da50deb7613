//! A store without threads, for tests (feature `testing`). The caller does all background work, step by step.
//!
//! One thread. On a simulated disk everything that the store does, including the order of all I/O operations, is a pure
//! function of the calls and of the disk's seed, so every failure can be reproduced. Time is the disk's
//! (`Storage::deterministic_clock`): operations take simulated time, a slowed or waiting writer advances the clock, and
//! a test can advance it (`SimulatedStorage::advance`).

use super::Db;
use super::keyspace::catalog::{load, load_options};
use crate::disk::TrunkOptions;
use crate::engine::background::background::Background;
use crate::engine::open::host::Host;
use crate::engine::open::opening;
use crate::engine::scheduler::Driver;
use crate::engine::space::small_disk::fit_to_disk;
use crate::engine::state::budget::{Budget, StoreConfig};
use crate::engine::types::options::Options;
use crate::format::log_record::Operation;
use crate::io::Storage;
use crate::log::LogWriter;
use crate::util::sequencer::Slot;
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Kind, Result};
use std::ops::Deref;

/// An open store without threads. Calls that would wait for background work do that work themselves. Work that a timer
/// makes due (a sync after the interval, a retry after a failure) is done by the next `step`.
#[derive(Debug)]
pub struct DeterministicDb {
    db: Db,
}

impl DeterministicDb {
    /// Like `Db::open_with`.
    pub fn open(storage: Arc<dyn Storage>, options: Options) -> Result<Self> {
        let options = fit_to_disk(options, &*storage)?;
        let config = StoreConfig::new(Budget::new(&options)?, &options);
        Self::with_config(storage, options, config)
    }

    /// Like `open`, with sizes below any budget: log segments of four pages and Memtables of one page. For tests that
    /// open a store very often, or that need a new generation after a few writes.
    pub fn open_small(storage: Arc<dyn Storage>, options: Options) -> Result<Self> {
        let config = StoreConfig::new(Budget::small(&options)?, &options);
        Self::with_config(storage, options, config)
    }

    /// Like `open`, with other tuning of the tree, and with the sizes of `open_small` if `small` is set. No tuning
    /// changes what a store contains or whether it opens.
    pub fn open_tuned(
        storage: Arc<dyn Storage>,
        options: Options,
        small: bool,
        tune: impl FnOnce(&mut TrunkOptions),
    ) -> Result<Self> {
        let config = tuned(&options, small, tune)?;
        Self::with_config(storage, options, config)
    }

    fn with_config(storage: Arc<dyn Storage>, options: Options, config: StoreConfig) -> Result<Self> {
        let clock = storage.deterministic_clock();
        let (engine, contents) = opening::open(storage, &Host::new(options, config, Driver::Deterministic, clock))?;
        let db = Db::of(engine);
        load_options(&db.engine.read)?;
        db.engine.background.refill(&contents)?;
        load(&db.engine)?;
        Ok(Self { db })
    }

    /// Does one step of background work: a due sync, a log task, an incorporation, a flush, a merge or a removal. Once a
    /// second has passed without a write, that may be a merge that only makes reads cheaper.
    /// Returns false if nothing is due or the store is read-only. Failures show in the statistics and in later calls.
    pub fn step(&self) -> bool {
        self.db.engine.background.step()
    }

    /// A writer that writes to the log but not to memory, so that its writes are never incorporated. For recovery tests
    /// that need a long log. The writes are visible after the next opening.
    pub fn log_writer(&self) -> LogOnlyWriter {
        let background = Arc::clone(&self.db.engine.background);
        let (slot, writer) = (background.read.sequencer.register(), background.log.log.writer());
        LogOnlyWriter { slot, writer, background }
    }

    /// Like `Db::close`.
    pub fn close(self) -> Result<()> {
        self.db.close()
    }
}

/// Opens a store with threads, like `Db::open_with`, with the sizes of `DeterministicDb::open_small`. A few writes
/// start a new generation, which is incorporated concurrently with reads and writes.
pub fn open_small(storage: Arc<dyn Storage>, options: Options) -> Result<Db> {
    let config = StoreConfig::new(Budget::small(&options)?, &options);
    Db::with_config(storage, options, config)
}

/// Like `DeterministicDb::open_tuned`, with threads.
pub fn open_tuned(
    storage: Arc<dyn Storage>,
    options: Options,
    small: bool,
    tune: impl FnOnce(&mut TrunkOptions),
) -> Result<Db> {
    let config = tuned(&options, small, tune)?;
    Db::with_config(storage, options, config)
}

fn tuned(options: &Options, small: bool, tune: impl FnOnce(&mut TrunkOptions)) -> Result<StoreConfig> {
    let budget = if small { Budget::small(options)? } else { Budget::new(options)? };
    let mut config = StoreConfig::new(budget, options);
    tune(&mut config.disk.trunk);
    Ok(config)
}

/// Writes only to the log: the result of `DeterministicDb::log_writer`.
pub struct LogOnlyWriter {
    background: Arc<Background>,
    slot: Arc<Slot>,
    writer: LogWriter,
}

impl std::fmt::Debug for LogOnlyWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogOnlyWriter").finish_non_exhaustive()
    }
}

impl LogOnlyWriter {
    /// Writes the log record of a put.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (log, sequencer) = (&self.background.log.log, &self.background.read.sequencer);
        let operation = Operation { kind: Kind::Put, keyspace: KeyspaceId::DEFAULT, key, value };
        loop {
            log.prepare(&mut self.writer, operation.kind, operation.encoded_length(), |body| {
                operation.encode(body);
            })?;
            sequencer.announce(&self.slot);
            if log.is_current(&self.writer) {
                break;
            }
            sequencer.leave(&self.slot);
            log.cancel(&mut self.writer);
        }
        let number = sequencer.take(&self.slot);
        log.seal(&mut self.writer, number);
        sequencer.leave(&self.slot);
        Ok(())
    }
}

impl Deref for DeterministicDb {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.db
    }
}
