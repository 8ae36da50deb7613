//! The Memtable against a model, with one thread and with several.

use super::read::cursor::MemtableCursor;
use super::*;
use crate::merge::Cursor;
use crate::util::hash::key_hash;
use crate::util::random::splitmix64;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use crate::util::{KeyspaceId, Kind, SequenceNumber, key};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;

mod batches;
mod draining;
mod folding;
mod in_place;

const KEYSPACE: KeyspaceId = KeyspaceId(0);

/// SplitMix64. The seed is part of every test's failure message.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

type Model = BTreeMap<(Vec<u8>, Reverse<u64>), (Kind, Vec<u8>)>;
type Row = (Vec<u8>, u64, Kind, Vec<u8>);

fn rows_of(model: &Model) -> Vec<Row> {
    model.iter().map(|((key, number), (kind, value))| (key.clone(), number.0, *kind, value.clone())).collect()
}

fn row(cursor: &MemtableCursor) -> Option<Row> {
    cursor.valid().then(|| {
        let entry = cursor.entry();
        (entry.key.to_vec(), entry.number.0, entry.kind, entry.value.to_vec())
    })
}

fn forward(cursor: &mut MemtableCursor) -> Vec<Row> {
    let mut rows = Vec::new();
    cursor.seek_first().unwrap();
    while let Some(row) = row(cursor) {
        rows.push(row);
        cursor.next().unwrap();
    }
    rows
}

fn backward(cursor: &mut MemtableCursor) -> Vec<Row> {
    let mut rows = Vec::new();
    cursor.seek_last().unwrap();
    while let Some(row) = row(cursor) {
        rows.push(row);
        cursor.prev().unwrap();
    }
    rows.reverse();
    rows
}

/// Memtables of the default kind.
fn pool(soft_bytes: usize) -> Arc<MemtablePool> {
    MemtablePool::new(MemoryComponent::TwoLevel, soft_bytes)
}

/// As if there were a snapshot between any two numbers: every version stays.
const EVERYWHERE: SequenceNumber = SequenceNumber::MAX;

thread_local! {
    /// Each thread's writer.
    static WRITER: RefCell<MemtableWriter> = RefCell::default();
}

fn prepare(memtable: &Memtable, key: (KeyspaceId, &[u8], u64), kind: Kind, value: &[u8]) -> Prepared {
    WRITER.with_borrow_mut(|writer| {
        memtable.attach(writer, 1);
        memtable.prepare(writer, key, kind, value)
    })
}

fn place(memtable: &Memtable, mut prepared: Prepared, number: u64, newest_snapshot: SequenceNumber) {
    WRITER.with_borrow_mut(|writer| memtable.place(writer, &mut prepared, SequenceNumber(number), newest_snapshot));
    prepared.retaining_node().into_iter().for_each(|node| memtable.note_retained(node));
}

fn put(memtable: &Memtable, encoded: &[u8], number: u64, kind: Kind, value: &[u8]) {
    let (keyspace, user_key) = key::split(encoded).unwrap();
    let prepared = prepare(memtable, (keyspace, user_key, key_hash(keyspace, user_key)), kind, value);
    place(memtable, prepared, number, EVERYWHERE);
}

fn get(memtable: &Memtable, encoded: &[u8], at: u64) -> Option<(u64, Kind, Vec<u8>)> {
    let (keyspace, user_key) = key::split(encoded).unwrap();
    let mut value = b"before".to_vec();
    let (number, kind) =
        memtable.get(keyspace, user_key, key_hash(keyspace, user_key), SequenceNumber(at), &mut value)?;
    assert_eq!(value.drain(..6).as_slice(), b"before");
    Some((number.0, kind, value))
}

/// Keys that are hard to sort: shared prefixes, zero bytes, ends within and at the eight bytes of the head.
fn awkward_key(random: &mut Random) -> Vec<u8> {
    let keyspace = KeyspaceId([0, 0, 1, 255, 256, u32::MAX][random.below(6)]);
    let length = random.below(12);
    let user_key: Vec<u8> = (0..length).map(|_| [0, 0, b'a', 0xff][random.below(4)]).collect();
    key::encoded(keyspace, &user_key)
}

fn check_seeks(cursor: &mut MemtableCursor, rows: &[Row], key: &[u8], number: u64) {
    let at_or_behind = |row: &&Row| (row.0.as_slice(), Reverse(row.1)) >= (key, Reverse(number));
    let at_or_before = |row: &&Row| (row.0.as_slice(), Reverse(row.1)) <= (key, Reverse(number));
    cursor.seek(key, SequenceNumber(number)).unwrap();
    assert_eq!(row(cursor).as_ref(), rows.iter().find(at_or_behind), "seek {key:?} {number}");
    if cursor.valid() {
        let index = rows.iter().position(|row| at_or_behind(&row)).unwrap();
        cursor.prev().unwrap();
        assert_eq!(row(cursor).as_ref(), index.checked_sub(1).map(|before| &rows[before]), "prev of {key:?} {number}");
    }
    cursor.seek_for_prev(key, SequenceNumber(number)).unwrap();
    assert_eq!(row(cursor).as_ref(), rows.iter().rev().find(at_or_before), "seek_for_prev {key:?} {number}");
    if cursor.valid() {
        let index = rows.iter().rposition(|row| at_or_before(&row)).unwrap();
        cursor.next().unwrap();
        assert_eq!(row(cursor).as_ref(), rows.get(index + 1), "next of {key:?} {number}");
    }
}

/// Runs random writes and every kind of read against the model.
fn compare_with_model(memtable: &Arc<Memtable>, seed: u64, writes: u64) {
    let mut random = Random(seed);
    let mut model = Model::new();
    for number in 1..=writes {
        let key = awkward_key(&mut random);
        let kind = if random.below(4) == 0 { Kind::Delete } else { Kind::Put };
        let length = if kind == Kind::Delete { 0 } else { random.below(40) };
        let value = random.bytes(length);
        put(memtable, &key, number, kind, &value);
        model.insert((key, Reverse(number)), (kind, value));
    }
    assert_eq!(memtable.entries(), writes);
    let rows = rows_of(&model);
    let mut cursor = memtable.cursor();
    assert_eq!(forward(&mut cursor), rows, "seed {seed}");
    assert_eq!(backward(&mut cursor), rows, "seed {seed}");
    for _ in 0..writes {
        let key = awkward_key(&mut random);
        let at = random.next() % (writes + 2);
        let expected = model
            .range((key.clone(), Reverse(at))..)
            .next()
            .filter(|((found, _), _)| *found == key)
            .map(|((_, number), (kind, value))| (number.0, *kind, value.clone()));
        assert_eq!(get(memtable, &key, at), expected, "seed {seed}, key {key:?} at {at}");
        let (keyspace, user_key) = key::split(&key).unwrap();
        let newest = model.range((key.clone(), Reverse(u64::MAX))..).next().filter(|((found, _), _)| *found == key);
        assert_eq!(
            memtable.newest_number(keyspace, user_key, key_hash(keyspace, user_key)).map(|number| number.0),
            newest.map(|((_, number), _)| number.0)
        );
    }
    for _ in 0..200 {
        let key = awkward_key(&mut random);
        let cut = if random.below(4) == 0 { random.below(4) } else { key.len() };
        check_seeks(&mut cursor, &rows, &key[..cut], random.next() % (writes + 2));
    }
    check_seeks(&mut cursor, &rows, b"", SequenceNumber::MAX.0);
    check_seeks(&mut cursor, &rows, &[0xff; 20], 0);
}

#[test]
fn agrees_with_the_model() {
    let pool = pool(1 << 20);
    for seed in 0..20 {
        compare_with_model(&pool.take(), seed, 1 + 150 * seed);
    }
}

#[test]
fn an_empty_memtable_has_nothing() {
    let memtable = pool(1 << 20).take();
    assert!(memtable.is_empty() && !memtable.is_full());
    assert_eq!((memtable.bytes(), memtable.entries()), (0, 0));
    assert_eq!(get(&memtable, &key::encoded(KEYSPACE, b""), u64::MAX >> 8), None);
    check_seeks(&mut memtable.cursor(), &[], b"\0\0\0\0a", 5);
    let mut cursor = memtable.cursor();
    assert!(!cursor.valid());
    assert!(forward(&mut cursor).is_empty() && backward(&mut cursor).is_empty());
}

#[test]
fn a_prepared_version_is_visible_only_after_it_is_placed() {
    let memtable = pool(1 << 20).take();
    let encoded = key::encoded(KEYSPACE, b"key");
    let hash = key_hash(KEYSPACE, b"key");
    // Both are prepared before the key has a node; the second one finds it when it is placed.
    let first = prepare(&memtable, (KEYSPACE, b"key", hash), Kind::Put, b"one");
    let second = prepare(&memtable, (KEYSPACE, b"key", hash), Kind::Put, b"two");
    assert_eq!(get(&memtable, &encoded, 9), None);
    assert!(forward(&mut memtable.cursor()).is_empty());
    assert!(memtable.is_empty());
    place(&memtable, first, 3, EVERYWHERE);
    place(&memtable, second, 7, EVERYWHERE);
    assert_eq!(get(&memtable, &encoded, 6), Some((3, Kind::Put, b"one".to_vec())));
    assert_eq!(get(&memtable, &encoded, 7), Some((7, Kind::Put, b"two".to_vec())));
    assert_eq!(get(&memtable, &encoded, 2), None);
    assert_eq!(forward(&mut memtable.cursor()).len(), 2);
}

#[test]
fn an_old_splice_is_still_valid() {
    let memtable = MemtablePool::new(MemoryComponent::Skiplist, 4 << 20).take();
    let mut random = Random(77);
    // Positions are searched in an empty list, and used when there are thousands of keys before and after.
    let late: Vec<Vec<u8>> = (0..500).map(|_| random.bytes(6)).collect();
    let prepared: Vec<_> = late
        .iter()
        .map(|key| prepare(&memtable, (KEYSPACE, key, key_hash(KEYSPACE, key)), Kind::Put, b"late"))
        .collect();
    let mut keys: std::collections::BTreeSet<Vec<u8>> = late.iter().cloned().collect();
    for number in 1..=5000 {
        let key = random.bytes(7);
        put(&memtable, &key::encoded(KEYSPACE, &key), number, Kind::Put, b"");
        keys.insert(key);
    }
    for (prepared, number) in prepared.into_iter().zip(5001..) {
        place(&memtable, prepared, number, EVERYWHERE);
    }
    let found: Vec<Vec<u8>> = forward(&mut memtable.cursor()).into_iter().map(|row| row.0[4..].to_vec()).collect();
    assert_eq!(found, keys.into_iter().collect::<Vec<_>>());
    for key in &late {
        assert_eq!(get(&memtable, &key::encoded(KEYSPACE, key), 9999).unwrap().2, b"late");
    }
}

#[test]
fn long_and_empty_keys_and_values() {
    let memtable = pool(64 << 20).take();
    let mut random = Random(5);
    let mut model = Model::new();
    let mut number = 0;
    for key_bytes in [0, 1, 7, 8, 9, 4096, 65535, 65536] {
        for value_bytes in [0, 1, 3, 4, 5, 4096, (256 << 10) - 1, 256 << 10] {
            number += 1;
            let key = key::encoded(KEYSPACE, &vec![b'k'; key_bytes]);
            let value = random.bytes(value_bytes);
            put(&memtable, &key, number, Kind::Put, &value);
            assert_eq!(get(&memtable, &key, number), Some((number, Kind::Put, value.clone())));
            model.insert((key, Reverse(number)), (Kind::Put, value));
        }
    }
    assert_eq!(forward(&mut memtable.cursor()), rows_of(&model));
    assert_eq!(backward(&mut memtable.cursor()), rows_of(&model));
}

#[test]
fn keys_beyond_a_full_index_window_are_found_in_the_skiplist() {
    // All keys share four hashes, so their windows overflow at once and most keys are only in the skiplist.
    let memtable = pool(1 << 20).take();
    let weak_hash = |key: &[u8]| u64::from(key[0] % 4) << 62 | u64::from(key[1] % 2);
    let mut random = Random(9);
    let mut model: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for number in 1..=1500 {
        let key = random.bytes(2);
        let value = number.to_string().into_bytes();
        let prepared = prepare(&memtable, (KEYSPACE, &key, weak_hash(&key)), Kind::Put, &value);
        place(&memtable, prepared, number, EVERYWHERE);
        model.insert(key, number);
    }
    for first in 0..=255u8 {
        for second in 0..=255u8 {
            let key = [first, second];
            let mut value = Vec::new();
            let found = memtable.get(KEYSPACE, &key, weak_hash(&key), SequenceNumber::MAX, &mut value);
            assert_eq!(found.map(|found| found.0.0), model.get(&key[..]).copied());
            assert_eq!(found.is_some(), !value.is_empty());
        }
    }
    let mut cursor = memtable.cursor();
    let keys: std::collections::BTreeSet<_> = forward(&mut cursor).into_iter().map(|row| row.0[4..].to_vec()).collect();
    assert_eq!(keys, model.keys().cloned().collect());
}

#[test]
fn a_full_memtable_still_takes_writes_in_progress() {
    let pool = pool(64 << 10);
    let memtable = pool.take();
    let mut number = 0u64;
    while !memtable.is_full() {
        number += 1;
        put(&memtable, &key::encoded(KEYSPACE, &number.to_be_bytes()), number, Kind::Put, &[7; 400]);
    }
    assert!(memtable.bytes() >= 64 << 10 && memtable.bytes() < 66 << 10);
    // Thirty times the soft size more, with thirty times as many keys as the index has slots.
    for late in number + 1..number + 20_000 {
        put(&memtable, &key::encoded(KEYSPACE, &late.to_be_bytes()), late, Kind::Put, &[8; 60]);
    }
    for any in (1..number + 20_000).step_by(7) {
        let found = get(&memtable, &key::encoded(KEYSPACE, &any.to_be_bytes()), u64::MAX >> 8);
        assert_eq!(found.map(|found| found.0), Some(any));
    }
    assert_eq!(get(&memtable, &key::encoded(KEYSPACE, b"absent"), u64::MAX >> 8), None);
    assert!(pool.bytes_resident() > 1 << 20);
    drop(memtable);
    assert!(pool.bytes_resident() < 128 << 10, "the pages beyond the soft size were not released");
}

#[test]
fn recycled_memory_shows_nothing_of_earlier_uses() {
    // More uses than the index has eras, each with other keys. Memory is dirty from the second use on.
    let pool = pool(256 << 10);
    let mut last_keys: Vec<Vec<u8>> = Vec::new();
    for use_count in 0..600u64 {
        let memtable = pool.take();
        assert!(memtable.is_empty());
        for key in &last_keys {
            assert_eq!(get(&memtable, key, u64::MAX >> 8), None, "use {use_count}");
        }
        assert!(forward(&mut memtable.cursor()).is_empty());
        if use_count % 50 == 0 {
            compare_with_model(&memtable, use_count, 300);
            last_keys.clear();
            continue;
        }
        last_keys = (0..20u64).map(|i| key::encoded(KEYSPACE, &(use_count * 7 + i).to_be_bytes())).collect();
        for (key, number) in last_keys.iter().zip(1..) {
            put(&memtable, key, number, Kind::Put, b"x");
        }
        assert_eq!(forward(&mut memtable.cursor()).len(), 20);
    }
    assert_eq!(pool.take().arena().earlier_uses(), 600, "one arena served all uses");
}

#[test]
fn keys_of_an_earlier_use_with_the_same_era_are_absent() {
    // After 255 uses the eras begin again. If the slots of use 0 still counted as full, they would lead to its nodes,
    // which nothing has overwritten since.
    let pool = pool(64 << 10);
    let keys: Vec<Vec<u8>> = (0..200u64).map(|i| key::encoded(KEYSPACE, &i.to_be_bytes())).collect();
    let first = pool.take();
    for (key, number) in keys.iter().zip(1..) {
        put(&first, key, number, Kind::Put, b"first use");
    }
    drop(first);
    for use_count in 1..=256 {
        let memtable = pool.take();
        assert_eq!(memtable.arena().earlier_uses(), use_count);
        for key in &keys {
            assert_eq!(get(&memtable, key, u64::MAX >> 8), None, "use {use_count}");
        }
    }
}

#[test]
fn concurrent_links_at_one_node_lose_nothing() {
    // Rising keys from one counter: every thread links after the same last node, again and again.
    const THREADS: u64 = 4;
    const KEYS: u64 = 40_000;
    let memtable = pool(16 << 20).take();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let key = next.fetch_add(1, Ordering::Relaxed);
                    if key >= KEYS {
                        break;
                    }
                    // Four keys for each line of the index, so that threads also race for its slots.
                    let prepared = prepare(&memtable, (KEYSPACE, &key.to_be_bytes(), key << 46), Kind::Put, b"");
                    place(&memtable, prepared, key + 1, EVERYWHERE);
                }
            });
        }
    });
    let rows = forward(&mut memtable.cursor());
    assert_eq!(rows.len() as u64, KEYS);
    for (row, key) in rows.iter().zip(0u64..) {
        assert_eq!((&row.0[4..], row.1), (&key.to_be_bytes()[..], key + 1));
        let newest = memtable.newest_number(KEYSPACE, &key.to_be_bytes(), key << 46);
        assert_eq!(newest, Some(SequenceNumber(key + 1)), "key {key} is in the list and not in the index");
    }
}

#[test]
#[should_panic(expected = "prepared in another memtable")]
fn a_prepared_version_is_bound_to_its_memtable() {
    let pool = pool(1 << 20);
    let (one, other) = (pool.take(), pool.take());
    let prepared = prepare(&one, (KEYSPACE, b"k", 1), Kind::Put, b"");
    place(&other, prepared, 1, EVERYWHERE);
}

/// Imitates the engine: a latch for each key, and numbers from one counter, taken under the latch.
struct Writers {
    memtable: Arc<Memtable>,
    latches: Vec<Mutex<()>>,
    counter: AtomicU64,
    stop: AtomicBool,
    newest_snapshot: SequenceNumber,
}

impl Writers {
    fn new(soft_bytes: usize, newest_snapshot: SequenceNumber) -> Self {
        let latches = (0..64).map(|_| Mutex::new(())).collect();
        let memtable = pool(soft_bytes).take();
        Self { memtable, latches, counter: AtomicU64::new(0), stop: AtomicBool::new(false), newest_snapshot }
    }

    fn put(&self, user_key: &[u8], value: &[u8]) -> u64 {
        let hash = key_hash(KEYSPACE, user_key);
        let prepared = prepare(&self.memtable, (KEYSPACE, user_key, hash), Kind::Put, value);
        let _latch = self.latches[(hash % 64) as usize].lock();
        let number = self.counter.fetch_add(1, Ordering::AcqRel) + 1;
        place(&self.memtable, prepared, number, self.newest_snapshot);
        number
    }
}

/// A value that shows whether it was read whole.
fn marked_value(thread: u64, count: u64) -> Vec<u8> {
    [thread, count, thread ^ count ^ 0x5555].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn check_marked(value: &[u8]) {
    let words: Vec<u64> = value.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words[0] ^ words[1] ^ 0x5555, words[2]);
}

#[test]
fn concurrent_writers_of_few_and_of_many_keys() {
    const THREADS: u64 = 4;
    for (seed, keys, writes) in [(1, 13, 4000), (2, 3000, 6000), (3, usize::MAX, 6000)] {
        let writers = Writers::new(16 << 20, EVERYWHERE);
        let placed: Vec<(Vec<u8>, u64, Vec<u8>)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let writers = &writers;
                    scope.spawn(move || {
                        let mut random = Random(seed << 32 | thread);
                        let one = |count| {
                            let user_key = (random.below(keys) as u64).to_be_bytes().to_vec();
                            let value = marked_value(thread, count);
                            let number = writers.put(&user_key, &value);
                            // As soon as `place` returns, a get finds the placed version or a newer one.
                            let mut out = Vec::new();
                            let hash = key_hash(KEYSPACE, &user_key);
                            let found =
                                writers.memtable.get(KEYSPACE, &user_key, hash, SequenceNumber::MAX, &mut out).unwrap();
                            assert!(found.0.0 >= number);
                            check_marked(&out);
                            (user_key, number, value)
                        };
                        (0..writes).map(one).collect::<Vec<_>>()
                    })
                })
                .collect();
            let reader = scope.spawn(|| {
                // Scans concurrent with the writers are strictly in order, and a later scan sees no fewer entries.
                let mut cursor = writers.memtable.cursor();
                let mut seen = 0;
                while !writers.stop.load(Ordering::Relaxed) {
                    let rows = forward(&mut cursor);
                    let order = |row: &Row| (row.0.clone(), Reverse(row.1));
                    assert!(rows.windows(2).all(|pair| order(&pair[0]) < order(&pair[1])));
                    rows.iter().for_each(|row| check_marked(&row.3));
                    assert!(rows.len() >= seen);
                    seen = rows.len();
                }
            });
            let all = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            writers.stop.store(true, Ordering::Relaxed);
            reader.join().unwrap();
            all
        });
        let model: Model = placed
            .into_iter()
            .map(|(key, number, value)| ((key::encoded(KEYSPACE, &key), Reverse(number)), (Kind::Put, value)))
            .collect();
        assert_eq!(forward(&mut writers.memtable.cursor()), rows_of(&model), "seed {seed}");
        assert_eq!(writers.memtable.entries(), THREADS * writes);
    }
}

#[test]
fn readers_see_rising_versions_of_a_key() {
    let writers = Writers::new(16 << 20, EVERYWHERE);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2u64)
            .map(|thread| {
                let writers = &writers;
                scope.spawn(move || {
                    for count in 0..30_000u64 {
                        writers.put(&[(count % 7) as u8], &marked_value(thread, count));
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                let mut newest = [0; 7];
                while !writers.stop.load(Ordering::Relaxed) {
                    for (key, newest) in newest.iter_mut().enumerate() {
                        let user_key = [key as u8];
                        let mut out = Vec::new();
                        let hash = key_hash(KEYSPACE, &user_key);
                        let found = writers.memtable.get(KEYSPACE, &user_key, hash, SequenceNumber::MAX, &mut out);
                        let number = found.map_or(0, |found| found.0.0);
                        assert!(number >= *newest, "key {key} went from {newest} back to {number}");
                        *newest = number;
                        if number > 0 {
                            check_marked(&out);
                        }
                    }
                }
            });
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        writers.stop.store(true, Ordering::Relaxed);
    });
}
