//! Every way to write a range of keys, for each call that takes one.

use crate::support::tiny;
use alluvium::{CompactOptions, Db, KeyRange, Options, ReadOnlyDb, WriteBatch, WriteOptions};
use std::ops::Bound;

const KEYS: [&str; 5] = ["a", "b", "b\0", "c", "d"];

fn fill(db: &Db) {
    KEYS.iter().for_each(|key| db.put(key, "value").unwrap());
}

fn names(pairs: impl Iterator<Item = alluvium::Result<(Vec<u8>, Vec<u8>)>>) -> Vec<String> {
    pairs.map(|pair| String::from_utf8(pair.unwrap().0).unwrap()).collect()
}

/// Checks that every call takes exactly the expected keys for the range.
fn check(range: impl KeyRange, expected: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    fill(&db);
    assert_eq!(names(db.range(&range).unwrap()), expected);
    let snapshot = db.snapshot();
    assert_eq!(names(snapshot.range(&range).unwrap()), expected);
    let reader = ReadOnlyDb::open(directory.path(), Options::default()).unwrap();
    assert_eq!(names(reader.range(&range).unwrap()), expected);
    assert_eq!(reader.approximate_size(&range).unwrap() > 0, !expected.is_empty());
    assert_eq!(db.approximate_size(&range).unwrap() > 0, !expected.is_empty());
    let left: Vec<_> = KEYS.iter().copied().filter(|key| !expected.contains(key)).collect();
    let transaction = db.transaction().unwrap();
    assert_eq!(names(transaction.range(&range).unwrap()), expected);
    transaction.delete_range(&range).unwrap();
    assert_eq!(names(transaction.iter().unwrap()), left);
    transaction.rollback();
    db.delete_range(&range).unwrap();
    assert_eq!(names(db.iter().unwrap()), left);
    fill(&db);
    db.delete_range_with(&range, WriteOptions::default()).unwrap();
    assert_eq!(names(db.iter().unwrap()), left);
    fill(&db);
    let mut batch = WriteBatch::new();
    batch.delete_range(&range);
    db.write(batch).unwrap();
    assert_eq!(names(db.iter().unwrap()), left);
    db.compact_range(&range).unwrap();
    db.optimize(&range).unwrap();
    db.compact_with(range, &CompactOptions::default(), &mut |_| ()).unwrap();
    assert_eq!(names(db.iter().unwrap()), left);
}

#[test]
fn every_kind_of_range_has_its_keys() {
    check(.., &KEYS);
    check("b".."c", &["b", "b\0"]);
    check("b".to_owned().., &["b", "b\0", "c", "d"]);
    check(..b"b", &["a"]);
    check([b'b']..=[b'c'], &["b", "b\0", "c"]);
    check(..=vec![b'b'], &["a", "b"]);
    check((Bound::Excluded("b"), Bound::Included("c")), &["b\0", "c"]);
    check((Bound::Excluded("b"), Bound::Excluded("c")), &["b\0"]);
    check((Bound::Included(b"b\0".as_slice()), Bound::Unbounded), &["b\0", "c", "d"]);
    check((Bound::Unbounded, Bound::Excluded("c")), &["a", "b", "b\0"]);
    // References, also to ranges whose type is not known here.
    let half_open = "b".."c";
    check(&half_open, &["b", "b\0"]);
    check(&("c"..) as &dyn KeyRange, &["c", "d"]);
    // Empty and inverted ranges.
    check("b".."b", &[]);
    check("c".."a", &[]);
    check("e".., &[]);
}
