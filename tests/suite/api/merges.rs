//! Merges through the public interface: counters, batches, transactions, snapshots, reopening, other operators, tools.

use crate::support::{expect_sound, setting, tiny, tiny_levels, tiny_skip, tiny_unsynced};
use alluvium::merge_operators::{self, Add, Append, Associative, BitOr, Max, Min};
use alluvium::storage::{MemoryStorage, Storage};
use alluvium::{
    Db, DiskComponent, Durability, Error, KeyspaceOptions, MemoryComponent, MergeOperator, Operation, Options,
    ReadOnlyDb, WriteBatch, WriteOptions,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Appends operands, cannot join two of them, and refuses one that begins with "bad".
struct Words;

impl MergeOperator for Words {
    fn name(&self) -> &str {
        "test.words"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        if operands.iter().any(|operand| operand.starts_with(b"bad")) {
            return Err("a bad word".into());
        }
        base.iter().chain(operands).for_each(|word| out.extend_from_slice(word));
        Ok(())
    }
}

fn with(operator: impl MergeOperator) -> Options {
    tiny().merge_operator(operator)
}

fn one(n: i64) -> [u8; 8] {
    n.to_le_bytes()
}

fn number(value: Option<Vec<u8>>) -> i64 {
    value.map_or(0, |value| i64::from_le_bytes(value.try_into().unwrap()))
}

/// Counters through memory, the log, all disk components, and every kind of memory.
#[test]
fn counters_count_wherever_their_operands_are() {
    let components = [None, Some(tiny_levels(1)), Some(tiny_levels(3)), Some(tiny_skip()), Some(DiskComponent::Trunk)];
    for (at, disk_component) in components.into_iter().enumerate() {
        let memory_component = [MemoryComponent::TwoLevel, MemoryComponent::Skiplist][at % 2];
        let options = with(Add).disk_component(disk_component).memory_component(memory_component);
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let mut db = Db::open_with(Arc::clone(&storage), options.clone()).unwrap();
        let mut sums: BTreeMap<String, i64> = BTreeMap::new();
        let mut snapshots = Vec::new();
        for round in 0..12_000_u64 {
            let key = format!("counter{:03}", round * round % 997);
            db.merge(&key, one(round as i64)).unwrap();
            *sums.entry(key).or_default() += round as i64;
            match round {
                3000 | 9000 => snapshots.push((db.snapshot(), sums.clone())),
                4000 => db.flush().unwrap(),
                5000 => db.compact().unwrap(),
                6000 => {
                    snapshots.clear();
                    db.close().unwrap();
                    db = Db::open_with(Arc::clone(&storage), options.clone()).unwrap();
                }
                _ => {}
            }
        }
        snapshots.push((db.snapshot(), sums.clone()));
        for (snapshot, sums) in &snapshots {
            for pair in snapshot.iter().unwrap() {
                let (key, value) = pair.unwrap();
                let expected = sums[std::str::from_utf8(&key).unwrap()];
                assert_eq!(number(Some(value)), expected, "component {at}");
                assert_eq!(number(snapshot.get(&key).unwrap()), expected, "component {at}");
            }
            assert_eq!(snapshot.iter().unwrap().rev().count(), sums.len());
            let found = snapshot.multi_get(&sums.keys().collect::<Vec<_>>()).unwrap();
            assert!(found.into_iter().map(number).eq(sums.values().copied()));
        }
        assert_eq!(number(db.get_pinned("counter001").unwrap().map(|value| value.into_vec())), sums["counter001"]);
        expect_sound(&db);
    }
}

/// The store remembers the name of its operator. Its own operators need not be named again.
#[test]
fn the_operator_is_remembered_by_its_name() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let open = |options: Options| Db::open_with(Arc::clone(&storage), options);
    let db = open(tiny()).unwrap();
    let error = db.merge("k", one(1)).unwrap_err();
    assert!(matches!(&error, Error::InvalidArgument(text) if text.contains("no merge operator")), "{error}");
    db.put("old", one(7)).unwrap();
    db.close().unwrap();
    // A store gets its operator when it is opened with one.
    let db = open(with(Add)).unwrap();
    db.merge("old", one(1)).unwrap();
    db.close().unwrap();
    let db = open(tiny()).unwrap();
    db.merge("old", one(1)).unwrap();
    assert_eq!(number(db.get("old").unwrap()), 9);
    let reader = ReadOnlyDb::open_with(Arc::clone(&storage), tiny()).unwrap();
    assert_eq!(number(reader.get("old").unwrap()), 9);
    drop(reader);
    db.close().unwrap();
    for (options, asked) in [(with(Max), "alluvium.max"), (with(Words), "test.words")] {
        let error = open(options.clone()).unwrap_err();
        assert!(matches!(&error, Error::Mismatch { what: "merge operator", .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("\"alluvium.add\"") && text.contains(asked), "{text}");
        assert!(ReadOnlyDb::open_with(Arc::clone(&storage), options).is_err());
    }
    let unnamed = Associative::new("", |_: &[u8], newer: &[u8], out: &mut Vec<u8>| out.extend_from_slice(newer));
    assert!(matches!(open(with(unnamed)), Err(Error::InvalidArgument(_))));
    // An operator that is not one of the store's own must be given at every opening. The advice says so.
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    Db::open_with(Arc::clone(&storage), with(Words)).unwrap().close().unwrap();
    let text = Db::open_with(Arc::clone(&storage), tiny()).unwrap_err().to_string();
    assert!(text.contains("\"test.words\"") && text.contains("with `Options::merge_operator`"), "{text}");
    // Regression test: an operator with this name was taken for none.
    let none = Associative::new("none", |_: &[u8], newer: &[u8], out: &mut Vec<u8>| out.extend_from_slice(newer));
    let text = Db::open_with(storage, with(none)).unwrap_err().to_string();
    assert!(text.ends_with("not \"none\""), "{text}");
}

/// A store finds its own operators by name. One of another type with such a name would read operands differently once it is
/// left out.
#[test]
fn names_of_the_built_in_operators_are_reserved() {
    let last = |name: &str| Associative::new(name, |_: &[u8], newer: &[u8], out: &mut Vec<u8>| out.extend(newer));
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let db = Db::open_with(Arc::clone(&storage), with(Max)).unwrap();
    let own = db.keyspace("own", KeyspaceOptions::new().merge_operator(Max)).unwrap();
    let reader = ReadOnlyDb::open_with(Arc::clone(&storage), tiny()).unwrap();
    for name in ["alluvium.max", "alluvium.mine", "alluvium."] {
        let options = || KeyspaceOptions::new().merge_operator(last(name));
        let errors = [
            Db::open_temporary(with(last(name))).unwrap_err(),
            ReadOnlyDb::open_with(Arc::clone(&storage), with(last(name))).unwrap_err(),
            db.keyspace("new", options()).unwrap_err(),
            db.keyspace("own", options()).unwrap_err(),
            own.set_options(options()).unwrap_err(),
            reader.keyspace("own", options()).map(drop).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(&error, Error::InvalidArgument(text) if text.contains("reserved")), "{error}");
        }
    }
    assert_eq!(db.keyspace_names().unwrap(), ["own"]);
    for name in ["alluvium", "alluviums.max", "example.alluvium."] {
        Db::open_temporary(with(last(name))).unwrap();
    }
    for name in ["add", "append", "bitor", "max", "min"] {
        let mut options = KeyspaceOptions::new();
        options.merge_operator = merge_operators::named(&format!("alluvium.{name}"));
        assert!(options.merge_operator.is_some());
        db.keyspace(name, options.clone()).unwrap().set_options(options.clone()).unwrap();
        db.keyspace(name, options).unwrap();
    }
}

#[test]
fn what_an_operator_refuses_is_an_error() {
    let db = Db::open_temporary(with(Add)).unwrap();
    let error = db.merge("k", "1").unwrap_err();
    assert!(matches!(&error, Error::InvalidArgument(text) if text.contains("alluvium.add")), "{error}");
    assert!(db.merge("k", vec![0; 256 << 10]).is_err() && db.merge(vec![0; 70_000], one(1)).is_err());
    let mut batch = WriteBatch::new();
    batch.put("a", "1").merge("k", "1");
    assert!(matches!(db.write(batch), Err(Error::InvalidArgument(_))));
    assert_eq!((db.get("k").unwrap(), db.get("a").unwrap()), (None, None));
    // The value is not a number: this shows when it is read, until it is overwritten.
    for is_flushed in [false, true] {
        db.put("k", "text").unwrap();
        db.merge("k", one(1)).unwrap();
        db.put("z", "other").unwrap();
        if is_flushed {
            db.flush().unwrap();
            db.compact().unwrap();
        }
        let error = db.get("k").unwrap_err();
        assert!(
            matches!(&error, Error::MergeOperands { operator, key, .. } if operator == "alluvium.add" && key == b"k"),
            "{error}"
        );
        assert!(error.to_string().contains("a put or a delete of the key replaces them"), "{error}");
        let mut iter = db.iter().unwrap();
        assert!(matches!(iter.seek_first(), Err(Error::MergeOperands { .. })));
        iter.seek("l").unwrap();
        assert_eq!(iter.next().unwrap().unwrap().0, b"z");
        assert_eq!(db.iter().unwrap().keys().count(), 2);
    }
    expect_sound(&db);
    db.delete_range("k".."l").unwrap();
    db.merge("k", one(1)).unwrap();
    assert_eq!(number(db.get("k").unwrap()), 1);
    let mut batch = WriteBatch::new();
    batch.put("k", "text").merge("k", one(1));
    assert!(matches!(db.write(batch), Err(Error::MergeOperands { .. })));
    assert_eq!(number(db.get("k").unwrap()), 1);
}

#[test]
fn a_large_operand_and_a_large_value() {
    let db = Db::open_temporary(with(Append)).unwrap();
    let (large, operand) = (vec![7; 300 << 10], vec![8; (256 << 10) - 1]);
    db.put("k", &large).unwrap();
    let mut expected = large.clone();
    for round in 0..4 {
        db.merge("k", &operand).unwrap();
        expected.extend_from_slice(&operand);
        if round == 1 {
            db.flush().unwrap();
        }
        assert!(db.get("k").unwrap().unwrap() == expected, "round {round}");
    }
    db.compact().unwrap();
    assert!(db.get("k").unwrap().unwrap() == expected);
    assert!(db.iter().unwrap().next().unwrap().unwrap().1 == expected);
    db.merge("new", &operand).unwrap();
    db.flush().unwrap();
    assert!(db.get("new").unwrap().unwrap() == operand);
    expect_sound(&db);
}

/// Lists that grow by small parts beyond every limit: of folds in memory, of values in branch files.
#[test]
fn a_list_may_grow_without_end() {
    for operator in [&Append as &dyn MergeOperator, &Words] {
        let options = if operator.name() == "test.words" { with(Words) } else { with(Append) };
        let db = Db::open_temporary(options).unwrap();
        let mut expected = Vec::new();
        for part in 0..1500_u32 {
            let operand = [&part.to_be_bytes()[..], &[part as u8; 300]].concat();
            db.merge("list", &operand).unwrap();
            db.put(format!("other{:03}", part % 300), [0; 100]).unwrap();
            expected.extend_from_slice(&operand);
            if part % 250 == 0 {
                assert!(db.get("list").unwrap().unwrap() == expected, "part {part}");
            }
        }
        assert!(db.get("list").unwrap().unwrap() == expected);
        db.flush().unwrap();
        db.compact().unwrap();
        assert!(db.get("list").unwrap().unwrap() == expected);
        expect_sound(&db);
    }
}

/// Operands that cannot be joined do not pile up in memory: a read of the value stays cheap.
#[test]
fn long_chains_are_replaced_by_their_value() {
    for memory_component in [MemoryComponent::TwoLevel, MemoryComponent::Skiplist] {
        let calls = Arc::new(AtomicBool::new(false));
        let longest = Arc::clone(&calls);
        struct Counting(Arc<AtomicBool>);
        impl MergeOperator for Counting {
            fn name(&self) -> &str {
                "test.counting"
            }
            fn full_merge(
                &self,
                _: &[u8],
                base: Option<&[u8]>,
                operands: &[&[u8]],
                out: &mut Vec<u8>,
            ) -> Result<(), String> {
                self.0.fetch_or(operands.len() > 40, Ordering::Relaxed);
                base.iter().chain(operands).for_each(|word| out.extend_from_slice(word));
                Ok(())
            }
        }
        let options =
            Options::new().merge_operator(Counting(longest)).memory_component(memory_component).memory_budget(64 << 20);
        let db = Db::open_temporary(options).unwrap();
        db.put("k", "base").unwrap();
        db.flush().unwrap();
        for round in 0..500 {
            // A snapshot before each merge keeps the version before it, and then none.
            let snapshot = (round % 90 < 60).then(|| db.snapshot());
            db.merge("k", "x").unwrap();
            drop(snapshot);
        }
        assert_eq!(db.get("k").unwrap().unwrap().len(), 504);
        assert!(!calls.load(Ordering::Relaxed), "a read has folded more than 40 operands: {memory_component:?}");
    }
}

#[test]
fn batches_fold_their_own_operations() {
    for operator in [true, false] {
        let db = Db::open_temporary(if operator { with(Append) } else { with(Words) }).unwrap();
        db.put("a", "1").unwrap();
        db.put("d", "1").unwrap();
        db.flush().unwrap();
        let mut batch = WriteBatch::new();
        batch.merge("a", "2").merge("a", "3").merge("b", "1").put("c", "1").merge("c", "2");
        batch.merge("d", "2").delete_range("d".."e").merge("d", "3").merge("d", "4").delete("e").merge("e", "5");
        assert!(
            batch
                .iter()
                .any(|operation| operation == Operation::Merge { keyspace: "default", key: b"b", operand: b"1" })
        );
        db.write(batch).unwrap();
        let all: Vec<_> = db.iter().unwrap().map(|pair| pair.unwrap().1).collect();
        let text: Vec<_> = all.iter().map(|value| std::str::from_utf8(value).unwrap()).collect();
        assert_eq!(text, ["123", "1", "12", "34", "5"], "joins: {operator}");
    }
    let db = Db::open_temporary(with(Words)).unwrap();
    let mut batch = WriteBatch::new();
    batch.merge("a", "1").merge("a", "bad").put("b", "1");
    assert!(matches!(db.write(batch), Err(Error::MergeOperands { .. })));
    assert_eq!(db.iter().unwrap().count(), 0);
}

/// Threads merge into the same keys, singly and in batches, while others read, scan, flush and take snapshots.
#[test]
fn no_operand_is_lost_beside_others() {
    for (at, operator) in [true, false].into_iter().enumerate() {
        let memory_component = if at == 0 { MemoryComponent::TwoLevel } else { MemoryComponent::Skiplist };
        let options = if operator { with(Append) } else { with(Words) }.memory_component(memory_component);
        let db = Db::open_temporary(options).unwrap();
        let rounds = setting("ALLUVIUM_ROUNDS", 1500) as u32;
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3_u8)
                .map(|thread| {
                    let db = &db;
                    scope.spawn(move || {
                        for round in 0..rounds {
                            let operand = [thread, (round >> 8) as u8, round as u8];
                            if round % 5 == 0 {
                                let mut batch = WriteBatch::new();
                                batch.merge("one", operand).merge("two", operand);
                                db.write(batch).unwrap();
                            } else if round % 7 == 0 {
                                db.transact(|transaction| {
                                    transaction.merge("one", operand)?;
                                    transaction.merge("two", operand)
                                })
                                .unwrap();
                            } else {
                                db.merge("one", operand).unwrap();
                                db.merge("two", operand).unwrap();
                            }
                            if thread == 0 && round % 400 == 399 {
                                db.flush().unwrap();
                            }
                        }
                    })
                })
                .collect();
            let reader = scope.spawn(|| {
                let mut before = Vec::new();
                // At least once, also on a machine that runs this thread last.
                loop {
                    let is_last = ended.load(Ordering::Acquire);
                    let found = db.get("one").unwrap().unwrap_or_default();
                    check_parts(&found);
                    assert!(found.starts_with(&before), "a get shows less than the one before it");
                    let snapshot = db.snapshot();
                    let at_snapshot = snapshot.get("one").unwrap().unwrap_or_default();
                    assert!(at_snapshot.starts_with(&found), "a snapshot shows less than a get before it");
                    let scanned = snapshot.iter().unwrap().next();
                    assert!(scanned.is_none_or(|pair| pair.unwrap().1 == at_snapshot), "a scan shows another value");
                    before = at_snapshot;
                    if is_last {
                        return;
                    }
                }
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            ended.store(true, Ordering::Release);
            reader.join().unwrap();
        });
        for key in ["one", "two"] {
            let found = db.get(key).unwrap().unwrap();
            assert_eq!(found.len(), rounds as usize * 3 * 3, "{key}: operands were lost or doubled");
            check_parts(&found);
        }
        expect_sound(&db);
    }
}

/// The operands of each thread are in the order of their writes, each once.
fn check_parts(found: &[u8]) {
    let mut next = [0_u32; 3];
    assert!(found.len().is_multiple_of(3));
    for part in found.chunks(3) {
        let round = u32::from(part[1]) << 8 | u32::from(part[2]);
        assert_eq!(next[part[0] as usize], round, "an operand of thread {} is missing or out of order", part[0]);
        next[part[0] as usize] += 1;
    }
}

#[test]
fn transactions_that_only_merge_do_not_conflict() {
    let db = Db::open_temporary(with(Add)).unwrap();
    let (first, second) = (db.transaction().unwrap(), db.transaction().unwrap());
    first.merge("k", one(1)).unwrap();
    first.merge("k", one(2)).unwrap();
    second.merge("k", one(10)).unwrap();
    db.merge("k", one(100)).unwrap();
    second.commit().unwrap();
    first.commit().unwrap();
    assert_eq!(number(db.get("k").unwrap()), 113);
    // One that has read the sum does.
    let third = db.transaction().unwrap();
    third.merge("k", one(1)).unwrap();
    assert_eq!(number(third.get("k").unwrap()), 114);
    db.merge("k", one(1)).unwrap();
    assert!(matches!(third.commit(), Err(Error::Conflict { key, .. }) if key == b"k"));
    // And one that reads, when another one merges.
    let fourth = db.transaction().unwrap();
    assert_eq!(number(fourth.get("k").unwrap()), 114);
    fourth.put("seen", "114").unwrap();
    db.merge("k", one(1)).unwrap();
    assert!(fourth.commit().is_err());
    assert!(db.transaction().unwrap().merge("k", "text").is_err());
}

#[test]
fn a_transaction_sees_its_own_operands() {
    for joins in [true, false] {
        let db = Db::open_temporary(if joins { with(Append) } else { with(Words) }).unwrap();
        for key in ["a", "b", "d"] {
            db.put(key, key).unwrap();
        }
        let transaction = db.transaction().unwrap();
        transaction.merge("a", "1").unwrap();
        transaction.merge("c", "1").unwrap();
        transaction.delete("d").unwrap();
        transaction.merge("d", "1").unwrap();
        let savepoint = transaction.savepoint();
        let before: Vec<_> = transaction.iter().unwrap().map(|pair| pair.unwrap().1).collect();
        transaction.merge("a", "2").unwrap();
        transaction.put("b", "x").unwrap();
        transaction.merge("b", "2").unwrap();
        transaction.delete_range("d"..).unwrap();
        transaction.merge("d", "2").unwrap();
        let expected = ["a12", "x2", "1", "2"].map(|text| text.as_bytes().to_vec());
        let forward: Vec<_> = transaction.iter().unwrap().map(|pair| pair.unwrap().1).collect();
        let mut backward: Vec<_> = transaction.iter().unwrap().rev().map(|pair| pair.unwrap().1).collect();
        backward.reverse();
        let keys = ["a", "b", "c", "d"];
        let got: Vec<_> = keys.map(|key| transaction.get(key).unwrap().unwrap()).to_vec();
        let together: Vec<_> = transaction.multi_get(&keys).unwrap().into_iter().map(Option::unwrap).collect();
        for found in [forward, backward, got, together] {
            assert_eq!(found, expected, "joins: {joins}");
        }
        assert_eq!(transaction.iter().unwrap().keys().count(), 4);
        transaction.rollback_to(&savepoint).unwrap();
        let after: Vec<_> = transaction.iter().unwrap().map(|pair| pair.unwrap().1).collect();
        assert_eq!(after, before);
        assert_eq!(before, ["a1", "b", "1", "1"].map(|text| text.as_bytes().to_vec()));
        transaction.commit().unwrap();
        let stored: Vec<_> = db.iter().unwrap().map(|pair| pair.unwrap().1).collect();
        assert_eq!(stored, before, "joins: {joins}");
    }
}

#[test]
fn operands_survive_in_every_durability() {
    for durability in [Durability::Buffered, Durability::Sync, Durability::Unlogged] {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let options = || tiny_unsynced().merge_operator(BitOr);
        let db = Db::open_with(Arc::clone(&storage), options()).unwrap();
        for bit in 0..8 {
            let write = WriteOptions::new().durability(durability);
            db.merge_with("bits", [1_u8 << bit], write).unwrap();
        }
        db.close().unwrap();
        let db = Db::open_with(storage, options()).unwrap();
        assert_eq!(db.get("bits").unwrap(), Some(vec![0xff]), "{durability:?}");
    }
}

#[test]
fn the_other_operators_work_in_a_store() {
    let cases: [(Options, [&str; 3], &str); 3] = [
        (with(Max), ["b", "c", "a"], "c"),
        (with(Min), ["b", "a", "c"], "a"),
        (
            with(Associative::new("test.last", |_: &[u8], newer: &[u8], out: &mut Vec<u8>| {
                out.extend_from_slice(newer);
            })),
            ["x", "y", "z"],
            "z",
        ),
    ];
    for (options, operands, expected) in cases {
        let db = Db::open_temporary(options).unwrap();
        for operand in operands {
            db.merge("k", operand).unwrap();
            db.flush().unwrap();
        }
        assert_eq!(db.get("k").unwrap().as_deref(), Some(expected.as_bytes()));
    }
}
