//! Keyspaces that are created, written, emptied and dropped: the store dies before every I/O operation of short runs. The
//! list of keyspaces and their contents must be those after a prefix of the writes. Then the space of those that were dropped
//! must come back, and no file may be left.

use super::death::{Death, options};
use super::world::{Shape, Tree, open};
use crate::support::{Random, expect_sound_closed, setting};
use alluvium::internals::DeterministicDb;
use alluvium::storage::Storage;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Keyspace, KeyspaceOptions, Readable, Result, WriteBatch};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

const NAMES: [&str; 2] = ["one", "two"];
/// The name of the default keyspace, which always exists.
const DEFAULT: &str = "default";
/// How many keys of a kilobyte a keyspace of the ground has.
const FILLED: u32 = 60;
const KILOBYTE: usize = 1 << 10;
/// More background tasks than are ever due at a time.
const WORK_MAX: usize = 1000;
const SECOND: Duration = Duration::from_secs(1);

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;
/// The keyspaces that exist, and what they have.
type State = BTreeMap<&'static str, Contents>;

/// An operation. The number is a place in `NAMES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A put into a keyspace, which is created first if it is not there.
    Put(usize),
    /// A batch over all keyspaces that are there.
    Batch,
    /// A transaction that moves a key from one keyspace to the other, or puts it.
    Transaction,
    Clear(usize),
    Drop(usize),
    Sync,
    Flush,
    /// All background work that is due.
    Work,
}

const ALPHABET: [Step; 9] = [
    Step::Put(0),
    Step::Put(1),
    Step::Batch,
    Step::Transaction,
    Step::Clear(0),
    Step::Drop(0),
    Step::Sync,
    Step::Flush,
    Step::Work,
];

/// How much was tried.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    points: u64,
    recoveries: u64,
    /// Recovered states before and after the drop of a keyspace with data on the disk.
    before_drops: u64,
    after_drops: u64,
    /// Stores that died while they freed space, and those that had to free some after their recovery.
    in_freeing: u64,
    freed: u64,
}

struct World<'a> {
    disk: SimulatedStorage,
    db: DeterministicDb,
    /// The state before the first write and after each one.
    history: Vec<State>,
    acknowledged: usize,
    synced: usize,
    tree: Tree,
    /// The bytes of the ground on the disk.
    ground_bytes: u64,
    /// Whether the deaths have begun.
    dies: bool,
    tally: &'a mut Tally,
    random: Random,
}

fn own(db: &Db, name: &str) -> Keyspace {
    db.keyspace(name, KeyspaceOptions::new()).unwrap()
}

fn pairs(reader: &impl Readable) -> Contents {
    reader.iter().unwrap().map(Result::unwrap).collect()
}

/// What the store has. Gets must agree with scans.
fn state_of(db: &Db) -> State {
    let names = db.keyspace_names().unwrap();
    let unknown: Vec<&String> = names.iter().filter(|name| !NAMES.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "keyspaces that were never created: {unknown:?}");
    let is_there = |name: &&str| *name == DEFAULT || names.iter().any(|found| found == name);
    let found = |name: &'static str| {
        let keyspace = own(db, name);
        let pairs = pairs(&keyspace);
        assert!(pairs.iter().all(|(key, value)| keyspace.get(key).unwrap().as_ref() == Some(value)), "a get differs");
        (name, pairs)
    };
    NAMES.into_iter().chain([DEFAULT]).filter(is_there).map(found).collect()
}

/// Does all background work, also what becomes due with time.
fn rest(disk: &SimulatedStorage, db: &DeterministicDb) {
    for _ in 0..3 {
        assert!((0..WORK_MAX).any(|_| !db.step()), "background work does not end");
        disk.advance(SECOND);
    }
}

impl<'a> World<'a> {
    /// A store with data in both keyspaces and in the default one, on the disk and in the log.
    fn new(seed: u64, tree: Tree, tally: &'a mut Tally) -> Self {
        let disk = SimulatedStorage::new(seed);
        disk.set_maps_safely(!seed.is_multiple_of(3));
        let db = open(&disk, options(), tree).unwrap();
        let history = vec![State::from([(DEFAULT, Contents::new())])];
        let random = Random(seed);
        let (acknowledged, synced, ground_bytes, dies) = (0, 0, 0, false);
        let mut world = Self { disk, db, history, acknowledged, synced, tree, ground_bytes, dies, tally, random };
        for name in NAMES {
            world.create(name);
            for at in 0..FILLED {
                world.put(name, &at.to_be_bytes(), vec![at as u8; KILOBYTE]);
            }
        }
        world.put(DEFAULT, b"k", b"default".to_vec());
        world.db.flush().unwrap();
        rest(&world.disk, &world.db);
        world.ground_bytes = world.db.stats().branch_bytes;
        NAMES.into_iter().for_each(|name| world.put(name, b"k", b"log".to_vec()));
        world.db.sync().unwrap();
        world.history.drain(..world.acknowledged);
        (world.acknowledged, world.synced, world.dies) = (0, 0, true);
        world.disk.record_crashes();
        world
    }

    fn state(&self) -> &State {
        self.history.last().unwrap()
    }

    /// One write, and every death during it.
    fn write(&mut self, change: impl FnOnce(&mut State), write: impl FnOnce(&Db)) {
        let mut after = self.state().clone();
        change(&mut after);
        self.history.push(after);
        write(&self.db);
        self.die_everywhere();
        self.acknowledged = self.history.len() - 1;
    }

    fn create(&mut self, name: &'static str) {
        self.write(|state| _ = state.entry(name).or_default(), |db| _ = own(db, name));
    }

    fn put(&mut self, name: &'static str, key: &[u8], value: Vec<u8>) {
        let put = |state: &mut State| _ = state.get_mut(name).unwrap().insert(key.to_vec(), value.clone());
        self.write(put, |db| own(db, name).put(key, &value).unwrap());
    }

    fn apply(&mut self, step: Step, at: usize) {
        let value = format!("value {at}").into_bytes();
        match step {
            Step::Put(which) => {
                if !self.state().contains_key(NAMES[which]) {
                    self.create(NAMES[which]);
                }
                self.put(NAMES[which], b"k", value);
            }
            Step::Batch => {
                let change = |state: &mut State| {
                    state.values_mut().for_each(|contents| _ = contents.insert(b"batch".to_vec(), value.clone()));
                };
                let names: Vec<_> = self.state().keys().copied().collect();
                self.write(change, |db| {
                    let mut batch = WriteBatch::new();
                    for name in &names {
                        batch.within(&own(db, name)).put("batch", &value);
                    }
                    db.write(batch).unwrap();
                });
            }
            Step::Transaction => self.transact(&value),
            Step::Clear(which) => {
                if self.state().contains_key(NAMES[which]) {
                    let clear = |state: &mut State| state.get_mut(NAMES[which]).unwrap().clear();
                    self.write(clear, |db| own(db, NAMES[which]).clear().unwrap());
                }
            }
            Step::Drop(which) => {
                let is_there = self.state().contains_key(NAMES[which]);
                let drop = |state: &mut State| _ = state.remove(NAMES[which]);
                self.write(drop, |db| assert_eq!(db.drop_keyspace(NAMES[which]).unwrap(), is_there));
            }
            Step::Sync | Step::Flush => {
                if step == Step::Sync { self.db.sync() } else { self.db.flush() }.unwrap();
                self.die_everywhere();
                self.synced = self.acknowledged;
            }
            Step::Work => {
                let before = self.db.stats().branch_bytes;
                rest(&self.disk, &self.db);
                let freed = before.saturating_sub(self.db.stats().branch_bytes);
                let points = self.die_everywhere();
                self.tally.in_freeing += if freed > u64::from(FILLED) * KILOBYTE as u64 / 2 { points } else { 0 };
            }
        }
        assert_eq!(state_of(&self.db), *self.state(), "the running store shows something else");
        // The checks have read the disk.
        self.disk.crash_points();
    }

    /// Moves a key of one keyspace to the other, if both are there.
    fn transact(&mut self, value: &[u8]) {
        let [from, to] = NAMES;
        let both = NAMES.iter().all(|name| self.state().contains_key(name));
        let change = |state: &mut State| {
            let moved = if both { state.get_mut(from).unwrap().remove(&b"k"[..]) } else { None };
            let moved = moved.unwrap_or(value.to_vec());
            if both {
                state.get_mut(to).unwrap().insert(b"moved".to_vec(), moved.clone());
            }
            state.get_mut(DEFAULT).unwrap().insert(b"moved".to_vec(), moved);
        };
        self.write(change, |db| {
            let transaction = db.transaction().unwrap();
            let mut moved = None;
            if both {
                moved = transaction.within(&own(db, from)).unwrap().take("k").unwrap();
            }
            let moved = moved.unwrap_or(value.to_vec());
            if both {
                transaction.within(&own(db, to)).unwrap().put("moved", &moved).unwrap();
            }
            transaction.put("moved", &moved).unwrap();
            transaction.commit().unwrap();
        });
    }

    /// Every death before each I/O operation since the last call, and after the last one. Returns how many operations.
    fn die_everywhere(&mut self) -> u64 {
        if !self.dies {
            return 0;
        }
        let mut points = self.disk.crash_points();
        let count = points.len() as u64;
        // What has run last may not have finished.
        let last = self.disk.clone_disk();
        let images = points.drain(..).map(|point| (format!("before: {} {}", point.operation, point.name), point.disk));
        for (place, image) in images.chain([("at its end".to_owned(), last)]) {
            if !self.random.one_in(setting("ALLUVIUM_CRASH_POINTS", 4)) {
                continue;
            }
            self.tally.points += 1;
            let mut deaths = vec![Death::Kill, Death::PowerCut(self.random.next() % 10_000)];
            if self.random.one_in(8) {
                deaths.extend([Death::Remount, Death::KillUnknown, Death::MountLost(self.random.next() % 10_000)]);
            }
            for death in deaths {
                let at_least = if death.loses_unsynced() { self.synced } else { self.acknowledged };
                let disk = death.strike(&image.clone_disk());
                let nested = self.random.one_in(setting("ALLUVIUM_CRASH_RECOVERIES", 60));
                let checked = catch_unwind(AssertUnwindSafe(|| self.recover(disk, death, at_least, nested)));
                if let Err(panic) = checked {
                    println!("{place}, after {death}");
                    std::panic::resume_unwind(panic);
                }
            }
        }
        count
    }

    /// The state after a death is one of the history. If `nested`, the store also dies while it recovers and frees space.
    fn recover(&mut self, disk: SimulatedStorage, death: Death, at_least: usize, nested: bool) {
        self.tally.recoveries += 1;
        if nested {
            disk.record_crashes();
        }
        let db = open(&disk, death.options(false), self.tree).unwrap();
        let found = state_of(&db);
        let fits = self.history[at_least..].contains(&found);
        assert!(fits, "it holds no prefix of the writes, or one that is too short: {}", shown(&found));
        let is_dropped = |state: &State| !state.contains_key(NAMES[0]);
        let drops = self.history[at_least..].iter().any(is_dropped) && !self.history[at_least..].iter().all(is_dropped);
        self.tally.before_drops += u64::from(drops && !is_dropped(&found));
        self.tally.after_drops += u64::from(drops && is_dropped(&found));
        let before = db.stats().branch_bytes;
        self.expect_freed(&disk, &db, &found);
        let freed = before.saturating_sub(db.stats().branch_bytes);
        self.tally.freed += u64::from(is_dropped(&found) && freed > u64::from(FILLED) * KILOBYTE as u64 / 2);
        let points = disk.crash_points();
        // A keyspace with an earlier name is empty, and what it gets is there after another death.
        let (mut after, name) = (found.clone(), NAMES[0]);
        let next = own(&db, name);
        assert_eq!(pairs(&next), found.get(name).cloned().unwrap_or_default(), "a new keyspace has old keys");
        next.put("new", "1").unwrap();
        after.entry(name).or_default().insert(b"new".to_vec(), b"1".to_vec());
        let killed = disk.kill();
        drop((next, db));
        let db = open(&killed, options(), self.tree).unwrap();
        assert_eq!(state_of(&db), after, "after a kill of the recovered store");
        rest(&killed, &db);
        db.verify().unwrap();
        db.close().unwrap();
        let left = expect_sound_closed(&(Arc::new(killed) as Arc<dyn Storage>));
        assert!(left.is_empty(), "left on the disk: {left:?}");
        for point in points {
            let deaths = [Death::Kill, Death::PowerCut(self.random.next() % 10_000)];
            for death in deaths {
                self.tally.recoveries += 1;
                let disk = death.strike(&point.disk.clone_disk());
                let db = open(&disk, death.options(false), self.tree).unwrap();
                let again = state_of(&db);
                let at_least = if death.loses_unsynced() { self.synced } else { at_least };
                assert!(
                    again == found || self.history[at_least..].contains(&again),
                    "recovering, before: {} {}, after {death}: {}",
                    point.operation,
                    point.name,
                    shown(&again)
                );
                self.expect_freed(&disk, &db, &again);
            }
        }
    }

    /// If the keyspace was dropped, its space comes back without further calls.
    fn expect_freed(&self, disk: &SimulatedStorage, db: &DeterministicDb, found: &State) {
        rest(disk, db);
        assert_eq!(state_of(db), *found, "background work changed the contents");
        let bytes = db.stats().branch_bytes;
        if !found.contains_key(NAMES[0]) {
            assert!(bytes < self.ground_bytes / 4 * 3, "{} bytes before the drop, {bytes} after", self.ground_bytes);
        }
    }
}

/// A state for a message.
fn shown(state: &State) -> String {
    let shown = state.iter().map(|(name, contents)| {
        let small = contents.iter().filter(|(_, value)| value.len() < KILOBYTE);
        let small = small.map(|(key, value)| format!("{}={}", key.escape_ascii(), value.escape_ascii()));
        format!("{name}: {} keys, {}", contents.len(), small.collect::<Vec<_>>().join(" "))
    });
    shown.collect::<Vec<_>>().join("; ")
}

fn run(steps: &[Step], seed: u64, tree: Tree, tally: &mut Tally) {
    let done = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, tree, tally);
        for (at, step) in steps.iter().enumerate() {
            world.apply(*step, at);
        }
        let World { disk, db, .. } = world;
        rest(&disk, &db);
        db.verify().unwrap();
        db.close().unwrap();
        let left = expect_sound_closed(&(Arc::new(disk) as Arc<dyn Storage>));
        assert!(left.is_empty(), "left on the disk: {left:?}");
    }));
    if let Err(panic) = done {
        println!("seed {seed}, {tree:?}: {steps:?}");
        std::panic::resume_unwind(panic);
    }
}

/// All runs of some length that have a drop, a clear or a creation after a drop.
fn runs(length: u32) -> Vec<Vec<Step>> {
    let all = (0..ALPHABET.len().pow(length)).map(|number| {
        (0..length).map(|place| ALPHABET[number / ALPHABET.len().pow(place) % ALPHABET.len()]).collect::<Vec<_>>()
    });
    all.filter(|run| run.iter().any(|step| matches!(step, Step::Drop(_) | Step::Clear(_)))).collect()
}

#[test]
fn every_short_run_on_keyspaces_survives_deaths() {
    let first = setting("ALLUVIUM_SEED", 1);
    let length = setting("ALLUVIUM_CRASH_LENGTH", 2) as u32;
    let mut tally = Tally::default();
    for (tree, every) in [
        (Tree::Usual, 1),
        (Tree::Small { fanout: 3 }, 2),
        (Tree::Levels(Shape::Leveled), 4),
        (Tree::Levels(Shape::Tiered), 4),
        (Tree::Levels(Shape::Skip), 4),
    ] {
        for (at, steps) in runs(length).into_iter().enumerate().filter(|(at, _)| at % every == 0) {
            run(&steps, first + at as u64, tree, &mut tally);
        }
    }
    println!("{tally:?}");
    let Tally { before_drops, after_drops, in_freeing, freed, .. } = tally;
    let least = before_drops.min(after_drops).min(in_freeing).min(freed);
    assert!(least > 3, "too few deaths around a part: {tally:?}");
}

/// A keyspace that is created, written, dropped and created again.
#[test]
fn a_life_of_keyspaces_survives_deaths() {
    let first = setting("ALLUVIUM_SEED", 1);
    let steps = [
        Step::Drop(1),
        Step::Put(1),
        Step::Batch,
        Step::Drop(0),
        Step::Put(0),
        Step::Transaction,
        Step::Flush,
        Step::Drop(1),
        Step::Work,
        Step::Put(1),
        Step::Clear(0),
        Step::Batch,
        Step::Drop(0),
        Step::Sync,
        Step::Drop(1),
    ];
    let mut tally = Tally::default();
    for (at, tree) in [Tree::Usual, Tree::Small { fanout: 2 }, Tree::Levels(Shape::Skip)].into_iter().enumerate() {
        run(&steps, first + at as u64, tree, &mut tally);
    }
    println!("{tally:?}");
}
