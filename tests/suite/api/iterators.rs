//! Long-lived iterators and snapshots: they must not prevent the store from freeing space.

use crate::support::{Random, expect_sound, tiny};
use alluvium::Db;

fn bytes_on_disk(path: &std::path::Path) -> u64 {
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let branches = files.filter(|file| file.file_name().to_string_lossy().ends_with(".branch"));
    // A file may be removed after the listing.
    branches.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// An idle iterator over a store that is rewritten many times does not keep the old files, and still continues at its
/// position with its own versions.
#[test]
fn an_idle_iterator_pins_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let key = |number: u64| format!("key{number:05}");
    for number in 0..2000 {
        db.put(key(number), [1; 100]).unwrap();
    }
    let mut iter = db.iter().unwrap();
    iter.seek(key(1000)).unwrap();
    assert_eq!(iter.value(), Some(&[1; 100][..]));
    for round in 2..20u8 {
        for number in 0..2000 {
            db.put(key(number), [round; 100]).unwrap();
        }
    }
    db.flush().unwrap();
    db.settle().unwrap();
    // The newest tree uses every file on disk, and most of the data of the 20 rounds is gone.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    let (mut bytes, mut stats) = (bytes_on_disk(directory.path()), db.stats());
    while bytes != stats.branch_bytes && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(20));
        (bytes, stats) = (bytes_on_disk(directory.path()), db.stats());
    }
    assert_eq!(bytes, stats.branch_bytes, "{stats}");
    assert!(bytes < stats.incorporated_bytes + stats.compacted_bytes - bytes / 2, "{stats}");
    let mut expected = 1000;
    while let Some(pair) = iter.pair() {
        assert_eq!(pair, (key(expected).as_bytes(), &[1; 100][..]));
        expected += 1;
        iter.step().unwrap();
    }
    assert_eq!(expected, 2000);
    expect_sound(&db);
}

/// One hot key that is overwritten again and again: neither the log nor the store grows.
#[test]
fn one_hot_key_leaves_the_log_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let mut random = Random(5);
    let mut log_bytes_max = 0;
    for round in 0..crate::support::setting("ALLUVIUM_HOT_WRITES", 200_000) {
        let length = random.below(300) as usize;
        db.put("hot", vec![round as u8; length]).unwrap();
        if round % 1000 == 0 {
            log_bytes_max = log_bytes_max.max(db.stats().log_bytes);
        }
    }
    db.flush().unwrap();
    db.settle().unwrap();
    assert!(log_bytes_max < 8 << 20, "the log grew to {log_bytes_max} bytes");
    assert!(bytes_on_disk(directory.path()) < 1 << 20);
    expect_sound(&db);
}

/// Snapshots and iterators that outlive the store return an error instead of reading data that may be gone.
#[test]
fn handles_that_outlive_the_store_get_a_clear_error() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    db.put("a", "1").unwrap();
    let snapshot = db.snapshot();
    let mut iter = snapshot.iter().unwrap();
    iter.seek_first().unwrap();
    db.close().unwrap();
    assert!(matches!(snapshot.get("a"), Err(alluvium::Error::Closed)));
    assert!(matches!(iter.step(), Err(alluvium::Error::Closed)));
    assert!(iter.next().is_none());
    // The lock is released although the snapshot still exists.
    Db::open(directory.path(), tiny()).unwrap();
}

/// An iterator uses what the one before it left. It must not see that one's snapshot, range or Memtables.
#[test]
fn iterators_that_follow_each_other_read_their_own_snapshots_and_ranges() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let pairs = |iter: alluvium::Iter| -> Vec<(Vec<u8>, Vec<u8>)> { iter.map(|pair| pair.unwrap()).collect() };
    let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    db.put("a", "1").unwrap();
    db.put("c", "1").unwrap();
    db.flush().unwrap();
    // The cursor that is left has no Memtable.
    assert_eq!(pairs(db.iter().unwrap()), [pair("a", "1"), pair("c", "1")]);
    db.put("b", "2").unwrap();
    let old = db.snapshot();
    assert_eq!(pairs(db.iter().unwrap()), [pair("a", "1"), pair("b", "2"), pair("c", "1")]);
    db.put("b", "3").unwrap();
    db.delete("c").unwrap();
    for _ in 0..3 {
        assert_eq!(pairs(db.range("b".."c").unwrap()), [pair("b", "3")]);
        assert_eq!(pairs(old.range("b"..).unwrap()), [pair("b", "2"), pair("c", "1")]);
        assert_eq!(pairs(db.iter().unwrap()), [pair("a", "1"), pair("b", "3")]);
        assert_eq!(pairs(old.iter().unwrap()), [pair("a", "1"), pair("b", "2"), pair("c", "1")]);
        let keys: Vec<_> = db.iter().unwrap().keys().map(|key| key.unwrap()).collect();
        assert_eq!(keys, [b"a", b"b"]);
        let back: Vec<_> = old.prefix("b").unwrap().rev().map(|pair| pair.unwrap()).collect();
        assert_eq!(back, [pair("b", "2")]);
        // Several at a time, dropped in another order.
        let (mut one, mut other) = (db.iter().unwrap(), old.iter().unwrap());
        one.seek("b").unwrap();
        other.seek("b").unwrap();
        drop(db.iter().unwrap());
        assert_eq!((one.value(), other.value()), (Some(&b"3"[..]), Some(&b"2"[..])));
        one.refresh().unwrap();
        one.seek("a").unwrap();
        one.step().unwrap();
        assert_eq!(one.value(), Some(&b"3"[..]));
    }
    db.flush().unwrap();
    assert_eq!(pairs(old.iter().unwrap()), [pair("a", "1"), pair("b", "2"), pair("c", "1")]);
}
