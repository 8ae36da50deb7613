//! Writes with `WriteOptions::frees_space` on a full disk: they may put a little, and never take what deletes and the
//! next opening need.

use crate::support::{Random, tiny_levels, tiny_skip};
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{DiskComponent, Error, LevelsOptions, Options, Result, WriteBatch, WriteOptions, limits};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const CAPACITY: u64 = 8 << 20;
const FREEING: fn() -> WriteOptions = || WriteOptions::new().frees_space(true);

/// A store on a full disk, in simulated time, and its expected contents.
struct Full {
    disk: SimulatedStorage,
    db: DeterministicDb,
    component: Option<DiskComponent>,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    random: Random,
}

fn open(disk: &SimulatedStorage, component: Option<&DiskComponent>) -> DeterministicDb {
    let options = Options::new().memory_budget(1 << 20).sync_interval(None).disk_component(component.cloned());
    DeterministicDb::open(Arc::new(disk.clone()), options).unwrap()
}

fn is_full(done: &Result<()>) -> bool {
    matches!(done, Err(Error::DiskFull { .. }))
}

impl Full {
    fn new(seed: u64, component: Option<DiskComponent>) -> Self {
        let disk = SimulatedStorage::new(seed);
        disk.set_capacity(Some(CAPACITY));
        let db = open(&disk, component.as_ref());
        let mut full = Self { disk, db, component, model: BTreeMap::new(), random: Random(seed) };
        full.fill();
        full
    }

    fn put(&mut self) -> Result<()> {
        let key = format!("key{:08}", self.random.below(1 << 40)).into_bytes();
        let length = 500 + self.random.below(1000) as usize;
        let value = self.random.bytes(length);
        let done = self.db.put(&key, &value);
        if done.is_ok() {
            self.model.insert(key, value);
        }
        done
    }

    /// Runs background work until there is none.
    fn work(&mut self) {
        for _ in 0..50 {
            let steps = (0..100).take_while(|_| self.db.step()).count();
            self.disk.advance(Duration::from_millis(200));
            if steps == 0 {
                break;
            }
        }
    }

    /// Puts until the disk stays full.
    fn fill(&mut self) {
        for count in 0.. {
            assert!(count < 100_000, "the disk does not fill");
            if self.put().is_err() {
                self.work();
                if is_full(&self.put()) && self.db.stats().disk_full {
                    return;
                }
            }
        }
    }

    fn key(&self, at: usize) -> Vec<u8> {
        self.model.keys().nth(at).unwrap().clone()
    }

    fn compare(&self) {
        let found: BTreeMap<_, _> = self.db.iter().unwrap().map(Result::unwrap).collect();
        assert!(found == self.model, "{} pairs, expected {}", found.len(), self.model.len());
    }

    /// Deletes half of the pairs, and returns once puts succeed.
    fn delete_half(&mut self) {
        let keys: Vec<Vec<u8>> = self.model.keys().step_by(2).cloned().collect();
        for key in keys {
            self.db.delete(&key).unwrap_or_else(|error| panic!("{error}\n{}", self.db.stats()));
            self.model.remove(&key);
            if self.random.one_in(20) {
                self.db.step();
            }
        }
        let resumes = (0..100).any(|_| {
            self.work();
            self.disk.advance(Duration::from_secs(1));
            self.put().is_ok()
        });
        assert!(resumes, "puts do not resume\n{}", self.db.stats());
        self.compare();
    }

    /// Dies and opens again.
    fn reopen(&mut self) {
        self.disk = self.disk.kill();
        self.db = open(&self.disk, self.component.as_ref());
        self.compare();
    }
}

fn components() -> [Option<DiskComponent>; 4] {
    [None, Some(DiskComponent::Levels(LevelsOptions::leveled())), Some(tiny_levels(1)), Some(tiny_skip())]
}

#[test]
fn a_full_disk_takes_small_puts_of_writes_that_free_space() {
    for component in components() {
        let mut full = Full::new(1, component);
        let (first, second, third) = (full.key(0), full.key(1), full.key(2));
        let mut batch = WriteBatch::new();
        batch.delete(first.clone()).put(second.clone(), "short");
        assert!(is_full(&full.db.write(batch.clone())), "without the option");
        full.db.write_with(batch, FREEING()).unwrap_or_else(|error| panic!("{error}\n{}", full.db.stats()));
        full.model.remove(&first);
        full.model.insert(second, b"short".to_vec());
        full.db.put_with(&third, "short", FREEING()).unwrap();
        full.model.insert(third.clone(), b"short".to_vec());
        let transaction = full.db.transaction().unwrap();
        let value = transaction.get(&third).unwrap().unwrap();
        transaction.put(&third, [&value[..], b"er"].concat()).unwrap();
        transaction.commit_with(FREEING()).unwrap();
        full.model.insert(third.clone(), b"shorter".to_vec());
        // Too long, although it deletes as well.
        let long = vec![b'x'; limits::FREEING_BYTES_MAX - third.len() - 63];
        let mut batch = WriteBatch::new();
        batch.delete(full.key(3)).put(third.clone(), long);
        assert!(is_full(&full.db.write_with(batch, FREEING())));
        full.compare();
        full.reopen();
        full.delete_half();
    }
}

/// A program that says it frees space and does not gets no more than a part of the reserve. Deletes have the rest, also
/// after further openings.
#[test]
fn writes_that_free_nothing_leave_the_reserve_to_deletes() {
    for component in components() {
        let mut full = Full::new(2, component);
        for opening in 0..4 {
            let mut taken = 0;
            let refused = (0..100_000).find_map(|number| {
                let (key, value) = (format!("new{opening}/{number}").into_bytes(), full.random.bytes(1000));
                if let Err(error) = full.db.put_with(&key, &value, FREEING()) {
                    return Some(error);
                }
                taken += key.len() + value.len();
                full.model.insert(key, value);
                full.db.step();
                full.disk.advance(Duration::from_millis(20));
                None
            });
            assert!(matches!(refused, Some(Error::DiskFull { .. })), "{refused:?} after {taken} bytes");
            assert!(taken as u64 <= CAPACITY / 8, "{taken} bytes");
            let first = full.key(0);
            full.db.delete(&first).unwrap_or_else(|error| panic!("{error}\n{}", full.db.stats()));
            full.model.remove(&first);
            full.reopen();
        }
        full.delete_half();
        full.fill();
        let first = full.key(0);
        full.db.put_with(&first, "short", FREEING()).unwrap();
        full.model.insert(first, b"short".to_vec());
        full.delete_half();
    }
}
