//! The child process of the power-cut tests: it writes with several threads, opens and closes, or calls `flush`, until
//! its power is cut.

use super::ledger::{Ledger, WRITERS, WRITES_MAX, pack, stage, unpack};
use crate::support::{Random, setting};
use alluvium::{Db, Durability, Options, WriteBatch, WriteOptions};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub const CHILD: &str = "ALLUVIUM_POWER_CUT_CHILD";
pub const MODE: &str = "ALLUVIUM_POWER_CUT_MODE";
/// The key that every writer writes to.
pub const COMMON: &[u8] = b"common";
const KEYS: u64 = 200;

/// What the store is doing when the power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Writes, and the background work that they cause.
    Load,
    /// One call of `flush` after another, concurrent with the writes.
    Flush,
    /// A memory budget so small that most of the work is compaction.
    Compaction,
    /// Opening and closing: recovery after recovery.
    Opening,
}

impl Mode {
    pub const ALL: [Self; 4] = [Self::Load, Self::Flush, Self::Compaction, Self::Opening];

    pub fn options(self) -> Options {
        let (memory_budget, sync_interval) = match self {
            Self::Load => (4 << 20, Some(Duration::from_millis(15))),
            // Only explicit syncs make anything durable.
            Self::Flush | Self::Opening => (1 << 20, None),
            Self::Compaction => (256 << 10, Some(Duration::from_millis(5))),
        };
        let memory_budget = Some(memory_budget);
        Options::new().memory_budget(memory_budget).background_threads(2).sync_interval(sync_interval)
    }

    pub fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|mode| format!("{mode:?}") == name).unwrap()
    }
}

/// The operations of write `count` of a writer; the same in child and parent.
pub struct Write {
    pub operations: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub durability: Durability,
}

impl Write {
    pub fn new(seed: u64, writer: usize, count: u64) -> Self {
        let mut random = Random(seed ^ (writer as u64) << 32 ^ count.wrapping_mul(0x1234_5678_9abc_def1));
        let keys = if random.one_in(5) { 2 + random.below(4) } else { 1 };
        let mut operations: Vec<_> = (0..keys)
            .map(|_| {
                let key = format!("writer{writer}-{:04}", random.below(KEYS)).into_bytes();
                if random.one_in(8) {
                    return (key, None);
                }
                let length = if random.one_in(500) { 270_000 } else { random.below(300) as usize };
                let mut value = count.to_le_bytes().to_vec();
                value.resize(8 + length, count as u8);
                (key, Some(value))
            })
            .collect();
        if random.one_in(4) {
            operations.push((COMMON.to_vec(), Some(pack(writer, count).to_le_bytes().to_vec())));
        }
        let durability = if random.one_in(150) { Durability::Sync } else { Durability::Buffered };
        Self { operations, durability }
    }

    pub fn is_common(&self) -> bool {
        self.operations.iter().any(|(key, _)| key == COMMON)
    }
}

/// The write (writer and count) that a value of the common key encodes.
pub fn decode_common(value: &[u8]) -> Option<(usize, u64)> {
    unpack(u64::from_le_bytes(value.try_into().unwrap()))
}

/// Runs the child. An error ends it early, because its power may be cut at any moment.
pub fn run(directory: &Path, store: &Path) {
    let mode = Mode::named(&std::env::var(MODE).unwrap());
    let ledger = Ledger::open(directory);
    let deadline = Instant::now() + Duration::from_secs(20);
    if mode == Mode::Opening {
        while Instant::now() < deadline {
            ledger.stage().store(stage::OPENING, Ordering::Release);
            let Ok(db) = Db::open(store, mode.options()) else { break };
            ledger.stage().store(stage::OPEN, Ordering::Release);
            if db.close().is_err() {
                break;
            }
        }
        // The parent kills it, as in the other modes.
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        return;
    }
    let Ok(db) = Db::open(store, mode.options()) else { return };
    ledger.stage().store(stage::OPEN, Ordering::Release);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, ledger) = (&db, &ledger);
            scope.spawn(move || {
                let _ = write(db, ledger, writer, deadline);
            });
        }
        if mode == Mode::Flush {
            scope.spawn(|| while Instant::now() < deadline && db.flush().is_ok() {});
        }
    });
}

fn write(db: &Db, ledger: &Ledger, writer: usize, deadline: Instant) -> alluvium::Result<()> {
    let seed = setting("ALLUVIUM_SEED", 1);
    let before = ledger.before(writer).load(Ordering::Acquire);
    for count in before + 1..=before + WRITES_MAX {
        if Instant::now() > deadline {
            break;
        }
        let write = Write::new(seed, writer, count);
        if write.is_common() {
            let seen = db.get(COMMON)?.and_then(|value| decode_common(&value));
            ledger
                .observed(writer, count)
                .store(seen.map_or(0, |(writer, count)| pack(writer, count)), Ordering::Release);
        }
        ledger.started(writer, count).store(ledger.tick(), Ordering::Release);
        let durability = write.durability;
        apply(db, write)?;
        ledger.ended(writer, count).store(ledger.tick(), Ordering::Release);
        ledger.acknowledged(writer).store(count, Ordering::Release);
        if durability == Durability::Sync {
            ledger.synced(writer).fetch_max(count, Ordering::AcqRel);
        }
        if count.wrapping_mul(0x9e37_79b9).is_multiple_of(401) {
            let covered: Vec<u64> =
                (0..WRITERS).map(|writer| ledger.acknowledged(writer).load(Ordering::Acquire)).collect();
            db.sync()?;
            for (writer, covered) in covered.into_iter().enumerate() {
                ledger.synced(writer).fetch_max(covered, Ordering::AcqRel);
            }
        }
    }
    Ok(())
}

fn apply(db: &Db, write: Write) -> alluvium::Result<()> {
    let options = WriteOptions::new().durability(write.durability);
    if let [(key, value)] = &write.operations[..] {
        return match value {
            Some(value) => db.put_with(key, value, options),
            None => db.delete_with(key, options),
        };
    }
    let mut batch = WriteBatch::new();
    for (key, value) in write.operations {
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        };
    }
    db.write_with(batch, options)
}
