//! The store compared with a `BTreeMap`: random operations, batches, snapshots, iterators in both directions, flushes
//! and reopening. The budgets are so small that the trunk grows to three levels. A failure prints its seed;
//! `ALLUVIUM_SEED` and `ALLUVIUM_SEEDS` choose other seeds.

use crate::support::{Random, Words, setting, tiny, tiny_levels, tiny_skip, tiny_skip_in_files};
use alluvium::internals::open_tuned;
use alluvium::merge_operators::Append;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{MemoryStorage, PosixStorage, Storage};
use alluvium::{Compression, Db, DiskComponent, Iter, LevelsOptions, Options, Snapshot, WriteBatch};
use std::collections::BTreeMap;
use std::sync::Arc;

mod keyspaces;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct World {
    storage: Arc<dyn Storage>,
    options: Options,
    db: Option<Db>,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
    keys: u64,
    /// Not in every store: runs with range tombstones get no maplets.
    deletes_ranges: bool,
    merges: bool,
    random: Random,
    seen: Seen,
}

/// What a store had, to show that it was tested.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    maplets: usize,
    /// Bytes that waited in memory when it was opened, and those that came and went otherwise.
    rebuilt_bytes: u64,
    buffered_bytes: u64,
    checkpoint_bytes: u64,
}

/// A limit of two probes, so that a store with maplets has many.
fn open(storage: &Arc<dyn Storage>, options: &Options) -> Db {
    open_tuned(Arc::clone(storage), options.clone(), false, |tree| tree.probes_max = 2).unwrap()
}

impl World {
    fn new(storage: Arc<dyn Storage>, seed: u64, keys: u64) -> Self {
        Self::with(storage, seed, keys, None)
    }

    fn with(storage: Arc<dyn Storage>, seed: u64, keys: u64, disk_component: Option<DiskComponent>) -> Self {
        let mut random = Random(seed);
        let compressions = [Compression::None, Compression::None, Compression::Lz4, Compression::Zstd];
        let compression = compressions[random.below(4) as usize];
        let deep = random.one_in(3).then(|| compressions[random.below(4) as usize]);
        let options = tiny()
            .compression(compression)
            .deep_compression(deep)
            .maplets(random.one_in(2))
            .disk_component(disk_component);
        let options = match seed / 2 % 3 {
            0 => options,
            1 => options.merge_operator(Append),
            _ => options.merge_operator(Words),
        };
        let merges = options.merge_operator.is_some();
        let db = Some(open(&storage, &options));
        let (model, snapshots, seen) = (Model::new(), Vec::new(), Seen::default());
        let deletes_ranges = seed.is_multiple_of(2);
        Self { storage, options, db, model, snapshots, keys, deletes_ranges, merges, random, seen }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// Keys of several shapes: short ones, with long shared prefixes, a few very long ones, and the empty key.
    fn key(&mut self) -> Vec<u8> {
        let number = self.random.below(self.keys);
        match number % 16 {
            0 if number == 0 => Vec::new(),
            1 => format!("https://example.invalid/a/long/common/path/{number:08}").into_bytes(),
            2 if number % 97 == 2 => vec![number as u8; 3000 + number as usize % 500],
            3 => number.to_be_bytes().to_vec(),
            _ => format!("key{number:06}").into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.below(400) {
            0 => 0,
            1 => 20_000,
            2 => 270_000 + self.random.below(1000) as usize,
            n => n as usize,
        };
        let stamp = self.random.next().to_le_bytes();
        stamp.iter().copied().cycle().take(length).collect()
    }

    fn operand(&mut self) -> Vec<u8> {
        let length = [3, 40, 3000][self.random.below(20) as usize / 9];
        self.random.bytes(length)
    }

    fn step(&mut self) {
        match self.random.below(1000) {
            0..200 if self.merges => {
                let (key, operand) = (self.key(), self.operand());
                self.db().merge(&key, &operand).unwrap();
                self.model.entry(key).or_default().extend(operand);
            }
            0..500 => {
                let (key, value) = (self.key(), self.value());
                self.db().put(&key, &value).unwrap();
                self.model.insert(key, value);
            }
            500..650 => {
                let key = self.key();
                self.db().delete(&key).unwrap();
                self.model.remove(&key);
            }
            650..750 => self.batch(),
            750..900 => {
                let key = self.key();
                assert_eq!(
                    self.db().get(&key).unwrap().as_ref(),
                    self.model.get(&key),
                    "a get shows another value: {key:?}"
                );
                if let Some((snapshot, model)) = self.snapshots.last() {
                    assert_eq!(
                        snapshot.get(&key).unwrap().as_ref(),
                        model.get(&key),
                        "a get at a snapshot shows another value: {key:?}"
                    );
                }
            }
            900..960 => self.scan(),
            960..970 => {
                let snapshot = self.db().snapshot();
                self.snapshots.push((snapshot, self.model.clone()));
                if self.snapshots.len() > 4 {
                    let gone = self.random.below(self.snapshots.len() as u64) as usize;
                    self.snapshots.swap_remove(gone);
                }
            }
            970..971 => self.db().flush().unwrap(),
            971..972 => self.db().compact().unwrap(),
            981..986 if self.deletes_ranges => {
                let range = self.range();
                self.db().delete_range(range.clone()).unwrap();
                remove(&mut self.model, &range);
            }
            972..980 => self.db().sync().unwrap(),
            980..981 => self.reopen(),
            _ => assert!(self.db().stats().failure.is_none()),
        }
    }

    /// Mostly of a few keys, so that some remain.
    fn range(&mut self) -> std::ops::Range<Vec<u8>> {
        let start = self.key();
        if self.random.one_in(20) {
            let end = self.key();
            return start.clone().min(end.clone())..start.max(end);
        }
        let next = self.model.range(start.clone()..).nth(self.random.below(12) as usize).map(|(key, _)| key.clone());
        let end = next.unwrap_or_else(|| [&start[..], &[0]].concat());
        start..end
    }

    fn batch(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..self.random.below(20) {
            let key = self.key();
            if self.deletes_ranges && self.random.one_in(20) {
                let range = self.range();
                batch.delete_range(range.clone());
                remove(&mut self.model, &range);
            } else if self.merges && self.random.one_in(3) {
                let operand = self.operand();
                batch.merge(key.clone(), operand.clone());
                self.model.entry(key).or_default().extend(operand);
            } else if self.random.one_in(3) {
                batch.delete(key.clone());
                self.model.remove(&key);
            } else {
                let value = self.value();
                batch.put(key.clone(), value.clone());
                self.model.insert(key, value);
            }
        }
        self.db().write(batch).unwrap();
    }

    /// A scan with changes of direction, of the newest state or of a snapshot.
    fn scan(&mut self) {
        let (mut iter, model) = if self.snapshots.is_empty() || self.random.one_in(2) {
            (self.db().iter().unwrap(), self.model.clone())
        } else {
            let chosen = self.random.below(self.snapshots.len() as u64) as usize;
            let (snapshot, model) = &self.snapshots[chosen];
            (snapshot.iter().unwrap(), model.clone())
        };
        let pairs: Vec<_> = model.into_iter().collect();
        let start = self.key();
        let forward = self.random.one_in(2);
        let mut at = if forward {
            iter.seek(&start).unwrap();
            pairs.partition_point(|(key, _)| *key < start) as i64
        } else {
            iter.seek_for_prev(&start).unwrap();
            pairs.partition_point(|(key, _)| *key <= start) as i64 - 1
        };
        for _ in 0..self.random.below(60) {
            check_position(&iter, &pairs, at);
            if !iter.valid() {
                return;
            }
            if self.random.below(10) < if forward { 8 } else { 2 } {
                iter.step().unwrap();
                at += 1;
            } else {
                iter.step_back().unwrap();
                at -= 1;
            }
        }
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        let stats = self.db().stats();
        self.seen.buffered_bytes += stats.buffered_bytes;
        self.seen.checkpoint_bytes += stats.checkpoint_bytes;
        if self.random.one_in(2) {
            self.db.take().unwrap().close().unwrap();
        } else {
            drop(self.db.take());
        }
        self.db = Some(open(&self.storage, &self.options));
        self.seen.rebuilt_bytes += self.db().stats().buffer_bytes;
    }

    fn check_all(&mut self) {
        let names = self.storage.list().unwrap();
        self.seen.maplets += names.iter().filter(|name| name.ends_with(".maplet")).count();
        let check = |iter: Iter, model: &Model| {
            let mut expected = model.iter();
            for pair in iter {
                let (key, value) = pair.unwrap();
                assert_eq!(expected.next(), Some((&key, &value)), "a scan shows another pair");
            }
            assert_eq!(expected.next(), None, "a scan ends early");
        };
        check(self.db().iter().unwrap(), &self.model);
        for (snapshot, model) in &self.snapshots {
            check(snapshot.iter().unwrap(), model);
            let backward: Vec<_> = snapshot.iter().unwrap().rev().map(|pair| pair.unwrap()).collect();
            assert!(backward.iter().map(|(key, value)| (key, value)).eq(model.iter().rev()));
        }
        for (key, value) in &self.model {
            assert_eq!(self.db().get(key).unwrap().as_ref(), Some(value), "a get shows another value");
        }
    }
}

fn remove(model: &mut Model, range: &std::ops::Range<Vec<u8>>) {
    model.retain(|key, _| !range.contains(key));
}

fn check_position(iter: &Iter, pairs: &[(Vec<u8>, Vec<u8>)], at: i64) {
    match usize::try_from(at).ok().and_then(|at| pairs.get(at)) {
        Some((key, value)) => {
            assert_eq!(iter.pair(), Some((&key[..], &value[..])), "an iterator shows another pair");
            assert_eq!((iter.key(), iter.value()), (Some(&key[..]), Some(&value[..])));
        }
        None => {
            let shown = (iter.pair(), iter.key(), iter.value());
            assert_eq!(shown, (None, None, None), "expected unpositioned");
            assert!(!iter.valid());
        }
    }
}

fn run(storage: Arc<dyn Storage>, seed: u64, keys: u64, steps: u64) -> Seen {
    run_in(World::new(storage, seed, keys), seed, steps)
}

fn run_in(mut world: World, seed: u64, steps: u64) -> Seen {
    println!("seed {seed}, {:?}", world.options.disk_component);
    for step in 0..steps {
        world.step();
        if step % (steps / 3) == steps / 3 - 1 {
            world.check_all();
        }
    }
    world.db().flush().unwrap();
    world.db().settle().unwrap();
    world.check_all();
    world.db().verify().unwrap();
    world.snapshots.clear();
    world.reopen();
    world.check_all();
    world.db().settle().unwrap();
    world.db().verify().unwrap();
    world.seen
}

#[test]
fn random_operations_on_a_simulated_disk() {
    let (first, seeds, mut maplets) = (setting("ALLUVIUM_SEED", 1), setting("ALLUVIUM_SEEDS", 12), 0);
    for seed in first..first + seeds {
        maplets +=
            run(Arc::new(SimulatedStorage::new(seed)), seed, [50, 2000, 20_000][seed as usize % 3], 6000).maplets;
    }
    assert!(seeds < 12 || maplets > 0, "no store had maplets");
}

#[test]
fn random_operations_on_levels() {
    let first = setting("ALLUVIUM_SEED", 301);
    let seeds = setting("ALLUVIUM_SEEDS", 10);
    let mut of_skip = Seen::default();
    for seed in first..first + seeds {
        let usual =
            [LevelsOptions::leveled(), LevelsOptions::tiered(), LevelsOptions::skip()][seed as usize / 5 % 3].clone();
        let all = [tiny_levels(1), tiny_levels(3), tiny_skip(), tiny_skip_in_files(), DiskComponent::Levels(usual)];
        let component = all[seed as usize % 5].clone();
        let world = World::with(Arc::new(SimulatedStorage::new(seed)), seed, 20_000, Some(component.clone()));
        let seen = run_in(world, seed, 6000);
        if component == tiny_skip() {
            of_skip.rebuilt_bytes += seen.rebuilt_bytes;
            of_skip.buffered_bytes += seen.buffered_bytes;
            of_skip.checkpoint_bytes += seen.checkpoint_bytes;
        }
        assert!(component != tiny_skip_in_files() || seen.buffered_bytes == 0, "{seen:?}");
    }
    let Seen { rebuilt_bytes, buffered_bytes, checkpoint_bytes, .. } = of_skip;
    let has_all = rebuilt_bytes.min(buffered_bytes).min(checkpoint_bytes) > 0;
    assert!(seeds < 10 || has_all, "nothing was in memory, or it was never written or made again: {of_skip:?}");
}

#[test]
fn random_operations_on_a_real_disk() {
    let first = setting("ALLUVIUM_SEED", 101);
    for seed in first..first + setting("ALLUVIUM_SEEDS", 3) {
        let directory = tempfile::tempdir().unwrap();
        run(Arc::new(PosixStorage::new(directory.path())), seed, 5000, 6000);
    }
}

#[test]
fn random_operations_in_memory() {
    let first = setting("ALLUVIUM_SEED", 201);
    for seed in first..first + setting("ALLUVIUM_SEEDS", 3) {
        run(Arc::new(MemoryStorage::new()), seed, 5000, 6000);
    }
}

#[test]
fn a_trunk_of_three_levels_agrees_with_the_model() {
    let seed = setting("ALLUVIUM_SEED", 7);
    let mut world = World::new(Arc::new(SimulatedStorage::new(seed)), seed, 60_000);
    world.options.compression = Compression::None;
    for _ in 0..30_000 {
        let (key, value) = (world.key(), world.random.bytes(150));
        world.db().put(&key, &value).unwrap();
        world.model.insert(key, value);
    }
    world.db().flush().unwrap();
    world.db().settle().unwrap();
    let stats = world.db().stats();
    assert!(stats.levels.len() >= 3, "{stats}");
    world.check_all();
    world.db().verify().unwrap();
    for _ in 0..3000 {
        world.step();
    }
    world.check_all();
}
