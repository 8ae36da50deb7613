//! `keyspaces`, and `--keyspace` of the commands about keys.

use crate::support::{Done, Store};
use serde_json::json;

fn names(store: &Store) -> serde_json::Value {
    listed(store).iter().map(|keyspace| keyspace["name"].clone()).collect()
}

fn listed(store: &Store) -> Vec<serde_json::Value> {
    store.run(&["keyspaces", "--json"]).expect(0).json()["keyspaces"].as_array().unwrap().clone()
}

#[test]
fn options_of_a_keyspace_are_listed_and_changed() {
    let store = Store::new();
    store.run(&["keyspaces", "create", "sessions", "--expiry", "90m"]).expect(0);
    store.run(&["keyspaces", "create", "visits", "--operator", "add", "--durability", "sync"]).expect(0);
    let none = serde_json::Value::Null;
    let of = |name, operator: Option<&str>, durability: Option<&str>, expiry: Option<f64>| {
        json!({
            "name": name, "merge_operator": operator, "durability": durability, "compression": none, "expiry_seconds": expiry
        })
    };
    let visits = of("visits", Some("alluvium.add"), Some("sync"), None);
    assert_eq!(listed(&store), [of("sessions", None, None, Some(5400.0)), visits.clone()]);
    let table = store.run(&["keyspaces"]).expect(0);
    assert!(table.text().contains("1h30m00s") && table.text().contains("alluvium.add"), "{}", table.text());
    store.run(&["put", "a", "1", "--keyspace", "sessions"]).expect(0);
    store.run(&["keyspaces", "set", "sessions", "--durability", "sync"]).expect(0);
    assert_eq!(listed(&store)[0], of("sessions", None, Some("sync"), Some(5400.0)));
    store.run(&["keyspaces", "set", "sessions", "--durability", "as-opened", "--expiry", "1s"]).expect(0);
    assert_eq!(listed(&store), [of("sessions", None, None, Some(1.0)), visits.clone()]);
    // The pair is missed once its second is over, by every command.
    let started = std::time::Instant::now();
    while store.run(&["dump", "--keyspace", "sessions"]).expect(0).text() != "" {
        assert!(started.elapsed() < std::time::Duration::from_secs(60), "the pair does not expire");
    }
    store.run(&["keyspaces", "set", "sessions", "--expiry", "never"]).expect(0);
    assert_eq!(listed(&store), [of("sessions", None, None, None), visits]);
    store.run(&["get", "a", "--keyspace", "sessions"]).expect(1);
    store
        .run(&["keyspaces", "set", "visits"])
        .refused(2, "nothing to set: pass --durability, --compression or --expiry");
    store.run(&["keyspaces", "set", "other", "--expiry", "1h"]).refused(2, "no keyspace");
    store.run(&["keyspaces", "set", "default", "--expiry", "1h"]).refused(2, "default keyspace");
    store.run(&["keyspaces", "set", "visits", "--expiry", "1h"]).refused(2, "merge operator");
    for (wrong, expected) in [(["--expiry", "soon"], "expected a time"), (["--durability", "forever"], "as-opened")] {
        let done = store.run(&[&["keyspaces", "set", "visits"][..], &wrong].concat()).expect(2);
        assert!(done.err.contains(expected), "{done:?}");
    }
}

#[test]
fn expiries_have_units() {
    let store = Store::new();
    let create = |name, expiry| store.run(&["keyspaces", "create", name, "--expiry", expiry]);
    let expiries = [
        ("a", "1500ms", Some(1.5)),
        ("b", "2w", Some(1_209_600.0)),
        ("c", "never", None),
        ("d", "1h30m", Some(5400.0)),
    ];
    for (name, expiry, seconds) in expiries {
        (0..2).for_each(|_| drop(create(name, expiry).expect(0)));
        assert_eq!(listed(&store).last().unwrap()["expiry_seconds"], json!(seconds));
    }
    let table = store.run(&["keyspaces"]).expect(0);
    assert!(table.text().contains("1500ms") && table.text().contains("336h00m00s"), "{}", table.text());
    create("a", "never").refused(2, "has the expiry 1500ms, not never");
    create("c", "1h").refused(2, "has the expiry \"none\"");
    for action in ["create", "set"] {
        let done = store.run(&["keyspaces", action, "a", "--expiry", "1y"]).expect(2);
        assert!(done.err.contains("units ms, s, m, h, d and w") && done.err.contains("never"), "{done:?}");
        let help = store.run(&["keyspaces", action, "--help"]).expect(0);
        assert!(help.text().contains("units: ms, s, m, h, d, w"), "{}", help.text());
    }
}

#[test]
fn keyspaces_are_created_listed_emptied_and_dropped() {
    let store = Store::new();
    for name in ["users", "emails", "users"] {
        let done = store.run(&["keyspaces", "create", name]).expect(0);
        assert!(done.out.is_empty() && done.err.is_empty(), "{done:?}");
    }
    assert_eq!(names(&store), json!(["emails", "users"]));
    let table = store.run(&["keyspaces"]).expect(0);
    assert!(table.text().find("emails") < table.text().find("users"), "{}", table.text());
    assert_eq!(store.run(&["stat", "--json"]).expect(0).json()["keyspaces"], 2);
    assert!(store.run(&["stat"]).expect(0).text().contains("keyspaces besides the default one"));
    store.run(&["keyspaces", "create", "default"]).expect(0);
    store.run(&["keyspaces", "create", ""]).refused(2, "name");

    for name in ["users", "emails", "default"] {
        store.run(&["put", "a", name, "--keyspace", name]).expect(0);
    }
    store.run(&["keyspaces", "clear", "users", "--sync"]).expect(0);
    store.run(&["get", "a", "--keyspace", "users"]).expect(1);
    assert_eq!(store.run(&["get", "a", "--keyspace", "emails"]).expect(0).text(), "emails\n");
    store.run(&["keyspaces", "drop", "emails"]).expect(0);
    store.run(&["keyspaces", "drop", "emails"]).refused(2, "no keyspace \"emails\"; there are: default, users");
    store.run(&["keyspaces", "drop", "default"]).refused(2, "default keyspace");
    assert_eq!(names(&store), json!(["users"]));
    assert_eq!(store.run(&["get", "a"]).expect(0).text(), "default\n");
    store.run(&["keyspaces", "clear", "default"]).expect(0);
    store.run(&["get", "a"]).expect(1);
    store.run(&["keyspaces", "drop", "users"]).expect(0);
    let table = store.run(&["keyspaces"]).expect(0);
    assert!(table.text().contains("no keyspaces but the default one"), "{}", table.text());
    assert!(!store.run(&["stat"]).expect(0).text().contains("keyspaces besides"));
}

#[test]
fn commands_about_keys_take_a_keyspace() {
    let store = Store::new();
    let within = |arguments: &[&str]| -> Done { store.run(&[arguments, &["--keyspace", "users"]].concat()) };
    store.put("a", "default");
    // The first put creates it.
    within(&["put", "a", "1", "--sync"]).expect(0);
    store.feed(&["load", "--keyspace", "users"], b"b\t2\nc\t3\nd\t4\n").expect(0);
    assert_eq!(within(&["get", "a"]).expect(0).text(), "1\n");
    assert_eq!(within(&["scan", "--from", "b", "--limit", "2"]).expect(0).text(), "b\t2\nc\t3\n");
    within(&["delete", "b"]).expect(0);
    within(&["delete", "--from", "d", "--sync"]).expect(0);
    assert_eq!(within(&["dump"]).expect(0).text(), "a\t1\nc\t3\n");
    assert!(within(&["compact"]).expect(0).text().contains("bytes written"));
    assert!(within(&["optimize", "--from", "b"]).expect(0).text().contains("bytes written"));
    assert_eq!(store.run(&["dump"]).expect(0).text(), "a\tdefault\n");
    assert_eq!(store.run(&["dump", "--keyspace", "default"]).expect(0).text(), "a\tdefault\n");
    store.run(&["delete", "--keyspace", "default", "a"]).expect(0);
    assert_eq!(within(&["get", "a"]).expect(0).text(), "1\n");
}

#[test]
fn a_keyspace_has_its_own_operator_and_durability() {
    let store = Store::new();
    let create = |arguments: &[&str]| store.run(&[&["keyspaces", "create"], arguments].concat());
    create(&["visits", "--operator", "add", "--durability", "unlogged"]).expect(0);
    create(&["visits", "--operator", "max"]).refused(2, "merge operator");
    create(&["visits", "--durability", "sync"]).refused(2, "durability");
    create(&["default", "--operator", "add"]).refused(2, "default keyspace");
    create(&["log"]).expect(0);
    let merge = |arguments: &[&str]| store.run(&[&["merge", "--keyspace"], arguments].concat());
    merge(&["visits", "--integer", "home", "300"]).expect(0);
    merge(&["visits", "--integer", "home", "-44", "--sync"]).expect(0);
    let value = store.run(&["get", "--keyspace", "visits", "--hex", "686f6d65"]).expect(0);
    assert_eq!(value.text(), "0001000000000000\n");
    assert_eq!(store.run(&["get", "--keyspace", "visits", "--integer", "home"]).expect(0).text(), "256\n");
    store.run(&["put", "text", "1"]).expect(0);
    store.run(&["get", "--integer", "text"]).refused(2, "the value has 1 bytes and is no integer");
    merge(&["log", "day", "rain; "]).refused(2, "merge operator");
    merge(&["log", "--operator", "append", "day", "rain; "]).expect(0);
    merge(&["log", "day", "sun; "]).expect(0);
    assert_eq!(store.run(&["scan", "--keyspace", "log"]).expect(0).text(), "day\train; sun; \n");
    // The store's own operator is another one.
    store.run(&["merge", "a", "1"]).refused(2, "no merge operator");
    merge(&["default", "--operator", "max", "a", "1"]).expect(0);
    assert_eq!(store.run(&["get", "a"]).expect(0).text(), "1\n");
}

/// Regression test: the command line could not choose it.
#[test]
fn a_keyspace_has_its_own_compression() {
    let store = Store::new();
    let keyspaces = |arguments: &[&str]| store.run(&[&["keyspaces"], arguments].concat());
    let compression = |at: usize| listed(&store)[at]["compression"].clone();
    for (at, kind) in ["lz4", "none", "zstd"].into_iter().enumerate() {
        keyspaces(&["create", kind, "--compression", kind]).expect(0);
        assert_eq!(compression(at), kind);
    }
    keyspaces(&["create", "lz4", "--compression", "zstd"]).refused(2, "leave --compression out");
    keyspaces(&["set", "none", "--compression", "lz4"]).expect(0);
    keyspaces(&["set", "zstd", "--compression", "as-opened"]).expect(0);
    assert_eq!((compression(1), compression(2)), ("lz4".into(), serde_json::Value::Null));
    assert!(
        keyspaces(&["set", "none", "--compression", "flat"]).expect(2).err.contains("none, lz4, zstd or as-opened")
    );
    // The files of the keyspace are smaller.
    let lines: String = (0..5000).map(|at| format!("key{at:05}\t{}\n", "sand and silt ".repeat(8))).collect();
    keyspaces(&["create", "plain", "--compression", "none"]).expect(0);
    let sizes = ["plain", "lz4"].map(|keyspace| {
        store.feed(&["load", "--keyspace", keyspace], lines.as_bytes()).expect(0);
        store.run(&["compact"]).expect(0);
        store.run(&["stat", "--json"]).expect(0).json()["branch_bytes"].as_u64().unwrap()
    });
    assert!(sizes[1] - sizes[0] < sizes[0] / 2, "{sizes:?}");
}

#[test]
fn only_put_load_and_import_create_a_keyspace() {
    let store = Store::new();
    store.put("a", "1");
    let commands: [&[&str]; 9] = [
        &["get", "a"],
        &["scan"],
        &["dump"],
        &["delete", "a"],
        &["delete", "--from", "a"],
        &["merge", "a", "1", "--operator", "append"],
        &["compact"],
        &["optimize"],
        &["get", "a", "--json"],
    ];
    for existing in ["the store has none but the default one", "there are: default, emails, users"] {
        for arguments in commands {
            let done = store.run(&[arguments, &["--keyspace", "user"]].concat());
            done.refused(2, &format!("no keyspace \"user\"; {existing}"));
        }
        store.run(&["keyspaces", "clear", "user"]).refused(2, existing);
        store.run(&["keyspaces", "create", "users"]).expect(0);
        store.run(&["keyspaces", "create", "emails"]).expect(0);
    }
    assert_eq!(names(&store), json!(["emails", "users"]));
    assert_eq!(store.run(&["get", "a"]).expect(0).text(), "1\n");
}
