//! `dump`: its output can be loaded again, in every format; the list of files.

use crate::support::{Store, names};

/// All byte values: each alone, in pairs with the special characters of the formats, and large values.
fn filled() -> Store {
    let store = Store::new();
    let mut lines = String::new();
    for byte in 0..=255_u8 {
        lines += &format!("{byte:02x}\t{:02x}00\n", 255 - byte);
        for mark in b"\t\n\r\\\",:'" {
            lines += &format!("{mark:02x}{byte:02x}\t{byte:02x}{mark:02x}\n");
        }
    }
    lines += &format!("efbbbf\t\n6c61726765\t{}\n", "5c".repeat(300_000));
    store.feed(&["load", "--hex"], lines.as_bytes()).expect(0);
    store
}

#[test]
fn every_form_of_dump_is_loaded_again() {
    let store = filled();
    let all = store.run(&["scan", "--hex"]).expect(0).out;
    assert_eq!(all.split(|&b| b == b'\n').count(), 256 * 9 + 2 + 1);
    for (dump, load) in [
        (&["dump"][..], &["load"][..]),
        (&["dump", "--hex"], &["load", "--hex"]),
        (&["dump", "--json"], &["load", "--format", "jsonl"]),
        (&["dump", "--json", "--hex"], &["load", "--format", "jsonl"]),
        (&["dump", "--format", "jsonl"], &["load", "--format", "jsonl"]),
        (&["dump", "--format", "csv"], &["load", "--format", "csv"]),
        (&["dump", "--format", "csv", "--hex"], &["load", "--format", "csv", "--hex"]),
        (&["scan", "--reverse", "--json"], &["load", "--format", "jsonl"]),
    ] {
        let dumped = store.run(dump).expect(0);
        let copy = Store::new();
        copy.feed(load, &dumped.out).expect(0);
        assert!(copy.run(&["scan", "--hex"]).expect(0).out == all, "{dump:?} into {load:?}");
    }
}

/// Regression test: a dump of a store with keyspaces looked like a dump of all of it.
#[test]
fn a_dump_names_the_keyspaces_that_it_does_not_have() {
    let store = Store::new();
    let note = |arguments: &[&str]| {
        let done = store.run(&[&["dump"], arguments].concat()).expect(0);
        assert!(!done.text().contains("note"), "{done:?}");
        done.err
    };
    store.run(&["put", "a", "1", "--keyspace", "users"]).expect(0);
    assert!(note(&[]).contains("not in it: \"users\" (`dump --keyspace NAME` dumps one"), "{}", note(&[]));
    // An empty default keyspace is not missing.
    assert_eq!((note(&["--keyspace", "users"]), note(&["--files"])), (String::new(), String::new()));
    store.put("a", "1");
    store.run(&["keyspaces", "create", "log"]).expect(0);
    assert!(note(&["--keyspace", "default", "--json"]).contains("not in it: \"log\", \"users\" ("));
    assert!(note(&["--keyspace", "users", "--format", "csv"]).contains("not in it: \"default\", \"log\" ("));
    for at in 0..10 {
        store.run(&["keyspaces", "create", &format!("more{at}")]).expect(0);
    }
    assert!(note(&[]).contains("\"more8\" and 2 more ("), "{}", note(&[]));
    let store = Store::new();
    store.put("a", "1");
    assert_eq!(store.run(&["dump"]).expect(0).err, "");
}

#[test]
fn the_files_of_a_store() {
    let store = Store::new();
    // With so little memory that the store has a tree with maplets.
    store.run(&["load", "--ycsb", "100000", "--value-size", "100", "--memory", "4M"]).expect(0);
    // Each opening leaves a log file, so that the list has files of all kinds.
    (0..3).for_each(|_| store.put("a", "1"));
    let file = store.file("large", &[7; 300_000]);
    store.run(&["put", "large", "--value-file", &file]).expect(0);
    let listed = store.run(&["dump", "--files", "--json"]).expect(0).json();
    let mut found: Vec<String> = Vec::new();
    let mut bytes = 0;
    for file in listed["files"].as_array().unwrap() {
        let name = file["name"].as_str().unwrap();
        assert_ne!(file["kind"], "unknown", "a file that the store made and the list does not know: {name}");
        assert_eq!(file["bytes"], std::fs::metadata(store.path().join(name)).unwrap().len());
        bytes += file["bytes"].as_u64().unwrap();
        found.push(name.to_string());
    }
    found.sort();
    assert_eq!(found, names(&store.path()));
    assert_eq!(listed["bytes"], bytes);
    assert!(listed["kinds"]["manifest"]["bytes"].as_u64().unwrap() > 0);
    assert_eq!(listed["kinds"]["value"]["files"], 1);
    assert!(listed["kinds"]["maplet"]["files"].as_u64().unwrap() > 0, "{listed}");
    let table = store.run(&["dump", "--files"]).expect(0);
    assert!(table.text().contains("MANIFEST") && table.text().contains("total"), "{}", table.text());
}

/// Every command opens the store, and every opening starts a new log and retires the old one. A store must not grow by a
/// log file with each command for ever: retired files are kept for reuse only within the log's budget, and closing
/// incorporates a log of more than half a mebibyte. (On a busy machine nothing else may do so before the command ends.)
#[test]
fn opening_often_takes_bounded_space() {
    let store = Store::new();
    (0..200).for_each(|_| store.put("a", "1"));
    let bytes = store.run(&["dump", "--files", "--json"]).expect(0).json()["bytes"].as_u64().unwrap();
    // Two hundred log files take more.
    assert!(bytes < 1 << 20, "{bytes} bytes after 200 openings");
}
