//! Several keyspaces compared with a `BTreeMap` each: created, emptied, dropped and created again; in batches, transactions
//! and snapshots; over flushes, compactions, kills and openings. The keys are the same in all of them, so that a key that
//! goes to the wrong one shows.

use super::{Model, remove};
use crate::support::{Random, Words, expect_sound, expect_sound_closed, setting, tiny, tiny_levels, tiny_skip};
use crate::support::{tiny_skip_in_files, tiny_unsynced};
use alluvium::merge_operators::Append;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{PosixStorage, Storage};
use alluvium::{Db, Error, Keyspace, KeyspaceOptions, Options, ReadOnlyDb, Readable, Result, Snapshot, WriteBatch};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// In the order of the catalog. One begins like another one.
const NAMES: [&str; 4] = ["a", "ab", "b", "\u{10ffff}"];
/// The keyspace whose merge operator the store cannot find by itself.
const UNKNOWN_OPERATOR: &str = "b";
/// The number of the default keyspace.
const DEFAULT: u64 = 0;
const SNAPSHOTS_MAX: usize = 4;

/// What a store has. Each creation of a keyspace has a number.
#[derive(Clone, Default)]
struct State {
    names: BTreeMap<String, u64>,
    contents: BTreeMap<u64, Model>,
}

impl State {
    fn of(&self, number: u64) -> Model {
        self.contents.get(&number).cloned().unwrap_or_default()
    }

    fn names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    fn change(&mut self, number: u64) -> &mut Model {
        self.contents.entry(number).or_default()
    }

    fn apply(&mut self, number: u64, change: &Change) {
        let contents = self.change(number);
        match change {
            Change::Put(key, value) => _ = contents.insert(key.clone(), value.clone()),
            Change::Delete(key) => _ = contents.remove(key),
            Change::Merge(key, operand) => contents.entry(key.clone()).or_default().extend(operand),
            Change::DeleteRange(range) => remove(contents, range),
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    DeleteRange(Range<Vec<u8>>),
}

enum Disk {
    Simulated(SimulatedStorage),
    Real(tempfile::TempDir),
}

impl Disk {
    fn storage(&self) -> Arc<dyn Storage> {
        match self {
            Self::Simulated(disk) => Arc::new(disk.clone()),
            Self::Real(directory) => Arc::new(PosixStorage::new(directory.path())),
        }
    }
}

/// How often something happened that a run must have.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    drops: u64,
    clears: u64,
    kills: u64,
    /// Handles that were used after the drop of their keyspace.
    old_handles: u64,
    /// Reads of a keyspace that was dropped or created after the snapshot.
    past_reads: u64,
    failed_commits: u64,
}

struct World {
    disk: Disk,
    options: Options,
    db: Option<Db>,
    state: State,
    /// The handles of this opening, dropped ones too.
    handles: BTreeMap<u64, Keyspace>,
    snapshots: Vec<(Snapshot, State)>,
    next: u64,
    keys: u64,
    random: Random,
    seen: Seen,
}

impl World {
    fn new(disk: Disk, options: Options, seed: u64, keys: u64) -> Self {
        let options = options.merge_operator(Append);
        let db = Some(Db::open_with(disk.storage(), options.clone()).unwrap());
        let random = Random(seed);
        let (state, handles, snapshots, seen) = Default::default();
        Self { disk, options, db, state, handles, snapshots, next: DEFAULT + 1, keys, random, seen }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// The options with which a keyspace is created.
    fn options_of(name: &str) -> KeyspaceOptions {
        match name {
            UNKNOWN_OPERATOR => KeyspaceOptions::new().merge_operator(Words),
            _ => KeyspaceOptions::new().merge_operator(Append),
        }
    }

    fn handle(&mut self, number: u64) -> Keyspace {
        if let Some(handle) = self.handles.get(&number) {
            return handle.clone();
        }
        let handle = if number == DEFAULT {
            Keyspace::clone(self.db())
        } else {
            let name = self.state.names.iter().find(|(_, own)| **own == number).unwrap().0.clone();
            let may_leave_out = name != UNKNOWN_OPERATOR && self.random.one_in(2);
            let options = if may_leave_out { KeyspaceOptions::new() } else { Self::options_of(&name) };
            self.db().keyspace(&name, options).unwrap()
        };
        self.handles.insert(number, handle.clone());
        handle
    }

    /// One of the keyspaces that are there.
    fn number(&mut self) -> u64 {
        let numbers: Vec<u64> = [DEFAULT].into_iter().chain(self.state.names.values().copied()).collect();
        numbers[self.random.below(numbers.len() as u64) as usize]
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.random.below(NAMES.len() as u64) as usize]
    }

    /// Also keys at the borders of a keyspace.
    fn key(&mut self) -> Vec<u8> {
        let number = self.random.below(self.keys);
        match number % 16 {
            0 if number == 0 => Vec::new(),
            1 => [&[0xff; 5][..], &number.to_be_bytes()].concat(),
            2 => number.to_be_bytes().to_vec(),
            _ => format!("key{number:06}").into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.below(400) {
            0 => 0,
            1 => 20_000,
            2 => 270_000,
            n => n as usize,
        };
        self.random.next().to_le_bytes().into_iter().cycle().take(length).collect()
    }

    /// Not empty.
    fn range(&mut self, number: u64) -> Range<Vec<u8>> {
        let start = self.key();
        let next =
            self.state.of(number).range(start.clone()..).nth(self.random.below(12) as usize).map(|pair| pair.0.clone());
        let end = next.filter(|next| *next > start).unwrap_or_else(|| [&start[..], &[0]].concat());
        start..end
    }

    fn change(&mut self, number: u64) -> Change {
        match self.random.below(20) {
            0..12 => Change::Put(self.key(), self.value()),
            12..16 => Change::Delete(self.key()),
            16..19 => {
                let (key, length) = (self.key(), 3 + self.random.below(40) as usize);
                Change::Merge(key, self.random.bytes(length))
            }
            _ => Change::DeleteRange(self.range(number)),
        }
    }

    fn step(&mut self) {
        match self.random.below(1000) {
            0..400 => self.write_one(),
            400..500 => self.batch(),
            500..560 => self.transaction(),
            560..760 => self.get(),
            760..800 => self.scan(),
            800..820 => {
                let snapshot = self.db().snapshot();
                self.snapshots.push((snapshot, self.state.clone()));
                if self.snapshots.len() > SNAPSHOTS_MAX {
                    let gone = self.random.below(self.snapshots.len() as u64) as usize;
                    self.snapshots.swap_remove(gone);
                }
            }
            820..860 => self.create(),
            860..866 => self.clear(),
            866..874 => self.drop(),
            874..940 => self.use_old_handle(),
            940..960 => self.read_the_past(),
            960..975 => assert_eq!(self.db().keyspace_names().unwrap(), self.state.names()),
            975..978 => self.db().flush().unwrap(),
            978..979 => self.db().compact().unwrap(),
            979..982 => {
                let number = self.number();
                let (handle, range) = (self.handle(number), self.range(number));
                handle.compact_range(range).unwrap();
            }
            982..984 => {
                let number = self.number();
                self.handle(number).optimize(..).unwrap();
            }
            984..988 => self.db().sync().unwrap(),
            988..990 => self.read_only(),
            990..993 => self.reopen(),
            _ => assert!(self.db().stats().failure.is_none()),
        }
    }

    fn write_one(&mut self) {
        let number = self.number();
        let (handle, change) = (self.handle(number), self.change(number));
        match &change {
            Change::Put(key, value) => handle.put(key, value).unwrap(),
            Change::Delete(key) => handle.delete(key).unwrap(),
            Change::Merge(key, operand) => handle.merge(key, operand).unwrap(),
            Change::DeleteRange(range) => handle.delete_range(range.clone()).unwrap(),
        }
        self.state.apply(number, &change);
    }

    /// Changes of several keyspaces.
    fn changes(&mut self) -> Vec<(u64, Change)> {
        let changes = self.random.below(12);
        (0..changes)
            .map(|_| {
                let number = self.number();
                (number, self.change(number))
            })
            .collect()
    }

    fn batch(&mut self) {
        let (changes, mut batch) = (self.changes(), WriteBatch::new());
        for (number, change) in &changes {
            let handle = self.handle(*number);
            let mut within = batch.within(&handle);
            match change {
                Change::Put(key, value) => within.put(key, value),
                Change::Delete(key) => within.delete(key),
                Change::Merge(key, operand) => within.merge(key, operand),
                Change::DeleteRange(range) => within.delete_range(range.clone()),
            };
        }
        self.db().write(batch).unwrap();
        changes.iter().for_each(|(number, change)| self.state.apply(*number, change));
    }

    /// Reads what it has written. Sometimes one of its keyspaces is dropped before its commit, which then changes nothing.
    fn transaction(&mut self) {
        let (changes, transaction) = (self.changes(), self.db().transaction().unwrap());
        let (mut own, reads) = (self.state.clone(), self.random.one_in(2));
        for (number, change) in &changes {
            let handle = self.handle(*number);
            let within = transaction.within(&handle).unwrap();
            match change {
                Change::Put(key, value) => within.put(key, value).unwrap(),
                Change::Delete(key) => within.delete(key).unwrap(),
                Change::Merge(key, operand) => within.merge(key, operand).unwrap(),
                Change::DeleteRange(range) => within.delete_range(range.clone()).unwrap(),
            }
            own.apply(*number, change);
            if reads {
                let key = self.key();
                assert_eq!(within.get(&key).unwrap().as_ref(), own.of(*number).get(&key), "a transaction's get");
            }
        }
        if let Some((number, _)) = changes.first()
            && reads
            && self.random.one_in(3)
        {
            let handle = self.handle(*number);
            check(&transaction.within(&handle).unwrap(), &own.of(*number));
        }
        let written = changes.first().map_or(DEFAULT, |(number, _)| *number);
        if written != DEFAULT && self.random.one_in(6) {
            self.drop_one(written);
            let error = transaction.commit().expect_err(&format!("a write after the drop: {changes:?}"));
            // A merge may read, too.
            let may_conflict = reads || changes.iter().any(|(_, change)| matches!(change, Change::Merge(..)));
            let is_conflict = matches!(error, Error::Conflict { .. });
            assert!(is_conflict && may_conflict || matches!(error, Error::KeyspaceDropped { .. }), "{error}");
            self.seen.failed_commits += 1;
        } else if self.random.one_in(6) {
            transaction.rollback();
        } else {
            transaction.commit().unwrap();
            self.state = own;
        }
    }

    fn get(&mut self) {
        let (number, key) = (self.number(), self.key());
        let handle = self.handle(number);
        let wanted = self.state.of(number);
        assert_eq!(handle.get(&key).unwrap().as_ref(), wanted.get(&key), "a get shows another value: {key:?}");
        assert_eq!(handle.contains_key(&key).unwrap(), wanted.contains_key(&key), "{key:?}");
        let keys = [key, self.key(), self.key()];
        let found = handle.multi_get(&keys).unwrap();
        assert!(found.iter().map(Option::as_ref).eq(keys.iter().map(|key| wanted.get(key))), "a multi-get: {keys:?}");
    }

    fn scan(&mut self) {
        let number = self.number();
        let handle = self.handle(number);
        check(&handle, &self.state.of(number));
    }

    fn create(&mut self) {
        let name = self.name();
        let handle = self.db().keyspace(name, Self::options_of(name)).unwrap();
        let number = *self.state.names.entry(name.to_owned()).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        assert_eq!(handle.is_empty().unwrap(), self.state.of(number).is_empty(), "{name:?} has what is not its own");
        self.handles.insert(number, handle);
    }

    fn clear(&mut self) {
        let number = self.number();
        self.handle(number).clear().unwrap();
        self.state.change(number).clear();
        self.seen.clears += 1;
    }

    fn drop(&mut self) {
        let name = self.name();
        match self.state.names.get(name) {
            Some(number) => self.drop_one(*number),
            None => assert!(!self.db().drop_keyspace(name).unwrap()),
        }
    }

    fn drop_one(&mut self, number: u64) {
        let name = self.state.names.iter().find(|(_, own)| **own == number).unwrap().0.clone();
        assert!(self.db().drop_keyspace(&name).unwrap());
        self.state.names.remove(&name);
        self.state.contents.remove(&number);
        self.seen.drops += 1;
    }

    /// A handle of a dropped keyspace writes and reads nothing, whatever has its name now.
    fn use_old_handle(&mut self) {
        let is_old = |number: &&u64| **number != DEFAULT && !self.state.names.values().any(|own| own == *number);
        let Some(handle) = self.handles.keys().find(is_old).map(|number| self.handles[number].clone()) else { return };
        let key = self.key();
        expect_dropped(handle.get(&key));
        expect_dropped(handle.put(&key, "x"));
        expect_dropped(handle.iter());
        expect_dropped(handle.clear());
        let number = self.number();
        let (live, mut batch) = (self.handle(number), WriteBatch::new());
        batch.put(&key, "x").within(&live).put(&key, "x");
        batch.within(&handle).put(&key, "x");
        expect_dropped(self.db().write(batch));
        expect_dropped(self.db().transaction().unwrap().within(&handle));
        self.seen.old_handles += 1;
    }

    /// A snapshot has the keyspaces and the contents of its moment, found by name and by handle.
    fn read_the_past(&mut self) {
        if self.snapshots.is_empty() {
            return;
        }
        let (snapshot, then) = &self.snapshots[self.random.below(self.snapshots.len() as u64) as usize];
        assert_eq!(snapshot.keyspace_names().unwrap(), then.names());
        for name in NAMES {
            match (snapshot.keyspace(name).unwrap(), then.names.get(name)) {
                (Some(found), Some(number)) => check(&found, &then.of(*number)),
                (None, None) => {}
                (found, number) => panic!("{name:?}: {:?}, {number:?}", found.is_some()),
            }
        }
        for (number, handle) in &self.handles {
            check(&snapshot.within(handle).unwrap(), &then.of(*number));
            let is_there = self.state.names.values().any(|own| own == number);
            let was_there = then.names.values().any(|own| own == number);
            self.seen.past_reads += u64::from(*number != DEFAULT && is_there != was_there);
        }
    }

    fn read_only(&mut self) {
        let reader = ReadOnlyDb::open_with(self.disk.storage(), self.options.clone()).unwrap();
        assert_eq!(reader.keyspace_names().unwrap(), self.state.names());
        check(&reader, &self.state.of(DEFAULT));
        for (name, number) in &self.state.names {
            let own = reader.keyspace(name, Self::options_of(name)).unwrap().unwrap();
            check(&own, &self.state.of(*number));
        }
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        self.handles.clear();
        let db = self.db.take().unwrap();
        let kills = self.random.one_in(3);
        match &mut self.disk {
            Disk::Simulated(disk) if kills => {
                *disk = disk.kill();
                drop(db);
                self.seen.kills += 1;
            }
            _ if self.random.one_in(2) => db.close().unwrap(),
            _ => drop(db),
        }
        self.db = Some(Db::open_with(self.disk.storage(), self.options.clone()).unwrap());
        assert_eq!(self.db().keyspace_names().unwrap(), self.state.names(), "other keyspaces after an opening");
        // Its operands cannot be read before.
        if let Some(number) = self.state.names.get(UNKNOWN_OPERATOR) {
            self.handle(*number);
        }
    }

    fn check_all(&mut self) {
        assert_eq!(self.db().keyspace_names().unwrap(), self.state.names());
        let numbers: Vec<u64> = [DEFAULT].into_iter().chain(self.state.names.values().copied()).collect();
        for number in numbers {
            let (handle, wanted) = (self.handle(number), self.state.of(number));
            check(&handle, &wanted);
            for (key, value) in &wanted {
                assert_eq!(handle.get(key).unwrap().as_ref(), Some(value), "a get shows another value");
            }
        }
        self.read_the_past();
    }
}

fn expect_dropped<T>(result: Result<T>) {
    let error = result.err();
    assert!(matches!(error, Some(Error::KeyspaceDropped { .. })), "a dropped keyspace is used: {error:?}");
}

/// Scans in both directions.
fn check(reader: &impl Readable, wanted: &Model) {
    let forward: Vec<_> = reader.iter().unwrap().map(Result::unwrap).collect();
    assert!(forward.iter().map(|(key, value)| (key, value)).eq(wanted), "a scan shows other pairs");
    let backward: Vec<_> = reader.iter().unwrap().rev().map(Result::unwrap).collect();
    assert!(backward.iter().rev().eq(&forward), "a scan backwards shows other pairs");
}

fn run(disk: Disk, options: Options, seed: u64) -> Seen {
    println!("seed {seed}, {:?}", options.disk_component);
    let (keys, steps) = ([60, 1500][seed as usize % 2], 3000);
    let mut world = World::new(disk, options, seed, keys);
    for step in 0..steps {
        world.step();
        if step % 1000 == 999 {
            world.check_all();
        }
    }
    world.db().flush().unwrap();
    world.db().settle().unwrap();
    world.check_all();
    expect_sound(world.db());
    world.reopen();
    world.check_all();
    world.handles.clear();
    world.db.take().unwrap().close().unwrap();
    expect_sound_closed(&world.disk.storage());
    world.seen
}

#[test]
fn random_operations_on_keyspaces() {
    let first = setting("ALLUVIUM_SEED", 401);
    let seeds = setting("ALLUVIUM_SEEDS", 10);
    let mut total = Seen::default();
    for seed in first..first + seeds {
        let options = match seed % 5 {
            0 => tiny(),
            1 => tiny().disk_component(tiny_levels(1)),
            2 => tiny_unsynced().disk_component(tiny_levels(3)),
            3 => tiny().disk_component(tiny_skip()),
            _ => tiny_unsynced().disk_component(tiny_skip_in_files()),
        };
        let seen = run(Disk::Simulated(SimulatedStorage::new(seed)), options, seed);
        total.drops += seen.drops;
        total.clears += seen.clears;
        total.kills += seen.kills;
        total.old_handles += seen.old_handles;
        total.past_reads += seen.past_reads;
        total.failed_commits += seen.failed_commits;
    }
    println!("{total:?}");
    let Seen { drops, clears, kills, old_handles, past_reads, failed_commits } = total;
    let least = drops.min(clears).min(kills).min(old_handles).min(past_reads).min(failed_commits);
    assert!(seeds < 10 || least > 0, "a part was not tested: {total:?}");
}

#[test]
fn random_operations_on_keyspaces_on_a_real_disk() {
    let first = setting("ALLUVIUM_SEED", 501);
    for seed in first..first + setting("ALLUVIUM_SEEDS", 2) {
        run(Disk::Real(tempfile::tempdir().unwrap()), tiny(), seed);
    }
}
