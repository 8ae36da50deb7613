//! `scan`: ranges, directions, formats.

use crate::support::Store;
use serde_json::Value;
use std::io::Read;
use std::process::Stdio;

fn filled() -> Store {
    let store = Store::new();
    store.feed(&["load"], b"a\t1\nab\t2\nabc\t3\nb\t4\nba\t5\nc\t6\n").expect(0);
    store
}

fn keys(store: &Store, arguments: &[&str]) -> Vec<String> {
    let arguments = [&["scan"], arguments].concat();
    let done = store.run(&arguments).expect(0);
    done.text().lines().map(|line| line.split('\t').next().unwrap_or_default().to_string()).collect()
}

#[test]
fn ranges_and_orders() {
    let store = filled();
    assert_eq!(store.run(&["scan", "--limit", "2"]).expect(0).text(), "a\t1\nab\t2\n");
    assert_eq!(keys(&store, &[]), ["a", "ab", "abc", "b", "ba", "c"]);
    assert_eq!(keys(&store, &["--reverse"]), ["c", "ba", "b", "abc", "ab", "a"]);
    assert_eq!(keys(&store, &["--from", "ab", "--to", "ba"]), ["ab", "abc", "b"]);
    assert_eq!(keys(&store, &["--from", "ab", "--to", "ba", "--reverse", "--limit", "2"]), ["b", "abc"]);
    assert_eq!(keys(&store, &["--prefix", "ab"]), ["ab", "abc"]);
    assert_eq!(keys(&store, &["--prefix", "ab", "--reverse"]), ["abc", "ab"]);
    assert_eq!(keys(&store, &["--prefix", "a", "--from", "ab", "--to", "abc"]), ["ab"]);
    assert_eq!(keys(&store, &["--prefix", "b", "--from", "a", "--to", "z"]), ["b", "ba"]);
    for nothing in [
        &["--prefix", "x"][..],
        &["--from", "b", "--to", "b"],
        &["--from", "c", "--to", "a", "--reverse"],
        &["--limit", "0"],
        &["--prefix", "a", "--from", "b"],
    ] {
        assert!(keys(&store, nothing).is_empty(), "{nothing:?}");
    }
}

#[test]
fn forms() {
    let store = Store::new();
    store.run(&["put", "tab\there", "line\nend"]).expect(0);
    store.run(&["put", "--hex", "ff", "c3a9"]).expect(0);
    assert_eq!(store.run(&["scan"]).expect(0).text(), "tab\\there\tline\\nend\n\\xff\té\n");
    assert_eq!(store.run(&["scan", "--hex", "--from", "ff"]).expect(0).text(), "ff\tc3a9\n");
    assert_eq!(keys(&store, &["--hex", "--prefix", "ff"]), ["ff"]);
    let done = store.run(&["scan", "--json"]).expect(0);
    let rows: Vec<Value> = done.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows[0]["key"], "tab\there");
    assert_eq!(rows[1]["key_hex"], "ff");
    assert_eq!(rows[1]["value"], "é");
}

/// `scan | head`: the reader closes the pipe early, and no error is printed.
#[test]
fn a_closed_pipe_ends_the_scan_quietly() {
    let store = Store::new();
    store.run(&["load", "--ycsb", "2000"]).expect(0);
    for command in ["scan", "dump"] {
        let mut child = store.command(&[command]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let store = filled();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output =
        store.command(&["scan"]).stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the output"), "{output:?}");
}

#[test]
fn count_counts_what_scan_prints() {
    let store = filled();
    for (range, count) in [
        (&[][..], "6"),
        (&["--prefix", "ab"], "2"),
        (&["--from", "ab", "--to", "ba"], "3"),
        (&["--prefix", "x"], "0"),
        (&["--from", "c", "--to", "a"], "0"),
    ] {
        assert_eq!(store.run(&[&["count"], range].concat()).expect(0).text().trim_end(), count, "{range:?}");
    }
    store.run(&["put", "--keyspace", "users", "7", "Ada"]).expect(0);
    let found = store.run(&["count", "--keyspace", "users", "--json"]).expect(0).json();
    assert_eq!(found, serde_json::json!({"pairs": 1, "key_bytes": 1, "value_bytes": 3}));
    assert_eq!(store.run(&["count"]).expect(0).text().trim_end(), "6");
}
