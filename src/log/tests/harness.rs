//! Takes the place of the store above the log: writes by the protocol, keeps what the manifest would keep, and
//! remembers what recovery applied.

use crate::format::log_record::Operation;
use crate::format::manifest_edit::LogRecovered;
use crate::io::Storage;
use crate::log::*;
use crate::util::random::splitmix64;
use crate::util::sequencer::{Sequencer, Slot};
use crate::util::sync::{Arc, AtomicBool, Ordering};
use crate::util::{DatabaseId, FileNumber, FileNumbers, KeyspaceId, Kind, Result, SequenceNumber};
use std::collections::{BTreeMap, BTreeSet};
use std::thread::JoinHandle;
use std::time::Duration;

pub const DATABASE: DatabaseId = DatabaseId(0xa11);
pub const OPTIONS: LogOptions = LogOptions {
    segment_bytes: 4 * 4096,
    chunk_bytes: 4096,
    budget_bytes: 1 << 20,
    deterministic: false,
    scarce: false,
};

/// splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// What the manifest would contain.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    pub recovered: Vec<LogRecovered>,
    pub incorporated: SequenceNumber,
    pub epochs_from: u64,
}

/// The result of one recovery.
#[derive(Debug)]
pub struct Outcome {
    pub recovered: Recovered,
    pub values: BTreeMap<u64, Vec<u8>>,
}

/// The input of a recovery of this disk, with a complete manifest.
pub fn input<'a>(storage: &'a dyn Storage, manifest: &'a Manifest) -> RecoveryInput<'a> {
    RecoveryInput {
        storage,
        database: DATABASE,
        recovered: &manifest.recovered,
        incorporated: manifest.incorporated,
        epochs_from: manifest.epochs_from,
        files_from: crate::util::FileNumber(0),
        segments: const { &BTreeSet::new() },
        synced: SequenceNumber::ZERO,
        manifest_edits: u64::MAX,
        life: storage.life(),
        access: crate::log::Access::Write,
        force_cut: false,
        threads: 1,
        value_complete: &|_| Ok(true),
    }
}

pub fn recover_with(
    storage: &dyn Storage,
    manifest: &Manifest,
    force_cut: bool,
    value_complete: &dyn Fn(&[u8]) -> Result<bool>,
) -> Result<Outcome> {
    let input = RecoveryInput { force_cut, value_complete, ..input(storage, manifest) };
    let recovered = recover(input)?;
    let mut values = BTreeMap::new();
    // Small ranges, so that most records are skipped in each read.
    let ranges = recovered.contents.ranges(300);
    assert!(ranges.windows(2).all(|pair| pair[1].start().0 == pair[0].end().0 + 1), "{ranges:?}");
    for range in ranges {
        recovered.contents.read(&range, &mut |number, operations| {
            assert!(range.contains(&number), "{number} in {range:?}");
            let all: Vec<u8> = operations.flat_map(|operation| operation.value.to_vec()).collect();
            assert!(values.insert(number.0, all).is_none());
            Ok(())
        })?;
    }
    Ok(Outcome { recovered, values })
}

pub fn recover_from(storage: &dyn Storage, manifest: &Manifest) -> Result<Outcome> {
    recover_with(storage, manifest, false, &|_| Ok(true))
}

/// One opening of the log.
pub struct Opened {
    pub log: Arc<Log>,
    pub sequencer: Arc<Sequencer>,
}

/// A thread that writes.
pub struct Client {
    pub log: Arc<Log>,
    pub sequencer: Arc<Sequencer>,
    pub slot: Arc<Slot>,
    pub writer: LogWriter,
}

impl Opened {
    /// Starts the next log epoch after a recovery, as the store does once its edit is durable.
    pub fn new(
        storage: Arc<dyn Storage>,
        manifest: &mut Manifest,
        recovered: Recovered,
        options: LogOptions,
    ) -> Result<Self> {
        manifest.recovered.extend(recovered.edit);
        let life = storage.life().filter(|_| storage.maps_safely());
        let first = recovered.next_number;
        let identity = LogIdentity { database: DATABASE, epoch: recovered.next_epoch, life, first };
        let used = |name: String| Some(crate::log::parse_file_name(&name)?.0);
        let newest = storage.list()?.into_iter().filter_map(used).max().unwrap_or_default();
        let numbers = Arc::new(FileNumbers::new(FileNumber(newest.0 + 1)));
        // As in the store: what was recovered is durable, and shadows are not needed any more.
        for name in storage.list()?.iter().filter(|name| name.ends_with(".shadow")) {
            storage.remove(name)?;
        }
        let clock = storage.clock();
        let (name_segment, wake) = (Box::new(|_, _| Ok(0)), Box::new(|_| ()));
        let resources = LogResources { storage, clock, numbers, name_segment, wake };
        let log = Log::create(resources, identity, options)?;
        log.adopt(recovered.segments);
        Ok(Self { log, sequencer: Arc::new(Sequencer::new(SequenceNumber(first.0 - 1))) })
    }

    /// Opens a store that has no log yet.
    pub fn fresh(storage: Arc<dyn Storage>, options: LogOptions) -> (Self, Manifest) {
        let mut manifest = Manifest { epochs_from: 1, ..Manifest::default() };
        let outcome = recover_from(&*storage, &manifest).unwrap();
        assert!(outcome.recovered.edit.is_none() && outcome.recovered.next_number == SequenceNumber(1));
        let opened = Self::new(storage, &mut manifest, outcome.recovered, options).unwrap();
        opened.log.maintain(&opened.sequencer).unwrap();
        (opened, manifest)
    }

    pub fn client(&self) -> Client {
        let (log, sequencer) = (Arc::clone(&self.log), Arc::clone(&self.sequencer));
        Client { slot: sequencer.register(), writer: log.writer(), log, sequencer }
    }

    pub fn log_threads(&self) -> LogThreads {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = |task| {
            let (log, sequencer, stopped) = (Arc::clone(&self.log), Arc::clone(&self.sequencer), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    log.wait_for_work(task, Duration::from_millis(5));
                    let _ = match task {
                        LogTask::MakeReady => log.make_ready(&sequencer, &|_| false),
                        LogTask::Finish => log.finish(&sequencer),
                    };
                }
            })
        };
        let threads = [LogTask::MakeReady, LogTask::Finish].map(thread).into();
        LogThreads { stop, threads }
    }

    pub fn sync(&self, number: u64) -> Result<()> {
        self.log.sync_through(&self.sequencer, SequenceNumber(number), &|| Ok(()))
    }

    pub fn sync_all(&self) -> Result<()> {
        self.sync(self.sequencer.last().0)
    }
}

/// The log threads. They end when this value is dropped.
pub struct LogThreads {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for LogThreads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Client {
    /// Writes one put by the protocol.
    pub fn put(&mut self, value: &[u8]) -> Result<u64> {
        let operation = Operation { kind: Kind::Put, keyspace: KeyspaceId(3), key: b"key", value };
        self.write(operation)
    }

    pub fn write(&mut self, operation: Operation<'_>) -> Result<u64> {
        loop {
            self.prepare(operation)?;
            self.sequencer.announce(&self.slot);
            if !self.log.is_current(&self.writer) {
                self.sequencer.leave(&self.slot);
                self.log.cancel(&mut self.writer);
                continue;
            }
            let number = self.sequencer.take(&self.slot);
            self.log.seal(&mut self.writer, number);
            self.sequencer.leave(&self.slot);
            self.log.write_through(&self.sequencer, number)?;
            return Ok(number.0);
        }
    }

    pub fn prepare(&mut self, operation: Operation<'_>) -> Result<()> {
        let length = operation.encoded_length();
        self.log.prepare(&mut self.writer, operation.kind, length, |body| {
            assert_eq!(operation.encode(body), body.len());
        })
    }

    /// Takes a number and dies before it seals.
    pub fn lose(&mut self) -> u64 {
        self.sequencer.announce(&self.slot);
        let number = self.sequencer.take(&self.slot);
        self.sequencer.leave(&self.slot);
        number.0
    }
}
