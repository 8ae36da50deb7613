//! `put`, `get`, `delete`, `merge`.

use crate::support::{Store, command, finish};
use serde_json::json;

#[test]
fn a_value_is_there_until_it_is_deleted() {
    let store = Store::new();
    store.put("city", "Ghent");
    store.put("city", "Gent");
    assert_eq!(store.run(&["get", "city"]).expect(0).text(), "Gent\n");
    assert_eq!(store.run(&["get", "city", "--no-newline"]).expect(0).text(), "Gent");
    store.run(&["delete", "city"]).expect(0);
    store.run(&["delete", "city"]).expect(0);
    let done = store.run(&["get", "city"]).expect(1);
    assert!(done.out.is_empty() && done.err.is_empty(), "{done:?}");
    let done = store.run(&["get", "city", "--json"]).expect(1);
    assert!(done.out.is_empty() && done.err.is_empty(), "{done:?}");
}

#[test]
fn operands_are_merged() {
    let store = Store::new();
    store.put("other", "1");
    let counter = |arguments: &[&str]| store.run(&[&["merge"], arguments].concat());
    counter(&["visits", "--integer", "1"]).refused(2, "no merge operator");
    counter(&["--operator", "add", "--integer", "visits", "300"]).expect(0);
    // Now the store has its operator.
    counter(&["--integer", "visits", "-44"]).expect(0);
    let value = store.run(&["get", "--json", "--hex", "766973697473"]).expect(0);
    assert!(value.text().contains("0001000000000000"), "{}", value.text());
    counter(&["visits", "1"]).refused(2, "alluvium.add");
    counter(&["--integer", "visits", "many"]).refused(2, "many");
    counter(&["--operator", "max", "visits", "1"]).refused(2, "merge operator");
}

#[test]
fn a_range_is_deleted() {
    let store = Store::new();
    for key in ["a", "b1", "b2", "c", "d"] {
        store.put(key, "1");
    }
    let left = || store.run(&["scan"]).expect(0).text().lines().map(|line| line[..1].to_owned()).collect::<String>();
    store.run(&["delete", "--prefix", "b"]).expect(0);
    assert_eq!(left(), "acd");
    store.run(&["delete", "--from", "c", "--to", "d"]).expect(0);
    store.run(&["delete", "--from", "d", "--to", "a"]).expect(0);
    assert_eq!(left(), "ad");
    // Neither a key nor a range, or both.
    let usage = |arguments: &[&str], text| {
        let done = store.run(arguments).expect(2);
        assert!(done.err.contains(text), "{done:?}");
    };
    usage(&["delete"], "<KEY>");
    usage(&["delete", "a", "--to", "b"], "cannot be used with");
    // Regression test: an empty prefix deleted everything.
    usage(&["delete", "--prefix", ""], "`keyspaces clear default`");
    usage(&["delete", "--prefix", "", "--from", "61", "--hex"], "the prefix is empty");
    usage(&["delete", "--prefix", "", "--keyspace", "users"], "`keyspaces clear users`");
    // Regression test: an empty bound deleted everything.
    usage(&["delete", "--from", ""], "--from is empty");
    usage(&["delete", "--from", "", "--keyspace", "users"], "`keyspaces clear users`");
    usage(&["delete", "--from", "a", "--to", ""], "--to is empty; nothing was deleted; leave it out");
    for bound in ["--from", "--to", "--prefix"] {
        usage(&["delete"], bound);
    }
    assert_eq!(left(), "ad");
    store.run(&["delete", "--from", "b"]).expect(0);
    assert_eq!(left(), "a");
}

#[test]
fn values_may_be_empty_and_of_any_bytes() {
    let store = Store::new();
    store.put("empty", "");
    assert_eq!(store.run(&["get", "empty"]).expect(0).text(), "\n");
    store.run(&["put", "--hex", "00ff", "FE00"]).expect(0);
    assert_eq!(store.run(&["get", "--hex", "00ff"]).expect(0).text(), "fe00\n");
    assert_eq!(store.run(&["get", "--hex", "00ff", "--json"]).json(), json!({"key_hex": "00ff", "value_hex": "fe00"}));
    store.run(&["put", "mixed", "--hex", "zz"]).refused(2, "KEY");
    store.run(&["put", "--hex", "61", "zz"]).refused(2, "expected a hexadecimal digit");
    store.run(&["put", "-5", "-7"]).expect(0);
    assert_eq!(store.run(&["get", "-5"]).expect(0).text(), "-7\n");
    store.run(&["put", "--", "--key", "--value"]).expect(0);
    assert_eq!(store.run(&["get", "--json", "--", "--key"]).json(), json!({"key": "--key", "value": "--value"}));
}

#[test]
fn values_come_from_files_and_standard_input() {
    let store = Store::new();
    let bytes: Vec<u8> = (0..600_000_u32).map(|i| (i * 7 / 5) as u8).collect();
    let file = store.file("picture", &bytes);
    store.run(&["put", "picture", "--value-file", &file]).expect(0);
    assert!(store.run(&["get", "picture", "--no-newline"]).expect(0).out == bytes);
    store.feed(&["put", "piped", "--value-file", "-"], b"line\n").expect(0);
    assert_eq!(store.run(&["get", "piped", "--no-newline"]).expect(0).text(), "line\n");
    store.run(&["put", "picture", "--value-file", "/nowhere/x"]).refused(2, "cannot read /nowhere/x");
}

#[test]
fn writes_may_wait_for_the_disk() {
    let store = Store::new();
    store.run(&["put", "--sync", "a", "1"]).expect(0);
    store.run(&["delete", "a", "--sync"]).expect(0);
    store.run(&["get", "a"]).expect(1);
}

#[test]
fn the_directory_may_come_from_the_environment() {
    let store = Store::new();
    store.put("a", "1");
    let mut get = command(&["get", "a"]);
    get.env("ALLUVIUM_DB", store.path());
    assert_eq!(finish(get, b"").expect(0).text(), "1\n");
    finish(command(&["get", "a"]), b"").refused(2, "--db");
}
