//! Puts and gets make no system calls in the calling thread, except when a chunk of the log is full.
//!
//! strace traces a child process, which marks the start and the end of each count by requests for files that do not
//! exist. Only calls of the marking thread count. Without strace the test is skipped.

use crate::store::{OPERATIONS, Store, VALUE, numbers};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const CHILD: &str = "ALLUVIUM_COSTS_CHILD";
const MARK: &str = "/alluvium-costs-mark";

/// Calls by name, of one section of the child's work.
type Calls = BTreeMap<String, u64>;

fn section(name: &str, work: impl FnOnce()) {
    // Allocated before the section: an allocation may enlarge the heap, which is a system call.
    let [begins, ends] = ["begins", "ends"].map(|place| format!("{MARK}/{name}/{place}"));
    assert!(std::fs::metadata(&begins).is_err());
    work();
    assert!(std::fs::metadata(&ends).is_err());
}

/// The child does the work that is counted. The test harness can only start tests, so its entry point is an ignored
/// test.
#[test]
#[ignore = "not a test, but the entry point of a child process"]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mut out = Vec::with_capacity(VALUE.len());
    let store = Store::new(704);
    // A thread's first get registers it as a reader, which allocates, and malloc may then enlarge its heap.
    store.read(0..1);
    section("one call", || assert!(std::fs::metadata("/").is_ok()));
    section("gets in memory", || store.read_into(numbers(OPERATIONS), &mut out));
    section("puts", || store.put(numbers(OPERATIONS)));
    drop(store);
    let store = Store::new(64).into_files();
    section("gets of cached pages", || store.read_into(numbers(OPERATIONS), &mut out));
    section("misses", || store.miss(numbers(OPERATIONS), &mut out));
}

/// Parses a trace, each line of which is a thread's id and its system call.
fn sections(trace: &str) -> BTreeMap<String, Calls> {
    let mut sections: BTreeMap<String, Calls> = BTreeMap::new();
    let mut open: Option<(&str, &str)> = None;
    for line in trace.lines() {
        let Some((thread, what)) = line.split_once(' ') else { continue };
        let what = what.trim_start();
        let mark = what.split_once(MARK).and_then(|(_, rest)| rest[1..].split('"').next()?.split_once('/'));
        if let Some((name, place)) = mark {
            open = (place == "begins").then_some((thread, name));
            sections.entry(name.to_owned()).or_default();
        } else if let Some((_, section)) = open.filter(|(marking, _)| *marking == thread)
            && let Some((call, _)) = what.split_once('(').filter(|(call, _)| !call.contains(['<', '-', '+']))
        {
            *sections.entry(section.to_owned()).or_default().entry(call.to_owned()).or_default() += 1;
        }
    }
    assert!(open.is_none(), "the child did not finish");
    sections
}

/// The trace of the child, or why there is none.
fn trace(directory: &Path) -> Result<String, String> {
    let file = directory.join("trace");
    let output = Command::new("strace")
        .args(["-f", "-o"])
        .arg(&file)
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "system_calls::child"])
        .env(CHILD, "1")
        .output();
    let output = output.map_err(|error| format!("strace: {error}"))?;
    let (text, complaint) =
        (std::fs::read_to_string(&file).unwrap_or_default(), String::from_utf8_lossy(&output.stderr));
    if complaint.contains("Operation not permitted") && !text.contains(MARK) {
        return Err(format!("strace may not trace here: {complaint}"));
    }
    assert!(output.status.success(), "the child failed: {}\n{complaint}", String::from_utf8_lossy(&output.stdout));
    Ok(text)
}

#[test]
fn puts_and_gets_make_no_system_calls() {
    let directory = tempfile::tempdir().unwrap();
    let trace = match trace(directory.path()) {
        Ok(trace) => trace,
        Err(why) => return skip(&format!("no system calls were counted: {why}")),
    };
    let sections = sections(&trace);
    println!("in {OPERATIONS} operations: {sections:?}");
    let none = Calls::new();
    assert_eq!(sections["one call"].values().sum::<u64>(), 1, "a system call is not counted");
    for gets in ["gets in memory", "gets of cached pages", "misses"] {
        assert_eq!(sections[gets], none, "system calls of the calling thread in {gets}");
    }
    // A log chunk of 16 KiB holds a hundred puts or more. At its end a put may wake a log thread, or meet its lock.
    let mut puts = sections["puts"].clone();
    let turnover = puts.remove("futex").unwrap_or(0) + puts.remove("sched_yield").unwrap_or(0);
    assert_eq!(puts, none, "system calls of the calling thread in puts");
    assert!(turnover <= OPERATIONS / 1000, "{turnover} calls for chunks in {OPERATIONS} puts");
}

/// In CI a skipped test is a failure.
pub fn skip(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "skipped, which is a failure in CI: {what}");
    println!("SKIPPED: {what}");
}
