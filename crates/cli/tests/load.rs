//! `load`: formats, bad lines, the generator, the report.

use crate::support::Store;

#[test]
fn files_of_all_formats_and_standard_input() {
    let store = Store::new();
    let tsv = store.file("a.tsv", b"a\t1\r\n\nb\\n\t2\n");
    let csv = store.file("b.CSV", b"key,value\nc,\"3,3\"\n");
    let jsonl = store.file("c.jsonl", b"{\"key\":\"d\",\"value\":\"4\"}\n{\"key_hex\":\"ff\",\"value_hex\":\"00\"}\n");
    let done = store.run(&["load", "--header", "--json", &tsv, &csv, &jsonl]).expect(0);
    assert_eq!(done.json()["keys"], 5);
    assert_eq!(done.json()["bytes"], 13);
    store.feed(&["load", "--format", "jsonl"], b"{\"key\":\"e\",\"value\":\"5\"}").expect(0);
    store.feed(&["load", "--hex", "-"], b"66\t36\n").expect(0);
    store.feed(&["load", "--literal"], b"g\\n\t7\n").expect(0);
    let nothing = store.feed(&["load", "--json"], b"").expect(0);
    assert_eq!(nothing.json()["keys"], 0);
    assert_eq!(
        store.run(&["scan"]).expect(0).text(),
        "a\t1\nb\\n\t2\nc\t3,3\nd\t4\ne\t5\nf\t6\ng\\\\n\t7\n\\xff\t\\x00\n"
    );
}

/// Once, each command after a load of a few megabytes read all of them from the log again.
#[test]
fn a_load_leaves_nothing_in_the_log() {
    let store = Store::new();
    store.run(&["load", "--ycsb", "2000", "--value-size", "100"]).expect(0);
    let stat = store.run(&["stat", "--json"]).expect(0).json();
    assert_eq!(stat["incorporated_number"], stat["last_number"], "{stat}");
    assert!(stat["last_number"].as_u64().is_some_and(|last| last > 0), "{stat}");
}

#[test]
fn a_bad_line_ends_the_load_behind_everything_before_it() {
    let store = Store::new();
    let file = store.file("a.tsv", b"a\t1\nb\t2\nno tab\nc\t3\n");
    let done = store.run(&["load", &file]);
    assert!(done.err.contains("a.tsv:3: expected KEY TAB VALUE, found no TAB"), "{done:?}");
    assert!(done.err.contains("the 2 pairs before it are loaded"), "{done:?}");
    done.refused(2, "--skip-bad");
    assert_eq!(store.run(&["scan"]).expect(0).text(), "a\t1\nb\t2\n");

    let done = store.run(&["load", "--skip-bad", "--json", &file]).expect(0);
    assert_eq!(done.json()["keys"], 3);
    assert_eq!(done.json()["skipped"], 1);
    assert!(done.err.contains("skipped") && done.err.contains("a.tsv:3"), "{done:?}");
    assert_eq!(store.run(&["scan"]).expect(0).text(), "a\t1\nb\t2\nc\t3\n");
}

/// Sorted input is ingested: nothing goes to the log, and a bad line or an unsorted one leaves nothing.
#[test]
fn sorted_input_is_loaded_whole_or_not_at_all() {
    let store = Store::new();
    store.run(&["put", "b", "old"]).expect(0);
    let bad = store.file("bad.tsv", b"a\t1\nb\t2\nno tab\nc\t3\n");
    let done = store.run(&["load", "--sorted", &bad]);
    assert!(done.err.contains("bad.tsv:3: ") && done.err.contains("nothing is loaded"), "{done:?}");
    done.refused(2, "fix the line and load again");
    let unsorted = store.file("unsorted.tsv", b"a\t1\nc\t2\nb\t3\n");
    let done = store.run(&["load", "--sorted", &unsorted]);
    done.refused(2, "pair 3 of the ingest, with the key \"b\", is out of order");
    assert_eq!(store.run(&["scan"]).expect(0).text(), "b\told\n");
    // The input of one load may be in several files.
    let (first, second) = (store.file("1.tsv", b"a\t1\nb\t2\n"), store.file("2.tsv", b"c\t3\n"));
    let done = store.run(&["load", "--sorted", "--json", &first, &second]).expect(0);
    assert_eq!(done.json()["keys"], 3);
    assert_eq!(store.run(&["scan"]).expect(0).text(), "a\t1\nb\t2\nc\t3\n");
    for conflicting in [&["--ycsb", "10"][..], &["--batch", "10", &first], &["--skip-bad", &first]] {
        let done = store.run(&[&["load", "--sorted"], conflicting].concat()).expect(2);
        assert!(done.err.contains("'--sorted' cannot be used with"), "{done:?}");
    }
}

#[test]
fn too_long_a_key_is_a_bad_line() {
    let store = Store::new();
    let line = format!("a\t1\n{}\t2\n", "k".repeat(70_000));
    let done = store.feed(&["load"], line.as_bytes());
    assert!(done.err.contains("standard input:2: "), "{done:?}");
    done.refused(2, "expected a key of at most 65536 bytes, found 70000");
}

#[test]
fn the_generator_repeats_itself() {
    let store = Store::new();
    let done =
        store.run(&["load", "--ycsb", "3000", "--value-size", "100", "--seed", "7", "--json", "--settle"]).expect(0);
    let report = done.json();
    assert_eq!(report["keys"], 3000);
    assert_eq!(report["bytes"], 3000 * 124);
    for figure in ["seconds", "keys_per_second", "megabytes_per_second", "write_amplification", "settle_seconds"] {
        assert!(report[figure].as_f64().is_some_and(|number| number >= 0.0), "{figure}: {report}");
    }
    let first = store.run(&["scan"]).expect(0);
    assert_eq!(first.text().lines().count(), 3000);
    assert!(first.text().lines().all(|line| line.starts_with("user") && line.len() == 24 + 1 + 100));
    store.run(&["load", "--ycsb", "3000", "--value-size", "100", "--seed", "7", "--batch", "1"]).expect(0);
    assert!(store.run(&["scan"]).out == first.out, "the same seed must give the same pairs");
    store.run(&["load", "--ycsb", "3000", "--value-size", "100", "--seed", "8"]).expect(0);
    let other = store.run(&["scan"]).expect(0);
    assert_eq!(other.text().lines().count(), 3000);
    assert!(other.out != first.out, "another seed must give other values");
}

#[test]
fn the_report_is_a_table_with_all_figures() {
    let store = Store::new();
    let done = store.run(&["load", "--ycsb", "2000"]).expect(0);
    for text in ["2,000", "keys/s", "MB/s", "seconds", "write amplification"] {
        assert!(done.text().contains(text), "{text}: {}", done.text());
    }
    if cfg!(target_os = "linux") {
        assert!(done.text().contains("peak memory"), "{}", done.text());
    }
    assert!(done.err.is_empty(), "no progress bar where standard error is no terminal: {done:?}");
}

#[test]
fn wrong_inputs_make_no_store() {
    let store = Store::new();
    let odd = store.file("pairs.odd", b"a\t1\n");
    store.run(&["load", "/nowhere/a.tsv"]).refused(2, "cannot open /nowhere/a.tsv");
    store.run(&["load", &odd]).refused(2, "--format");
    store.run(&["load", "--format", "tsv", "/"]).refused(2, "cannot open /: ");
    store.run(&["load", "--ycsb", "10", "--value-size", "1T"]).refused(2, "--value-size");
    assert!(!store.path().exists());
    store.run(&["load", "--format", "tsv", &odd]).expect(0);
    assert_eq!(store.run(&["get", "a"]).expect(0).text(), "1\n");
}
