//! Thousands of snapshots, idle iterators and full scans during writes that overwrite the versions that these need.
//! `ALLUVIUM_LIVE_SNAPSHOTS`, `ALLUVIUM_OVERWRITES` and `ALLUVIUM_CONCURRENCY_MS` set the size; `ALLUVIUM_SEED` the
//! seed.

use crate::concurrency::linearizability::history::Value;
use crate::concurrency::linearizability::values::{decode, encode};
use crate::support::{Random, expect_sound, setting, tiny};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Iter, MemoryComponent, Options, Snapshot, WriteBatch};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn open(seed: u64, options: Options) -> Db {
    Db::open_with(Arc::new(SimulatedStorage::new(seed)), options).unwrap()
}

/// The contents of a store with few keys: the value of each, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Contents(Vec<Option<Value>>);

fn name(key: usize) -> String {
    format!("key{key:03}")
}

impl Contents {
    /// Writes a few keys in the store and here: values of any length, or deletes.
    fn overwrite(&mut self, db: &Db, random: &mut Random, next: &mut u32) {
        let keys = self.0.len() as u64;
        let mut batch = WriteBatch::new();
        for _ in 0..if random.one_in(8) { 4 } else { 1 } {
            let key = random.below(keys) as usize;
            if random.one_in(5) {
                batch.delete(name(key));
                self.0[key] = None;
            } else {
                *next += 1;
                let up_to = if random.one_in(50) { 3000 } else { 60 };
                let (value, length) = (Value(*next), 8 + random.below(up_to) as usize);
                batch.put(name(key), encode(value, length));
                self.0[key] = Some(value);
            }
        }
        db.write(batch).unwrap();
    }

    fn pairs(&self) -> impl DoubleEndedIterator<Item = (String, Value)> {
        self.0.iter().enumerate().filter_map(|(key, value)| value.map(|value| (name(key), value)))
    }

    /// Checks that the snapshot has exactly these contents, by one of four ways to read it.
    fn check(&self, snapshot: &Snapshot, way: u64) {
        let at = snapshot.number();
        match way % 4 {
            0 => {
                for (key, value) in self.0.iter().enumerate() {
                    assert_eq!(whole(snapshot.get(name(key)).unwrap()), *value, "get of key {key} at {at}");
                }
            }
            1 => {
                let names: Vec<String> = (0..self.0.len()).map(name).collect();
                let found: Vec<_> = snapshot.multi_get(&names).unwrap().into_iter().map(whole).collect();
                assert_eq!(found, self.0, "multi_get at {at}");
            }
            2 => assert!(self.pairs().eq(scanned(snapshot.iter().unwrap())), "a scan at {at} is not {self:?}"),
            _ => assert!(
                self.pairs().rev().eq(scanned(snapshot.iter().unwrap().rev())),
                "a reverse scan at {at} is not {self:?}"
            ),
        }
    }
}

/// Decodes a value after comparing every byte.
fn whole(found: Option<Vec<u8>>) -> Option<Value> {
    found.map(|bytes| decode(Some(&bytes)).unwrap())
}

fn scanned(iter: impl Iterator<Item = alluvium::Result<(Vec<u8>, Vec<u8>)>>) -> impl Iterator<Item = (String, Value)> {
    iter.map(|pair| {
        let (key, value) = pair.unwrap();
        (String::from_utf8(key).unwrap(), decode(Some(&value)).unwrap())
    })
}

/// Number of entries in memory and in the tree after all garbage is gone.
fn entries_left(db: &Db) -> u64 {
    db.compact().unwrap();
    db.settle().unwrap();
    let stats = db.stats();
    stats.memory_entries + stats.levels.iter().map(|level| level.entries).sum::<u64>()
}

/// Rules S2 and S4 over a long time: thousands of snapshots live at once over few keys that are overwritten and
/// deleted. Each is read at random moments in every way, and once more before it is dropped; it never changes. After
/// the last one, no retained version is left.
#[test]
fn thousands_of_snapshots_stay_exact_over_overwrites() {
    const KEYS: usize = 12;
    let live_max = setting("ALLUVIUM_LIVE_SNAPSHOTS", 5000) as usize;
    let seed = setting("ALLUVIUM_SEED", 1);
    println!("seed {seed}");
    // Large enough for the pages of so many versions, and for some thousand overwrites between two switches.
    let larger = tiny().memory_budget(4 << 20);
    let (db, mut random, mut next) = (open(seed, larger), Random(seed), Value::FIRST);
    let mut contents = Contents(vec![None; KEYS]);
    let live: Mutex<Vec<(Snapshot, Contents)>> = Mutex::default();
    let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let stopping = StopAtEnd(&stop);
        for reader in 0..2 {
            let (live, stop, reads) = (&live, &stop, &reads);
            scope.spawn(move || {
                let mut random = Random(reader);
                while !stop.load(Ordering::Relaxed) {
                    let chosen = {
                        let live = live.lock().unwrap();
                        // The snapshot may be dropped meanwhile, but the clone reads the same moment.
                        (!live.is_empty()).then(|| live[random.below(live.len() as u64) as usize].clone())
                    };
                    if let Some((snapshot, contents)) = chosen {
                        contents.check(&snapshot, random.next());
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for round in 0..live_max * 2 {
            for _ in 0..random.below(6) {
                contents.overwrite(&db, &mut random, &mut next);
            }
            let snapshot = db.snapshot();
            let mut live = live.lock().unwrap();
            live.push((snapshot, contents.clone()));
            let gone = (live.len() > live_max).then(|| live.swap_remove(random.below(live_max as u64) as usize));
            drop(live);
            if let Some((snapshot, contents)) = gone {
                contents.check(&snapshot, round as u64);
            }
        }
        assert!(db.stats().snapshots >= live_max as u64, "{}", db.stats());
        drop(stopping);
    });
    println!("{} reads during {next} overwrites", reads.load(Ordering::Relaxed));
    assert!(reads.load(Ordering::Relaxed) > 100);
    let mut left = live.into_inner().unwrap();
    // The snapshots are dropped in random order during writes.
    while !left.is_empty() {
        let (snapshot, kept) = left.swap_remove(random.below(left.len() as u64) as usize);
        kept.check(&snapshot, random.next());
        contents.overwrite(&db, &mut random, &mut next);
    }
    contents.check(&db.snapshot(), 2);
    assert_eq!(entries_left(&db), contents.pairs().count() as u64, "{}", db.stats());
    let stats = db.stats();
    assert_eq!(stats.snapshots, 0);
    assert!(stats.branch_bytes < 1 << 20 && stats.memory_bytes < 1 << 20, "{stats}");
    expect_sound(&db);
}

/// Stops the readers even if the writer panics.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An idle iterator continues with its own versions after a hundred thousand overwrites, deletes and inserts between
/// its keys. The store retains these versions and the newest ones, and nothing else.
#[test]
fn iterators_stay_exact_over_overwrites() {
    for memory_component in [MemoryComponent::TwoLevel, MemoryComponent::Skiplist] {
        check_idle_iterators(tiny().memory_component(memory_component));
    }
}

fn check_idle_iterators(options: Options) {
    const KEYS: usize = 60;
    let seed = setting("ALLUVIUM_SEED", 1);
    let (db, mut random, mut next) = (open(seed, options), Random(seed), Value::FIRST);
    let mut contents = Contents(vec![None; KEYS]);
    for _ in 0..500 {
        contents.overwrite(&db, &mut random, &mut next);
    }
    let expected: Vec<(String, Value)> = contents.pairs().collect();
    let standing =
        |iter: &Iter| (String::from_utf8(iter.key().unwrap().to_vec()).unwrap(), decode(iter.value()).unwrap());
    // One in the middle, one that was not positioned, one at the end.
    let (mut middle, unpositioned, mut back) = (db.iter().unwrap(), db.iter().unwrap(), db.iter().unwrap());
    let half = expected.len() / 2;
    middle.seek(&expected[half].0).unwrap();
    back.seek_last().unwrap();
    let overwrites = setting("ALLUVIUM_OVERWRITES", 100_000);
    for round in 0..overwrites {
        contents.overwrite(&db, &mut random, &mut next);
        if round % 100 == 0 {
            // Keys that the iterators must not see.
            db.put(format!("{}-{}", name(round as usize % KEYS), round % 7), encode(Value(next), 50)).unwrap();
        }
        if round == overwrites / 2 {
            assert_eq!(standing(&middle), expected[half]);
            middle.step_back().unwrap();
            assert_eq!(standing(&middle), expected[half - 1]);
        }
    }
    println!("{}", db.stats());
    let live = db.iter().unwrap().count();
    let (entries, needed) = (entries_left(&db), live + expected.len());
    // The snapshot also needs tombstones over its versions.
    let most = needed + KEYS;
    assert!((live..=most).contains(&(entries as usize)), "{entries} entries, {needed} needed: {}", db.stats());
    for pair in &expected[half - 1..] {
        assert_eq!(standing(&middle), *pair);
        middle.step().unwrap();
    }
    assert!(!middle.valid());
    for pair in expected.iter().rev() {
        assert_eq!(standing(&back), *pair);
        back.step_back().unwrap();
    }
    assert!(!back.valid());
    assert!(scanned(unpositioned).eq(expected));
    drop((middle, back));
    // The next merge that sees an unneeded version removes it.
    for _ in 0..500 {
        contents.overwrite(&db, &mut random, &mut next);
    }
    let live = db.iter().unwrap().count() as u64;
    assert_eq!(entries_left(&db), live, "{}", db.stats());
    expect_sound(&db);
}

/// Writers that overwrite their keys in a fixed order again and again, during full scans.
struct Rounds {
    keys: u32,
    /// Of each writer: writes that have begun, and writes that have returned.
    begun: Vec<AtomicU32>,
    done: Vec<AtomicU32>,
}

/// Every so many writes, a writer writes a batch instead.
const BATCH_EVERY: u32 = 64;
const BATCH: u32 = 8;

impl Rounds {
    fn write(&self, db: &Db, writer: usize, stop: &AtomicBool) {
        let mut random = Random(writer as u64);
        let mut at = 0u32;
        while !stop.load(Ordering::Relaxed) {
            let these = if at.is_multiple_of(BATCH_EVERY) { BATCH } else { 1 };
            self.begun[writer].store(at + these, Ordering::SeqCst);
            let mut batch = WriteBatch::new();
            for at in at..at + these {
                let round = Value::FIRST + at / self.keys;
                let length = 8 + random.below(150) as usize;
                batch.put(format!("{writer}/{:06}", at % self.keys), encode(Value(round), length));
            }
            db.write(batch).unwrap();
            at += these;
            self.done[writer].store(at, Ordering::SeqCst);
        }
    }

    fn marks(marks: &[AtomicU32]) -> Vec<u32> {
        marks.iter().map(|mark| mark.load(Ordering::SeqCst)).collect()
    }

    /// Checks that a scan shows exactly one moment: of each writer all writes up to some write and none after it. At
    /// least those writes that had returned before the scan was opened are there, at most those that had begun after
    /// it, and no part of a batch.
    fn check(&self, pairs: &BTreeMap<String, Value>, done_before: &[u32], begun_after: &[u32]) {
        let mut count = 0;
        for (writer, (done, begun)) in done_before.iter().zip(begun_after).enumerate() {
            let writes =
                |key: u32| pairs.get(&format!("{writer}/{key:06}")).map_or(0, |value| value.0 - Value::FIRST + 1);
            let moment: u32 = (0..self.keys).map(writes).sum();
            for key in 0..self.keys {
                let expected = moment / self.keys + u32::from(key < moment % self.keys);
                assert_eq!(writes(key), expected, "key {key} of writer {writer} after {moment} writes");
            }
            assert!((*done..=*begun).contains(&moment), "{moment} writes of writer {writer}, not {done} to {begun}");
            assert!(
                !(1..BATCH).contains(&(moment % BATCH_EVERY)),
                "{moment} writes of writer {writer} include part of a batch"
            );
            count += moment.min(self.keys) as usize;
        }
        assert_eq!(pairs.len(), count, "the scan returned a key twice, or one that was never written");
    }
}

/// FloDB's authors admit that its scans can starve under heavy writes. Here a full scan during writes at full speed
/// ends without a restart and is exact, and so is one that pauses often.
#[test]
fn scans_of_everything_under_full_write_load() {
    for memory_component in [MemoryComponent::TwoLevel, MemoryComponent::Skiplist] {
        scan_beside_writers(tiny().memory_component(memory_component));
    }
}

fn scan_beside_writers(options: Options) {
    let rounds = Rounds {
        keys: 3001,
        begun: vec![AtomicU32::new(0), AtomicU32::new(0)],
        done: vec![AtomicU32::new(0), AtomicU32::new(0)],
    };
    let (db, stop, scans) = (open(1, options), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let stopping = StopAtEnd(&stop);
        for writer in 0..rounds.done.len() {
            let (rounds, db, stop) = (&rounds, &db, &stop);
            scope.spawn(move || rounds.write(db, writer, stop));
        }
        let (rounds, db, scanning, scans) = (&rounds, &db, &stop, &scans);
        let slowly = scope.spawn(move || {
            while !scanning.load(Ordering::Relaxed) {
                let done = Rounds::marks(&rounds.done);
                let mut iter = db.iter().unwrap();
                let begun = Rounds::marks(&rounds.begun);
                let mut pairs = BTreeMap::new();
                // This ends, since the number of keys is limited.
                while !scanning.load(Ordering::Relaxed) {
                    let before = pairs.len();
                    pairs.extend(scanned(iter.by_ref().take(500)));
                    if pairs.len() == before {
                        rounds.check(&pairs, &done, &begun);
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        });
        let start = std::time::Instant::now();
        let at_least = Duration::from_millis(setting("ALLUVIUM_CONCURRENCY_MS", 1500) / 2);
        // Some thread may get little time on a busy machine.
        let enough = || {
            scans.load(Ordering::Relaxed) > 5 && Rounds::marks(&rounds.done).iter().all(|done| *done > 2 * rounds.keys)
        };
        while (start.elapsed() < at_least || !enough() && start.elapsed() < 60 * at_least) && !slowly.is_finished() {
            let done = Rounds::marks(&rounds.done);
            let iter = db.iter().unwrap();
            let begun = Rounds::marks(&rounds.begun);
            let pairs = if scans.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
                scanned(iter).collect()
            } else {
                scanned(iter.rev()).collect()
            };
            rounds.check(&pairs, &done, &begun);
        }
        drop(stopping);
    });
    let (writes, scans) = (Rounds::marks(&rounds.done), scans.load(Ordering::Relaxed));
    println!("{scans} scans during {writes:?} writes");
    assert!(scans > 5 && writes.iter().all(|writes| *writes > 2 * rounds.keys), "{scans} scans, {writes:?} writes");
    expect_sound(&db);
}
