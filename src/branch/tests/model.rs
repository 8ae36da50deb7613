//! Random branches give the same answers as a sorted list.

use super::harness::*;
use crate::branch::{Branch, BranchForm, Compression, Purpose};
use crate::format::value_file::ValueReference;
use crate::merge::Cursor;
use crate::util::hash::{encoded_key_hash, fingerprint};
use crate::util::sync::Arc;
use crate::util::{FileNumber, Kind, SequenceNumber};

fn reference(file: u64) -> Vec<u8> {
    ValueReference { file: FileNumber(file), length: 300_000, checksum: 7 }.encode().to_vec()
}

/// A random key: few or many letters, short or long, shared prefixes or none.
fn key(random: &mut Random, shape: usize) -> Vec<u8> {
    match shape {
        0 => (random.below(5000) as u64).to_be_bytes().to_vec(),
        1 => {
            let length = random.below(7);
            (0..length).map(|_| random.below(3) as u8).collect()
        }
        2 => {
            [b"\0\0\0\x01a prefix that is shared".to_vec(), (random.below(900) as u32).to_be_bytes().to_vec()].concat()
        }
        3 => {
            let length = random.below(40);
            random.bytes(length)
        }
        4 => vec![7; random.below(3000)],
        _ => {
            let shape = random.below(5);
            key(random, shape)
        }
    }
}

fn value(random: &mut Random, shape: usize) -> Vec<u8> {
    match shape {
        0 => Vec::new(),
        1 => random.bytes(100),
        2 => vec![random.next() as u8; 300],
        3 => {
            let length = random.below(6000);
            random.bytes(length)
        }
        _ => {
            let shape = random.below(4);
            value(random, shape)
        }
    }
}

fn entries(random: &mut Random) -> Vec<Owned> {
    let most = [3, 50, 1500][random.below(3)];
    let count = 1 + random.below(most);
    let (key_shape, value_shape) = (random.below(6), random.below(5));
    let numbers = [3, 1000, 1 << 40][random.below(3)];
    let all = (0..count).map(|_| {
        let mut entry =
            Owned::put(&key(random, key_shape), 1 + random.below(numbers) as u64, &value(random, value_shape));
        match random.below(10) {
            0 => (entry.kind, entry.value) = (Kind::Delete, Vec::new()),
            1 => (entry.kind, entry.value) = (Kind::ValueReference, reference(random.next())),
            _ => {}
        }
        entry
    });
    in_order(all.collect())
}

/// Keys of the branch, keys near them, and others.
fn probe(random: &mut Random, entries: &[Owned]) -> (Vec<u8>, SequenceNumber) {
    let entry = &entries[random.below(entries.len())];
    let mut key = match random.below(6) {
        5 => key(random, 5),
        _ => entry.key.clone(),
    };
    match random.below(6) {
        0 => key.push(random.next() as u8),
        1 => drop(key.pop()),
        2 => {
            if let Some(last) = key.last_mut() {
                *last = last.wrapping_add(1);
            }
        }
        _ => {}
    }
    let number = match random.below(4) {
        0 => SequenceNumber::MAX,
        1 => SequenceNumber(random.below(1000) as u64),
        2 => SequenceNumber(entry.number.0.saturating_sub(1)),
        _ => entry.number,
    };
    (key, number)
}

fn check_gets(random: &mut Random, branch: &Branch, entries: &[Owned]) {
    for entry in entries {
        let expected = Some((entry.number, entry.kind, entry.value.clone()));
        assert_eq!(get(branch, &entry.key, entry.number).unwrap(), expected);
    }
    for _ in 0..200 {
        let (key, at) = probe(random, entries);
        assert_eq!(get(branch, &key, at).unwrap(), expected_get(entries, &key, at), "{key:?} at {at}");
    }
}

fn check_cursor(random: &mut Random, branch: &Arc<Branch>, entries: &[Owned], purpose: Purpose) {
    let mut cursor = branch.cursor(purpose);
    assert!(!cursor.valid());
    cursor.seek_first().unwrap();
    for at in 0..entries.len() {
        assert_position(&cursor, entries, Some(at), "forward");
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    cursor.seek_last().unwrap();
    for at in (0..entries.len()).rev() {
        assert_position(&cursor, entries, Some(at), "backward");
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
    for _ in 0..60 {
        let (key, number) = probe(random, entries);
        let mut at = if random.below(2) == 0 {
            cursor.seek(&key, number).unwrap();
            expected_seek(entries, &key, number)
        } else {
            cursor.seek_for_prev(&key, number).unwrap();
            expected_seek_for_prev(entries, &key, number)
        };
        assert_position(&cursor, entries, at, "seek");
        for _ in 0..random.below(12) {
            let Some(stands) = at else { break };
            at = if random.below(3) > 0 {
                cursor.next().unwrap();
                Some(stands + 1).filter(|at| *at < entries.len())
            } else {
                cursor.prev().unwrap();
                stands.checked_sub(1)
            };
            assert_position(&cursor, entries, at, "step");
        }
    }
}

fn check_ranges(random: &mut Random, branch: &Arc<Branch>, entries: &[Owned]) {
    let mut keys: Vec<&[u8]> = entries.iter().map(|entry| &entry.key[..]).collect();
    keys.dedup();
    for _ in 0..30 {
        let (lower, _) = probe(random, entries);
        let (upper, _) = probe(random, entries);
        let rank = keys.partition_point(|key| *key < &lower[..]);
        assert_eq!(branch.key_rank(&lower).unwrap(), rank as u64);
        let end = keys.partition_point(|key| *key < &upper[..]).max(rank);
        let upper = Some(&upper[..]).filter(|_| random.below(4) > 0);
        let end = if upper.is_none() { keys.len() } else { end };
        let mut found = Vec::new();
        branch.fingerprints_between(&lower, upper, &mut found).unwrap();
        let expected: Vec<u32> = keys[rank..end].iter().map(|key| fingerprint(encoded_key_hash(key))).collect();
        assert_eq!(found, expected);
        let bytes = branch.approximate_bytes(&lower, upper).unwrap();
        assert!(bytes <= branch.meta().bytes);
        assert!(bytes > 0 || rank >= end, "{rank}..{end}");
    }
    assert_eq!(branch.approximate_bytes(b"", None).unwrap(), branch.meta().bytes);
}

#[test]
fn random_branches_answer_as_the_sorted_list_does() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let compression = if seed % 2 == 0 { Compression::None } else { Compression::Lz4 };
        let cache = [0, 20_000, 1 << 30][random.below(3)];
        // Without stored fingerprints the branch must compute them from its keys.
        let store = Store::new(BranchForm { fingerprints: seed % 3 > 0, ..compression.into() }, cache);
        let entries = entries(&mut random);
        let meta = store.write(&entries);
        assert_eq!(meta.entries, entries.len() as u64);
        for store in [&store, &store.reopened(cache)] {
            let branch = store.open(&meta);
            check_gets(&mut random, &branch, &entries);
            check_cursor(&mut random, &branch, &entries, Purpose::Read);
            check_cursor(&mut random, &branch, &entries, Purpose::Compaction);
            check_ranges(&mut random, &branch, &entries);
            let report = branch.verify().unwrap();
            assert_eq!(report.entries, meta.entries);
            assert_eq!(report.bytes, meta.bytes);
            assert_eq!(Branch::read_meta(&store.context, meta.file).unwrap(), meta);
        }
    }
}

#[test]
fn the_metadata_describes_the_entries() {
    let mut reference = Owned::put(b"\0\0\0\0c", 9, &reference(5));
    reference.kind = Kind::ValueReference;
    let mut gone = Owned::put(b"\0\0\0\0b", 4, b"");
    gone.kind = Kind::Delete;
    let entries = [Owned::put(b"\0\0\0\0a", 7, b"x"), Owned::put(b"\0\0\0\0a", 2, b"y"), gone, reference];
    let store = Store::new(Compression::None, 0);
    let meta = store.write(&entries);
    assert_eq!((&meta.key_min[..], &meta.key_max[..]), (&b"\0\0\0\0a"[..], &b"\0\0\0\0c"[..]));
    assert_eq!((meta.number_min.0, meta.number_max.0), (2, 9));
    assert_eq!((meta.entries, meta.tombstones, meta.distinct_keys), (4, 1, 3));
    assert_eq!(meta.value_files, [FileNumber(5)]);
    assert_eq!(meta.bytes, store.disk.current_image()["000007.branch"].len() as u64);
}
