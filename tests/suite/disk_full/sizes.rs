//! The files beside the data take little space, whatever the memory budget is, and give it back when the data goes.
//!
//! Once, the ballast of a store of 100 MB took 214 MB, since it followed the budget, and nothing ever made it smaller.

use alluvium::{Db, Options, WriteBatch};
use std::path::Path;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

fn options() -> Options {
    Options { memory_budget: Some(1 << 30), background_threads: Some(2), ..Options::default() }
}

fn length(path: &Path, name: &str) -> u64 {
    std::fs::metadata(path.join(name)).map_or(0, |metadata| metadata.len())
}

fn branch_bytes(path: &Path) -> u64 {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".branch")).map(|name| length(path, &name)).sum()
}

/// Puts or deletes this many pairs of 116 bytes.
fn write(db: &Db, pairs: u64, put: bool) {
    for first in (0..pairs).step_by(1000) {
        let mut batch = WriteBatch::new();
        for number in first..first + 1000 {
            let key = format!("{number:016}");
            if put {
                batch.put(key, [number as u8; 100])
            } else {
                batch.delete(key)
            };
        }
        db.write(batch).unwrap();
    }
    db.flush().unwrap();
    db.settle().unwrap();
}

#[track_caller]
fn expect_small(path: &Path, when: &str) {
    let (data, ballast, manifest) = (branch_bytes(path), length(path, "BALLAST"), length(path, "MANIFEST"));
    println!("{when}: {data} bytes of data, ballast {ballast}, manifest {manifest}");
    assert!(ballast <= (data / 40).max(64 << 10), "{when}: a ballast of {ballast} bytes for {data} bytes of data");
    assert!(manifest <= (64 << 10) + data / 100, "{when}: a manifest of {manifest} bytes for {data} bytes of data");
}

#[test]
fn ballast_and_manifest_follow_the_data() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    Db::open(path, options()).unwrap().close().unwrap();
    assert_eq!(length(path, "BALLAST"), 0, "a store without data needs none");
    for pairs in [1000, 100_000] {
        let db = Db::open(path, options()).unwrap();
        write(&db, pairs, true);
        expect_small(path, &format!("{pairs} pairs, open"));
        db.close().unwrap();
        expect_small(path, &format!("{pairs} pairs, closed"));
    }
    assert!(length(path, "BALLAST") >= 64 << 10);
    let db = Db::open(path, options()).unwrap();
    write(&db, 100_000, false);
    db.compact().unwrap();
    db.settle().unwrap();
    // The ballast is checked every few milliseconds.
    let deadline = Instant::now() + PATIENCE;
    while length(path, "BALLAST") > 64 << 10 {
        assert!(Instant::now() < deadline, "a ballast of {} bytes for no data", length(path, "BALLAST"));
        std::thread::sleep(Duration::from_millis(10));
    }
    db.close().unwrap();
    expect_small(path, "emptied, closed");
}
