//! `changes`: what was written, in order, and how much of it is kept.

use crate::support::{Store, names};
use alluvium::{Db, Options, WriteBatch};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// A store that keeps changes, after one write.
fn keeping() -> Store {
    let store = Store::new();
    store.put("before", "it");
    // Regression test: the message named an option of the library.
    store.run(&["changes"]).refused(2, "the store keeps no changes; `alluvium changes keep`");
    assert_eq!(store.run(&["changes", "keep", "64M", "--age", "7d"]).expect(0).text(), "");
    store
}

fn lines(store: &Store, arguments: &[&str]) -> Vec<String> {
    let done = store.run(&[&["changes"], arguments].concat()).expect(0);
    done.text().lines().map(str::to_owned).collect()
}

#[test]
fn each_operation_is_a_line() {
    let store = keeping();
    assert!(lines(&store, &[]).is_empty());
    store.put("a\tb", "1");
    store.run(&["delete", "a\tb"]).expect(0);
    store.run(&["delete", "--from", "c", "--to", "d"]).expect(0);
    store.run(&["put", "--keyspace", "users", "7", "Ada"]).expect(0);
    {
        let db = Db::open(store.path(), Options::default()).unwrap();
        let mut batch = WriteBatch::new();
        batch.put("x", [0xff]).put("y", "2").delete_range("z"..);
        db.write(batch).unwrap();
        db.drop_keyspace("users").unwrap();
    }
    let expected = [
        "2\tput\tdefault\ta\\tb\t1",
        "3\tdelete\tdefault\ta\\tb",
        "4\tdelete-range\tdefault\tc\td",
        "5\tset-keyspace\tusers",
        "6\tput\tusers\t7\tAda",
        "7\tdelete-range\tdefault\tz\t",
        "7\tput\tdefault\tx\t\\xff",
        "7\tput\tdefault\ty\t2",
        "8\tdrop-keyspace\tusers",
        "8\tdelete-range\tusers\t\t",
    ];
    let found = lines(&store, &[]);
    // What a drop is besides its line does not matter.
    assert_eq!(found[..9], [&expected[..8], &[&found[8][..]]].concat());
    assert!(found[8..].iter().any(|line| line == "8\tdrop-keyspace\tusers"), "{found:?}");
    assert_eq!(lines(&store, &["--since", "5", "--limit", "1"]), expected[4..5]);
    assert_eq!(lines(&store, &["--since", "6", "--limit", "1", "--hex"])[1], "7\tput\tdefault\t78\tff");
    let json: Vec<Value> = lines(&store, &["--json"]).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&json[0]["number"], &json[0]["operation"]), (&Value::from(2), &Value::from("put")));
    assert_eq!((&json[0]["key"], &json[0]["value"]), (&Value::from("a\tb"), &Value::from("1")));
    assert_eq!((&json[5]["start"], &json[5]["end"]), (&Value::from("z"), &Value::Null));
    assert_eq!(json[6]["value_hex"], "ff");
    let kept = store.run(&["stat"]).expect(0);
    assert!(kept.text().contains("bytes of kept changes"), "{}", kept.text());
    store
        .run(&["changes", "--since", "0"])
        .refused(2, "the changes after number 0 are not kept any more, only those after 1");
}

#[test]
fn keeping_ends_when_it_is_switched_off() {
    let store = keeping();
    store.put("a", "1");
    let has_files = || names(&store.path()).iter().any(|name| name.ends_with(".changes"));
    assert!(has_files());
    for (arguments, text) in
        [(&["0"][..], "expected a size such as 64M, or off"), (&["1G", "--age", "never"], "expected a time")]
    {
        let done = store.run(&[&["changes", "keep"], arguments].concat()).expect(2);
        assert!(done.err.contains(text), "{done:?}");
    }
    store.run(&["changes", "keep", "off"]).expect(0);
    assert!(!has_files());
    store.run(&["changes"]).refused(2, "the store keeps no changes");
    store.put("b", "2");
    assert!(!has_files());
}

/// What another process writes appears by and by, without an end.
#[test]
fn a_follower_sees_what_is_written_next() {
    let store = keeping();
    store.put("a", "1");
    let mut following = store.command(&["changes", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), "2\tput\tdefault\ta\t1");
    store.put("b", "2");
    assert_eq!(next(), "3\tput\tdefault\tb\t2");
    // While the writer is open.
    let db = Db::open(store.path(), Options::default()).unwrap();
    db.put("c", "3").unwrap();
    assert_eq!(next(), "4\tput\tdefault\tc\t3");
    following.kill().unwrap();
    following.wait().unwrap();
}
