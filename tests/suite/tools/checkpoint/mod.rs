//! Checkpoints: the contents of one moment, while writes go on; a crash leaves a whole checkpoint or none; neither store can
//! hurt the other.

mod crash;
mod errors;
pub(super) mod running;

use crate::support::{Random, tiny_levels, tiny_skip, tiny_unsynced};
use crate::tools::corruption::verify;
use alluvium::internals::DeterministicDb;
use alluvium::merge_operators::Append;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Depth, DiskComponent, Durability, Keyspace, KeyspaceOptions, Options, WriteBatch, WriteOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const COPY: &str = "/copy";

pub(super) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

pub(super) fn components() -> [(&'static str, DiskComponent); 4] {
    let (leveled, tiered) = (tiny_levels(1), tiny_levels(3));
    [("trunk", DiskComponent::Trunk), ("leveled", leveled), ("tiered", tiered), ("skip", tiny_skip())]
}

pub(super) fn options() -> Options {
    tiny_unsynced().merge_operator(Append)
}

pub(super) fn open(disk: &SimulatedStorage) -> alluvium::Result<DeterministicDb> {
    DeterministicDb::open(Arc::new(disk.clone()), options().create_if_missing(false))
}

/// A store with a keyspace beside the default one, and what both should have.
pub(super) struct World {
    pub(super) disk: SimulatedStorage,
    pub(super) db: DeterministicDb,
    other: Keyspace,
    random: Random,
    pub(super) pairs: [Pairs; 2],
    /// Whether some writes are not logged.
    pub(super) unlogged: bool,
}

impl World {
    pub(super) fn new(seed: u64, component: &DiskComponent) -> Self {
        let disk = SimulatedStorage::new(seed);
        let options = options().disk_component(component.clone());
        let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
        let other = db.keyspace("other", KeyspaceOptions::new()).unwrap();
        Self { disk, db, other, random: Random(seed), pairs: Default::default(), unlogged: true }
    }

    /// Puts, deletes, merges, range deletes, batches over both keyspaces, and now and then a value with a file of its own.
    pub(super) fn write(&mut self, count: usize) {
        let unlogged = WriteOptions::new().durability(Durability::Unlogged);
        for at in 0..count {
            let random = &mut self.random;
            let number = random.below(900);
            let key = format!("key{number:04}").into_bytes();
            let length = 20 + random.below(150) as usize;
            let value = random.bytes(length);
            let [pairs, others] = &mut self.pairs;
            match random.below(12) {
                0 | 1 => {
                    self.db.delete(&key).unwrap();
                    pairs.remove(&key);
                }
                2 => {
                    self.db.merge(&key, &value).unwrap();
                    pairs.entry(key).or_default().extend(value);
                }
                3 => {
                    let end = format!("key{:04}", number + 5).into_bytes();
                    self.db.delete_range(&key..&end).unwrap();
                    pairs.retain(|known, _| *known < key || *known >= end);
                }
                4 | 5 => {
                    let mut batch = WriteBatch::new();
                    batch.put(&key, &value);
                    batch.within(&self.other).put(&key, &value);
                    self.db.write(batch).unwrap();
                    pairs.insert(key.clone(), value.clone());
                    others.insert(key, value);
                }
                6 if self.unlogged => {
                    self.other.put_with(&key, &value, unlogged).unwrap();
                    others.insert(key, value);
                }
                _ => {
                    let value = if at % 150 == 149 { random.bytes(270_000) } else { value };
                    self.db.put(&key, &value).unwrap();
                    pairs.insert(key, value);
                }
            }
        }
    }

    /// Closes the store and opens it again.
    pub(super) fn reopened(self) -> Self {
        let Self { disk, db, random, pairs, unlogged, .. } = self;
        db.close().unwrap();
        let db = open(&disk).unwrap();
        let other = db.keyspace("other", KeyspaceOptions::new().create_if_missing(false)).unwrap();
        Self { disk, db, other, random, pairs, unlogged }
    }

    pub(super) fn steps(&self, count: usize) {
        for _ in 0..count {
            self.db.step();
        }
    }

    fn copy(&self) -> SimulatedStorage {
        self.disk.at(COPY)
    }
}

pub(super) fn contents(keyspace: &Keyspace) -> Pairs {
    keyspace.iter().unwrap().map(|pair| pair.unwrap()).collect()
}

pub(super) fn both(db: &Db) -> [Pairs; 2] {
    let other = db.keyspace("other", KeyspaceOptions::new().create_if_missing(false)).unwrap();
    [contents(db), contents(&other)]
}

pub(super) fn check_files(disk: &SimulatedStorage, what: &str) {
    let found = verify(disk, Depth::Deep).unwrap();
    assert!(found.is_valid(), "{what}: {:?}", found.damage);
    assert!(found.unreferenced.is_empty(), "{what}: {:?}", found.unreferenced);
}

/// Writes and merges go on while the files are linked; then each store rewrites and removes all that it has. The other one
/// stays as it is.
#[test]
fn a_checkpoint_has_the_contents_of_its_number_and_both_stores_live_on() {
    for (kind, component) in components() {
        let mut world = World::new(1, &component);
        for _ in 0..8 {
            world.write(300);
            world.steps(10);
        }
        let (at_call, number) = (world.pairs.clone(), world.db.stats().last_number);
        let _kept = world.db.snapshot();
        let (disk, mut files) = (world.disk.clone(), 0);
        // The test writes to the store from inside of the call.
        let db = Db::clone(&world.db);
        let report = db.checkpoint_with(COPY, &Default::default(), &mut |progress| {
            assert!(progress.bytes_done <= progress.bytes_total, "{kind}");
            files += 1;
            world.write(40);
            world.steps(30);
        });
        let report = report.unwrap();
        assert_eq!(report.number, number, "{kind}");
        assert_eq!(report.files_linked, files - 1, "{kind}: {report:?}");
        assert!(report.files_linked > 4 && report.bytes_linked > 0, "{kind}: {report:?}");
        assert_eq!((report.files_copied, report.bytes_copied), (0, 0), "{kind}: {report:?}");
        assert!(world.pairs != at_call, "{kind}: nothing was written meanwhile");
        let copy = disk.at(COPY);
        check_files(&copy, kind);
        // The store goes on, and none of the shared files stays with it.
        world.write(300);
        world.db.flush().unwrap();
        world.db.compact().unwrap();
        while world.db.step() {}
        assert!(both(&world.db) == world.pairs, "{kind}");
        let image = copy.current_image();
        let copied = open(&copy).unwrap();
        assert_eq!(copied.stats().disk_component, kind);
        assert_eq!(copied.stats().incorporated_number, number, "{kind}");
        assert!(both(&copied) == at_call, "{kind}: other contents than at the call");
        for (key, value) in &at_call[0] {
            assert_eq!(copied.get(key).unwrap().as_ref(), Some(value), "{kind}");
        }
        // Now the checkpoint goes on.
        copied.put("key0001", "new").unwrap();
        copied.delete_range("key0002".."key9").unwrap();
        copied.flush().unwrap();
        copied.compact().unwrap();
        while copied.step() {}
        copied.close().unwrap();
        check_files(&copy, kind);
        let (shared, now) = (image.keys().filter(|name| name.ends_with(".branch")), copy.current_image());
        let (gone, kept): (Vec<_>, Vec<_>) = shared.partition(|name| !now.contains_key(*name));
        assert!(gone.len() > 2 * kept.len(), "{kind}: {kept:?} are kept");
        let copied = open(&copy).unwrap();
        assert_eq!(
            contents(&copied).len(),
            at_call[0].keys().filter(|key| key[..] < b"key0001"[..]).count() + 1,
            "{kind}"
        );
        // What the checkpoint did is not seen here.
        assert!(both(&world.db) == world.pairs, "{kind}");
        let (disk, pairs) = (world.disk.clone(), world.pairs);
        world.db.close().unwrap();
        check_files(&disk, kind);
        assert!(both(&open(&disk).unwrap()) == pairs, "{kind}");
    }
}

#[test]
fn a_checkpoint_of_a_checkpoint_and_of_an_empty_store() {
    let mut world = World::new(2, &DiskComponent::Trunk);
    world.write(900);
    world.db.checkpoint(COPY).unwrap();
    let copy = world.copy();
    let copied = open(&copy).unwrap();
    copied.put("only", "there").unwrap();
    let report = copied.checkpoint("/second").unwrap();
    assert!(report.files_linked > 1, "{report:?}");
    copied.close().unwrap();
    let second = world.disk.at("/second");
    check_files(&second, "the second");
    let second = open(&second).unwrap();
    assert_eq!(second.get("only").unwrap().as_deref(), Some(&b"there"[..]));
    assert_eq!(contents(&second).len(), world.pairs[0].len() + 1);
    assert_eq!(world.db.get("only").unwrap(), None);
    // One without a write, and one right after another.
    let disk = SimulatedStorage::new(3);
    let db = DeterministicDb::open(Arc::new(disk.clone()), options()).unwrap();
    for copy in ["/first", "/second"] {
        assert_eq!(db.checkpoint(copy).unwrap().files_linked, 0);
        check_files(&disk.at(copy), "of an empty store");
        let copied = open(&disk.at(copy)).unwrap();
        assert!(copied.is_empty().unwrap());
        copied.put("a", "b").unwrap();
        copied.close().unwrap();
    }
}

/// Pairs of a keyspace with an expiry do not grow younger in the copy: the newest ones have no date yet when the call begins.
#[test]
fn pairs_expire_in_a_checkpoint_when_they_expire_in_the_store() {
    let disk = SimulatedStorage::new(4);
    let expiry = Duration::from_secs(3600);
    disk.advance(expiry * 10);
    let db = DeterministicDb::open(Arc::new(disk.clone()), options()).unwrap();
    let aging = db.keyspace("aging", KeyspaceOptions::new().expiry(expiry)).unwrap();
    aging.put("a", "1").unwrap();
    db.checkpoint(COPY).unwrap();
    let value = |minutes: u64| {
        let disk = disk.clone_disk();
        disk.advance(Duration::from_secs(minutes * 60));
        let copied = open(&disk.at(COPY)).unwrap();
        while copied.step() {}
        let aging = copied.keyspace("aging", KeyspaceOptions::new().create_if_missing(false)).unwrap();
        assert_eq!(aging.options().unwrap().expiry, Some(expiry));
        aging.get("a").unwrap()
    };
    assert_eq!(value(55).as_deref(), Some(&b"1"[..]));
    assert_eq!(value(61), None, "it grew younger");
}
