//! The space of large values that were deleted or overwritten comes back while the store is open.
//!
//! Once, a disk that was filled with values of 256 KiB and more, which were then deleted, took no such value until a
//! compaction: references to values are small, so no merge was due, and files of values went only with merges.

use crate::support::{Random, tiny_levels, tiny_skip};
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{DiskComponent, Error, LevelsOptions, Options, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const CAPACITY: u64 = 24 << 20;
const VALUE: usize = 256 << 10;

/// A store of large values on a small disk, in simulated time, and the expected first bytes of its values.
struct Values {
    disk: SimulatedStorage,
    db: DeterministicDb,
    model: BTreeMap<Vec<u8>, u8>,
    random: Random,
    with_small: bool,
}

impl Values {
    fn new(seed: u64, component: Option<&DiskComponent>, with_small: bool) -> Self {
        let disk = SimulatedStorage::new(seed);
        disk.set_capacity(Some(CAPACITY));
        let options = Options::new().memory_budget(1 << 20).sync_interval(None).disk_component(component.cloned());
        let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
        Self { disk, db, model: BTreeMap::new(), random: Random(seed), with_small }
    }

    fn key(at: u64) -> Vec<u8> {
        format!("value{at:04}").into_bytes()
    }

    fn put(&mut self, at: u64) -> Result<()> {
        let mark = self.random.next() as u8;
        let length = VALUE + self.random.below(256 << 10) as usize;
        self.db.put(Self::key(at), vec![mark; length])?;
        self.model.insert(Self::key(at), mark);
        if self.with_small {
            let small = self.random.bytes(100);
            let _ = self.db.put(format!("value{at:04}.{}", self.random.below(1000)), small);
        }
        if self.random.one_in(4) {
            self.db.step();
        }
        Ok(())
    }

    /// Writes values until one is refused. Returns how many there are.
    fn fill(&mut self) -> u64 {
        for at in 0..200 {
            if let Err(error) = self.put(at) {
                assert!(matches!(error, Error::DiskFull { .. }), "{error}");
                return at;
            }
        }
        panic!("the disk does not fill");
    }

    /// Runs background work for this many seconds.
    fn work(&mut self, seconds: u64) {
        for _ in 0..5 * seconds {
            (0..100).take_while(|_| self.db.step()).for_each(drop);
            self.disk.advance(Duration::from_millis(200));
        }
    }

    fn check(&self) {
        for at in 0..200 {
            let found = self.db.get(Self::key(at)).unwrap().map(|value| value[VALUE - 1]);
            assert_eq!(found, self.model.get(&Self::key(at)).copied(), "key {at}");
        }
    }

    fn value_files(&self) -> u64 {
        self.db.stats().value_files
    }
}

fn components() -> [Option<DiskComponent>; 4] {
    [None, Some(DiskComponent::Levels(LevelsOptions::leveled())), Some(tiny_levels(1)), Some(tiny_skip())]
}

fn for_each_case(mut run: impl FnMut(Values)) {
    for component in components() {
        for seed in 1..=3 {
            for with_small in [false, true] {
                eprintln!("{component:?}, seed {seed}, with small pairs {with_small}");
                run(Values::new(seed, component.as_ref(), with_small));
            }
        }
    }
}

/// Puts as many values as there were. The disk may be full for a moment after the deletes.
fn expect_room(values: &mut Values, count: u64) {
    for at in 0..count {
        let is_done = (0..10).any(|_| {
            let done = values.put(at).is_ok();
            if !done {
                values.work(1);
            }
            done
        });
        assert!(is_done, "value {at} of {count}\n{}", values.db.stats());
    }
    values.check();
}

#[test]
fn deletes_of_large_values_make_room_for_others() {
    for_each_case(|mut values| {
        let count = values.fill();
        assert!(count > 30, "only {count} values fit");
        for at in 0..count {
            values.db.delete(Values::key(at)).unwrap();
            values.model.remove(&Values::key(at));
        }
        expect_room(&mut values, count / 2);
    });
}

#[test]
fn range_deletes_of_large_values_make_room_for_others() {
    for_each_case(|mut values| {
        let count = values.fill();
        values.db.delete_range(Values::key(0)..Values::key(200)).unwrap();
        values.model.clear();
        expect_room(&mut values, count / 2);
    });
}

/// Every put waits for the space that it needs, and none is refused.
#[test]
fn large_values_are_overwritten_on_a_disk_that_has_little_more_than_their_space() {
    for_each_case(|mut values| {
        for round in 0..8 {
            for at in 0..30 {
                values.put(at).unwrap_or_else(|error| panic!("{error}: {at}, round {round}\n{}", values.db.stats()));
            }
        }
        values.check();
        assert!(!values.db.stats().disk_full);
    });
}

/// A value that does not fit leaves what deletes need, and is refused without a long wait when nothing can be freed.
#[test]
fn a_disk_full_of_large_values_takes_deletes() {
    for_each_case(|mut values| {
        let count = values.fill();
        let before = values.disk.now();
        for _ in 0..20 {
            values.put(count).unwrap_err();
        }
        assert!(values.disk.now() - before < Duration::from_secs(40));
        for at in (0..count).step_by(2) {
            values.db.delete(Values::key(at)).unwrap_or_else(|error| panic!("{error}\n{}", values.db.stats()));
            values.model.remove(&Values::key(at));
        }
        values.check();
    });
}

/// In a quiet time, without a full disk, the files of deleted and overwritten values go by themselves.
#[test]
fn the_space_of_deleted_values_comes_back_in_a_quiet_time() {
    for component in components() {
        let mut values = Values::new(7, component.as_ref(), false);
        values.disk.set_capacity(None);
        for at in 0..100 {
            values.put(at).unwrap();
        }
        for at in 0..90 {
            values.db.delete(Values::key(at)).unwrap();
            values.model.remove(&Values::key(at));
        }
        values.put(99).unwrap();
        assert!(values.value_files() >= 100);
        values.work(20);
        assert_eq!(values.value_files(), 10, "{component:?}\n{}", values.db.stats());
        values.check();
    }
}

/// What a snapshot needs stays, and goes once the snapshot is gone.
#[test]
fn a_snapshot_keeps_its_deleted_values() {
    for component in components() {
        let mut values = Values::new(9, component.as_ref(), false);
        values.disk.set_capacity(None);
        for at in 0..100 {
            values.put(at).unwrap();
        }
        let snapshot = values.db.snapshot();
        values.db.delete_range(Values::key(0)..Values::key(90)).unwrap();
        values.work(20);
        assert_eq!(
            snapshot.get(Values::key(50)).unwrap().map(|value| value[0]),
            values.model.get(&Values::key(50)).copied()
        );
        assert_eq!(values.value_files(), 100);
        drop(snapshot);
        values.work(20);
        assert_eq!(values.value_files(), 10, "{component:?}\n{}", values.db.stats());
    }
}
