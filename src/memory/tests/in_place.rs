//! Updates in place, the versions that snapshots retain, and the memory that is freed when snapshots are dropped.

use super::batches::Pending;
use super::*;
use crate::merge::RangeTombstones;
use crate::util::sync::AtomicUsize;
use std::collections::BTreeSet;

/// The newest version of each key.
type Contents = BTreeMap<Vec<u8>, (u64, Kind, Vec<u8>)>;

/// A Memtable with a set of snapshots, and what each of them must show; one thread.
struct Snapshots {
    memtable: Arc<Memtable>,
    last: u64,
    contents: Contents,
    live: BTreeMap<u64, Contents>,
}

impl Snapshots {
    fn new(soft_bytes: usize) -> Self {
        Self { memtable: pool(soft_bytes).take(), last: 0, contents: BTreeMap::new(), live: BTreeMap::new() }
    }

    fn newest_snapshot(&self) -> SequenceNumber {
        SequenceNumber(self.live.last_key_value().map_or(0, |(number, _)| *number))
    }

    fn put(&mut self, user_key: &[u8], kind: Kind, value: &[u8]) {
        self.last += 1;
        let prepared = prepare(&self.memtable, (KEYSPACE, user_key, key_hash(KEYSPACE, user_key)), kind, value);
        place(&self.memtable, prepared, self.last, self.newest_snapshot());
        self.contents.insert(key::encoded(KEYSPACE, user_key), (self.last, kind, value.to_vec()));
    }

    fn batch(&mut self, keys: &BTreeSet<Vec<u8>>, value: &[u8]) {
        self.last += 1;
        let encoded: Vec<Vec<u8>> = keys.iter().map(|user_key| key::encoded(KEYSPACE, user_key)).collect();
        Pending::place(&self.memtable, &encoded, self.last, value).commit(self.newest_snapshot());
        for key in encoded {
            self.contents.insert(key, (self.last, Kind::Put, value.to_vec()));
        }
    }

    fn take(&mut self) {
        self.live.insert(self.last, self.contents.clone());
    }

    fn clean_versions(&self) {
        let pins: Vec<SequenceNumber> = self.live.keys().copied().map(SequenceNumber).collect();
        self.memtable.clean_versions(&pins, SequenceNumber(self.last), |_, change| change());
    }

    fn check(&self, number: u64, contents: &Contents) {
        let mut cursor = self.memtable.cursor_at(SequenceNumber(number));
        let expected: Vec<Row> =
            contents.iter().map(|(key, (number, kind, value))| (key.clone(), *number, *kind, value.clone())).collect();
        assert_eq!(forward(&mut cursor), expected, "forward at {number}");
        assert_eq!(backward(&mut cursor), expected, "backward at {number}");
        for (key, version) in contents {
            assert_eq!(get(&self.memtable, key, number).as_ref(), Some(version), "{key:?} at {number}");
        }
    }

    fn check_all(&self) {
        self.live.iter().for_each(|(number, contents)| self.check(*number, contents));
        self.check(SequenceNumber::MAX.0, &self.contents);
    }
}

#[test]
fn each_snapshot_retains_exactly_the_versions_that_it_needs() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let mut snapshots = Snapshots::new(1 << 20);
        for step in 0..600 {
            let user_key = vec![b'k'; random.below(6)];
            let length = [0, 3, 8, 40, 300, 2000][random.below(6)];
            let value = random.bytes(length);
            match random.below(12) {
                0 => snapshots.take(),
                1 => {
                    let dropped = snapshots.live.keys().copied().nth(random.below(snapshots.live.len().max(1)));
                    dropped.map(|number| snapshots.live.remove(&number));
                }
                2 => {
                    let keys = (0..random.below(5)).map(|_| vec![b'k'; random.below(6)]).collect();
                    snapshots.batch(&keys, &value);
                }
                3 => snapshots.put(&user_key, Kind::Delete, b""),
                4 if random.below(4) == 0 => snapshots.clean_versions(),
                _ => snapshots.put(&user_key, Kind::Put, &value),
            }
            if step % 50 == 0 {
                snapshots.check_all();
            }
        }
        snapshots.check_all();
        // Only the versions that live snapshots show remain.
        snapshots.clean_versions();
        let needed: BTreeSet<(&Vec<u8>, u64)> = snapshots
            .live
            .values()
            .chain([&snapshots.contents])
            .flat_map(|contents| contents.iter().map(|(key, version)| (key, version.0)))
            .collect();
        assert_eq!(snapshots.memtable.entries(), needed.len() as u64, "seed {seed}");
        snapshots.live.clear();
        snapshots.clean_versions();
        assert_eq!(snapshots.memtable.entries(), snapshots.contents.len() as u64, "seed {seed}");
        assert!(!snapshots.memtable.has_retained());
        snapshots.check_all();
    }
}

/// Entries up to the end of the largest soft size, with little memory: what lies between them is never touched.
#[test]
fn the_largest_memtable_has_entries_at_both_ends_of_its_memory() {
    let mut snapshots = Snapshots::new(MEMTABLE_SOFT_BYTES_MAX);
    for round in 0..2 {
        for number in 0..20u8 {
            // As if other entries were there. A new thread has a writer without a piece of the arena.
            snapshots.memtable.arena().allocate(480 << 20);
            let put = || snapshots.put(&[number], Kind::Put, &[round; 1000]);
            std::thread::scope(|scope| scope.spawn(put).join().unwrap());
        }
        snapshots.take();
        snapshots.check_all();
    }
    assert!(snapshots.memtable.bytes() > 18 << 30 && !snapshots.memtable.is_full());
    snapshots.memtable.arena().allocate(3 << 30);
    assert!(snapshots.memtable.is_full());
    snapshots.check_all();
}

#[test]
fn overwrites_without_snapshots_use_bounded_memory() {
    let mut snapshots = Snapshots::new(1 << 20);
    let mut random = Random(3);
    let mut round = |snapshots: &mut Snapshots, writes: usize| {
        for _ in 0..writes {
            let value = vec![7; random.below(3000)];
            snapshots.put(&[random.below(3) as u8], Kind::Put, &value);
        }
        snapshots.memtable.bytes()
    };
    // Each of three keys may have a value of the same class while a fourth block is being filled: four blocks of each
    // class; all classes together are 85 KiB.
    let first = round(&mut snapshots, 30_000);
    let second = round(&mut snapshots, 300_000);
    assert!(
        first > 100 << 10 && second < 400 << 10,
        "{first} bytes after 30,000 overwrites, {second} after ten times that"
    );
    assert_eq!(snapshots.memtable.entries(), 3);
}

#[test]
fn memory_is_freed_after_snapshots_are_dropped() {
    let mut snapshots = Snapshots::new(4 << 20);
    for key in 0..100u8 {
        snapshots.put(&[key], Kind::Put, &[1; 500]);
    }
    let before = snapshots.memtable.live_bytes();
    for _ in 0..20 {
        snapshots.take();
        for key in 0..100u8 {
            snapshots.put(&[key], Kind::Put, &[2; 500]);
        }
    }
    let during = snapshots.memtable.live_bytes();
    assert!(during > before + 20 * 100 * 500, "{during} bytes for 2,000 more versions");
    snapshots.live.clear();
    snapshots.clean_versions();
    let after = snapshots.memtable.live_bytes();
    // Memory is reserved in pieces, whose ends stay unused.
    assert!(after - before < (during - before) / 20, "{before} bytes before, {during} during, {after} after");
    // The blocks are reused.
    let whole = snapshots.memtable.bytes();
    for _ in 0..20 {
        snapshots.take();
        for key in 0..100u8 {
            snapshots.put(&[key], Kind::Put, &[3; 500]);
        }
    }
    assert_eq!(snapshots.memtable.bytes(), whole);
    snapshots.check_all();
}

/// A value that shows whether it was read whole; lengths differ from one seed to the next.
fn marked(seed: u64) -> Vec<u8> {
    let mut value = marked_value(seed, seed.rotate_left(7));
    value.extend(std::iter::repeat_n(value[0], (seed % 90) as usize));
    value
}

fn check_whole(value: &[u8]) {
    check_marked(&value[..24]);
    let seed = u64::from_le_bytes(value[..8].try_into().unwrap());
    assert_eq!(value, marked(seed));
}

#[test]
fn readers_during_overwrites_see_whole_rising_values() {
    let writers = Writers::new(16 << 20, SequenceNumber::ZERO);
    let running = AtomicUsize::new(2);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (writers, running) = (&writers, &running);
            scope.spawn(move || {
                for count in 0..60_000u64 {
                    writers.put(&[(count % 3) as u8], &marked(count * 2 + thread));
                }
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut newest = [0; 3];
                while running.load(Ordering::SeqCst) > 0 {
                    for (key, newest) in newest.iter_mut().enumerate() {
                        let mut out = Vec::new();
                        let hash = key_hash(KEYSPACE, &[key as u8]);
                        let found = writers.memtable.get(KEYSPACE, &[key as u8], hash, SequenceNumber::MAX, &mut out);
                        if let Some((number, _)) = found {
                            assert!(number.0 >= *newest, "key {key} went from {newest} back to {number}");
                            *newest = number.0;
                            check_whole(&out);
                        }
                    }
                }
            });
        }
    });
    assert_eq!(writers.memtable.entries(), 3);
    // The 120,000 values would take many MiB. Blocks that a reader may still see are reused later, and a busy machine
    // stops readers for a while.
    assert!(writers.memtable.bytes() <= 1 << 20, "{} bytes for three keys", writers.memtable.bytes());
}

#[test]
fn reused_blocks_never_show_the_value_of_another_key() {
    // One thread's spare block moves from key to key, while readers may still have the old places of blocks.
    const KEYS: u64 = 64;
    let writers = Writers::new(16 << 20, SequenceNumber::ZERO);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut random = Random(5);
                while !writers.stop.load(Ordering::Relaxed) {
                    let key = random.next() % KEYS;
                    let mut out = Vec::new();
                    let hash = key_hash(KEYSPACE, &key.to_le_bytes());
                    let found = writers.memtable.get(KEYSPACE, &key.to_le_bytes(), hash, SequenceNumber::MAX, &mut out);
                    if found.is_some() {
                        assert_eq!(out[..8], key.to_le_bytes(), "the value of another key");
                    }
                }
            });
        }
        for count in 0..200_000u64 {
            let key = count % KEYS;
            writers.put(&key.to_le_bytes(), &[key.to_le_bytes(), count.to_le_bytes()].concat());
        }
        writers.stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn drains_during_writes_miss_nothing() {
    // Each reader takes a number once all up to it is placed, as a snapshot does. It must find exactly the entries up
    // to it.
    const KEYS: u64 = 30_000;
    let writers = Writers::new(64 << 20, SequenceNumber::ZERO);
    let order = Mutex::new(());
    let placed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (writers, placed) = (&writers, &placed);
            scope.spawn(move || {
                let mut random = Random(reader);
                while !writers.stop.load(Ordering::Relaxed) {
                    let at = placed.load(Ordering::Acquire);
                    let mut cursor = writers.memtable.cursor_at(SequenceNumber(at));
                    if random.below(2) == 0 {
                        let rows = if random.below(2) == 0 { forward(&mut cursor) } else { backward(&mut cursor) };
                        assert_eq!(rows.len() as u64, at, "the number of rows differs from the number of writes");
                        assert!(rows.windows(2).all(|pair| pair[0].0 < pair[1].0));
                    } else {
                        let from = key::encoded(KEYSPACE, &random.next().to_be_bytes());
                        cursor.seek(&from, SequenceNumber(at)).unwrap();
                        let found = row(&cursor);
                        let all = forward(&mut writers.memtable.cursor_at(SequenceNumber(at)));
                        assert_eq!(found.as_ref(), all.iter().find(|row| row.0 >= from));
                    }
                }
            });
        }
        let threads: Vec<_> = (0..2u64)
            .map(|thread| {
                let (writers, order, placed) = (&writers, &order, &placed);
                scope.spawn(move || {
                    let mut random = Random(100 + thread);
                    for _ in 0..KEYS / 2 {
                        let user_key = random.next().to_be_bytes();
                        let _all_before_are_placed = order.lock();
                        let number = writers.put(&user_key, b"value");
                        placed.store(number, Ordering::Release);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        writers.stop.store(true, Ordering::Relaxed);
    });
    writers.memtable.seal();
    assert_eq!(forward(&mut writers.memtable.cursor()).len() as u64, KEYS);
}

#[test]
fn a_sealed_memtable_is_read_in_order_after_any_drains() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let memtable = pool(64 << 20).take();
        let mut model = Model::new();
        let keys = [50, 3000, 20_000][random.below(3)];
        for number in 1..=keys as u64 {
            // Some keys come again and their old versions are retained; lengths and prefixes vary.
            let user_key = match random.below(3) {
                0 => random.next().to_be_bytes().to_vec(),
                1 => format!("user{:08}", random.below(keys)).into_bytes(),
                _ => random.bytes(2),
            };
            let encoded = key::encoded(KEYSPACE, &user_key);
            put(&memtable, &encoded, number, Kind::Put, &number.to_le_bytes());
            model.insert((encoded, Reverse(number)), (Kind::Put, number.to_le_bytes().to_vec()));
            if random.below(keys / 4) == 0 {
                let from = key::encoded(KEYSPACE, &random.next().to_be_bytes());
                memtable.cursor_at(SequenceNumber(number)).seek(&from, SequenceNumber(number)).unwrap();
            }
        }
        memtable.seal();
        let rows = rows_of(&model);
        let mut cursor = memtable.sealed_cursor();
        let read = |cursor: &mut dyn Cursor| {
            let mut found = Vec::new();
            while cursor.valid() {
                let entry = cursor.entry();
                found.push((entry.key.to_vec(), entry.number.0, entry.kind, entry.value.to_vec()));
                cursor.next().unwrap();
            }
            found
        };
        cursor.seek_first().unwrap();
        assert_eq!(read(&mut *cursor), rows, "seed {seed}");
        // A scan links the nodes that the cursor left waiting, and the cursor still finds them.
        let at = rows[random.below(rows.len())].0.clone();
        memtable.cursor_at(SequenceNumber::MAX).seek(&at, SequenceNumber::MAX).unwrap();
        cursor.seek(&at, SequenceNumber::MAX).unwrap();
        let from = rows.iter().position(|row| row.0 == at).unwrap();
        assert_eq!(read(&mut *cursor), rows[from..], "seed {seed}");
        assert_eq!(forward(&mut memtable.cursor()), rows, "seed {seed}");
    }
}

#[test]
fn entries_of_another_generation_are_placed_without_a_writer() {
    let mut snapshots = Snapshots::new(1 << 20);
    snapshots.put(b"old", Kind::Put, b"one");
    let entry = |user_key: &'static [u8]| ((KEYSPACE, user_key, key_hash(KEYSPACE, user_key)), Kind::Put, user_key);
    snapshots.memtable.place_without_writer(
        [entry(b"old"), entry(b"new")].into_iter(),
        RangeTombstones::default(),
        SequenceNumber(2),
    );
    snapshots.memtable.place_without_writer(
        [entry(b"single")].into_iter(),
        RangeTombstones::default(),
        SequenceNumber(3),
    );
    for (user_key, number) in [(&b"old"[..], 2), (b"new", 2), (b"single", 3)] {
        let encoded = key::encoded(KEYSPACE, user_key);
        assert_eq!(get(&snapshots.memtable, &encoded, 9), Some((number, Kind::Put, user_key.to_vec())));
    }
    snapshots.last = 3;
    // They are also in order, and their versions are removed by later overwrites.
    assert_eq!(forward(&mut snapshots.memtable.cursor_at(SequenceNumber(9))).len(), 3);
    snapshots.put(b"old", Kind::Put, b"three");
    assert_eq!(get(&snapshots.memtable, &key::encoded(KEYSPACE, b"old"), 9).unwrap().2, b"three");
}
