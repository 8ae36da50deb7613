//! Keyspaces: created, listed, emptied and dropped; in batches, transactions, snapshots and read-only stores; reopened.

use crate::support::{Words, expect_sound_closed, setting, tiny, tiny_levels, tiny_skip};
use alluvium::internals::DeterministicDb;
use alluvium::merge_operators::{Add, Append};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{MemoryStorage, Storage};
use alluvium::{
    Compression, Db, DiskComponent, Durability, Error, Keyspace, KeyspaceOptions, LevelsOptions, Operation, Options,
    ReadOnlyDb, Readable, Result, WriteBatch, WriteOptions,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod damage;
mod expiry;
mod freeing;
mod opening;
mod races;

fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new())
}

fn all_components() -> [Options; 3] {
    [tiny(), tiny().disk_component(tiny_levels(3)), tiny().disk_component(tiny_skip())]
}

fn open(storage: &Arc<dyn Storage>) -> Db {
    Db::open_with(Arc::clone(storage), tiny()).unwrap()
}

fn keyspace(db: &Db, name: &str) -> Keyspace {
    db.keyspace(name, KeyspaceOptions::new()).unwrap()
}

fn adding() -> KeyspaceOptions {
    KeyspaceOptions::new().merge_operator(Add)
}

fn number(n: i64) -> [u8; 8] {
    n.to_le_bytes()
}

/// All pairs, as text, in order.
fn contents(reader: &impl Readable) -> Vec<String> {
    let pairs = reader.iter().unwrap().map(|pair| {
        let (key, value) = pair.unwrap();
        format!("{}={}", key.escape_ascii(), value.escape_ascii())
    });
    pairs.collect()
}

fn is_dropped<T>(result: Result<T>, name: &str) -> bool {
    matches!(result, Err(Error::KeyspaceDropped { keyspace }) if keyspace == name)
}

#[test]
fn keyspaces_are_found_again_by_their_names() {
    for options in all_components() {
        let storage = memory();
        for round in 0..3 {
            let db = Db::open_with(Arc::clone(&storage), options.clone()).unwrap();
            let expected: &[&str] = if round == 0 { &[] } else { &["", "b", "c", "d"][1..] };
            assert_eq!(db.keyspace_names().unwrap(), expected);
            for name in ["c", "d", "b"] {
                let own = keyspace(&db, name);
                assert_eq!(own.name(), name);
                if round > 0 {
                    assert_eq!(contents(&own), [format!("key={name} {}", round - 1)]);
                }
                own.put("key", format!("{name} {round}")).unwrap();
            }
            db.put("key", format!("default {round}")).unwrap();
            assert_eq!(contents(&db), [format!("key=default {round}")]);
            // Another handle is the same keyspace.
            assert_eq!(contents(&keyspace(&db, "b")), [format!("key=b {round}")]);
            if round == 1 {
                db.flush().unwrap();
            }
            db.close().unwrap();
        }
        expect_sound_closed(&storage);
    }
}

#[test]
fn names_are_checked() {
    let db = open(&memory());
    for name in ["", &"n".repeat(256)] {
        assert!(matches!(db.keyspace(name, KeyspaceOptions::new()), Err(Error::InvalidArgument(_))));
        assert!(matches!(db.drop_keyspace(name), Err(Error::InvalidArgument(_))));
    }
    let longest = "n".repeat(255);
    keyspace(&db, &longest).put("a", "").unwrap();
    assert_eq!(db.keyspace_names().unwrap(), [longest]);
    // The default keyspace has a name, too; it is in no list.
    keyspace(&db, "default").put("a", "1").unwrap();
    assert_eq!((db.get("a").unwrap(), db.name()), (Some(b"1".to_vec()), "default"));
    assert!(matches!(db.drop_keyspace("default"), Err(Error::InvalidArgument(_))));
    assert!(matches!(db.keyspace("default", adding()), Err(Error::InvalidArgument(_))));
    assert!(!db.drop_keyspace("never").unwrap());
}

#[test]
fn an_emptied_keyspace_goes_on() {
    let db = open(&memory());
    let (one, other) = (keyspace(&db, "one"), keyspace(&db, "other"));
    for own in [&one, &other, &*db] {
        own.put("a", own.name()).unwrap();
    }
    let (before, mut iter) = (db.snapshot(), one.iter().unwrap());
    one.clear().unwrap();
    one.put("b", "new").unwrap();
    for _ in 0..2 {
        assert_eq!(contents(&one), ["b=new"]);
        assert_eq!((contents(&other), contents(&db)), (vec!["a=other".into()], vec!["a=default".into()]));
        assert_eq!(contents(&before.within(&one).unwrap()), ["a=one"]);
        db.flush().unwrap();
    }
    assert_eq!(iter.next().unwrap().unwrap().1, b"one");
    assert!(iter.next().is_none());
    db.clear().unwrap();
    assert!(db.is_empty().unwrap());
    assert_eq!(contents(&one), ["b=new"]);
}

#[test]
fn a_dropped_keyspace_is_gone_for_its_handles_and_there_for_older_snapshots() {
    let storage = memory();
    let db = open(&storage);
    let old = db.keyspace("name", adding()).unwrap();
    let empty = db.snapshot();
    old.put("a", number(1)).unwrap();
    db.put("a", "kept").unwrap();
    let (before, mut iter) = (db.snapshot(), old.iter().unwrap());
    assert!(db.drop_keyspace("name").unwrap());
    assert!(!db.drop_keyspace("name").unwrap());
    assert!(db.keyspace_names().unwrap().is_empty());
    type Call = fn(&Keyspace) -> Result<()>;
    let calls: [(&str, Call); 27] = [
        ("get", |old| old.get("a").map(drop)),
        ("get_into", |old| old.get_into("a", &mut Vec::new()).map(drop)),
        ("get_pinned", |old| old.get_pinned("a").map(drop)),
        ("multi_get", |old| old.multi_get(&["a"]).map(drop)),
        ("contains_key", |old| old.contains_key("a").map(drop)),
        ("first", |old| old.first().map(drop)),
        ("last", |old| old.last().map(drop)),
        ("is_empty", |old| old.is_empty().map(drop)),
        ("iter", |old| old.iter().map(drop)),
        ("range", |old| old.range("a"..).map(drop)),
        ("prefix", |old| old.prefix("a").map(drop)),
        ("for_each", |old| old.for_each(.., |_, _| std::ops::ControlFlow::Continue(()))),
        ("put", |old| old.put("a", "")),
        ("delete", |old| old.delete("a")),
        ("delete_range", |old| old.delete_range("a"..)),
        ("delete_prefix", |old| old.delete_prefix("a")),
        ("merge", |old| old.merge("a", number(1))),
        ("update", |old| old.update("a", |_| None).map(drop)),
        ("compare_and_swap", |old| old.compare_and_swap("a", Some(b"?"), None).map(drop)),
        ("put_if_absent", |old| old.put_if_absent("a", "").map(drop)),
        ("take", |old| old.take("a").map(drop)),
        ("pop_first", |old| old.pop_first().map(drop)),
        ("pop_last", |old| old.pop_last().map(drop)),
        ("clear", |old| old.clear()),
        // Regression test: these succeeded.
        ("compact_range", |old| old.compact_range(..)),
        ("optimize", |old| old.optimize(..)),
        ("approximate_size", |old| old.approximate_size(..).map(drop)),
    ];
    for (name, call) in calls {
        assert!(is_dropped(call(&old), "name"), "{name}: {:?}", call(&old));
    }
    // A new one with the name is another one, with options of its own.
    let new = keyspace(&db, "name");
    assert_eq!(contents(&new), [""; 0]);
    new.put("b", "new").unwrap();
    assert!(is_dropped(old.get("b"), "name"));
    for _ in 0..2 {
        assert_eq!(contents(&before.within(&old).unwrap()), contents(&before.keyspace("name").unwrap().unwrap()));
        assert_eq!(contents(&before.keyspace("name").unwrap().unwrap()).len(), 1);
        assert_eq!(
            (contents(&before.within(&new).unwrap()), before.keyspace_names().unwrap()),
            (vec![], vec!["name".into()])
        );
        assert_eq!(contents(&empty.within(&old).unwrap()), [""; 0]);
        assert_eq!((contents(&new), contents(&db)), (vec!["b=new".to_owned()], vec!["a=kept".into()]));
        db.compact().unwrap();
    }
    assert_eq!(iter.next().unwrap().unwrap().1, number(1));
    drop((iter, before, empty));
    db.close().unwrap();
    let db = open(&storage);
    assert_eq!(contents(&keyspace(&db, "name")), ["b=new"]);
    db.close().unwrap();
    expect_sound_closed(&storage);
}

#[test]
fn ids_are_not_used_again() {
    let storage = memory();
    for _ in 0..3 {
        let db = open(&storage);
        for _ in 0..3 {
            let own = keyspace(&db, "own");
            assert!(own.is_empty().unwrap(), "a new keyspace has what an older one had");
            own.put("a", "1").unwrap();
            assert!(db.drop_keyspace("own").unwrap());
        }
        db.close().unwrap();
    }
}

#[test]
fn options_are_stored_and_checked() {
    let storage = memory();
    let mismatch = |result: Result<Keyspace>, what: &str, stored: &str, asked: &str| {
        let error = result.unwrap_err();
        let text = error.to_string();
        assert!(matches!(&error, Error::KeyspaceMismatch { keyspace, .. } if keyspace == "own"), "{error:?}");
        assert!([what, stored, asked, "leave the option out"].iter().all(|part| text.contains(part)), "{text}");
    };
    let db = open(&storage);
    let own = db.keyspace("own", adding().durability(Durability::Sync)).unwrap();
    own.merge("a", number(2)).unwrap();
    for round in 0..2 {
        let db = if round == 0 { db.clone() } else { open(&storage) };
        mismatch(
            db.keyspace("own", KeyspaceOptions::new().merge_operator(Append)),
            "merge operator",
            "alluvium.add",
            "append",
        );
        mismatch(
            db.keyspace("own", KeyspaceOptions::new().durability(Durability::Unlogged)),
            "durability",
            "Sync",
            "Unlogged",
        );
        for options in [KeyspaceOptions::new(), adding(), KeyspaceOptions::new().durability(Durability::Sync)] {
            let own = db.keyspace("own", options).unwrap();
            own.merge("a", number(1)).unwrap();
        }
        assert_eq!(keyspace(&db, "own").get("a").unwrap(), Some(number(5 + 3 * round).to_vec()));
        let synced = db.stats().synced_number;
        assert!(synced >= db.stats().last_number, "a merge of a keyspace with `Durability::Sync` was not synced");
        db.close().unwrap();
    }
    // An operator may be added later, and is then the only one.
    let db = open(&storage);
    let late = keyspace(&db, "late");
    assert!(late.merge("a", number(1)).unwrap_err().to_string().contains("KeyspaceOptions::merge_operator"));
    db.keyspace("late", adding()).unwrap().merge("a", number(1)).unwrap();
    assert_eq!(late.get("a").unwrap(), Some(number(1).to_vec()));
    assert!(db.keyspace("late", KeyspaceOptions::new().merge_operator(Append)).is_err());
    db.close().unwrap();
}

/// Operators of several keyspaces, in memory, in the tree and while the log is read; one that the store cannot find by
/// itself.
#[test]
fn each_keyspace_has_its_merge_operator() {
    for options in all_components() {
        let storage = memory();
        let options = options.merge_operator(Append);
        let words = || KeyspaceOptions::new().merge_operator(Words);
        let db = Db::open_with(Arc::clone(&storage), options.clone()).unwrap();
        let write = |db: &Db| {
            let (sums, words) = (db.keyspace("sums", adding()).unwrap(), db.keyspace("words", words()).unwrap());
            let mut batch = WriteBatch::new();
            batch.merge("k", "x").within(&sums).merge("k", number(1)).merge("k", number(2));
            batch.within(&words).merge("k", "y").merge("k", "z");
            db.write(batch).unwrap();
            sums.merge("k", number(3)).unwrap();
            db.transact(|transaction| -> Result<()> {
                transaction.merge("k", "!")?;
                transaction.within(&sums)?.merge("k", number(4))?;
                transaction.within(&words)?.merge("k", "?")
            })
            .unwrap();
        };
        let check = |db: &Db, rounds: usize| {
            let words = keyspace(db, "words").get("k").unwrap().unwrap();
            assert_eq!(String::from_utf8(words).unwrap(), "yz?".repeat(rounds));
            assert_eq!(keyspace(db, "sums").get("k").unwrap(), Some(number(10 * rounds as i64).to_vec()));
            assert_eq!(db.get("k").unwrap().unwrap(), "x!".repeat(rounds).into_bytes());
        };
        write(&db);
        check(&db, 1);
        db.flush().unwrap();
        check(&db, 1);
        write(&db);
        check(&db, 2);
        db.close().unwrap();
        // The log has operands of both. Before their operator is known, merges keep them as they are.
        let db = Db::open_with(Arc::clone(&storage), options.clone()).unwrap();
        db.compact().unwrap();
        let snapshot = db.snapshot().keyspace("words").unwrap().unwrap();
        assert!(matches!(snapshot.get("k"), Err(Error::MergeOperands { .. })));
        let error = db.keyspace("words", KeyspaceOptions::new()).unwrap_err();
        assert!(error.to_string().contains("test.words"), "{error}");
        assert!(matches!(error, Error::KeyspaceMismatch { .. }));
        // Regression test: the advice was to leave the option out, which the caller had done.
        let advice = "pass the operator of this name with `KeyspaceOptions::merge_operator`";
        assert!(error.to_string().ends_with(advice), "{error}");
        db.keyspace("words", words()).unwrap();
        check(&db, 2);
        db.compact().unwrap();
        check(&db, 2);
        db.close().unwrap();
        let reader = ReadOnlyDb::open_with(Arc::clone(&storage), options).unwrap();
        let read = |name: &str, options| reader.keyspace(name, options).unwrap().unwrap().get("k");
        let error = read("words", KeyspaceOptions::new()).unwrap_err();
        assert!(
            matches!(&error, Error::MergeOperands { operator, key, .. } if operator == "test.words" && key == b"k")
        );
        assert!(error.to_string().ends_with("with `KeyspaceOptions::merge_operator`"), "{error}");
        assert_eq!(reader.merge_operator_name("words").unwrap().as_deref(), Some("test.words"));
        assert_eq!(reader.merge_operator_name("sums").unwrap().as_deref(), Some("alluvium.add"));
        assert_eq!(reader.merge_operator_name("default").unwrap().as_deref(), Some("alluvium.append"));
        assert_eq!(reader.merge_operator_name("other").unwrap(), None);
        assert_eq!(read("words", words()).unwrap().unwrap(), b"yz?yz?");
        assert_eq!(read("sums", KeyspaceOptions::new()).unwrap().unwrap(), number(20));
        assert!(matches!(reader.keyspace("sums", words()), Err(Error::KeyspaceMismatch { .. })));
    }
}

#[test]
fn a_batch_changes_several_keyspaces_or_none() {
    let db = open(&memory());
    let (one, other) = (keyspace(&db, "one"), keyspace(&db, "other"));
    one.put("gone", "1").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("a", "default").within(&one).put("a", "1").delete_range("b".."h").put("c", "2").delete("a");
    batch.within(&other).put("a", "3").delete_prefix("x").extend([("d", "4")]);
    let operations: Vec<Operation<'_>> = batch.iter().collect();
    assert_eq!(operations[0], Operation::Put { keyspace: "default", key: b"a", value: b"default" });
    assert_eq!(operations[1], Operation::Put { keyspace: "one", key: b"a", value: b"1" });
    assert_eq!(operations[2], Operation::DeleteRange { keyspace: "one", start: b"b", end: Some(b"h") });
    assert_eq!(operations[7], Operation::Put { keyspace: "other", key: b"d", value: b"4" });
    let mut copy = WriteBatch::new();
    copy.append(&batch);
    assert_eq!(copy, batch);
    db.write(copy).unwrap();
    for _ in 0..2 {
        assert_eq!((contents(&one), contents(&db)), (vec!["c=2".to_owned()], vec!["a=default".to_owned()]));
        assert_eq!(contents(&other), ["a=3", "d=4"]);
        db.flush().unwrap();
    }
    // One of them was dropped: nothing is applied.
    let mut late = WriteBatch::new();
    late.put("a", "late").within(&one).put("a", "late");
    late.within(&other).put("a", "late");
    assert!(db.drop_keyspace("other").unwrap());
    assert!(is_dropped(db.write(late), "other"));
    assert_eq!((contents(&one), contents(&db)), (vec!["c=2".to_owned()], vec!["a=default".to_owned()]));
}

#[test]
fn a_transaction_changes_several_keyspaces_or_none() {
    let db = open(&memory());
    let (one, other) = (keyspace(&db, "one"), keyspace(&db, "other"));
    one.put("a", "1").unwrap();
    let transaction = db.transaction().unwrap();
    let within = transaction.within(&other).unwrap();
    let moved = transaction.within(&one).unwrap().take("a").unwrap().unwrap();
    within.put("a", moved).unwrap();
    assert_eq!((within.first().unwrap().is_some(), within.last().unwrap().is_some()), (true, true));
    assert!(!within.is_empty().unwrap() && transaction.is_empty().unwrap());
    assert_eq!(contents(&within), ["a=1"]);
    assert!(other.is_empty().unwrap());
    transaction.commit().unwrap();
    assert_eq!((contents(&one), contents(&other)), (vec![], vec!["a=1".to_owned()]));

    // Others write what it has read.
    let transaction = db.transaction().unwrap();
    assert_eq!(transaction.within(&one).unwrap().get("b").unwrap(), None);
    transaction.within(&other).unwrap().put("b", "2").unwrap();
    transaction.put("b", "2").unwrap();
    other.put("c", "another key").unwrap();
    one.put("b", "meanwhile").unwrap();
    let error = transaction.commit().unwrap_err();
    assert!(
        matches!(&error, Error::Conflict { keyspace, key } if (&keyspace[..], &key[..]) == ("one", b"b")),
        "{error}"
    );

    // A keyspace is dropped before the commit.
    for reads in [false, true] {
        let doomed = keyspace(&db, "doomed");
        let transaction = db.transaction().unwrap();
        if reads {
            assert_eq!(transaction.within(&doomed).unwrap().get("x").unwrap(), None);
        }
        transaction.within(&doomed).unwrap().put("a", "").unwrap();
        transaction.put("late", "").unwrap();
        assert!(db.drop_keyspace("doomed").unwrap());
        assert!(is_dropped(transaction.within(&doomed).map(drop), "doomed"));
        let error = transaction.commit().unwrap_err();
        assert!(matches!(error, Error::KeyspaceDropped { .. } | Error::Conflict { .. }), "{error}");
        assert!(!db.contains_key("late").unwrap());
    }
}

/// A handle means one keyspace of one opening of one store, even where another one has the same id.
#[test]
fn handles_of_other_stores_are_refused() {
    let storage = memory();
    let (db, stranger) = (open(&storage), open(&memory()));
    let foreign = keyspace(&stranger, "own");
    let old = {
        let db = open(&memory());
        keyspace(&db, "own")
    };
    keyspace(&db, "own").put("a", "1").unwrap();
    for handle in [&foreign, &old, &*stranger] {
        let refused =
            |result: Result<()>| matches!(result, Err(Error::InvalidArgument(text)) if text.contains(handle.name()));
        assert!(refused(db.snapshot().within(handle).map(drop)));
        assert!(refused(db.transaction().unwrap().within(handle).map(drop)));
        let mut batch = WriteBatch::new();
        batch.within(handle).put("a", "2");
        // The default keyspace has no name that a batch would have to remember.
        if handle.name() != "default" {
            assert!(refused(db.write(batch)));
        }
    }
    assert_eq!(contents(&keyspace(&db, "own")), ["a=1"]);
    db.close().unwrap();
    let db = open(&storage);
    let mut batch = WriteBatch::new();
    batch.within(&keyspace(&db, "own")).put("b", "2");
    db.close().unwrap();
    let db = open(&storage);
    assert!(matches!(db.write(batch), Err(Error::InvalidArgument(_))));
}

#[test]
fn closed_stores_have_no_keyspaces() {
    let db = open(&memory());
    let own = keyspace(&db, "own");
    db.close().unwrap();
    assert!(matches!(db.keyspace("own", KeyspaceOptions::new()), Err(Error::Closed)));
    assert!(matches!(db.keyspace_names(), Err(Error::Closed)));
    assert!(matches!(db.drop_keyspace("own"), Err(Error::Closed)));
    assert!(matches!(own.get("a"), Err(Error::Closed)));
    assert!(matches!(own.put("a", ""), Err(Error::Closed)));
    assert!(matches!(own.clear(), Err(Error::Closed)));
}

/// A handle keeps the store open, as a `Db` does.
#[test]
fn the_last_handle_closes_the_store() {
    let storage = memory();
    let own = keyspace(&open(&storage), "own");
    own.put("a", "1").unwrap();
    assert!(matches!(Db::open_with(Arc::clone(&storage), tiny()), Err(Error::AlreadyOpen { .. })));
    drop(own);
    assert_eq!(contents(&keyspace(&open(&storage), "own")), ["a=1"]);
}

#[test]
fn readers_see_the_keyspaces_of_their_moment() {
    let storage = memory();
    let db = open(&storage);
    keyspace(&db, "one").put("a", "1").unwrap();
    let reader = ReadOnlyDb::open_with(Arc::clone(&storage), tiny()).unwrap();
    keyspace(&db, "one").put("a", "2").unwrap();
    keyspace(&db, "two").put("b", "1").unwrap();
    let names = |reader: &ReadOnlyDb| reader.keyspace_names().unwrap();
    let own = |reader: &ReadOnlyDb, name: &str| reader.keyspace(name, KeyspaceOptions::new()).unwrap();
    assert_eq!((names(&reader), contents(&own(&reader, "one").unwrap())), (vec!["one".to_owned()], vec!["a=1".into()]));
    assert!(own(&reader, "two").is_none());
    reader.refresh().unwrap();
    assert_eq!(names(&reader), ["one", "two"]);
    assert_eq!(contents(&own(&reader, "one").unwrap()), ["a=2"]);
    db.drop_keyspace("one").unwrap();
    db.flush().unwrap();
    assert_eq!(contents(&own(&reader, "one").unwrap()), ["a=2"]);
    reader.refresh().unwrap();
    assert_eq!(names(&reader), ["two"]);
    assert!(own(&reader, "default").unwrap().is_empty().unwrap());
}

/// The writes of a keyspace that is not logged are lost with the process; those of the others, and batches over both, not.
#[test]
fn each_keyspace_has_its_durability() {
    let disk = SimulatedStorage::new(1);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let open = |storage: &Arc<dyn Storage>| DeterministicDb::open(Arc::clone(storage), Options::new()).unwrap();
    let db = open(&storage);
    let cache = db.keyspace("cache", KeyspaceOptions::new().durability(Durability::Unlogged)).unwrap();
    let own = keyspace(&db, "own");
    cache.put("a", "lost").unwrap();
    cache.put_with("b", "kept", WriteOptions::new().durability(Durability::Buffered)).unwrap();
    own.put("a", "kept").unwrap();
    let mut batch = WriteBatch::new();
    batch.within(&cache).put("c", "kept");
    batch.within(&own).put("c", "kept");
    db.write(batch).unwrap();
    let mut unlogged = WriteBatch::new();
    unlogged.within(&cache).put("d", "lost");
    db.write(unlogged).unwrap();
    let transaction = db.transaction().unwrap();
    transaction.within(&cache).unwrap().put("e", "lost").unwrap();
    transaction.commit().unwrap();
    assert_eq!(contents(&cache), ["a=lost", "b=kept", "c=kept", "d=lost", "e=lost"]);
    let killed: Arc<dyn Storage> = Arc::new(disk.clone_disk());
    let db = open(&killed);
    assert_eq!(contents(&keyspace(&db, "cache")), ["b=kept", "c=kept"]);
    assert_eq!(contents(&keyspace(&db, "own")), ["a=kept", "c=kept"]);
}

/// Neighbours in one file are stored differently.
#[test]
fn each_keyspace_has_its_compression() {
    let (leveled, tiered) = (LevelsOptions::leveled(), LevelsOptions::tiered());
    for component in [DiskComponent::Trunk, DiskComponent::Levels(leveled), DiskComponent::Levels(tiered)] {
        let storage = memory();
        let options = Options::new().memory_budget(8 << 20).disk_component(component.clone());
        let db = Db::open_with(Arc::clone(&storage), options.clone()).unwrap();
        let compression = match component {
            DiskComponent::Trunk => Compression::Lz4,
            _ => Compression::Zstd,
        };
        let packed = || KeyspaceOptions::new().compression(compression);
        db.keyspace("packed", packed()).unwrap();
        let fill = |db: &Db, byte: u8| {
            for (own, at) in
                ["plain", "packed"].iter().flat_map(|name| (0..3000_u32).map(move |at| (keyspace(db, name), at)))
            {
                own.put(at.to_be_bytes(), [byte; 300]).unwrap();
            }
            db.compact().unwrap();
            let sizes = ["plain", "packed"].map(|name| {
                let own = keyspace(db, name);
                assert!(
                    (0..3000_u32)
                        .all(|at| own.get(at.to_be_bytes()).unwrap().is_some_and(|value| value == [byte; 300]))
                );
                own.approximate_size(..).unwrap()
            });
            assert!(sizes[1] * 3 < sizes[0], "{} bytes compressed, {} not", sizes[1], sizes[0]);
        };
        fill(&db, 1);
        db.close().unwrap();
        // The store remembers.
        let db = Db::open_with(Arc::clone(&storage), options).unwrap();
        fill(&db, 2);
        assert!(matches!(db.keyspace("plain", packed()), Err(Error::KeyspaceMismatch { what: "compression", .. })));
        db.keyspace("packed", packed()).unwrap();
        db.close().unwrap();
        expect_sound_closed(&storage);
    }
}

#[test]
fn a_thousand_keyspaces_are_no_problem() {
    let storage = memory();
    let count = setting("ALLUVIUM_KEYSPACES", 1000);
    let db = open(&storage);
    let name = |at: u64| format!("keyspace {at:04}");
    for at in 0..count {
        keyspace(&db, &name(at)).put("key", name(at)).unwrap();
    }
    db.close().unwrap();
    let db = open(&storage);
    assert_eq!(db.keyspace_names().unwrap(), (0..count).map(name).collect::<Vec<_>>());
    for at in 0..count {
        assert_eq!(contents(&keyspace(&db, &name(at))), [format!("key={}", name(at))]);
    }
    (0..count).filter(|at| at % 2 == 0).for_each(|at| assert!(db.drop_keyspace(&name(at)).unwrap()));
    db.close().unwrap();
    let db = open(&storage);
    assert_eq!(db.keyspace_names().unwrap(), (0..count).filter(|at| at % 2 == 1).map(name).collect::<Vec<_>>());
    db.close().unwrap();
    expect_sound_closed(&storage);
}
