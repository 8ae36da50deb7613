//! Promise 4 (`docs/guarantees.md`): `kill -9` at any instant loses nothing that was acknowledged.
//!
//! A child process writes with several threads at full rate: puts, overwrites, deletes and batches. Each thread stores
//! the count of its acknowledged operations in memory that it shares with this process (a pipe would slow the child
//! until nothing is in flight). The parent kills it, reopens the store, and requires for every thread the state after
//! exactly its acknowledged operations, or after one more: the operation in flight. If neither matches, an operation is
//! lost or a batch is torn.
//!
//! Each opening, in parent and child, chooses at random whether the log is written through mappings.
//!
//! `ALLUVIUM_KILLS` sets the number of kills, `ALLUVIUM_SEED` the seed.

use crate::support::child;
use crate::support::shared::Shared;
use crate::support::{Random, setting, tiny_skip};
use alluvium::storage::PosixStorage;
use alluvium::{Db, Options, WriteBatch};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WRITERS: usize = 4;
const KEYS: u64 = 300;
const CHILD: &str = "ALLUVIUM_KILL_CHILD";
const CHURN: &str = "ALLUVIUM_KILL_CHURN";
const WRITTEN: &str = "ALLUVIUM_KILL_WRITTEN";
const LEVELS: &str = "ALLUVIUM_KILL_LEVELS";
/// Words of shared memory for each writer: a cache line.
const WORDS: usize = 8;

/// The writes of operation `count` of a writer; the same in child and parent.
fn operation(seed: u64, writer: usize, count: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut random = Random(seed ^ (writer as u64) << 32 ^ count.wrapping_mul(0x1234_5678_9abc_def1));
    let operations = if random.one_in(5) { 2 + random.below(4) } else { 1 };
    (0..operations)
        .map(|_| {
            let key = format!("writer{writer}-{:04}", random.below(KEYS)).into_bytes();
            if random.one_in(8) {
                return (key, None);
            }
            let length = if random.one_in(5000) { 300_000 } else { random.below(300) as usize };
            let mut value = count.to_le_bytes().to_vec();
            value.resize(8 + length, count as u8);
            (key, Some(value))
        })
        .collect()
}

fn open(directory: &Path, written: bool, on_levels: bool) -> Db {
    let storage = PosixStorage::new(directory.join("store"));
    let storage = if written { storage.writing_the_log() } else { storage };
    let options = Options::new()
        .memory_budget(1 << 20)
        .background_threads(2)
        .sync_interval(Duration::from_millis(30))
        .disk_component(on_levels.then(tiny_skip));
    Db::open_with(Arc::new(storage), options).unwrap()
}

/// The child: writes until it is killed. With `CHURN` it closes and reopens the store every few milliseconds, so that
/// it is often killed while it recovers or closes.
pub fn child() {
    let directory = PathBuf::from(std::env::var_os(CHILD).unwrap());
    let seed = setting("ALLUVIUM_SEED", 1);
    let shared = Shared::open(&directory);
    // Bounded, in case the parent dies.
    let deadline = Instant::now() + Duration::from_secs(20);
    let session = if std::env::var(CHURN).is_ok() { Duration::from_millis(4) } else { Duration::MAX };
    while Instant::now() < deadline {
        let db = open(&directory, std::env::var(WRITTEN).is_ok(), std::env::var(LEVELS).is_ok());
        let session_end = Instant::now().checked_add(session).unwrap_or(deadline).min(deadline);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (db, acknowledged) = (&db, shared.word(writer * WORDS));
                scope.spawn(move || write(db, seed, writer, acknowledged, session_end));
            }
        });
        db.close().unwrap();
    }
}

fn write(db: &Db, seed: u64, writer: usize, acknowledged: &AtomicU64, until: Instant) {
    let mut count = acknowledged.load(Ordering::Acquire);
    while Instant::now() < until {
        count += 1;
        let operations = operation(seed, writer, count);
        if let [(key, value)] = &operations[..] {
            match value {
                Some(value) => db.put(key, value).unwrap(),
                None => db.delete(key).unwrap(),
            }
        } else {
            let mut batch = WriteBatch::new();
            for (key, value) in operations {
                match value {
                    Some(value) => batch.put(key, value),
                    None => batch.delete(key),
                };
            }
            db.write(batch).unwrap();
        }
        acknowledged.store(count, Ordering::Release);
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn apply(model: &mut Model, operations: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
    for (key, value) in operations {
        match value {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
    }
}

/// The first difference between two maps, shortened.
fn difference(found: &Model, expected: &Model) -> Option<String> {
    let short = |value: Option<&Vec<u8>>| value.map(|value| (value.len(), value[..8].to_vec()));
    let keys = found.keys().chain(expected.keys());
    let differing = keys.into_iter().find(|key| found.get(*key) != expected.get(*key))?;
    Some(format!(
        "{}: found {:?}, expected {:?}",
        String::from_utf8_lossy(differing),
        short(found.get(differing)),
        short(expected.get(differing))
    ))
}

fn kill_once(directory: &Path, seed: u64, (churn, written, on_levels): (bool, bool, bool), run_for: Duration) {
    let mut command = child::command("kill");
    command.env(CHILD, directory).env("ALLUVIUM_SEED", seed.to_string()).stdout(Stdio::null());
    if churn {
        command.env(CHURN, "1");
    }
    if written {
        command.env(WRITTEN, "1");
    }
    if on_levels {
        command.env(LEVELS, "1");
    }
    let mut child = command.spawn().unwrap();
    // Starting takes a while, so `run_for` begins with the child's first acknowledged write.
    let shared = Shared::open(directory);
    let before: Vec<u64> = (0..WRITERS).map(|writer| shared.word(writer * WORDS).load(Ordering::Acquire)).collect();
    let deadline = Instant::now() + Duration::from_secs(20);
    while (0..WRITERS).all(|writer| shared.word(writer * WORDS).load(Ordering::Acquire) == before[writer]) {
        assert!(Instant::now() < deadline, "the child does not write");
        assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
        std::thread::sleep(Duration::from_micros(200));
    }
    std::thread::sleep(run_for);
    assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_at_any_instant_nothing_acknowledged_is_lost() {
    kill_repeatedly(setting("ALLUVIUM_KILLS", 200), false);
}

#[test]
fn killed_at_any_instant_levels_lose_nothing_acknowledged() {
    kill_repeatedly(setting("ALLUVIUM_KILLS", 200).div_ceil(4), true);
}

fn kill_repeatedly(kills: u64, on_levels: bool) {
    if std::env::var(CHILD).is_ok() {
        return;
    }
    let seed = setting("ALLUVIUM_SEED", 1);
    println!("seed {seed}");
    let mut random = Random(seed);
    let directory = tempfile::tempdir().unwrap();
    let shared = Shared::create(directory.path(), WRITERS * WORDS);
    let mut models: Vec<Model> = vec![Model::new(); WRITERS];
    let mut done = [0u64; WRITERS];
    let (mut in_flight, mut total, mut rebuilt) = (0, 0, 0);
    for round in 0..kills {
        let (churn, written) = (random.one_in(3), random.one_in(3));
        kill_once(directory.path(), seed, (churn, written, on_levels), Duration::from_micros(random.below(60_000)));
        let db = open(directory.path(), random.one_in(3), on_levels);
        rebuilt += u64::from(db.stats().buffer_bytes > 0);
        for writer in 0..WRITERS {
            let acknowledged = shared.word(writer * WORDS).load(Ordering::Acquire);
            total += acknowledged - done[writer];
            while done[writer] < acknowledged {
                done[writer] += 1;
                apply(&mut models[writer], operation(seed, writer, done[writer]));
            }
            let found: Model = db.prefix(format!("writer{writer}-")).unwrap().map(|pair| pair.unwrap()).collect();
            let Some(difference_to_acknowledged) = difference(&found, &models[writer]) else {
                continue;
            };
            // The operation in flight may be there, but only completely.
            done[writer] += 1;
            apply(&mut models[writer], operation(seed, writer, done[writer]));
            if let Some(difference) = difference(&found, &models[writer]) {
                panic!(
                    "round {round}, writer {writer}, {acknowledged} acknowledged: {difference_to_acknowledged}; \
                     with the one in flight: {difference}"
                );
            }
            shared.word(writer * WORDS).store(done[writer], Ordering::Release);
            in_flight += 1;
        }
        if round % 50 == 49 || round + 1 == kills {
            db.verify().unwrap();
        }
        // In the other half of the rounds the store is dropped without the final sync, as when the process dies.
        if random.one_in(2) {
            db.close().unwrap();
        }
    }
    println!("{kills} kills, {total} operations acknowledged, {in_flight} in flight survived, {rebuilt} with buffers");
    assert!(total > 1000);
    assert!(!on_levels || kills < 50 || rebuilt > 0, "no store had anything in memory that a kill could take");
}
