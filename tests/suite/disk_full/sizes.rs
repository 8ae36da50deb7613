//! The files beside the data take little space, whatever the memory budget is, and give it back when the data goes.
//!
//! Once, the ballast of a store of 100 MB took 214 MB, since it followed the budget, and nothing ever made it smaller.

use alluvium::{Db, Options, WriteBatch};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

fn options() -> Options {
    Options::new().memory_budget(1 << 30).background_threads(2)
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

/// Bytes of blocks of the store: in branch files, and in all others.
fn blocks(path: &Path) -> (u64, u64) {
    let mut bytes = (0, 0);
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        // A file may be removed meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        let is_branch = entry.path().extension().is_some_and(|extension| extension == "branch");
        *(if is_branch { &mut bytes.0 } else { &mut bytes.1 }) += metadata.blocks() * 512;
    }
    bytes
}

/// Once, a store of 1,000 pairs took 17 MB after the first close, 27 MB after the second one, and 35 MB after the third.
#[test]
fn a_small_store_stays_small() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let db = Db::open(path, Options::default()).unwrap();
    let (data, others) = blocks(path);
    assert!(data + others < 256 << 10, "a new store takes {data} + {others} bytes");
    for number in 0..1000u32 {
        db.put(number.to_be_bytes(), [number as u8; 100]).unwrap();
    }
    db.close().unwrap();
    for opening in 0..4 {
        let (data, others) = blocks(path);
        println!("1,000 pairs, closed: {data} + {others} bytes");
        assert!(data + others < 512 << 10, "1,000 pairs take {data} + {others} bytes after opening {opening}");
        let db = Db::open(path, Options::default()).unwrap();
        db.put("one more", opening.to_string()).unwrap();
        db.close().unwrap();
    }
}

/// Once, a thousand puts by a thousand processes took 24 MB: a file for each, since closing cancelled every merge. With
/// ascending keys the files were one run, which no merge touched.
#[test]
fn a_store_that_is_opened_for_every_put_stays_small() {
    for scatter in [1, 0x9e37_79b9] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        for number in 0..300u32 {
            let db = Db::open(path, Options::default()).unwrap();
            db.put(number.wrapping_mul(scatter).to_be_bytes(), [number as u8; 100]).unwrap();
            db.close().unwrap();
        }
        let (data, others) = blocks(path);
        println!("300 pairs, closed: {data} + {others} bytes");
        assert!(data + others < 512 << 10, "300 pairs take {data} + {others} bytes");
        let db = Db::open(path, Options::default()).unwrap();
        assert_eq!(db.iter().unwrap().count(), 300);
        db.close().unwrap();
    }
}

/// After single puts, so that log and memory are as large as they get.
#[test]
fn the_files_beside_the_data_are_small_once_the_store_is_idle_or_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let db = Db::open(path, Options::default()).unwrap();
    const PAIRS: u64 = 300_000;
    for number in 0..PAIRS {
        db.put(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), [number as u8; 100]).unwrap();
    }
    let bytes = PAIRS * 108;
    let deadline = Instant::now() + 2 * PATIENCE;
    let idle = loop {
        let others = blocks(path).1;
        if others <= bytes / 10 + (8 << 20) || Instant::now() > deadline {
            break others;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    println!("{bytes} bytes of data, idle: {idle} bytes beside");
    assert!(idle <= bytes / 10 + (8 << 20), "{idle} bytes beside {bytes} bytes of data");
    db.close().unwrap();
    let (data, others) = blocks(path);
    println!("closed: {data} bytes of branch files, {others} beside");
    assert!(others <= bytes / 20 + (1 << 20), "closed: {others} bytes beside {bytes} bytes of data");
}
