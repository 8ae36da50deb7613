//! Each named anomaly that isolation levels below serializable allow.

use super::{conflicts, get, incorporate, scan, seen, store};

#[test]
fn dirty_read() {
    let db = store();
    db.put("x", "old").unwrap();
    let writer = db.transaction().unwrap();
    writer.put("x", "new").unwrap();
    writer.put("y", "new").unwrap();
    let reader = db.transaction().unwrap();
    assert_eq!((get(&db, "x"), seen(&reader, "x"), seen(&reader, "y")), ("old".into(), "old".into(), "absent".into()));
    assert_eq!(scan(&reader, ""), ["x"]);
    assert_eq!(db.iter().unwrap().count(), 1);
    writer.commit().unwrap();
    // The reader still sees the state at its start.
    assert_eq!((seen(&reader, "x"), seen(&reader, "y")), ("old".into(), "absent".into()));
    assert_eq!((get(&db, "x"), get(&db, "y")), ("new".into(), "new".into()));
}

#[test]
fn aborted_read() {
    let db = store();
    db.put("x", "old").unwrap();
    for end in 0..4 {
        let writer = db.transaction().unwrap();
        assert_eq!(seen(&writer, "x"), "old");
        writer.put("x", "new").unwrap();
        writer.put("y", "new").unwrap();
        writer.delete("x").unwrap();
        match end {
            0 => writer.rollback(),
            1 => drop(writer),
            2 => {
                db.put("x", "old").unwrap();
                conflicts(writer, &["x"]);
            }
            _ => {
                // A rollback to a savepoint does not undo reads.
                db.put("x", "old").unwrap();
                let start = writer.savepoint();
                writer.put("z", "z").unwrap();
                writer.rollback_to(&start).unwrap();
                conflicts(writer, &["x"]);
            }
        }
        incorporate(&db);
        assert_eq!((get(&db, "x"), get(&db, "y"), get(&db, "z")), ("old".into(), "absent".into(), "absent".into()));
    }
}

#[test]
fn lost_update() {
    let db = store();
    db.put("x", "1").unwrap();
    let [one, other] = [db.transaction().unwrap(), db.transaction().unwrap()];
    for (transaction, by) in [(&one, "a"), (&other, "b")] {
        let old = seen(transaction, "x");
        transaction.put("x", old + by).unwrap();
    }
    one.commit().unwrap();
    conflicts(other, &["x"]);
    assert_eq!(get(&db, "x"), "1a");
    // The same with every kind of single write instead of a transaction.
    let writes: [fn(&alluvium::Db); 4] = [
        |db| db.put("x", "put").unwrap(),
        |db| db.delete("x").unwrap(),
        |db| assert!(db.put_if_absent("x", "was absent").unwrap()),
        |db| _ = db.update("x", |old| Some([old.unwrap(), b"updated"].concat())).unwrap(),
    ];
    for write in writes {
        let transaction = db.transaction().unwrap();
        let old = seen(&transaction, "x");
        transaction.put("x", old + "lost").unwrap();
        write(&db);
        conflicts(transaction, &["x"]);
        assert!(!get(&db, "x").contains("lost"));
    }
}

#[test]
fn read_skew() {
    let db = store();
    db.put("x", "50").unwrap();
    db.put("y", "50").unwrap();
    let reader = db.transaction().unwrap();
    let writing = db.transaction().unwrap();
    assert_eq!((seen(&reader, "x"), seen(&writing, "x")), ("50".into(), "50".into()));
    let transfer = db.transaction().unwrap();
    transfer.put("x", "20").unwrap();
    transfer.put("y", "80").unwrap();
    transfer.commit().unwrap();
    assert_eq!((seen(&reader, "y"), seen(&writing, "y")), ("50".into(), "50".into()), "half a transfer");
    assert_eq!(reader.multi_get(&["x", "y"]).unwrap(), [Some(b"50".to_vec()), Some(b"50".to_vec())]);
    reader.commit().unwrap();
    writing.put("z", "100").unwrap();
    conflicts(writing, &["x", "y"]);
}

/// Two doctors are on call, and each leaves because the other one is there.
#[test]
fn write_skew() {
    let db = store();
    for written_out in [false, true] {
        db.put("ada", "on call").unwrap();
        db.put("grace", "on call").unwrap();
        if written_out {
            incorporate(&db);
        }
        let [one, other] = [db.transaction().unwrap(), db.transaction().unwrap()];
        for (transaction, goes) in [(&one, "ada"), (&other, "grace")] {
            assert_eq!((seen(transaction, "ada"), seen(transaction, "grace")), ("on call".into(), "on call".into()));
            transaction.put(goes, "at home").unwrap();
        }
        one.commit().unwrap();
        conflicts(other, &["ada"]);
        assert_eq!((get(&db, "ada"), get(&db, "grace")), ("at home".into(), "on call".into()));
    }
}

/// The same, but each transaction has read that a key is absent.
#[test]
fn write_skew_of_absent_keys() {
    let db = store();
    let [one, other] = [db.transaction().unwrap(), db.transaction().unwrap()];
    for (transaction, looks, puts) in [(&one, "a", "b"), (&other, "b", "a")] {
        assert_eq!(seen(transaction, looks), "absent");
        transaction.put(puts, "there").unwrap();
    }
    one.commit().unwrap();
    conflicts(other, &["b"]);
    assert_eq!(get(&db, "a"), "absent");
}

/// Each transaction counts the keys of a range and adds one.
#[test]
fn phantom() {
    let db = store();
    db.put("room/1", "Ada").unwrap();
    db.put("rook", "of another range").unwrap();
    let [one, other] = [db.transaction().unwrap(), db.transaction().unwrap()];
    for (transaction, key) in [(&one, "room/2"), (&other, "room/3")] {
        assert_eq!(scan(transaction, "room/").len(), 1);
        transaction.put(key, "a guest").unwrap();
    }
    one.commit().unwrap();
    conflicts(other, &["room/2"]);
    assert_eq!(get(&db, "room/3"), "absent");
    // Deletes are phantoms, too; writes outside of the range are not.
    for (write, key, is_phantom) in [
        ("put", "room/", true),
        ("put", "room/~", true),
        ("delete", "room/1", true),
        ("put", "roop", false),
        ("delete", "rook", false),
    ] {
        let transaction = db.transaction().unwrap();
        scan(&transaction, "room/");
        transaction.put("count", "2").unwrap();
        if write == "put" {
            db.put(key, "new").unwrap()
        } else {
            db.delete(key).unwrap()
        }
        if is_phantom {
            conflicts(transaction, &[key]);
        } else {
            transaction.commit().unwrap();
        }
    }
}

/// An iterator's reads are only the keys that it has passed, from either end; after a seek, only the keys from there.
#[test]
fn phantoms_in_the_range_of_an_iterator() {
    let db = store();
    let fill = || ["b", "d", "f", "h"].iter().for_each(|key| db.put(key, "old").unwrap());
    // An iterator's moves, and which of the keys a to i count as read after them.
    type Moves = fn(&mut alluvium::TransactionIter<'_>);
    let cases: [(Moves, &str); 9] = [
        (|iter| drop(iter.next()), "ab"),
        (|iter| assert_eq!(iter.take(2).count(), 2), "abcd"),
        (|iter| drop(iter.next_back()), "hi"),
        (|iter| drop((iter.next(), iter.next_back())), "abhi"),
        (|iter| iter.seek("d").unwrap(), "d"),
        (|iter| iter.seek("e").unwrap(), "ef"),
        (|iter| iter.seek_for_prev("e").unwrap(), "de"),
        (
            |iter| {
                iter.seek("d").unwrap();
                iter.step().unwrap();
                iter.step_back().unwrap();
                iter.step_back().unwrap();
            },
            "bcdef",
        ),
        (|iter| assert_eq!(iter.count(), 4), "abcdefghi"),
    ];
    for (case, (moves, read)) in cases.into_iter().enumerate() {
        for key in "abcdefghi".chars().map(String::from) {
            fill();
            let transaction = db.transaction().unwrap();
            moves(&mut transaction.iter().unwrap());
            transaction.put("own", "1").unwrap();
            db.put(&key, "new").unwrap();
            let conflicted = transaction.commit().is_err();
            assert_eq!(conflicted, read.contains(&key), "case {case}, a put of {key}, keys read: {read}");
            ["a", "c", "e", "g", "i", "own"].iter().for_each(|key| db.delete(key).unwrap());
        }
    }
}

/// A regression test: a backward seek from before an iterator's range counted its key as read.
#[test]
fn writes_outside_of_a_range_do_not_conflict() {
    type Seek = fn(&mut alluvium::TransactionIter<'_>, &str);
    let seeks: [Seek; 2] = [|iter, key| iter.seek(key).unwrap(), |iter, key| iter.seek_for_prev(key).unwrap()];
    for seek in seeks {
        for outside in ["a", "x"] {
            let db = store();
            db.put("n", "old").unwrap();
            let transaction = db.transaction().unwrap();
            seek(&mut transaction.range("m".."p").unwrap(), outside);
            transaction.put("own", "1").unwrap();
            db.put(outside, "new").unwrap();
            transaction.commit().unwrap();
        }
    }
}

#[test]
fn read_only_transactions_never_conflict() {
    let db = store();
    db.put("x", "old").unwrap();
    let (by_get, by_scan) = (db.transaction().unwrap(), db.transaction().unwrap());
    let taken_back = db.transaction().unwrap();
    let start = taken_back.savepoint();
    taken_back.put("y", seen(&taken_back, "x")).unwrap();
    taken_back.rollback_to(&start).unwrap();
    assert_eq!((seen(&by_get, "x"), scan(&by_scan, "").len()), ("old".into(), 1));
    db.put("x", "new").unwrap();
    incorporate(&db);
    assert_eq!((seen(&by_get, "x"), scan(&by_scan, "").len()), ("old".into(), 1));
    for transaction in [by_get, by_scan, taken_back] {
        transaction.commit().unwrap();
    }
}

#[test]
fn write_only_transactions_never_conflict() {
    let db = store();
    db.put("x", "old").unwrap();
    let transactions = ["1", "2", "3"].map(|value| {
        let transaction = db.transaction().unwrap();
        transaction.put("x", value).unwrap();
        transaction.delete("y").unwrap();
        // A transaction's own writes are not conflicts.
        assert_eq!(seen(&transaction, "x"), value);
        transaction
    });
    db.put("x", "newer").unwrap();
    db.put("y", "newer").unwrap();
    incorporate(&db);
    for (transaction, value) in transactions.into_iter().zip(["1", "2", "3"]) {
        transaction.commit().unwrap();
        assert_eq!((get(&db, "x"), get(&db, "y")), (value.into(), "absent".into()));
    }
}

/// A transaction that begins after a commit has returned sees it.
#[test]
fn the_order_agrees_with_real_time() {
    let db = store();
    for round in 0..50 {
        let [old, new] = [db.transaction().unwrap(), db.transaction().unwrap()];
        new.put("x", format!("{round}")).unwrap();
        new.commit().unwrap();
        assert_ne!(seen(&old, "x"), round.to_string());
        assert_eq!(seen(&db.transaction().unwrap(), "x"), round.to_string());
        assert_eq!(get(&db, "x"), round.to_string());
    }
}
