//! Undamaged directories.

use crate::writer::{Model, Random, Script, as_leveldb_reads, read};
use alluvium_leveldb_files::{Database, Error, Options};
use std::path::Path;

/// Runs a script and compares what is read with what it put. Returns false if LevelDB is not installed.
fn check(script: &Script, directory: &Path) -> bool {
    if script.run(directory).is_none() {
        return false;
    }
    let (found, left_out) = read(directory, Options::default()).unwrap();
    assert_eq!(left_out, 0);
    assert!(found == script.model, "{} pairs found, {} put", found.len(), script.model.len());
    true
}

#[test]
fn an_empty_database_and_one_that_is_only_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let mut script = Script::default();
    script.open(4 << 20, true).command("x");
    if !check(&script, directory.path()) {
        return;
    }
    let mut script = Script::default();
    script.open(4 << 20, true).put("", "no key").put("no value", "").put([0, 255, 10, 13], [7; 100]);
    script.put("gone", "1").delete("gone").delete("never").put("twice", "1").put("twice", "2").command("x");
    check(&script, directory.path());
    assert_eq!(Database::open(directory.path(), Options::default()).unwrap().files(), (0, 1));
}

/// Small buffers create tables, levels and compactions; reopening turns logs into tables.
#[test]
fn levels_overwrites_and_deletes() {
    for seed in 0..6_u64 {
        let directory = tempfile::tempdir().unwrap();
        let mut random = Random(seed);
        let mut script = Script::default();
        let snappy = seed % 2 == 0;
        for round in 0..3_u64 {
            script.open(70_000, snappy);
            for _ in 0..4_000 {
                let key = format!("key{:05}", random.below(5_000));
                if random.below(4) == 0 {
                    script.delete(key);
                } else {
                    let length = random.below(120);
                    script.put(key, (0..length).map(|_| random.below(256) as u8).collect::<Vec<_>>());
                }
            }
            if seed == 1 && round == 1 {
                script.command("c");
            }
            // A process that dies leaves the newest writes in the log, and sometimes an older log.
            script.command(if seed > 2 && round == 2 { "k" } else { "x" });
            if seed > 2 && round == 2 {
                break;
            }
        }
        if !check(&script, directory.path()) {
            return;
        }
        let (tables, logs) = Database::open(directory.path(), Options::default()).unwrap().files();
        assert!(tables > 0 && logs > 0, "{tables} tables, {logs} logs");
        assert_eq!(as_leveldb_reads(directory.path()), Some(script.model));
    }
}

#[test]
fn values_over_many_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let mut script = Script::default();
    script.open(1 << 20, true);
    for number in 0..4_u8 {
        script.put([number], vec![number; 3 << 20]);
        script.put([number, 0], vec![number; 32_768 - 7 - usize::from(number)]);
    }
    let random: Vec<u8> = (0..2_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    script.put("not to be compressed", random).command("k");
    check(&script, directory.path());
}

/// Every alignment of the end of the log's last record in its block.
#[test]
fn records_at_the_ends_of_log_blocks() {
    for left in 0..20_usize {
        let directory = tempfile::tempdir().unwrap();
        let mut script = Script::default();
        // The sizes: a header of 7 bytes, 12 of the batch, 1 of the kind, the key and two lengths.
        script.open(4 << 20, true).put("k", vec![1; 32_768 - 7 - 12 - 1 - 2 - 3 - left]).put("l", "next").command("k");
        if !check(&script, directory.path()) {
            return;
        }
    }
}

#[test]
fn progress_reaches_the_total() {
    let directory = tempfile::tempdir().unwrap();
    let mut script = Script::default();
    script.open(70_000, false);
    for number in 0..10_000 {
        script.put(format!("key{number:06}"), [9; 50]);
    }
    if script.command("x").run(directory.path()).is_none() {
        return;
    }
    let database = Database::open(directory.path(), Options::default()).unwrap();
    let bytes = database.bytes();
    let mut pairs = database.pairs().unwrap();
    let mut before = 0;
    while let Some(pair) = pairs.next() {
        pair.unwrap();
        assert!(pairs.bytes_read() >= before);
        before = pairs.bytes_read();
    }
    assert_eq!((pairs.bytes_read(), bytes > 500_000), (bytes, true));
}

#[test]
fn other_directories_and_open_databases_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let error = read(directory.path(), Options::default()).unwrap_err();
    assert!(matches!(error, Error::NoDatabase { .. }), "{error}");
    assert!(read(&directory.path().join("absent"), Options::default()).is_err());
    let mut script = Script::default();
    if script.open(4 << 20, true).put("a", "1").command("x").run(directory.path()).is_none() {
        return;
    }
    // LevelDB cannot open it while it is read, and the other way round.
    let open = Database::open(directory.path(), Options::default()).unwrap();
    let mut pairs = open.pairs().unwrap();
    let other = std::panic::catch_unwind(|| Script::default().open(4 << 20, true).command("x").run(directory.path()));
    assert!(other.is_err(), "LevelDB opened a directory that is being read");
    assert!(pairs.next().is_some());
    drop(pairs);
    assert_eq!(as_leveldb_reads(directory.path()), Some(Model::from([(b"a".to_vec(), b"1".to_vec())])));
}
