//! `soak`: on a correct store it succeeds and leaves nothing; it detects whatever a store loses or changes.

use crate::support::{Done, command, finish, names};
use alluvium::{Db, Options};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SMALL: [&str; 8] = ["--threads", "2", "--keys", "3000", "--value-size", "60", "--seed", "11"];

fn soak(directory: &Path, arguments: &[&str]) -> Done {
    let mut command = command(&["--memory", "4M", "--db"]);
    command.arg(directory).arg("soak").args(arguments).args(SMALL);
    finish(command, b"")
}

/// The figures of a soak with `--json`: its last line.
fn summary(done: &Done) -> Value {
    let last = done.text().lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// A successful soak in a directory that stays.
fn a_good_soak(directory: &TempDir) -> PathBuf {
    let path = directory.path().join("soak");
    let done = soak(&path, &["--for", "2s", "--json"]).expect(0);
    assert_eq!(summary(&done)["ok"], true, "{done:?}");
    path
}

fn open(path: &Path) -> Db {
    let options = Options::new().memory_budget(4 << 20).create_if_missing(false);
    Db::open(path.join("store"), options).unwrap()
}

/// The soak continues, and must detect the manipulation of its store.
fn must_fail(path: &Path, texts: &[&str]) {
    let done = soak(path, &["--for", "1s", "--json"]).expect(4);
    let summary = summary(&done);
    assert_eq!((&summary["ok"], &summary["summary"]), (&Value::from(false), &Value::from(true)));
    let failure = summary["failure"].as_str().unwrap();
    for text in texts.iter().chain(&["round ", "options of that round"]) {
        assert!(failure.contains(text) && done.err.contains(text), "expected {text:?} in {done:?}");
    }
    assert!(done.err.contains("seed 11") && done.err.contains(path.to_str().unwrap()), "{done:?}");
    assert!(path.join("store").exists(), "what failed is kept");
}

#[test]
fn a_good_soak_kills_reopens_checks_and_leaves_nothing() {
    let place = TempDir::new().unwrap();
    let mut command = command(&["--memory", "4M", "soak", "--for", "4s"]);
    command.args(SMALL).env("TMPDIR", place.path());
    let done = finish(command, b"").expect(0);
    assert!(done.err.is_empty(), "{done:?}");
    assert!(names(place.path()).is_empty(), "left over: {done:?}");
    for text in ["--seed 11", "kills", "nothing lost in", "peak memory"] {
        assert!(done.text().contains(text), "{text}: {done:?}");
    }
}

#[test]
fn the_figures_count_the_work_and_a_soak_continues_in_its_directory() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("soak");
    let done = soak(&path, &["--for", "4s", "--json"]).expect(0);
    let first = summary(&done);
    for member in [
        "kills",
        "closes",
        "opened",
        "verified",
        "writes",
        "gets",
        "pairs_scanned",
        "snapshots",
        "live_bytes",
        "peak_memory_bytes",
    ] {
        assert!(first[member].as_u64().is_some_and(|figure| figure > 0), "{member} in {first}");
    }
    assert_eq!(
        (&first["seed"], &first["keys"], &first["failure"]),
        (&Value::from(11), &Value::from(3000), &Value::Null)
    );
    let second = summary(&soak(&path, &["--for", "1s", "--json"]).expect(0));
    assert!(
        second["writes"].as_u64() > first["writes"].as_u64() && second["opened"].as_u64() > first["opened"].as_u64()
    );
    let other = soak(&path, &["--for", "1s", "--seed", "12"]);
    assert!(other.code == 2 && other.err.contains("cannot be used multiple times"), "{other:?}");
    let mut command = command(&["--db"]);
    command.arg(&path).args(["soak", "--for", "1s", "--seed", "12"]);
    finish(command, b"").refused(2, "the soak in this directory has --seed 11");
}

/// One key that a writer set and no later operation removed.
fn some_key(db: &Db) -> (Vec<u8>, Vec<u8>) {
    db.prefix("writer01-").unwrap().nth(100).unwrap().unwrap()
}

#[test]
fn a_lost_write_is_found() {
    let directory = TempDir::new().unwrap();
    let path = a_good_soak(&directory);
    let db = open(&path);
    db.delete(some_key(&db).0).unwrap();
    db.close().unwrap();
    must_fail(&path, &["reopened: writer 1", "the store holds no state between", "found the value of operation 0"]);
}

#[test]
fn a_changed_value_and_a_key_that_was_never_written_are_found() {
    let directory = TempDir::new().unwrap();
    let path = a_good_soak(&directory);
    let db = open(&path);
    let (key, value) = some_key(&db);
    let mut changed = value.clone();
    changed.push(7);
    db.put(&key, changed).unwrap();
    db.close().unwrap();
    must_fail(&path, &["a value that was never written"]);
    let db = open(&path);
    db.put(&key, value).unwrap();
    db.put("writer01-x", "").unwrap();
    db.close().unwrap();
    must_fail(&path, &["a key that was never written: \"writer01-x\""]);
    let db = open(&path);
    db.delete("writer01-x").unwrap();
    db.close().unwrap();
    assert_eq!(summary(&soak(&path, &["--for", "1s", "--json"]).expect(0))["ok"], true);
}

#[test]
fn an_older_state_is_found() {
    let directory = TempDir::new().unwrap();
    let path = a_good_soak(&directory);
    let older = directory.path().join("older");
    std::fs::rename(path.join("store"), &older).unwrap();
    // The state of a restored backup: valid, but too old.
    copy(&older, &path.join("store"));
    soak(&path, &["--for", "1s"]).expect(0);
    std::fs::remove_dir_all(path.join("store")).unwrap();
    std::fs::rename(&older, path.join("store")).unwrap();
    must_fail(&path, &["the store holds no state between"]);
}

#[test]
fn damaged_bytes_are_found() {
    let directory = TempDir::new().unwrap();
    let path = a_good_soak(&directory);
    open(&path).flush().unwrap();
    let store = path.join("store");
    let mut branches: Vec<_> = names(&store).into_iter().filter(|name| name.ends_with(".branch")).collect();
    let name = branches.pop().unwrap();
    let mut bytes = std::fs::read(store.join(&name)).unwrap();
    bytes[100] ^= 1;
    std::fs::write(store.join(&name), bytes).unwrap();
    must_fail(&path, &["page checksum", &name]);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for name in names(from) {
        std::fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

#[test]
fn invalid_settings_are_rejected_and_write_nothing() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("soak");
    for (arguments, why) in [
        (&["--for", "0s"][..], "a time such as 30s, 10m or 1h"),
        (&["--for", "soon"], "a time such as 30s, 10m or 1h"),
        (&["--threads", "0"], "0 is not in 1..=64"),
        (&["--keys", "5"], "5 is not in 1000..="),
        (&["--value-size", "7"], "8 to 64K bytes"),
        (&["--value-size", "1G"], "8 to 64K bytes"),
        (&["--keys", "1000", "--threads", "64"], "at least 100 keys per thread"),
        (&["--memory", "1K"], "--memory must be at least"),
        (&["--sync"], "soak chooses what is synced"),
    ] {
        let mut command = command(&["--db"]);
        command.arg(&path).arg("soak").args(arguments);
        let done = finish(command, b"").expect(2);
        assert!(done.err.contains(why) && done.out.is_empty(), "{why}: {done:?}");
        assert!(!path.exists(), "{arguments:?}");
    }
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("thesis.txt"), "years").unwrap();
    soak(&path, &["--for", "1s"]).refused(2, "is not empty and is not the directory of a soak");
    assert_eq!(names(&path), ["thesis.txt"]);
}
