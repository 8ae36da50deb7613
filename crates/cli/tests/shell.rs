//! `shell`: lines from a pipe, their failures, and options that hold for all of them.

use crate::support::{Store, command, finish};

#[test]
fn lines_are_run_one_after_the_other() {
    let store = Store::new();
    let script = "# a comment\nput a 'one two'\n\nput b 2\nscan\nexit\nput c 3\n";
    let done = store.feed(&["shell"], script.as_bytes()).expect(0);
    assert_eq!(done.text(), "a\tone two\nb\t2\n");
    // The options of the shell hold for its lines.
    let done = store.feed(&["--hex", "shell"], b"get 61\n").expect(0);
    assert_eq!(done.text(), "6f6e652074776f\n");
    let help = store.feed(&["shell"], b"help\nget --help\n").expect(0);
    assert!(help.text().contains("Commands:") && help.text().contains("Usage: alluvium get"), "{help:?}");
}

#[test]
fn the_first_failure_ends_a_script() {
    let store = Store::new();
    let script = b"put a 1\nscan --keyspace absent\nput b 2\n";
    store.feed(&["shell"], script).refused(2, "absent");
    assert_eq!(store.run(&["scan"]).expect(0).text(), "a\t1\n");
    store.feed(&["shell", "--keep-going"], script).refused(2, "absent");
    assert_eq!(store.run(&["scan"]).expect(0).text(), "a\t1\nb\t2\n");
    for (line, text) in [
        ("put a", "required arguments were not provided"),
        ("put 'a", "a quote is not closed: put 'a"),
        ("ptu a b", "unrecognized subcommand 'ptu'"),
        ("shell", "this is the shell already"),
    ] {
        store.feed(&["shell"], line.as_bytes()).refused(2, text);
    }
    finish(command(&["shell"]), b"").refused(2, "--db");
}

/// Regression test: such a line waited for ever, because the shell held the lock of standard input. The rest of the input
/// is not taken for data either.
#[test]
fn a_piped_line_cannot_read_standard_input() {
    for line in ["load -", "load", "put x --value-file -"] {
        let store = Store::new();
        store.feed(&["shell"], format!("{line}\na\tb\n").as_bytes()).refused(2, line);
        assert!(!store.path().exists(), "{line}");
    }
    let store = Store::new();
    let file = store.file("pairs.tsv", b"a\tb\n");
    store.feed(&["shell"], format!("load '{file}'\n").as_bytes()).expect(0);
    assert_eq!(store.run(&["scan"]).expect(0).text(), "a\tb\n");
}

/// Regression test: `--db` in a line was ignored, so the line wrote to the store of the shell.
#[test]
fn a_line_cannot_name_another_store() {
    let (store, other) = (Store::new(), Store::new());
    store.put("a", "1");
    let other = other.path().display().to_string();
    for line in [format!("put x y --db '{other}'"), format!("--db '{other}' put x y")] {
        store.feed(&["shell"], line.as_bytes()).refused(2, "--db is not for a line");
    }
    // What the environment says is about no line: the shell was started with --db.
    let mut command = store.command(&["shell"]);
    command.env("ALLUVIUM_DB", &other);
    finish(command, b"put b 2\n").expect(0);
    assert_eq!(store.run(&["scan"]).expect(0).text(), "a\t1\nb\t2\n");
    assert!(!std::path::Path::new(&other).exists());
}

/// Regression test: the absent key ended the shell, without a message.
#[test]
fn an_absent_key_is_an_answer() {
    let store = Store::new();
    let done = store.feed(&["shell"], b"put x y\nget nokey\nput after 2\n").expect(0);
    assert_eq!(done.err, "alluvium: the key \"nokey\" is absent\n");
    assert_eq!(store.run(&["scan"]).expect(0).text(), "after\t2\nx\ty\n");
    // A lone `get` says it by its exit code only.
    let done = store.run(&["get", "nokey"]).expect(1);
    assert!(done.out.is_empty() && done.err.is_empty(), "{done:?}");
}
