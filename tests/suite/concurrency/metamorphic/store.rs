//! A store that applies the operations of a run with its own settings, and does other work between them.

mod copies;
mod neighbours;
mod staged;
mod transactions;

use super::model::{chosen, ordered, prefix};
use super::operation::{Answer, Bounds, Drawn, Expected, Key, Move, Operation, Value, altered, key};
use super::settings::Settings;
use crate::support::{Random, Words, expect_sound, expect_sound_closed, tiny_levels, tiny_skip, tiny_skip_in_files};
use alluvium::internals::{DeterministicDb, TrunkOptions, open_tuned};
use alluvium::merge_operators::Append;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{MemoryStorage, PosixStorage, Storage};
use alluvium::{
    BackgroundPause, BatchKeyspace, Cancellation, ChangeRetention, CompactOptions, Db, DiskComponent, Error, Goal,
    Iter, Keyspace, MergeOperator, ReadOnlyDb, Snapshot, Stats, Swap, WriteBatch, WriteOptions,
};
use copies::Follower;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::ops::Deref;
use std::sync::Arc;

/// The disk of the store's files.
enum Disk {
    /// The flag says whether the log is written through mappings.
    Simulated(SimulatedStorage, bool),
    Real(tempfile::TempDir),
    Memory(MemoryStorage),
}

enum Opened {
    Deterministic(DeterministicDb),
    Threads(Db),
}

impl Deref for Opened {
    type Target = Db;

    fn deref(&self) -> &Db {
        match self {
            Self::Deterministic(db) => db,
            Self::Threads(db) => db,
        }
    }
}

/// Figures that show whether a run reaches all parts of the store.
#[derive(Default)]
pub struct Seen {
    pub levels: usize,
    pub maplets: usize,
    pub incorporations: u64,
}

impl Seen {
    fn note(&mut self, stats: &Stats) {
        self.levels = self.levels.max(stats.levels.len());
        self.incorporations += stats.incorporations;
    }
}

/// See the module.
pub struct Store {
    seed: u64,
    is_deterministic: bool,
    disk: Disk,
    settings: Settings,
    /// Fixed at the creation.
    component: Option<DiskComponent>,
    operator: Arc<dyn MergeOperator>,
    /// The keyspace in which the operations are done, fixed at the creation, and its handle.
    home_name: &'static str,
    home: Option<Keyspace>,
    // Dropped before the store, as callers do.
    iterators: Vec<Iter>,
    snapshots: Vec<Snapshot>,
    pause: Option<BackgroundPause>,
    db: Option<Opened>,
    /// A copy that follows the change stream, if the store keeps one.
    follower: Option<Follower>,
    /// Whether there was a reader, which delays the removal of obsolete files.
    had_reader: bool,
    pub seen: Seen,
}

impl Store {
    /// Opens the store with this number of a run.
    pub fn open(seed: u64, number: u64) -> Self {
        let seed = seed.wrapping_mul(1000) + number;
        let mut random = Random(seed);
        let is_deterministic = number < super::STORES / 2;
        // Rarely, since a real disk takes ten times as long.
        let disk = if number == super::STORES - 1 && random.one_in(4) {
            Disk::Real(tempfile::tempdir().unwrap())
        } else if number == super::STORES - 1 && random.one_in(3) {
            Disk::Memory(MemoryStorage::new())
        } else {
            let (disk, mapped) = (SimulatedStorage::new(seed), !random.one_in(3));
            disk.set_maps_safely(mapped);
            Disk::Simulated(disk, mapped)
        };
        // Fixed at the creation, too.
        let operator: Arc<dyn MergeOperator> = if seed.is_multiple_of(2) { Arc::new(Append) } else { Arc::new(Words) };
        let settings = disk.settings(&mut random, &operator);
        let levels = [tiny_levels(1), tiny_levels(2), tiny_levels(4), tiny_skip(), tiny_skip_in_files()];
        let levels = levels[random.below(5) as usize].clone();
        let component = random.one_in(2).then_some(levels);
        let home_name = ["default", "home"][random.below(2) as usize];
        let mut store = Self {
            seed,
            is_deterministic,
            disk,
            settings,
            operator,
            component,
            home_name,
            home: None,
            iterators: Vec::new(),
            snapshots: Vec::new(),
            pause: None,
            db: None,
            follower: None,
            had_reader: false,
            seen: Seen::default(),
        };
        store.start();
        store
    }

    fn start(&mut self) {
        self.had_reader = false;
        let (storage, mut options) = (self.disk.storage(), self.settings.options.clone());
        if self.keeps_changes() {
            options.change_retention = Some(ChangeRetention::new(1 << 30));
        }
        options.disk_component.clone_from(&self.component);
        let tune = |options: &mut TrunkOptions| self.settings.tune(options);
        self.db = Some(if self.is_deterministic {
            Opened::Deterministic(DeterministicDb::open_tuned(storage, options, self.settings.small, tune).unwrap())
        } else {
            Opened::Threads(open_tuned(storage, options, self.settings.small, tune).unwrap())
        });
        self.home = Some(self.open_home());
    }

    fn db(&self) -> &Opened {
        self.db.as_ref().unwrap()
    }

    fn home(&self) -> &Keyspace {
        self.home.as_ref().unwrap()
    }

    /// The current settings.
    pub fn settings(&self) -> String {
        let how = if self.is_deterministic { "without threads" } else { "with threads" };
        let disk = match &self.disk {
            Disk::Simulated(_, mapped) => format!("on a simulated disk (log mapped: {mapped})"),
            Disk::Real(_) => "on a real disk".into(),
            Disk::Memory(_) => "in memory".into(),
        };
        let home = self.home_name;
        format!("{how}, {disk}, in the keyspace {home:?}, {:?}, {}", self.component, self.settings)
    }

    /// Random numbers for an operation, independent of the other operations.
    fn random(&self, id: u64) -> Random {
        let mut random = Random(self.seed ^ id.wrapping_mul(0x2545_f491_4f6c_dd1d));
        random.next();
        random
    }

    /// Does work before an operation that may not change any answer.
    pub fn disturb(&mut self, id: u64) {
        let mut random = self.random(id);
        match random.below(60) {
            0 if self.pause.is_none() => self.pause = Some(self.db().pause_background()),
            0..4 => self.pause = None,
            4 => {
                // With threads, the time is real.
                let least = if self.is_deterministic { 40 << 10 } else { 16 << 20 };
                self.db().set_background_write_limit(Some(least << random.below(4))).unwrap();
            }
            5 => self.db().set_background_write_limit(None).unwrap(),
            6 => self.db().flush().unwrap(),
            7 => {
                let cancellation = Cancellation::new();
                cancellation.cancel();
                let options = CompactOptions::new().goal(Goal::Space).cancellation(cancellation);
                let refused = self.home().compact_with(.., &options, &mut |_| ());
                assert!(matches!(refused, Ok(_) | Err(Error::Cancelled)), "{refused:?}");
            }
            8 => expect_sound(self.db()),
            9..13 => self.disturb_neighbours(&mut random),
            _ => {}
        }
        if let Opened::Deterministic(db) = self.db() {
            if let Disk::Simulated(disk, _) = &self.disk {
                disk.advance(std::time::Duration::from_micros(random.below(10_000)));
            }
            for _ in 0..random.below(4) {
                db.step();
            }
        }
    }

    pub fn apply(&mut self, drawn: &Drawn) -> Answer {
        match &drawn.operation {
            Operation::Put(number, value) => self.home().put(key(*number), value.bytes()).unwrap(),
            Operation::Delete(number) => self.home().delete(key(*number)).unwrap(),
            Operation::Merge(number, operand) => self.home().merge(key(*number), operand.bytes()).unwrap(),
            Operation::MergeBatch(before, changes, after) => {
                let mut batch = WriteBatch::new();
                let mut within = batch.within(self.home());
                before.iter().for_each(|(number, operand)| _ = within.merge(key(*number), operand.bytes()));
                add(&mut within, changes);
                after.iter().for_each(|(number, operand)| _ = within.merge(key(*number), operand.bytes()));
                self.db().write(batch).unwrap();
            }
            Operation::Batch(changes) => {
                let mut batch = WriteBatch::new();
                add(&mut batch.within(self.home()), changes);
                self.db().write(batch).unwrap();
            }
            Operation::DeleteRange(Bounds::Prefix(number)) => self.home().delete_prefix(prefix(*number)).unwrap(),
            Operation::DeleteRange(bounds) => self.home().delete_range(range_of(*bounds)).unwrap(),
            Operation::Empty => self.empty(drawn.id),
            Operation::Replace(before, bounds, after) => {
                let mut batch = WriteBatch::new();
                let mut within = batch.within(self.home());
                add(&mut within, before);
                match bounds {
                    Bounds::Prefix(number) => within.delete_prefix(prefix(*number)),
                    _ => within.delete_range(range_of(*bounds)),
                };
                add(&mut within, after);
                self.db().write(batch).unwrap();
            }
            Operation::Update(number, value) => {
                let change = |old: Option<&[u8]>| altered(old, *value);
                let given = self.home().update_with(key(*number), WriteOptions::default(), change);
                return Answer::Values(vec![given.unwrap()]);
            }
            Operation::CompareAndSwap(number, expected, new) => {
                let expected = match expected {
                    Expected::Absent => None,
                    Expected::Current => self.home().get(key(*number)).unwrap(),
                    Expected::Some(value) => Some(value.bytes()),
                };
                let new = new.map(|value| value.bytes());
                match self.home().compare_and_swap(key(*number), expected.as_deref(), new.as_deref()).unwrap() {
                    Swap::Done => {}
                    Swap::Differs(found) => return Answer::Values(vec![found]),
                }
            }
            Operation::PutIfAbsent(number, value) => {
                return Answer::Is(self.home().put_if_absent(key(*number), value.bytes()).unwrap());
            }
            Operation::Transaction(actions, ending) => {
                return transactions::run(self.db(), self.home(), actions, *ending);
            }
            Operation::Staged(actions, commits, memory) => {
                return staged::run(self.db(), self.home(), actions, *commits, *memory);
            }
            Operation::Ingest(pairs) => {
                let sorted: BTreeMap<_, _> =
                    pairs.iter().map(|(number, value)| (key(*number), value.bytes())).collect();
                let mut ingest = self.home().ingest().unwrap();
                ingest.put_all(&sorted).unwrap();
                // It may wait for an incorporation.
                self.pause = None;
                ingest.commit().unwrap();
            }
            Operation::Get(number) => return Answer::Values(vec![self.home().get(key(*number)).unwrap()]),
            Operation::MultiGet(numbers) => return Answer::Values(self.home().multi_get(&keys(numbers)).unwrap()),
            Operation::Snapshot => self.snapshots.push(self.snapshot_of_home(drawn.id)),
            Operation::DropSnapshot(which) => {
                if let Some(at) = chosen(*which, self.snapshots.len()) {
                    self.snapshots.remove(at);
                }
            }
            Operation::GetAt(which, number) => {
                let found = match self.snapshot(Some(*which)) {
                    Some(snapshot) => snapshot.get(key(*number)),
                    None => self.home().get(key(*number)),
                };
                return Answer::Values(vec![found.unwrap()]);
            }
            Operation::MultiGetAt(which, numbers) => {
                let found = match self.snapshot(Some(*which)) {
                    Some(snapshot) => snapshot.multi_get(&keys(numbers)),
                    None => self.home().multi_get(&keys(numbers)),
                };
                return Answer::Values(found.unwrap());
            }
            Operation::Iterate(which, bounds) => {
                let iterator = self.iterate(*which, *bounds);
                self.iterators.push(iterator);
            }
            Operation::Move(which, moves) => {
                let at = chosen(*which, self.iterators.len());
                return Answer::Positions(at.map_or_else(Vec::new, |at| moved(&mut self.iterators[at], moves)));
            }
            Operation::DropIterator(which) => {
                if let Some(at) = chosen(*which, self.iterators.len()) {
                    self.iterators.remove(at);
                }
            }
            Operation::Scan(which, backwards) => {
                let iterator = self.iterate(*which, Bounds::All);
                let pairs: Result<_, _> = if *backwards { iterator.rev().collect() } else { iterator.collect() };
                return Answer::Pairs(pairs.unwrap());
            }
            Operation::ReadOnly => {
                self.had_reader = true;
                let reader = ReadOnlyDb::open_with(self.disk.storage(), self.settings.options.clone()).unwrap();
                let reader = reader.keyspace(self.home_name, self.home_options()).unwrap().unwrap();
                return Answer::Pairs(reader.iter().unwrap().map(|pair| pair.unwrap()).collect());
            }
            Operation::Checkpoint => return self.scan_of_checkpoint(drawn.id),
            Operation::Follow => return self.scan_of_follower(),
            Operation::Flush => self.db().flush().unwrap(),
            Operation::Settle => self.settle(),
            Operation::Sync => self.db().sync().unwrap(),
            Operation::CompactRange(one, other) => {
                // Compaction waits for the end of a pause.
                self.pause = None;
                self.home().compact_range(ordered(*one, *other)).unwrap();
            }
            Operation::Optimize(one, other) => {
                self.pause = None;
                self.home().optimize(ordered(*one, *other)).unwrap();
            }
            Operation::Compact => {
                self.pause = None;
                self.db().compact().unwrap();
            }
            Operation::Reopen => self.reopen(drawn.id),
        }
        Answer::Done
    }

    fn snapshot(&self, which: Option<usize>) -> Option<&Snapshot> {
        which.and_then(|which| chosen(which, self.snapshots.len())).map(|at| &self.snapshots[at])
    }

    fn iterate(&self, which: Option<usize>, bounds: Bounds) -> Iter {
        let iterator = match (self.snapshot(which), bounds) {
            (Some(snapshot), Bounds::All) => snapshot.iter(),
            (None, Bounds::All) => self.home().iter(),
            (Some(snapshot), Bounds::Prefix(number)) => snapshot.prefix(prefix(number)),
            (None, Bounds::Prefix(number)) => self.home().prefix(prefix(number)),
            (Some(snapshot), Bounds::Range(lower, upper)) => snapshot.range((lower.map(key), upper.map(key))),
            (None, Bounds::Range(lower, upper)) => self.home().range((lower.map(key), upper.map(key))),
        };
        iterator.unwrap()
    }

    fn settle(&mut self) {
        self.db().settle().unwrap();
        self.seen.levels = self.seen.levels.max(self.db().stats().levels.len());
        let names = self.disk.storage().list().unwrap();
        self.seen.maplets += names.iter().filter(|name| name.ends_with(".maplet")).count();
    }

    /// Ends the store without losing anything, and reopens it with other settings.
    fn reopen(&mut self, id: u64) {
        let mut random = self.random(id ^ 0xdead);
        self.stop(&mut random);
        self.settings = self.disk.settings(&mut random, &self.operator);
        self.start();
    }

    fn stop(&mut self, random: &mut Random) {
        self.iterators.clear();
        self.snapshots.clear();
        self.pause = None;
        self.home = None;
        match &mut self.disk {
            Disk::Simulated(disk, _) if random.one_in(3) => {
                *disk = disk.kill();
                // The old store still works for a moment, on a disk that no longer exists.
                self.db = None;
            }
            _ if random.one_in(2) => drop(self.close()),
            // Dropped, without the last sync of a close.
            _ => self.db = None,
        }
    }

    /// Returns the unreferenced files.
    fn close(&mut self) -> Vec<String> {
        self.home = None;
        let db = self.db.take().unwrap();
        self.seen.note(&db.stats());
        match db {
            Opened::Deterministic(db) => db.close().unwrap(),
            Opened::Threads(db) => db.close().unwrap(),
        }
        expect_sound_closed(&self.disk.storage())
    }

    /// Checks everything after background work has finished, with the store open and closed.
    pub fn end(&mut self) {
        self.iterators.clear();
        self.snapshots.clear();
        self.pause = None;
        self.db().flush().unwrap();
        self.settle();
        expect_sound(self.db());
        let unreferenced = self.close();
        assert!(unreferenced.is_empty() || self.had_reader, "left on the disk: {unreferenced:?}");
    }
}

impl Disk {
    fn storage(&self) -> Arc<dyn Storage> {
        match self {
            Self::Simulated(disk, _) => Arc::new(disk.clone()),
            Self::Real(directory) => Arc::new(PosixStorage::new(directory.path())),
            Self::Memory(storage) => Arc::new(storage.clone()),
        }
    }

    fn settings(&self, random: &mut Random, operator: &Arc<dyn MergeOperator>) -> Settings {
        let mut settings = Settings::draw(random);
        settings.options.merge_operator = Some(Arc::clone(operator));
        settings
    }
}

fn keys(numbers: &[Key]) -> Vec<Vec<u8>> {
    numbers.iter().map(|number| key(*number)).collect()
}

fn moved(iterator: &mut Iter, moves: &[Move]) -> Vec<Option<(Vec<u8>, Vec<u8>)>> {
    let pair = |iterator: &Iter| iterator.pair().map(|(key, value)| (key.to_vec(), value.to_vec()));
    let mut stood = vec![pair(iterator)];
    for going in moves {
        match going {
            Move::First => iterator.seek_first(),
            Move::Last => iterator.seek_last(),
            Move::Seek(number) => iterator.seek(key(*number)),
            Move::SeekForPrev(number) => iterator.seek_for_prev(key(*number)),
            Move::Step | Move::StepBack if !iterator.valid() => continue,
            Move::Step => iterator.step(),
            Move::StepBack => iterator.step_back(),
        }
        .unwrap();
        stood.push(pair(iterator));
    }
    stood
}

fn add(batch: &mut BatchKeyspace<'_>, changes: &[(Key, Option<Value>)]) {
    for (number, value) in changes {
        match value {
            Some(value) => batch.put(key(*number), value.bytes()),
            None => batch.delete(key(*number)),
        };
    }
}

/// The range of bounds that are no prefix.
fn range_of(bounds: Bounds) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    match bounds {
        Bounds::Range(lower, upper) => (lower.map(key), upper.map(key)),
        Bounds::All | Bounds::Prefix(_) => (Bound::Unbounded, Bound::Unbounded),
    }
}
