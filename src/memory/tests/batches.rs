//! Batches become visible as a whole.

use super::*;

/// Entries of a batch that are placed and not yet committed.
pub(super) struct Pending<'a> {
    memtable: &'a Memtable,
    batch: BatchState,
    entries: Vec<Prepared>,
}

impl<'a> Pending<'a> {
    pub(super) fn place(memtable: &'a Memtable, encoded: &[Vec<u8>], number: u64, value: &[u8]) -> Self {
        WRITER.with_borrow_mut(|writer| {
            memtable.attach(writer, encoded.len().max(2));
            let batch = memtable.batch_state(writer);
            let mut prepare = |encoded: &Vec<u8>| {
                let (keyspace, user_key) = key::split(encoded).unwrap();
                memtable.prepare(writer, (keyspace, user_key, key_hash(keyspace, user_key)), Kind::Put, value)
            };
            let mut entries: Vec<Prepared> = encoded.iter().map(&mut prepare).collect();
            for entry in &mut entries {
                memtable.place_pending(writer, entry, SequenceNumber(number), batch);
            }
            Self { memtable, batch, entries }
        })
    }

    pub(super) fn commit(mut self, newest_snapshot: SequenceNumber) {
        WRITER.with_borrow_mut(|writer| {
            self.memtable.commit(writer, self.batch, self.entries.iter_mut(), newest_snapshot);
        });
        self.entries.iter().filter_map(Prepared::retaining_node).for_each(|node| self.memtable.note_retained(node));
    }
}

#[test]
fn a_batch_becomes_visible_as_a_whole() {
    let memtable = pool(1 << 20).take();
    let keys: Vec<Vec<u8>> = (0..50u8).map(|i| key::encoded(KeyspaceId(u32::from(i % 3)), &[i])).collect();
    for key in keys.iter().step_by(2) {
        put(&memtable, key, 1 + u64::from(key[4]), Kind::Put, b"old");
    }
    let before = forward(&mut memtable.cursor());
    let batch = Pending::place(&memtable, &keys, 100, b"new");
    let mut cursor = memtable.cursor();
    assert_eq!(forward(&mut cursor), before);
    assert_eq!(backward(&mut cursor), before);
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(get(&memtable, key, 200).map(|found| found.0), (i % 2 == 0).then(|| 1 + u64::from(key[4])));
        check_seeks(&mut cursor, &before, key, 200);
        check_seeks(&mut cursor, &before, key, 0);
    }
    batch.commit(EVERYWHERE);
    // Twice: after the first read of a version, the second need not read the state word.
    for _ in 0..2 {
        for key in &keys {
            assert_eq!(get(&memtable, key, 200), Some((100, Kind::Put, b"new".to_vec())));
            let (keyspace, user_key) = key::split(key).unwrap();
            let newest = memtable.newest_number(keyspace, user_key, key_hash(keyspace, user_key));
            assert_eq!(newest, Some(SequenceNumber(100)));
        }
        assert_eq!(forward(&mut cursor).len(), before.len() + keys.len());
        assert_eq!(backward(&mut cursor).len(), before.len() + keys.len());
    }
}

#[test]
fn a_pending_version_within_a_chain_is_skipped() {
    let memtable = pool(1 << 20).take();
    let key = key::encoded(KEYSPACE, b"k");
    put(&memtable, &key, 1, Kind::Put, b"one");
    let batch = Pending::place(&memtable, std::slice::from_ref(&key), 2, b"two");
    put(&memtable, &key, 3, Kind::Put, b"three");
    let mut cursor = memtable.cursor();
    let rows = forward(&mut cursor);
    assert_eq!(rows.iter().map(|row| row.1).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(backward(&mut cursor), rows);
    for number in 0..5 {
        check_seeks(&mut cursor, &rows, &key, number);
    }
    assert_eq!(get(&memtable, &key, 2).map(|found| found.0), Some(1));
    batch.commit(EVERYWHERE);
    assert_eq!(get(&memtable, &key, 2).map(|found| found.0), Some(2));
    assert_eq!(forward(&mut cursor).len(), 3);
}

#[test]
fn batches_are_atomic_for_readers_in_commit_order() {
    const KEYS: u8 = 8;
    let memtable = pool(64 << 20).take();
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|key| key::encoded(KEYSPACE, &[key])).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // Every batch writes all keys, so if one key shows a batch, each key read later shows it or a newer
                    // one.
                    let mut floor = 0;
                    for key in (0..KEYS).rev() {
                        let hash = key_hash(KEYSPACE, &[key]);
                        let found = memtable.get(KEYSPACE, &[key], hash, SequenceNumber::MAX, &mut Vec::new());
                        let number = found.map_or(0, |found| found.0.0);
                        assert!(number >= floor, "half a batch: key {key} at {number}, another one at {floor}");
                        floor = number;
                    }
                }
            });
        }
        for number in 1..=10_000 {
            Pending::place(&memtable, &keys, number, &number.to_string().into_bytes()).commit(EVERYWHERE);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(memtable.entries(), 10_000 * u64::from(KEYS));
}
