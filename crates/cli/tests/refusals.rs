//! What the command line rejects, and that it changes nothing then.

use crate::support::{Store, command, finish, names};
use alluvium::{Db, Options};

/// Commands that must not create a store.
const READERS: [&[&str]; 26] = [
    &["get", "a"],
    &["delete", "a"],
    &["merge", "--operator", "add", "--integer", "a", "1"],
    &["scan"],
    &["scan", "--keyspace", "users"],
    &["merge", "--keyspace", "users", "a", "1"],
    &["keyspaces"],
    &["keyspaces", "drop", "users"],
    &["keyspaces", "clear", "users"],
    &["keyspaces", "set", "users", "--expiry", "1h"],
    &["count"],
    &["stat"],
    &["stat", "--prometheus"],
    &["verify"],
    &["verify", "--quick"],
    &["repair"],
    &["convert", "--to", "leveled"],
    &["checkpoint", "/nowhere/copy"],
    &["backup", "create", "/nowhere/backups"],
    &["changes"],
    &["changes", "keep", "1G"],
    &["dump"],
    &["dump", "--files"],
    &["destroy", "--yes"],
    &["check"],
    &["mount", "/"],
];

#[test]
fn only_writers_make_a_store() {
    let store = Store::new();
    for arguments in READERS {
        store.run(arguments).refused(2, "no store at");
        assert!(!store.path().exists(), "{arguments:?}");
    }
    std::fs::create_dir(store.path()).unwrap();
    for arguments in READERS {
        store.run(arguments).refused(2, "no store at");
        assert!(names(&store.path()).is_empty(), "{arguments:?}");
    }
    store.put("a", "1");
}

#[test]
fn a_foreign_directory_stays_as_it_is() {
    let store = Store::new();
    std::fs::create_dir(store.path()).unwrap();
    std::fs::write(store.path().join("thesis.txt"), "years of work").unwrap();
    for arguments in READERS.into_iter().chain([&["put", "a", "1"][..], &["load", "--ycsb", "10"]]) {
        let done = store.run(arguments);
        assert!(done.err.contains("store"), "{arguments:?}: {done:?}");
        done.refused(2, "");
        assert_eq!(names(&store.path()), ["thesis.txt"], "{arguments:?}");
    }
    assert_eq!(std::fs::read_to_string(store.path().join("thesis.txt")).unwrap(), "years of work");
}

#[test]
fn a_file_is_no_store() {
    let store = Store::new();
    let path = store.file("store", b"just a file");
    for arguments in READERS.into_iter().chain([&["put", "a", "1"][..], &["load", "--ycsb", "10"]]) {
        store.run(arguments).refused(2, &path);
        assert_eq!(std::fs::read(&path).unwrap(), b"just a file", "{arguments:?}");
    }
}

#[test]
fn an_open_store_is_read_but_not_written() {
    let store = Store::new();
    store.put("a", "1");
    let options = Options::new().memory_budget(16 << 20);
    let db = Db::open(store.path(), options).unwrap();
    db.put("b", "2").unwrap();
    for arguments in [
        &["put", "a", "2"][..],
        &["delete", "a"],
        &["load", "--ycsb", "10"],
        &["keyspaces", "create", "users"],
        &["keyspaces", "drop", "users"],
        &["verify"],
        &["repair"],
        &["convert", "--to", "leveled"],
        &["checkpoint", "/nowhere/copy"],
        &["backup", "create", "/nowhere/backups"],
        &["destroy", "--yes"],
    ] {
        store.run(arguments).refused(2, "is open in another process");
    }
    // Data in the writer's memory is read, too.
    assert_eq!(store.run(&["get", "b"]).expect(0).text(), "2\n");
    assert_eq!(store.run(&["scan"]).expect(0).text(), "a\t1\nb\t2\n");
    assert_eq!(store.run(&["dump"]).expect(0).text(), "a\t1\nb\t2\n");
    assert_eq!(store.run(&["stat", "--json"]).expect(0).json()["last_number"], 2);
    store.run(&["dump", "--files"]).expect(0);
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    db.close().unwrap();
    assert_eq!(store.run(&["get", "a"]).expect(0).text(), "1\n");
}

#[test]
fn bad_usage_is_exit_code_2_and_a_hint() {
    let store = Store::new();
    for arguments in [
        &["put", "a"][..],
        &["put", "a", "1", "2"],
        &["get"],
        &["get", "a", "--jsn"],
        &["scan", "--limit", "many"],
        &["load", "--ycsb", "5", "a.tsv"],
        &["load", "--seed", "5"],
        &["load", "--batch", "0", "--ycsb", "1"],
        &["dump", "--files", "--format", "csv"],
        &["get", "a", "--memory", "lots"],
        &["convert"],
        &["convert", "--to", "flat"],
        &["checkpoint"],
        &["checkpoint", "one", "two"],
        &["backup"],
        &["backup", "create"],
        &["backup", "restore", "backups", "latest"],
        &["backup", "restore", "backups", "first", "target"],
        &["backup", "remove", "backups"],
        &["backup", "remove", "backups", "1", "--keep", "1"],
        &["backup", "remove", "backups", "--keep", "0"],
        &["keyspaces", "create"],
        &["keyspaces", "rename", "users"],
        &["keyspaces", "create", "users", "--durability", "forever"],
        &["dump", "--files", "--keyspace", "users"],
        &["frobnicate"],
        &["unmount"],
        &["mount"],
        &["mkfs", "--layout", "flat"],
        &["bench"],
        &["bench", "fillseq", "--threads", "many"],
        &["bench", "fillseq", "--duration", "-1"],
        &["bench", "figures"],
    ] {
        let done = store.run(arguments).expect(2);
        assert!(done.out.is_empty() && done.err.contains("--help"), "{done:?}");
        assert!(!store.path().exists(), "{arguments:?}");
    }
}

/// Regression test: messages named options and functions of the library.
#[test]
fn messages_speak_of_commands_and_flags() {
    let store = Store::new();
    for arguments in [&["get", "a"][..], &["delete", "a"], &["keyspaces"]] {
        store.run(arguments).refused(2, "nothing is there; `put`, `load`, `import` and `keyspaces create` create");
    }
    store.put("a", "1");
    store.run(&["merge", "--operator", "append", "b", "1"]).expect(0);
    store.run(&["keyspaces", "create", "plain"]).expect(0);
    store.run(&["keyspaces", "create", "visits", "--operator", "add", "--durability", "sync"]).expect(0);
    store.run(&["keyspaces", "create", "aging", "--expiry", "1h"]).expect(0);
    let cases: [(&[&str], &str); 14] = [
        (
            &["put", "--component", "leveled", "a", "1"],
            "so leave --component out, or convert the closed store with `convert`",
        ),
        (&["merge", "--operator", "max", "b", "1"], "leave --operator out to use it"),
        (&["merge", "--keyspace", "plain", "a", "1"], "choose one with `merge --operator`"),
        (&["merge", "--keyspace", "visits", "--operator", "max", "a", "1"], "leave --operator out"),
        (&["keyspaces", "create", "visits", "--operator", "max"], "leave --operator out"),
        (&["keyspaces", "create", "visits", "--durability", "buffered"], "change it with `keyspaces set`"),
        (&["keyspaces", "create", "aging", "--expiry", "2h"], "leave --expiry out"),
        (&["keyspaces", "create", "aging", "--operator", "add"], "a keyspace with an expiry has no merge operator"),
        (&["keyspaces", "create", "default", "--operator", "add"], "`merge --operator` chooses its merge operator"),
        (&["keyspaces", "set", "default", "--expiry", "1h"], "the default keyspace has no options of its own"),
        (&["keyspaces", "drop", "default"], "`keyspaces clear default` empties it"),
        (&["merge", "--keyspace", "aging", "a", "1"], "a keyspace with an expiry has no merges, because"),
        (&["get", "a", "--memory", "1"], "--memory is 1 bytes, at least"),
        (&["get", "a", "--memory", "999999999G"], "are allowed; the default is a quarter of the machine's memory"),
    ];
    for (arguments, text) in cases {
        let done = store.run(arguments);
        for name in
            ["Options", "create_if_missing", "disk_component", "memory_budget", "::", "`update`", "`clear`", "None"]
        {
            assert!(!done.err.contains(name), "{name}: {done:?}");
        }
        done.refused(2, text);
    }
}

#[test]
fn help_has_examples_and_exit_codes() {
    let help = finish(command(&["--help"]), b"").expect(0);
    assert!(help.text().contains("Examples:") && help.text().contains("Exit codes:"), "{}", help.text());
    for name in [
        "put",
        "get",
        "delete",
        "merge",
        "keyspaces",
        "scan",
        "count",
        "load",
        "stat",
        "verify",
        "repair",
        "convert",
        "checkpoint",
        "backup",
        "changes",
        "dump",
        "destroy",
        "mkfs",
        "mount",
        "check",
        "bench",
        "soak",
    ] {
        assert!(help.text().contains(name), "{name}");
        let help = finish(command(&[name, "--help"]), b"").expect(0);
        assert!(help.text().contains(&format!("alluvium --db /tmp/store {name}")), "{}", help.text());
    }
    assert!(finish(command(&["--version"]), b"").expect(0).text().starts_with("alluvium "));
}

/// The program with the comparator could not read a pair that was put in unencoded. The file is removed with its store.
#[test]
fn a_store_with_a_custom_comparator_is_not_written_to() {
    let store = Store::new();
    store.run(&["put", "a", "1"]).expect(0);
    std::fs::write(store.path().join("COMPARATOR"), "backwards").unwrap();
    store.run(&["put", "b", "2"]).refused(2, "uses a custom comparator, \"backwards\"");
    store.run(&["delete", "a"]).refused(2, "uses a custom comparator");
    for arguments in
        [["keyspaces", "create", "users"], ["keyspaces", "drop", "users"], ["keyspaces", "clear", "default"]]
    {
        store.run(&arguments).refused(2, "uses a custom comparator");
    }
    assert_eq!(store.run(&["get", "a", "--no-newline"]).expect(0).out, b"1");
    store.run(&["destroy", "--yes"]).expect(0);
    assert!(!store.path().exists());
}
