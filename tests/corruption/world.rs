//! A store with some of everything, whose every write is known, on a simulated disk.

use crate::support::{Random, tiny_unsynced};
use alluvium::io::simulated::SimulatedStorage;
use alluvium::io::{OpenMode, Storage};
use alluvium::parts::SteppedDb;
use alluvium::{RepairReport, WriteBatch};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of a write and what it left the key with.
pub type Version = (u64, Option<Vec<u8>>);

/// Files by name.
pub type Image = BTreeMap<String, Vec<u8>>;

/// The store and what is known of it.
pub struct World {
    pub disk: SimulatedStorage,
    pub image: Image,
    /// Its files as they were earlier.
    pub stale: Image,
    /// All versions of every key, oldest first.
    pub versions: BTreeMap<Vec<u8>, Vec<Version>>,
}

pub fn open(disk: &SimulatedStorage) -> alluvium::Result<SteppedDb> {
    SteppedDb::open(Arc::new(disk.clone()), alluvium::Options { create_if_missing: false, ..tiny_unsynced() })
}

impl World {
    /// Three openings, with branch files on two levels, value files, and records in the log. Everything is durable.
    pub fn new(seed: u64) -> Self {
        let disk = SimulatedStorage::new(seed);
        let mut random = Random(seed);
        let mut world =
            Self { disk: disk.clone(), image: Image::new(), stale: Image::new(), versions: BTreeMap::new() };
        for (opening, writes) in [(0, 700), (1, 500), (2, 150)] {
            let db = SteppedDb::open(Arc::new(disk.clone()), tiny_unsynced()).unwrap();
            for at in 0..writes {
                world.write(&db, &mut random, at % 149 == 100);
                if at % 40 == 0 {
                    db.step();
                }
            }
            if opening == 1 {
                world.stale = disk.current_image();
            }
            if opening < 2 {
                db.flush().unwrap();
                while db.step() {}
            }
            db.close().unwrap();
        }
        world.image = disk.current_image();
        world
    }

    fn write(&mut self, db: &SteppedDb, random: &mut Random, large: bool) {
        let mut operations = BTreeMap::new();
        for _ in 0..if random.one_in(10) { 3 } else { 1 } {
            let key = format!("key{:03}", random.below(300)).into_bytes();
            let length = if large { 270_000 } else { random.below(250) as usize };
            let value = (!random.one_in(8)).then(|| random.bytes(length));
            operations.insert(key, value);
        }
        let mut batch = WriteBatch::new();
        for (key, value) in &operations {
            match value {
                Some(value) => batch.put(key.clone(), value.clone()),
                None => batch.delete(key.clone()),
            };
        }
        db.write(batch).unwrap();
        let number = db.stats().last_number;
        for (key, value) in operations {
            self.versions.entry(key).or_default().push((number, value));
        }
    }

    /// What a key should hold.
    pub fn right(&self, key: &[u8]) -> Option<&[u8]> {
        self.versions[key].last().and_then(|(_, value)| value.as_deref())
    }

    /// The same disk with other files.
    pub fn with(&self, changed: &Image, removed: &[String]) -> SimulatedStorage {
        let disk = self.disk.clone_disk();
        for name in changed.keys().chain(removed) {
            if disk.current_image().contains_key(name) {
                disk.remove(name).unwrap();
            }
        }
        for (name, bytes) in changed {
            let file = disk.open(name, OpenMode::Create).unwrap();
            file.write_all_at(bytes, 0).unwrap();
            file.sync().unwrap();
        }
        disk.sync_directory().unwrap();
        disk
    }

    /// Whether repair said that this key may not be what it was.
    pub fn told(&self, report: &RepairReport, key: &[u8]) -> bool {
        let number = self.versions[key].last().map_or(0, |(number, _)| *number);
        report.losses.iter().any(|loss| {
            let by_number = loss.numbers.as_ref().is_some_and(|numbers| numbers.contains(&number));
            let by_key = match &loss.keys {
                Some(alluvium::LostKeys::One(lost)) => lost == key,
                Some(alluvium::LostKeys::Between { after, before }) => {
                    after.as_deref().is_none_or(|after| after <= key)
                        && before.as_deref().is_none_or(|before| key <= before)
                }
                _ => false,
            };
            by_number || by_key
        })
    }
}
