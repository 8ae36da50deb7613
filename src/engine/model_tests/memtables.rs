//! Tests of one Memtable with the sequencer, latches and snapshot registry of a store, joined as in
//! `engine/write/write_path.rs`. Here a test can choose the hashes of the keys.

use super::{check, count, together, value};
use crate::engine::state::latches::Latches;
use crate::engine::state::snapshot_registry::{SnapshotPin, SnapshotRegistry};
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;
use crate::memory::{MemoryComponent, Memtable, MemtablePool, MemtableWriter};
use crate::merge::Cursor;
use crate::merge::RangeTombstones;
use crate::util::sequencer::{Sequencer, Slot};
use crate::util::sync::{Arc, Mutex};
use crate::util::{KeyspaceId, Kind, SequenceNumber, key};

const KEYSPACE: KeyspaceId = KeyspaceId::DEFAULT;
/// The number of keys with the same hash that the index accepts.
const WINDOW: usize = 64;

/// A Memtable with everything that a write needs. All keys have the same hash.
struct Fixture {
    memtable: Arc<Memtable>,
    sequencer: Sequencer,
    latches: Latches,
    snapshots: Arc<SnapshotRegistry>,
    idle: Mutex<Vec<(Arc<Slot>, MemtableWriter)>>,
}

const HASH: u64 = 0x1234_5678_9abc_def0;

impl Fixture {
    /// A fixture with this many keys, which sort between the keys that the tests use.
    fn with(keys: usize) -> Self {
        let fixture = Self {
            memtable: MemtablePool::new(MemoryComponent::TwoLevel, 16 << 10).take(),
            sequencer: Sequencer::new(SequenceNumber::ZERO),
            latches: Latches::new(),
            snapshots: SnapshotRegistry::new(SimulatedStorage::new(1).deterministic_clock(), None),
            idle: Mutex::default(),
        };
        (0..keys).for_each(|n| fixture.put(&filler(n), 1));
        fixture
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

    /// Writes as a batch does whose generation was switched before the batch got its number.
    fn put_after_switch(&self, keys: &[&str], count: u64) {
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
        self.memtable.place_without_writer(entries, RangeTombstones::default(), number);
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

    /// The keys and counts of a scan at a sequence number.
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

/// Two threads race for the last place of a window. The loser links its node itself, while the others are drained.
#[test]
fn a_full_window_beside_a_drain() {
    check(|| {
        let fixture = Fixture::with(WINDOW - 1);
        together(vec![
            Box::new(|| {
                fixture.put("a", 1);
                assert_eq!(fixture.get("a"), 1, "a put is not found");
            }),
            Box::new(|| {
                fixture.put("z", 1);
                assert_eq!(fixture.get("z"), 1, "a put is not found");
            }),
            Box::new(|| fixture.drain("m05")),
        ]);
        assert_eq!((fixture.get("a"), fixture.get("z"), fixture.get("m07")), (1, 1, 1));
        assert_eq!(fixture.scan(fixture.snapshot().number()).len(), WINDOW + 1, "the scan misses a key");
    });
}

/// Two threads insert the same new key during a drain. Its node goes into the index, or is linked if the window is
/// full.
#[test]
fn one_new_key_of_two_threads() {
    for keys in [2, WINDOW] {
        check(move || {
            let fixture = Fixture::with(keys);
            together(vec![
                Box::new(|| fixture.put("n", 1)),
                Box::new(|| fixture.put("n", 2)),
                Box::new(|| fixture.drain("n")),
            ]);
            let rows = fixture.scan(fixture.snapshot().number());
            assert_eq!(rows.iter().filter(|(key, _)| key == "n").count(), 1, "a key has two nodes");
            assert_eq!(rows.len(), keys + 1, "the scan misses a key");
        });
    }
}

/// Two scans and a writer: if one scan drains a partition, the other waits for it.
#[test]
fn two_drains_of_one_partition() {
    check(|| {
        let fixture = Fixture::with(3);
        let scan = || {
            let pin = fixture.snapshot();
            let b = fixture.get_at("b", pin.number());
            let rows = fixture.scan(pin.number());
            assert_eq!(rows.len(), 3 + usize::from(b > 0), "the scan misses a key: {rows:?}");
        };
        together(vec![Box::new(|| fixture.put("b", 1)), Box::new(scan), Box::new(scan)]);
    });
}

/// Single inserts of entries whose generation was switched, during a multi-insert of the keys around them.
#[test]
fn a_multi_insert_beside_single_inserts() {
    check(|| {
        let fixture = Fixture::with(4);
        together(vec![
            Box::new(|| fixture.put_after_switch(&["a", "m015", "n"], 1)),
            Box::new(|| fixture.drain("m01")),
            Box::new(|| {
                let pin = fixture.snapshot();
                let read = |key| fixture.get_at(key, pin.number());
                let all = (read("a"), read("m015"), read("n"));
                assert!(all == (0, 0, 0) || all == (1, 1, 1), "half a batch: {all:?}");
                let rows = fixture.scan(pin.number());
                assert_eq!(rows.len(), 4 + 3 * all.0 as usize, "the scan misses a key: {rows:?}");
            }),
        ]);
        assert_eq!(fixture.scan(fixture.snapshot().number()).len(), 7, "the scan misses a key");
    });
}

/// Partition boundaries are learned while partitions are drained.
#[test]
fn boundaries_change_beside_drains() {
    check(|| {
        let fixture = Fixture::with(3);
        fixture.drain("m00");
        together(vec![
            Box::new(|| (3..6).for_each(|n| fixture.put(&filler(n), 1))),
            Box::new(|| {
                let pin = fixture.snapshot();
                let there = (0..6).filter(|n| fixture.get_at(&filler(*n), pin.number()) > 0).count();
                let rows = fixture.scan(pin.number());
                assert_eq!(rows.len(), there, "the scan misses a key: {rows:?}");
            }),
            Box::new(|| {
                fixture.drain("m04");
                fixture.drain("m01");
            }),
        ]);
        assert_eq!(fixture.scan(fixture.snapshot().number()).len(), 6, "the scan misses a key");
    });
}

/// A Memtable is sealed after its last writer has left, while it is still drained.
#[test]
fn a_seal_beside_a_drain_and_a_scan() {
    check(|| {
        let fixture = Fixture::with(5);
        let pin = fixture.snapshot();
        together(vec![
            Box::new(|| fixture.memtable.seal()),
            Box::new(|| fixture.drain("m02")),
            Box::new(|| assert_eq!(fixture.scan(pin.number()).len(), 5, "the scan misses a key")),
        ]);
        assert_eq!(fixture.scan(pin.number()).len(), 5);
    });
}
