//! Reads and writes of several keyspaces through the interface of the engine. `LOW` and `HIGH` are neighbours, and the
//! default keyspace is below them, so that keys of other keyspaces are on both sides of a border.

use crate::db::{Change, Db, DeterministicDb, Iter, Options, Snapshot, Transaction, TransactionKeyspace, WriteBatch};
use crate::engine::types::bounds::{Bounds, UserRange};
use crate::engine::types::key_change::KeyChange;
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::keyspace_info::KeyspaceInfo;
use crate::engine::types::user_key::UserKey;
use crate::engine::write::mode::WriteMode;
use crate::io::Storage;
use crate::io::simulated::{Operation, SimulatedStorage};
use crate::merge::MergeOperator;
use crate::merge::operator::Append;
use crate::util::sync::Arc;
use crate::util::{Error, KeyspaceId, Result, SequenceNumber};
use std::ops::Bound;

const DEFAULT: KeyspaceId = KeyspaceId::DEFAULT;
const LOW: KeyspaceId = KeyspaceId(1);
const HIGH: KeyspaceId = KeyspaceId(2);
const ALL: [KeyspaceId; 3] = [DEFAULT, LOW, HIGH];

/// Keys at the borders of a keyspace: the first one, and some that only the keyspace's end is above.
const KEYS: [&[u8]; 6] = [b"", b"\0", b"a", b"b", b"\xff", b"\xff\xff\xff\xff\xff"];

fn open(storage: &Arc<dyn Storage>, operator: impl MergeOperator) -> DeterministicDb {
    let operator: Arc<dyn MergeOperator> = Arc::new(operator);
    let options = Options { merge_operator: Some(Arc::clone(&operator)), ..Options::default() };
    let db = DeterministicDb::open_small(Arc::clone(storage), options).unwrap();
    for keyspace in [LOW, HIGH] {
        db.engine.read.merge_operators.add(keyspace, Arc::clone(&operator));
    }
    db
}

fn store() -> DeterministicDb {
    open(&(Arc::new(SimulatedStorage::new(1)) as Arc<dyn Storage>), Append)
}

fn mode(db: &Db) -> WriteMode<'static> {
    WriteMode::new(db.engine.write.durability, &[])
}

fn put(db: &Db, keyspace: KeyspaceId, key: &[u8], value: &str) {
    db.engine.write.write_one(UserKey::new(keyspace, key), Some(value.as_bytes()), mode(db)).unwrap();
}

fn get(db: &Db, keyspace: KeyspaceId, key: &[u8]) -> Option<String> {
    let mut value = Vec::new();
    let found = db.engine.read.get_at(UserKey::new(keyspace, key), SequenceNumber::MAX, &mut value).unwrap();
    found.then(|| String::from_utf8(value).unwrap())
}

fn delete_range(db: &Db, keyspace: KeyspaceId, range: impl KeyRange) {
    db.engine.write.delete_range(UserRange::of_range(keyspace, range), mode(db)).unwrap();
}

/// A snapshot of the store that reads a keyspace.
fn snapshot(db: &Db, keyspace: KeyspaceId) -> Snapshot {
    Snapshot::take(&db.engine.read, keyspace)
}

fn within(transaction: &Transaction, keyspace: KeyspaceId) -> TransactionKeyspace<'_> {
    transaction.enter(&KeyspaceInfo::new(keyspace, "", None, transaction.opening())).unwrap()
}

/// The keyspace and the place of a key in `KEYS`, as a value.
fn name(keyspace: KeyspaceId, at: usize) -> String {
    format!("{keyspace}.{at}")
}

/// Puts `KEYS` into each keyspace.
fn fill(db: &Db) {
    for keyspace in ALL {
        KEYS.iter().enumerate().for_each(|(at, key)| put(db, keyspace, key, &name(keyspace, at)));
    }
}

fn values(pairs: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>) -> Vec<String> {
    pairs.map(|pair| String::from_utf8(pair.unwrap().1).unwrap()).collect()
}

/// The values of a keyspace, which gets, a multi-get and scans in both directions agree on.
fn contents(snapshot: &Snapshot) -> Vec<String> {
    let forward = values(snapshot.iter().unwrap());
    let mut backward = values(snapshot.iter().unwrap().rev());
    backward.reverse();
    assert_eq!(forward, backward);
    let found = snapshot.multi_get(&KEYS).unwrap();
    for (key, value) in KEYS.iter().zip(&found) {
        assert_eq!(&snapshot.get(key).unwrap(), value);
        assert_eq!(snapshot.get_pinned(key).unwrap().as_deref(), value.as_deref());
        assert_eq!(snapshot.contains_key(key).unwrap(), value.is_some());
    }
    assert_eq!(forward, found.into_iter().flatten().map(|v| String::from_utf8(v).unwrap()).collect::<Vec<_>>());
    forward
}

fn names(keyspace: KeyspaceId, places: impl IntoIterator<Item = usize>) -> Vec<String> {
    places.into_iter().map(|at| name(keyspace, at)).collect()
}

/// In memory, in the tree, and after another opening, from the log and from the tree.
#[test]
fn the_same_keys_have_values_of_their_own_in_each_keyspace() {
    let storage: Arc<dyn Storage> = Arc::new(SimulatedStorage::new(1));
    for flushes in [false, true] {
        let db = open(&storage, Append);
        fill(&db);
        for round in 0..2 {
            for keyspace in ALL {
                assert_eq!(contents(&snapshot(&db, keyspace)), names(keyspace, 0..6));
            }
            if round == 0 && flushes {
                db.flush().unwrap();
            }
        }
        assert_eq!(get(&db, KeyspaceId(3), b"a"), None);
        assert_eq!(contents(&snapshot(&db, KeyspaceId(3))), names(LOW, []));
        db.close().unwrap();
        let db = open(&storage, Append);
        ALL.iter().for_each(|keyspace| assert_eq!(contents(&snapshot(&db, *keyspace)), names(*keyspace, 0..6)));
        db.close().unwrap();
    }
}

#[test]
fn scans_and_seeks_stay_in_their_keyspace() {
    let db = store();
    fill(&db);
    let check = |prefix: &[u8], places: &[usize]| {
        for keyspace in ALL {
            let scan = || snapshot(&db, keyspace).prefix(prefix).unwrap();
            assert_eq!(values(scan()), names(keyspace, places.iter().copied()));
            assert_eq!(values(scan().rev()), names(keyspace, places.iter().rev().copied()));
        }
    };
    let value = |iter: &Iter| iter.value().map(|value| String::from_utf8(value.to_vec()).unwrap());
    for _ in 0..2 {
        check(b"", &[0, 1, 2, 3, 4, 5]);
        check(b"\xff", &[4, 5]);
        check(b"\xff\xff", &[5]);
        check(b"b", &[3]);
        check(b"c", &[]);
        for keyspace in ALL {
            let mut iter = snapshot(&db, keyspace).iter().unwrap();
            iter.seek(b"\xff\xff\xff\xff\xff\xff").unwrap();
            assert_eq!(value(&iter), None);
            iter.seek_for_prev(b"\xff\xff\xff\xff\xff\xff").unwrap();
            assert_eq!(value(&iter), Some(name(keyspace, 5)));
            iter.step().unwrap();
            assert_eq!(value(&iter), None);
            iter.seek(b"").unwrap();
            assert_eq!(value(&iter), Some(name(keyspace, 0)));
            iter.step_back().unwrap();
            assert_eq!(value(&iter), None);
            iter.seek_for_prev(b"").unwrap();
            assert_eq!(value(&iter), Some(name(keyspace, 0)));
            let after: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Excluded(KEYS[5]), Bound::Unbounded);
            assert_eq!(snapshot(&db, keyspace).range(after).unwrap().count(), 0);
            assert_eq!(snapshot(&db, keyspace).range(..=&b"\0"[..]).unwrap().count(), 2);
        }
        db.flush().unwrap();
    }
}

/// Sizes are those of one keyspace.
#[test]
fn sizes_do_not_count_neighbours() {
    let db = store();
    put(&db, LOW, b"\xff", &"x".repeat(3000));
    let size = |keyspace| db.engine.read.approximate_size(&Bounds::all(keyspace)).unwrap();
    for _ in 0..2 {
        assert!(size(LOW) > 1000, "{}", size(LOW));
        assert_eq!((size(DEFAULT), size(HIGH)), (0, 0));
        db.flush().unwrap();
    }
}

#[test]
fn range_deletes_end_with_their_keyspace() {
    let db = store();
    fill(&db);
    let before = snapshot(&db, LOW);
    delete_range(&db, LOW, &b"b"[..]..);
    put(&db, LOW, b"\xff", "new");
    let expect = |db: &Db| {
        assert_eq!(contents(&snapshot(db, DEFAULT)), names(DEFAULT, 0..6));
        assert_eq!(contents(&snapshot(db, LOW)), ["1.0", "1.1", "1.2", "new"]);
        assert_eq!(contents(&snapshot(db, HIGH)), names(HIGH, 0..6));
        assert_eq!(contents(&before), names(LOW, 0..6));
    };
    expect(&db);
    db.flush().unwrap();
    expect(&db);
    delete_range(&db, LOW, ..);
    assert!(snapshot(&db, LOW).is_empty().unwrap());
    delete_range(&db, HIGH, ..&b"a"[..]);
    assert_eq!(contents(&snapshot(&db, HIGH)), names(HIGH, 2..6));
    assert_eq!(contents(&snapshot(&db, DEFAULT)), names(DEFAULT, 0..6));
}

/// The operations on keys of one keyspace must not be resolved against those of another one.
#[test]
fn a_batch_is_resolved_by_keyspace() {
    let db = store();
    fill(&db);
    let mut batch = WriteBatch::new();
    let key = |keyspace, key: &'static str| UserKey::new(keyspace, key);
    batch.change(key(HIGH, "a"), KeyChange::Put(b"high")).change(key(LOW, "a"), KeyChange::Put(b"low"));
    batch.put("a", "default").change(key(HIGH, "b"), KeyChange::Delete).change(key(LOW, "b"), KeyChange::Merge(b"+"));
    batch.change(key(HIGH, "a"), KeyChange::Merge(b"+")).delete_keys(&UserRange::of_range(LOW, &b"\xff"[..]..));
    batch.delete_keys(&UserRange::of_range(HIGH, ..&b"a"[..])).change(key(HIGH, ""), KeyChange::Put(b"first"));
    db.write(batch).unwrap();
    for _ in 0..2 {
        assert_eq!(contents(&snapshot(&db, DEFAULT)), ["0.0", "0.1", "default", "0.3", "0.4", "0.5"]);
        assert_eq!(contents(&snapshot(&db, LOW)), ["1.0", "1.1", "low", "1.3+"]);
        assert_eq!(contents(&snapshot(&db, HIGH)), ["first", "high+", "2.4", "2.5"]);
        db.flush().unwrap();
    }
}

/// Joins with commas, and cannot join operands: a batch reads the values below them, and chains are shortened.
struct Words;

impl MergeOperator for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        let words: Vec<&[u8]> = base.into_iter().chain(operands.iter().copied()).collect();
        out.extend_from_slice(&words.join(&b","[..]));
        Ok(())
    }
}

#[test]
fn merges_read_and_write_their_keyspace() {
    let db = open(&(Arc::new(SimulatedStorage::new(1)) as Arc<dyn Storage>), Words);
    ALL.iter().for_each(|keyspace| put(&db, *keyspace, b"a", &keyspace.to_string()));
    db.flush().unwrap();
    // The snapshots keep operands from being folded in memory, so that chains grow long and are shortened.
    let mut pins = Vec::new();
    for _ in 0..200 {
        db.engine.write.merge(UserKey::new(HIGH, "a"), b"x", mode(&db)).unwrap();
        pins.push(db.snapshot());
    }
    // Each shortening is one more write.
    assert!(db.stats().last_number > 203, "no chain was shortened");
    let mut batch = WriteBatch::new();
    for keyspace in [HIGH, LOW] {
        let key = UserKey::new(keyspace, "a");
        batch.change(key, KeyChange::Merge(b"y")).change(key, KeyChange::Merge(b"z"));
    }
    db.write(batch).unwrap();
    for _ in 0..2 {
        assert_eq!(get(&db, DEFAULT, b"a").unwrap(), "0");
        assert_eq!(get(&db, LOW, b"a").unwrap(), "1,y,z");
        assert_eq!(get(&db, HIGH, b"a").unwrap(), format!("2{},y,z", ",x".repeat(200)));
        db.flush().unwrap();
    }
}

#[test]
fn conditional_writes_depend_on_their_keyspace_only() {
    let db = store();
    let (write, mode) = (&db.engine.write, mode(&db));
    put(&db, LOW, b"a", "low");
    assert!(write.put_if_absent(UserKey::new(HIGH, "a"), b"high", mode).unwrap());
    assert!(!write.put_if_absent(UserKey::new(LOW, "a"), b"other", mode).unwrap());
    assert!(write.compare_and_swap(UserKey::new(LOW, "a"), Some(b"low"), Some(b"1"), mode).unwrap().is_done());
    let mut rounds = 0;
    let updated = write.update(UserKey::new(HIGH, "a"), mode, |old| {
        rounds += 1;
        // The same key of another keyspace; the update of this one must not be repeated.
        put(&db, LOW, b"a", "2");
        Change::Put([old.unwrap_or_default(), b"!"].concat())
    });
    assert_eq!((updated.unwrap().as_deref(), rounds), (Some(&b"high!"[..]), 1));
    let mut rounds = 0;
    let updated = write.update(UserKey::new(HIGH, "a"), mode, |old| {
        rounds += 1;
        if rounds == 1 {
            put(&db, HIGH, b"a", "changed");
        }
        Change::Put([old.unwrap_or_default(), b"!"].concat())
    });
    assert_eq!((updated.unwrap().as_deref(), rounds), (Some(&b"changed!"[..]), 2));
    assert_eq!((get(&db, LOW, b"a").as_deref(), get(&db, DEFAULT, b"a")), (Some("2"), None));
}

#[test]
fn a_transaction_keeps_its_keyspaces_apart() {
    let db = store();
    fill(&db);
    let transaction = db.transaction().unwrap();
    let (low, high) = (within(&transaction, LOW), within(&transaction, HIGH));
    low.put(b"a", b"low").unwrap();
    high.merge(b"a", b"+").unwrap();
    high.delete(b"").unwrap();
    low.delete_range(&b"b"[..]..).unwrap();
    low.put(b"\xff", b"last").unwrap();
    assert_eq!(low.get(b"a").unwrap().unwrap(), b"low");
    assert_eq!(high.get(b"a").unwrap().unwrap(), b"2.2+");
    assert_eq!(high.multi_get(&["", "a", "b"]).unwrap()[2].as_deref(), Some(&b"2.3"[..]));
    assert_eq!(transaction.get("a").unwrap().unwrap(), b"0.2");
    let expected = [
        (DEFAULT, names(DEFAULT, 0..6)),
        (LOW, vec!["1.0".into(), "1.1".into(), "low".into(), "last".into()]),
        (HIGH, vec!["2.1".into(), "2.2+".into(), "2.3".into(), "2.4".into(), "2.5".into()]),
    ];
    for (keyspace, expected) in &expected {
        let within = within(&transaction, *keyspace);
        assert_eq!(&values(within.range(..).unwrap()), expected);
        assert_eq!(values(within.range(..).unwrap().rev()), expected.iter().rev().cloned().collect::<Vec<_>>());
    }
    assert_eq!(values(low.prefix(b"\xff").unwrap()), ["last"]);
    let savepoint = transaction.savepoint();
    assert_eq!(low.pop_last().unwrap().unwrap().1, b"last");
    assert_eq!(high.take(b"b").unwrap().unwrap(), b"2.3");
    transaction.rollback_to(&savepoint).unwrap();
    transaction.commit().unwrap();
    for (keyspace, expected) in &expected {
        assert_eq!(&contents(&snapshot(&db, *keyspace)), expected);
    }
}

/// Which writes conflict with a transaction that has read, and with which key.
#[test]
fn conflicts_are_those_of_the_keyspace_that_was_read() {
    let db = store();
    fill(&db);
    type Read = fn(TransactionKeyspace<'_>);
    let reads: [Read; 3] = [
        |low| assert!(low.get(b"a").unwrap().is_some()),
        |low| assert_eq!(low.range(&b"\0"[..]..).unwrap().count(), 5),
        |low| assert_eq!(low.range(..).unwrap().rev().count(), 6),
    ];
    let commit = |read: Read, write: &dyn Fn()| {
        let transaction = db.transaction().unwrap();
        read(within(&transaction, LOW));
        within(&transaction, KeyspaceId(7)).put(b"x", b"").unwrap();
        write();
        transaction.commit()
    };
    for flushes in [false, true] {
        let flush = || {
            if flushes {
                db.flush().unwrap()
            }
        };
        for read in reads {
            for other in [DEFAULT, HIGH] {
                commit(read, &|| {
                    KEYS.iter().enumerate().for_each(|(at, key)| put(&db, other, key, &name(other, at)));
                    delete_range(&db, other, "c".."d");
                    flush();
                })
                .unwrap();
            }
            let put_again = || {
                put(&db, LOW, b"a", &name(LOW, 2));
                flush();
            };
            let conflict = commit(read, &put_again).unwrap_err();
            assert!(matches!(&conflict, Error::Conflict { key, .. } if key == b"a"), "{conflict}");
        }
    }
}

/// The handles of all keyspaces read the pages of the catalog once. Then a first read is one of a leaf, beside the pages that
/// all keyspaces have in common.
#[test]
fn handles_of_known_keyspaces_read_only_the_catalog() {
    const KEYSPACES: u64 = 300;
    let disk = SimulatedStorage::new(1);
    let open = || DeterministicDb::open(Arc::new(disk.clone()), Options::default()).unwrap();
    let handle = |db: &DeterministicDb, at| db.keyspace(&format!("keyspace-{at:08}"), Default::default()).unwrap();
    let db = open();
    for at in 0..KEYSPACES {
        let keyspace = handle(&db, at);
        (0..40u64).for_each(|key| keyspace.put(key.to_be_bytes(), [at as u8; 100]).unwrap());
    }
    db.flush().unwrap();
    db.close().unwrap();
    let db = open();
    let reads = |work: &mut dyn FnMut(u64)| {
        let before = disk.operation_count(Operation::Read);
        (0..KEYSPACES).for_each(work);
        disk.operation_count(Operation::Read) - before
    };
    let mut handles = Vec::new();
    let opened = reads(&mut |at| handles.push(handle(&db, at)));
    assert!(opened <= 16, "{opened} reads for {KEYSPACES} handles");
    let got = reads(&mut |at| {
        assert_eq!(handles[at as usize].get(39u64.to_be_bytes()).unwrap(), Some(vec![at as u8; 100]));
    });
    assert!(got <= KEYSPACES + 16, "{got} reads for a get in each of {KEYSPACES} keyspaces");
}
