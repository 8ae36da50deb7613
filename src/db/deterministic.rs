//! A store without threads, for tests (feature `testing`): all background work is done by the caller, piece by piece.
//!
//! One thread. On a simulated disk everything that the store does, each I/O operation in its place, is then a pure function
//! of the calls and the disk's seed: what failed once fails again. Time is the disk's (`Storage::deterministic_clock`): its operations
//! take some, a writer that is slowed or waits puts the clock forward, and a test does (`SimulatedStorage::advance`).

use super::Db;
use crate::disk::{ComponentOptions, TrunkOptions};
use crate::engine::background::background::Background;
use crate::engine::open::host::Host;
use crate::engine::open::opening;
use crate::engine::scheduler::Driver;
use crate::engine::state::budget::{Budget, StoreConfig};
use crate::engine::types::options::Options;
use crate::format::log_record::Operation;
use crate::io::Storage;
use crate::log::LogWriter;
use crate::util::sequencer::Slot;
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Kind, Result};
use std::ops::Deref;

/// An open store that starts no thread. Calls that would wait for background work do it themselves; what is due by the clock
/// (the sync interval, trying again what failed) is done by the first `step` from then on.
#[derive(Debug)]
pub struct DeterministicDb {
    db: Db,
}

impl DeterministicDb {
    /// As `Db::open_with`.
    pub fn open(storage: Arc<dyn Storage>, options: Options) -> Result<Self> {
        let config = StoreConfig::new(Budget::new(&options)?, &options);
        Self::with_config(storage, options, config)
    }

    /// The same with parts far below any budget: log segments of four pages, Memtables of one. For runs that open a store
    /// very often, and that should meet a switch after a few writes.
    pub fn open_small(storage: Arc<dyn Storage>, options: Options) -> Result<Self> {
        let config = StoreConfig::new(Budget::small(&options)?, &options);
        Self::with_config(storage, options, config)
    }

    /// With a tree that is tuned otherwise, and with small parts (`open_small`) where `small` says so. What a store holds, and whether
    /// it opens, depends on no figure of the tree.
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
        let db = Db { engine };
        db.engine.background.refill(&contents)?;
        Ok(Self { db })
    }

    /// Does one piece of background work: a sync that is due, the log keeper's, an incorporation, a flush, a merge, a removal.
    /// False where there is nothing to do, or not yet, or the store is read-only. What fails shows in the statistics and in later calls.
    pub fn step(&self) -> bool {
        self.db.engine.background.step()
    }

    /// A thread that writes to the log and not to memory, so that nothing is ever incorporated: for a log as long as a test of
    /// recovery wants it. What it writes is found at the next opening only.
    pub fn log_writer(&self) -> LogOnlyWriter {
        let background = Arc::clone(&self.db.engine.background);
        let (slot, writer) = (background.read.sequencer.register(), background.log.log.writer());
        LogOnlyWriter { slot, writer, background }
    }

    /// As `Db::close`.
    pub fn close(self) -> Result<()> {
        self.db.close()
    }
}

/// A store with threads, as `Db::open_with`, and parts as small as those of `DeterministicDb::open_small`: every few writes there is a
/// switch of generations, with its incorporation beside readers and writers.
pub fn open_small(storage: Arc<dyn Storage>, options: Options) -> Result<Db> {
    let config = StoreConfig::new(Budget::small(&options)?, &options);
    Db::with_config(storage, options, config)
}

/// As `DeterministicDb::open_tuned`, with threads.
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
    let ComponentOptions::Trunk(trunk) = &mut config.disk;
    tune(trunk);
    Ok(config)
}

/// See `DeterministicDb::log_writer`.
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
    /// Writes the record of a put.
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
