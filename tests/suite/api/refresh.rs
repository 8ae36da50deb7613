//! `ReadOnlyDb::refresh`: what a reader shows before and after it, and what it keeps.

use crate::support::tiny;
use alluvium::{Db, Error, Options, ReadOnlyDb};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn key(number: u64) -> String {
    format!("key{number:05}")
}

fn fill(db: &Db, round: u8) {
    for number in 0..2000 {
        db.put(key(number), [round; 100]).unwrap();
    }
}

fn is_all(pairs: impl Iterator<Item = alluvium::Result<(Vec<u8>, Vec<u8>)>>, round: u8) -> bool {
    let mut count = 0;
    let is_same = pairs.map(Result::unwrap).inspect(|_| count += 1).all(|(_, value)| value == [round; 100]);
    is_same && count == 2000
}

fn branch_files(directory: &Path) -> usize {
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|ending| ending == "branch")).count()
}

#[test]
fn a_refreshed_reader_sees_what_was_written_and_its_snapshots_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let writer = Db::open(directory.path(), tiny()).unwrap();
    fill(&writer, 1);
    let reader = ReadOnlyDb::open(directory.path(), tiny()).unwrap();
    let (snapshot, mut iter) = (reader.snapshot(), reader.iter().unwrap());
    iter.seek(key(1000)).unwrap();
    for round in 2..6 {
        fill(&writer, round);
        writer.compact().unwrap();
        assert!(is_all(reader.iter().unwrap(), round - 1));
        reader.refresh().unwrap();
        assert!(is_all(reader.iter().unwrap(), round));
        assert_eq!(reader.get(key(7)).unwrap(), Some(vec![round; 100]));
        assert_eq!(reader.stats().last_number, writer.stats().last_number);
        assert!(is_all(snapshot.iter().unwrap(), 1));
    }
    // The iterator of the first opening has its position still, and goes on in the files of then.
    assert!(iter.all(|pair| pair.unwrap().1 == [1; 100]));
    drop(snapshot);
    drop(iter);
    let last = reader.snapshot();
    assert_eq!(last.get(key(7)).unwrap(), Some(vec![5; 100]));
    drop(reader);
    assert!(matches!(last.get(key(7)), Err(Error::Closed)));
    // Now the writer removes the files of all that the reader has shown.
    let deadline = Instant::now() + Duration::from_secs(20);
    while branch_files(directory.path()) > writer.branch_files().len() {
        assert!(Instant::now() < deadline, "files of old contents stay");
        writer.put("tick", "").unwrap();
        writer.flush().unwrap();
        writer.settle().unwrap();
    }
}

#[test]
fn a_refresh_that_fails_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let writer = Db::open(&path, tiny()).unwrap();
    writer.put("key", "value").unwrap();
    let reader = ReadOnlyDb::open(&path, Options::default()).unwrap();
    writer.close().unwrap();
    std::fs::rename(&path, directory.path().join("elsewhere")).unwrap();
    assert!(reader.refresh().is_err());
    assert_eq!(reader.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// Readers and refreshes share a reader while the writer counts upwards. No read fails, and none goes back.
#[test]
fn threads_read_while_another_refreshes() {
    let directory = tempfile::tempdir().unwrap();
    let writer = Db::open(directory.path(), tiny()).unwrap();
    writer.put("count", 0_u64.to_be_bytes()).unwrap();
    let reader = ReadOnlyDb::open(directory.path(), tiny()).unwrap();
    let (over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let count = |found: Option<Vec<u8>>| u64::from_be_bytes(found.unwrap().try_into().unwrap());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = 0;
                while !over.load(Ordering::Relaxed) {
                    let snapshot = reader.snapshot();
                    let now = count(snapshot.get("count").unwrap());
                    assert!(now >= seen, "{now} after {seen}");
                    seen = now;
                    assert_eq!(count(snapshot.multi_get(&["count"]).unwrap().remove(0)), now);
                    assert!(count(reader.get("count").unwrap()) >= now);
                    std::thread::yield_now();
                }
            });
        }
        scope.spawn(|| {
            for number in 1..=2000_u64 {
                writer.put("count", number.to_be_bytes()).unwrap();
                written.store(number, Ordering::Release);
                if number % 500 == 0 {
                    writer.flush().unwrap();
                }
            }
        });
        // Ends: the writer comes to its end.
        loop {
            let before = written.load(Ordering::Acquire);
            reader.refresh().unwrap();
            assert!(count(reader.get("count").unwrap()) >= before);
            if before == 2000 {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}
