//! One Memtable with sequencer, latches and pins around it, joined as in `engine/write/write_path.rs`: for scenes with hashes of our own choice.

use super::{check, count, together, value};
use crate::engine::state::latches::Latches;
use crate::engine::state::snapshot_registry::{SnapshotPin, SnapshotRegistry};
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;
use crate::memory::{MemoryComponent, Memtable, MemtablePool, MemtableWriter};
use crate::merge::Cursor;
use crate::util::sequencer::{Sequencer, Slot};
use crate::util::sync::{Arc, Mutex};
use crate::util::{KeyspaceId, Kind, SequenceNumber, key};

const KEYSPACE: KeyspaceId = KeyspaceId::DEFAULT;
/// How many keys of one hash the index takes.
const WINDOW: usize = 64;

/// See the module. All keys have one hash.
struct World {
    memtable: Arc<Memtable>,
    sequencer: Sequencer,
    latches: Latches,
    snapshots: Arc<SnapshotRegistry>,
    idle: Mutex<Vec<(Arc<Slot>, MemtableWriter)>>,
}

const HASH: u64 = 0x1234_5678_9abc_def0;

impl World {
    /// One with so many keys, the names of which sort between those that scenes use.
    fn with(keys: usize) -> Self {
        let world = Self {
            memtable: MemtablePool::new(MemoryComponent::TwoLevel, 16 << 10).take(),
            sequencer: Sequencer::new(SequenceNumber::ZERO),
            latches: Latches::new(),
            snapshots: SnapshotRegistry::new(SimulatedStorage::new(1).deterministic_clock(), None),
            idle: Mutex::default(),
        };
        (0..keys).for_each(|n| world.put(&filler(n), 1));
        world
    }

    fn put(&self, key: &str, count: u64) {
        let idle = self.idle.lock().pop();
        let (slot, mut writer) = idle.unwrap_or_else(|| (self.sequencer.register(), MemtableWriter::default()));
        self.memtable.attach(&mut writer, 1);
        let value = value(key, count);
        let mut prepared = self.memtable.prepare(&mut writer, (KEYSPACE, key.as_bytes(), HASH), Kind::Put, &value);
        let latch = self.latches.lock(Latches::index_of(HASH ^ u64::from(key.as_bytes()[0])));
        self.sequencer.announce(&slot);
        let number = self.sequencer.take(&slot);
        self.memtable.place(&mut writer, &mut prepared, number, self.snapshots.newest());
        drop(latch);
        self.sequencer.leave(&slot);
        if let Some(node) = prepared.retaining_node() {
            self.memtable.note_retained(node);
        }
        self.idle.lock().push((slot, writer));
    }

    /// As a write whose generation changed under it.
    fn put_loose(&self, keys: &[&str], count: u64) {
        let slot = self.sequencer.register();
        let values: Vec<Vec<u8>> = keys.iter().map(|key| value(key, count)).collect();
        let mut latches: Vec<_> =
            keys.iter().map(|key| Latches::index_of(HASH ^ u64::from(key.as_bytes()[0]))).collect();
        latches.sort_unstable();
        let held: Vec<_> = latches.into_iter().map(|latch| self.latches.lock(latch)).collect();
        self.sequencer.announce(&slot);
        let number = self.sequencer.take(&slot);
        let entries =
            keys.iter().zip(&values).map(|(key, value)| ((KEYSPACE, key.as_bytes(), HASH), Kind::Put, &value[..]));
        self.memtable.place_without_writer(entries, number);
        drop(held);
        self.sequencer.leave(&slot);
    }

    fn get(&self, key: &str) -> u64 {
        self.get_at(key, SequenceNumber::MAX)
    }

    fn get_at(&self, key: &str, at: SequenceNumber) -> u64 {
        let mut out = Vec::new();
        let found = self.memtable.get(KEYSPACE, key.as_bytes(), HASH, at, &mut out);
        found.map_or(0, |_| count(key, &out))
    }

    fn snapshot(&self) -> SnapshotPin {
        self.snapshots.take(&self.sequencer)
    }

    /// Keys and counts of a scan at a number, without those that were there from the beginning.
    fn scan(&self, at: SequenceNumber) -> Vec<(String, u64)> {
        let mut cursor = self.memtable.cursor_at(at);
        cursor.seek_first().unwrap();
        let (mut rows, mut before): (Vec<(String, u64)>, Vec<u8>) = (Vec::new(), Vec::new());
        while cursor.valid() {
            let entry = cursor.entry();
            assert!(before.is_empty() || *before < *entry.key, "the scan goes back");
            before = entry.key.to_vec();
            let name = String::from_utf8(entry.key[KeyspaceId::BYTES..].to_vec()).unwrap();
            let count = count(&name, entry.value);
            rows.push((name, count));
            cursor.next().unwrap();
        }
        rows
    }

    fn drain(&self, key: &str) {
        self.memtable.drain_around(&key::encoded(KEYSPACE, key.as_bytes()));
    }
}

fn filler(n: usize) -> String {
    format!("m{n:02}")
}

/// The last place of a window is fought for: who comes too late links by itself, beside the drain of all others.
#[test]
fn a_full_window_beside_a_drain() {
    check(|| {
        let world = World::with(WINDOW - 1);
        together(vec![
            Box::new(|| {
                world.put("a", 1);
                assert_eq!(world.get("a"), 1, "a put is not found");
            }),
            Box::new(|| {
                world.put("z", 1);
                assert_eq!(world.get("z"), 1, "a put is not found");
            }),
            Box::new(|| world.drain("m05")),
        ]);
        assert_eq!((world.get("a"), world.get("z"), world.get("m07")), (1, 1, 1));
        assert_eq!(world.scan(world.snapshot().number()).len(), WINDOW + 1, "the scan misses a key");
    });
}

/// Two threads bring one new key beside a drain; its node may be entered, or linked where the window is full.
#[test]
fn one_new_key_of_two_threads() {
    for keys in [2, WINDOW] {
        check(move || {
            let world = World::with(keys);
            together(vec![
                Box::new(|| world.put("n", 1)),
                Box::new(|| world.put("n", 2)),
                Box::new(|| world.drain("n")),
            ]);
            let rows = world.scan(world.snapshot().number());
            assert_eq!(rows.iter().filter(|(key, _)| key == "n").count(), 1, "a key has two nodes");
            assert_eq!(rows.len(), keys + 1, "the scan misses a key");
        });
    }
}

/// Two scans and a writer: what one thread drains, the other waits for.
#[test]
fn two_drains_of_one_partition() {
    check(|| {
        let world = World::with(3);
        let scan = || {
            let pin = world.snapshot();
            let b = world.get_at("b", pin.number());
            let rows = world.scan(pin.number());
            assert_eq!(rows.len(), 3 + usize::from(b > 0), "the scan misses a key: {rows:?}");
        };
        together(vec![Box::new(|| world.put("b", 1)), Box::new(scan), Box::new(scan)]);
    });
}

/// Single inserts of entries whose generation had changed, beside a multi-insert around them.
#[test]
fn a_multi_insert_beside_single_inserts() {
    check(|| {
        let world = World::with(4);
        together(vec![
            Box::new(|| world.put_loose(&["a", "m015", "n"], 1)),
            Box::new(|| world.drain("m01")),
            Box::new(|| {
                let pin = world.snapshot();
                let read = |key| world.get_at(key, pin.number());
                let all = (read("a"), read("m015"), read("n"));
                assert!(all == (0, 0, 0) || all == (1, 1, 1), "half a batch: {all:?}");
                let rows = world.scan(pin.number());
                assert_eq!(rows.len(), 4 + 3 * all.0 as usize, "the scan misses a key: {rows:?}");
            }),
        ]);
        assert_eq!(world.scan(world.snapshot().number()).len(), 7, "the scan misses a key");
    });
}

/// Boundaries are learned while partitions are drained.
#[test]
fn boundaries_change_beside_drains() {
    check(|| {
        let world = World::with(3);
        world.drain("m00");
        together(vec![
            Box::new(|| (3..6).for_each(|n| world.put(&filler(n), 1))),
            Box::new(|| {
                let pin = world.snapshot();
                let there = (0..6).filter(|n| world.get_at(&filler(*n), pin.number()) > 0).count();
                let rows = world.scan(pin.number());
                assert_eq!(rows.len(), there, "the scan misses a key: {rows:?}");
            }),
            Box::new(|| {
                world.drain("m04");
                world.drain("m01");
            }),
        ]);
        assert_eq!(world.scan(world.snapshot().number()).len(), 6, "the scan misses a key");
    });
}

/// A Memtable is sealed once its last writer has gone; drains go on beside it.
#[test]
fn a_seal_beside_a_drain_and_a_scan() {
    check(|| {
        let world = World::with(5);
        let pin = world.snapshot();
        together(vec![
            Box::new(|| world.memtable.seal()),
            Box::new(|| world.drain("m02")),
            Box::new(|| assert_eq!(world.scan(pin.number()).len(), 5, "the scan misses a key")),
        ]);
        assert_eq!(world.scan(pin.number()).len(), 5);
    });
}
