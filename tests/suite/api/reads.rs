//! The reads besides gets and iterators, compared with a model: on a store, a snapshot, a reader and a transaction.

use crate::support::{Random, tiny};
use alluvium::{Db, Error, Options, ReadOnlyDb, Readable};
use std::collections::BTreeMap;
use std::ops::ControlFlow::{Break, Continue};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:04}").into_bytes()
}

/// Checks the reads by the trait.
fn check(read: &impl Readable, model: &Model, random: &mut Random) {
    let pair = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
    assert_eq!(read.first().unwrap(), model.first_key_value().map(pair));
    assert_eq!(read.last().unwrap(), model.last_key_value().map(pair));
    assert_eq!(read.is_empty().unwrap(), model.is_empty());
    let mut value = b"what was there before".to_vec();
    let keys: Vec<_> = (0..300).step_by(7).map(key).collect();
    for (key, found) in keys.iter().zip(read.multi_get(&keys).unwrap()) {
        let expected = model.get(key);
        assert_eq!(found.as_ref(), expected);
        assert_eq!(read.get(key).unwrap().as_ref(), expected);
        assert_eq!(read.contains_key(key).unwrap(), expected.is_some(), "{}", key.escape_ascii());
        assert_eq!(read.get_into(key, &mut value).unwrap().then_some(&value), expected);
        assert_eq!(read.get_pinned(key).unwrap().as_deref(), expected.map(|value| &value[..]));
    }
    let from = key(random.below(300));
    let stop = random.below(300) as usize;
    let mut seen = Vec::new();
    read.for_each(&from.., |key, value| {
        seen.push((key.to_vec(), value.to_vec()));
        if seen.len() == stop { Break(()) } else { Continue(()) }
    })
    .unwrap();
    let limit = if stop == 0 { usize::MAX } else { stop };
    assert!(seen.into_iter().eq(model.range(from.clone()..).take(limit).map(pair)));
    let prefix = &from[..6];
    let of_prefix = model.iter().filter(|(key, _)| key.starts_with(prefix)).map(pair);
    assert!(read.prefix(prefix).unwrap().map(Result::unwrap).eq(of_prefix));
    assert!(read.range(..&from).unwrap().map(Result::unwrap).eq(model.range(..from).map(pair)));
    assert!(read.iter().unwrap().rev().map(Result::unwrap).eq(model.iter().rev().map(pair)));
}

#[test]
fn reads_agree_with_a_model() {
    let mut random = Random(5);
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let mut model = Model::new();
    let (mut before, mut old) = (db.snapshot(), Model::new());
    for round in 0..60 {
        let transaction = db.transaction().unwrap();
        let mut own = model.clone();
        for _ in 0..random.below(60) {
            let key = key(random.below(300));
            match random.below(12) {
                0..=3 => {
                    transaction.delete(&key).unwrap();
                    own.remove(&key);
                }
                4 => {
                    let end = [&key[..5], b"99"].concat();
                    transaction.delete_range(&key..&end).unwrap();
                    own.retain(|other, _| !(&key..&end).contains(&other));
                }
                5 => {
                    assert_eq!(transaction.take(&key).unwrap(), own.remove(&key));
                }
                6 => assert_eq!(transaction.pop_first().unwrap(), own.pop_first()),
                7 => assert_eq!(transaction.pop_last().unwrap(), own.pop_last()),
                kind => {
                    // Some values are in files of their own, and some in pages of their own.
                    let length = if kind == 8 && random.one_in(20) { 300_000 } else { random.below(3000) as usize };
                    let value = random.bytes(length);
                    transaction.put(&key, &value).unwrap();
                    own.insert(key, value);
                }
            }
        }
        if round % 20 == 19 {
            transaction.delete_prefix("").unwrap();
            own.clear();
        }
        check(&transaction, &own, &mut random);
        check(&db, &model, &mut random);
        transaction.commit().unwrap();
        model = own;
        if round % 4 == 0 {
            db.flush().unwrap();
        }
        check(&db, &model, &mut random);
        check(&before, &old, &mut random);
        if round % 5 == 0 {
            (before, old) = (db.snapshot(), model.clone());
            let reader = ReadOnlyDb::open(directory.path(), Options::default()).unwrap();
            check(&reader, &model, &mut random);
        }
        assert_eq!(db.pop_first().unwrap(), model.pop_first());
        assert_eq!(db.pop_last().unwrap(), model.pop_last());
    }
    db.close().unwrap();
    assert!(matches!(before.contains_key("key"), Err(Error::Closed)));
    assert!(matches!(before.first(), Err(Error::Closed)));
    assert!(matches!(before.for_each(.., |_, _| Continue(())), Err(Error::Closed)));
}

#[test]
fn contains_key_reads_no_value_file() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Options::default()).unwrap();
    db.put("large", vec![7; 300_000]).unwrap();
    let hidden = directory.path().join("hidden");
    let mut files = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|ending| ending == "value")).unwrap();
    // In memory, then in the tree.
    for _ in 0..2 {
        std::fs::rename(&file, &hidden).unwrap();
        assert!(db.get("large").is_err());
        assert!(db.contains_key("large").unwrap());
        std::fs::rename(&hidden, &file).unwrap();
        db.flush().unwrap();
    }
}
