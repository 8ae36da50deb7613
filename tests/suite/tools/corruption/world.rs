//! A store with all kinds of files and known writes, on a simulated disk.

use crate::support::{Random, tiny_skip, tiny_unsynced};
use alluvium::internals::{DeterministicDb, LogOnlyWriter};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{OpenMode, Storage};
use alluvium::{RepairReport, WriteBatch};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of a write and the value after it.
pub type Version = (u64, Option<Vec<u8>>);

/// Files by name.
pub type Image = BTreeMap<String, Vec<u8>>;

/// Whether log segments have their smallest usual size, or are so small that a hundred writes fill several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Usual,
    Small,
    /// Usual segments, and levels instead of a tree.
    Levels,
}

/// How the store's last process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Closed,
    /// The log segment that it wrote last.
    Killed {
        current: String,
    },
}

/// The store and its expected contents.
pub struct World {
    pub disk: SimulatedStorage,
    pub image: Image,
    /// Earlier states of its files, oldest first, each with the last number at that time.
    pub stale: Vec<(u64, Image)>,
    /// All versions of every key, oldest first.
    pub versions: BTreeMap<Vec<u8>, Vec<Version>>,
    /// All numbers up to this one were synced; after a close, all numbers.
    pub synced: u64,
    pub end: End,
}

/// Opens an existing store.
pub fn open(disk: &SimulatedStorage) -> alluvium::Result<DeterministicDb> {
    open_as(disk, Size::Usual, tiny_unsynced().create_if_missing(false))
}

fn open_as(disk: &SimulatedStorage, size: Size, options: alluvium::Options) -> alluvium::Result<DeterministicDb> {
    match size {
        Size::Levels => {
            let options = options.disk_component(tiny_skip());
            DeterministicDb::open(Arc::new(disk.clone()), options)
        }
        Size::Usual => DeterministicDb::open(Arc::new(disk.clone()), options),
        Size::Small => DeterministicDb::open_small(Arc::new(disk.clone()), options),
    }
}

impl World {
    /// A store that was closed.
    pub fn new(seed: u64) -> Self {
        Self::with_end(seed, Size::Usual, true)
    }

    /// Three openings, with branch files on two levels, value files, and records in the log. The last opening syncs
    /// once, in the middle of its writes; a close syncs all of them.
    pub fn with_end(seed: u64, size: Size, closes: bool) -> Self {
        let disk = SimulatedStorage::new(seed);
        let mut random = Random(seed);
        let (image, versions) = (Image::new(), BTreeMap::new());
        let mut world = Self { disk: disk.clone(), image, stale: Vec::new(), versions, synced: 0, end: End::Closed };
        for (opening, writes) in [(0, 700), (1, 500), (2, 190)] {
            let db = open_as(&disk, size, tiny_unsynced()).unwrap();
            let mut log = (opening == 2 && size == Size::Small).then(|| db.log_writer());
            for at in 0..writes {
                world.write_to(&db, log.as_mut(), &mut random, at % 149 == 100);
                if at % 40 == 0 {
                    db.step();
                }
                if opening == 2 && at == writes / 2 {
                    db.sync().unwrap();
                    world.synced = db.stats().last_number;
                }
                if opening > 0 && at % 23 == 22 {
                    world.stale.push((db.stats().last_number, disk.current_image()));
                }
            }
            if opening < 2 {
                db.flush().unwrap();
                while db.step() {}
            } else if !closes {
                world.write_to(&db, log.as_mut(), &mut random, false);
                let current = disk.current_image().into_keys().filter(|name| name.ends_with(".log")).max().unwrap();
                world.end = End::Killed { current };
                world.disk = disk.clone_disk();
                break;
            }
            world.synced = db.stats().last_number;
            drop(log);
            db.close().unwrap();
        }
        world.image = world.disk.current_image();
        world
    }

    fn write_to(&mut self, db: &DeterministicDb, log: Option<&mut LogOnlyWriter>, random: &mut Random, large: bool) {
        match log {
            Some(log) => self.write_to_log(db, log, random),
            None => self.write(db, random, 300, large),
        }
    }

    /// A write that stays in the log: a small store incorporates so early that its log has only one segment.
    fn write_to_log(&mut self, db: &DeterministicDb, writer: &mut LogOnlyWriter, random: &mut Random) {
        let (key, length) = (format!("key{:03}", random.below(300)).into_bytes(), 100 + random.below(200) as usize);
        let value = random.bytes(length);
        writer.put(&key, &value).unwrap();
        self.versions.entry(key).or_default().push((db.stats().last_number, Some(value)));
    }

    fn write(&mut self, db: &DeterministicDb, random: &mut Random, keys: u64, large: bool) {
        let mut operations = BTreeMap::new();
        for _ in 0..if random.one_in(10) { 3 } else { 1 } {
            let key = format!("key{:03}", random.below(keys)).into_bytes();
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

    /// A store with levels of which some keys wait in memory, in branches that depend on at least two files.
    pub fn with_parents(seed: u64) -> Self {
        let mut world = Self::with_end(seed, Size::Levels, true);
        let (db, mut random) = (open(&world.disk).unwrap(), Random(seed));
        let mut rounds = 0;
        while world.parents(&db).len() < 2 {
            rounds += 1;
            assert!(rounds < 200, "no key waits in memory: {}", db.stats());
            (0..50).for_each(|_| world.write(&db, &mut random, 5000, false));
            db.flush().unwrap();
            while db.step() {}
        }
        world.synced = db.stats().last_number;
        db.close().unwrap();
        world.image = world.disk.current_image();
        world
    }

    /// The branch files that no run has: they are kept for what is in memory.
    pub fn parents(&self, db: &DeterministicDb) -> Vec<String> {
        let in_runs: Vec<String> = db.branch_files().into_iter().map(|file| file.name).collect();
        let files = self.disk.current_image().into_keys().filter(|name| name.ends_with(".branch"));
        files.filter(|name| !in_runs.contains(name)).collect()
    }

    /// The expected value of a key.
    pub fn right(&self, key: &[u8]) -> Option<&[u8]> {
        self.at(key, u64::MAX)
    }

    /// The value that a key had at this number.
    pub fn at(&self, key: &[u8], number: u64) -> Option<&[u8]> {
        self.version_at(key, number).and_then(|(_, value)| value.as_deref())
    }

    fn version_at(&self, key: &[u8], number: u64) -> Option<&Version> {
        let versions = &self.versions[key];
        versions[..versions.partition_point(|(of, _)| *of <= number)].last()
    }

    /// Whether a key may have this value if the writes after a number may be lost.
    pub fn is_of_number_or_later(&self, key: &[u8], number: u64, found: Option<&[u8]>) -> bool {
        let later = self.versions[key].iter().filter(|(of, _)| *of > number);
        found == self.at(key, number) || later.into_iter().any(|(_, value)| value.as_deref() == found)
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

    /// Whether repair reported that the newest value of this key may be lost.
    pub fn reports_loss(&self, report: &RepairReport, key: &[u8]) -> bool {
        self.reports_loss_at(report, key, u64::MAX)
    }

    /// Whether repair reported that the value that this key had at this number may be lost.
    pub fn reports_loss_at(&self, report: &RepairReport, key: &[u8], number: u64) -> bool {
        let number = self.version_at(key, number).map_or(0, |(number, _)| *number);
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
