//! `bench`: every workload on a small store: its figures, the files that it leaves, and what it rejects.

use crate::support::{Done, Store, command, finish};
use alluvium_bench::catalogue::NAMES;
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

/// Runs `bench` with its own directory for temporary directories, which must be empty again afterwards.
fn bench(arguments: &[&str]) -> Done {
    let place = TempDir::new().unwrap();
    let mut command = command(&["--memory", "16M", "bench"]);
    command.args(arguments).env("TMPDIR", place.path());
    let done = finish(command, b"");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "left over: {done:?}");
    done
}

fn outcomes(done: &Done) -> Vec<Value> {
    done.text().lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {done:?}"))).collect()
}

fn number(outcome: &Value, member: &str) -> f64 {
    outcome[member].as_f64().unwrap_or_else(|| panic!("{member} in {outcome}"))
}

#[test]
fn every_workload_gives_plausible_figures() {
    for (name, _) in NAMES {
        let fills = name.starts_with("fill") || name == "load";
        let names = if fills { name.to_string() } else { format!("fillrandom,{name}") };
        let counts = name.starts_with("increment") || name == "counters";
        // The check does not know the values of counters.
        let of_values: &[&str] = if counts { &["--value-size", "8"] } else { &["--check"] };
        let arguments = [&[&names[..], "--num", "2000", "--threads", "2", "--json"], of_values].concat();
        let done = bench(&arguments).expect(0);
        let outcomes = outcomes(&done);
        assert_eq!(outcomes.len(), if fills { 1 } else { 2 }, "{name}");
        let outcome = outcomes.last().unwrap();
        assert_eq!((&outcome["workload"], &outcome["threads"]), (&Value::from(name), &Value::from(2)));
        let ops = match name {
            "readseq" | "readreverse" => 4000,
            "rest" => 1,
            _ => 2000,
        };
        assert_eq!(outcome["ops"], ops, "{name}");
        // Half of the keys that it puts are new.
        let most = if name == "putifabsent" { 3500.0 } else { 2200.0 };
        assert!(number(outcome, "num") >= 2000.0 && number(outcome, "num") < most, "{outcome}");
        for member in ["ops_per_s", "cpu_us_per_op", "p50_us", "max_ms", "space_amp", "peak_rss_mb", "elapsed_s"] {
            assert!(number(outcome, member) > 0.0, "{name}: {member} in {outcome}");
        }
        let order = ["p50_us", "p90_us", "p99_us", "p999_us"].map(|member| number(outcome, member));
        // With 2,000 operations the longest may also be the one at 99.9%, and rounding may make the former slightly
        // smaller.
        let longest_us = number(outcome, "max_ms") * 1000.0;
        assert!(order.is_sorted() && order[3] <= longest_us * 1.000_001, "{name}: {outcome}");
        assert!(number(outcome, "settle_s") >= 0.0 && number(outcome, "control_gap_ms") >= 0.0);
        assert_eq!(outcome["wrong"], 0, "{name}");
        let writes = number(outcome, "user_bytes_written") > 0.0;
        // Overwrites of popular keys are merged in memory: some of them may never reach the data files, but all go to
        // the log.
        for (member, least) in [("write_amp", 0.05), ("log_amp", 1.0)] {
            assert_eq!(
                outcome[member].as_f64().is_some_and(|amp| amp > least),
                writes,
                "{name}: {member} in {outcome}"
            );
        }
        let rewrites = writes && !fills;
        assert_eq!(outcome["files_mean"].is_f64(), rewrites || name.ends_with("whilewriting"), "{name}: {outcome}");
        assert!(!rewrites || number(outcome, "files_peak") >= number(outcome, "files_mean") * 0.999, "{outcome}");
        assert!(!outcome["series"].as_array().unwrap().is_empty() && outcome["latency"].as_array().unwrap().len() > 10);
    }
}

#[test]
fn counts_are_those_of_the_workload() {
    let arguments = ["fillseq,readrandom,readmissing,seekrandom,readseq", "--num", "3000", "--ops", "500", "--json"];
    let done = bench(&[&arguments[..], &["--seek-nexts", "9", "--key-size", "16", "--value-size", "84"]].concat());
    let outcomes = outcomes(&done.expect(0));
    let count = |at: usize, member: &str| number(&outcomes[at], member);
    assert_eq!((count(0, "ops"), count(0, "user_bytes_written")), (3000.0, 300_000.0));
    assert_eq!((count(1, "found"), count(1, "not_found"), count(1, "user_bytes_read")), (500.0, 0.0, 50_000.0));
    assert_eq!((count(2, "found"), count(2, "not_found")), (0.0, 500.0));
    let pairs = count(3, "pairs_scanned");
    assert!((4_900.0..=5_000.0).contains(&pairs), "10 pairs a seek but at the end: {pairs}");
    assert_eq!(count(4, "pairs_scanned"), 500.0);
}

#[test]
fn a_table_is_printed_and_nothing_else() {
    let done = bench(&["fillrandom,overwrite,a", "--duration", "0.1", "--num", "2000", "--batch-size", "10"]).expect(0);
    for text in ["workload", "fillrandom", "overwrite", "write amp", "peak MiB"] {
        assert!(done.text().contains(text), "{text}: {done:?}");
    }
    assert!(done.err.is_empty(), "{done:?}");
}

#[test]
fn a_directory_given_is_used_kept_and_used_again() {
    let store = Store::new();
    let json = ["--json", "--num", "2000"];
    store.run(&[&["bench", "fillrandom"][..], &json].concat()).expect(0);
    assert!(store.path().join("MANIFEST").exists());
    store.run(&["bench", "fillrandom", "--num", "5"]).refused(2, "not empty");
    let again = store.run(&[&["bench", "readrandom", "--use-existing", "--check"][..], &json].concat()).expect(0);
    assert_eq!(again.json()["found"], 2000);
    store.run(&["bench", "readrandom", "--use-existing", "--num", "4000", "--check"]).refused(2, "keys not found");
    let other = store.run(&["bench", "readrandom", "--use-existing", "--num", "100", "--key-size", "16"]).expect(0);
    assert!(other.err.contains("none of 100 keys was found"), "{}", other.err);
    store.run(&["verify"]).expect(0);
}

#[test]
fn a_directory_with_other_files_is_left_alone() {
    let store = Store::new();
    std::fs::create_dir(store.path()).unwrap();
    std::fs::write(store.path().join("thesis.txt"), "years").unwrap();
    store.run(&["bench", "fillrandom", "--num", "5"]).refused(2, "not empty");
    store.run(&["bench", "fillrandom", "--num", "5", "--use-existing"]);
    assert_eq!(std::fs::read_to_string(store.path().join("thesis.txt")).unwrap(), "years");
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    for (arguments, why) in [
        (&["fillrandum"][..], "did you mean \"fillrandom\"?"),
        (&["fillseq,frobnicate"], "known: fillseq, fillrandom"),
        (&[""], "no workload \"\""),
        (&["fillseq,fillnear:101"], "fillnear:101: the share of keys in order must be 0 to 100 percent, not \"101\""),
        (&["readrandom"], "fillrandom,readrandom"),
        (&["fillseq", "--threads", "0"], "threads"),
        (&["fillseq", "--key-size", "1"], "key size must be from 2 to 1024"),
        (&["fillseq", "--key-size", "2", "--num", "50000"], "too short for 50000 different keys"),
        (&["fillnear", "--key-size", "4", "--num", "5"], "at least 8 bytes"),
        (&["fillseq", "--value-size", "9999G"], "value size"),
        (&["fillseq", "--batch-size", "0"], "batch size"),
        (&["fillseq", "--num", "0"], "number of keys"),
        (&["readseq", "--use-existing", "--num", "5"], "--db"),
        (&["figures", "clsm-4"], "known: all, clsm, flodb, kanda, skipstore, splinterdb, clsm-1"),
    ] {
        bench(arguments).refused(2, why);
    }
    assert!(!Path::new("store").exists());
}

#[test]
fn a_figure_has_its_claim_numbers_and_rulings() {
    let arguments = ["figures", "clsm-6", "--num", "2000", "--duration", "0.02", "--threads", "2"];
    let done = bench(&arguments).expect(0);
    for text in
        ["cLSM, figure 6: gets", "2000 keys", "threads", "A alluvium", "not judged: ", "needs ours and a competitor"]
    {
        assert!(done.text().contains(text), "{text}: {}", done.text());
    }
    let drawing = bench(&[&arguments[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(drawing["panels"][0]["lines"][0]["points"].as_array().unwrap().len(), 2);
    assert_eq!(drawing["rulings"][1]["judgement"], "not_judged");
}
