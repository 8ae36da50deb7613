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
    let script = b"put a 1\nget absent\nput b 2\n";
    store.feed(&["shell"], script).expect(1);
    assert_eq!(store.run(&["scan"]).expect(0).text(), "a\t1\n");
    let done = store.feed(&["shell", "--keep-going"], script).expect(1);
    assert!(done.err.is_empty(), "{done:?}");
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
