//! The cache lines that threads share, by operation: two threads run each operation, one after the other and with
//! different keys. A line is shared if both touch it and at least one writes to it. Such a line moves between cores, so
//! it limits how operations scale (`docs/scaling.md`).
//!
//! Both threads are stepped through (`stepping.rs`). Lines are compared for pairs of operations, and those of most pairs
//! count: two keys may be neighbours in memory by chance, and now and then an operation does work for many. Where ptrace
//! is not allowed, and on other processors, the test is skipped.

use crate::stepping::{Names, Operation, Traced};
use crate::store::{KEYS, Store, VALUE, key, numbers};
use crate::system_calls::skip;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::unistd::{Pid, gettid};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const CHILD: &str = "ALLUVIUM_SHARED_LINES_CHILD";
/// Before the id of a thread in the child's output.
const THREAD: &str = "thread to trace: ";
/// Before the reason for which there is none.
const REFUSED: &str = "not traced: ";
const THREADS: usize = 2;
/// Operations of each section and thread.
const COUNTED: usize = 7;
/// The child ends itself after this time, whatever it waits for.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is counted.
struct Section {
    what: &'static str,
    /// The most read-modify-writes that such an operation may have.
    locked_max: usize,
    /// The lines that two such operations share. `None`: the operation works for all threads, so its lines are only printed.
    shared: Option<&'static [&'static str]>,
}

const fn section(what: &'static str, locked_max: usize, shared: &'static [&'static str]) -> Section {
    Section { what, locked_max, shared: Some(shared) }
}

/// `Sequencer::counter`, from which every write takes its number.
const COUNTER: &str = "src/util/sequencer.rs: take";
/// The number slot of a writing thread.
const SLOT: &str = "src/util/sequencer.rs: announce";
/// `Bound` of the snapshot slots: counts snapshots that are being taken, and bounds their numbers for writers.
const BOUND: &str = "src/engine/state/snapshot_slots.rs: begin";
/// What snapshots share: the bound, and the reference counts of registry and `ReadPath`.
const OF_SNAPSHOTS: &[&str] = &[BOUND, "src/engine/state/snapshot_registry.rs: pin_last", "src/db/snapshot.rs: take"];

/// Reference counts of a leaf of the tree and of its run: two seeks share them if both come to the same leaf from another one.
const OF_SAME_LEAF: [&str; 2] = ["src/disk/trunk/read/cursor.rs: change", "src/disk/runs/run_cursor.rs: aim"];

/// A shared line is named by the code of the library that writes to it, a file and a function: the first in order.
///
/// A get pins the epoch, and takes and releases the view. A seek locks the iterator's cursor, pins the epoch, and
/// exchanges references: to the tree's leaf, to the run, to the page. A new iterator also takes a snapshot, and takes
/// and leaves the cursor of an earlier one.
const SECTIONS: [Section; 9] = [
    section("one addition", 1, &["shared_lines::Worker"]),
    section("put of a new key", 13, &[COUNTER]),
    section("overwrite", 10, &[COUNTER]),
    section("get from memory", 3, &[]),
    section("get from a cached page", 3, &[]),
    section("seek of a kept iterator", 9, &[]),
    section("new iterator with a seek", 29, OF_SNAPSHOTS),
    section("snapshot, taken and dropped", 12, OF_SNAPSHOTS),
    Section { what: "sync of one put", locked_max: 60, shared: None },
];

/// Different operations, and the lines that they share.
const PAIRS: [(&str, &str, &[&str]); 5] = [
    ("overwrite", "get from memory", &[]),
    ("put of a new key", "get from memory", &[]),
    ("overwrite", "seek of a kept iterator", &[]),
    ("overwrite", "snapshot, taken and dropped", &[COUNTER, SLOT, BOUND]),
    ("get from memory", "snapshot, taken and dropped", &[BOUND]),
];

/// One of the child's threads.
struct Worker<'a> {
    number: usize,
    turns: &'a Barrier,
}

impl Worker<'_> {
    /// Runs an operation some times, each between two stops of this thread, while the other thread waits. `ready` runs
    /// before each.
    fn section(&self, mut ready: impl FnMut(u64), mut operation: impl FnMut(u64)) {
        for turn in 0..THREADS {
            self.turns.wait();
            if turn != self.number {
                continue;
            }
            // Each thread has every second key.
            let mut keys = numbers(200).map(|number| number / 2 * 2 + self.number as u64);
            for number in keys.by_ref().take(100) {
                ready(number);
                operation(number);
            }
            for number in keys.take(COUNTED) {
                ready(number);
                raise(Signal::SIGSTOP).unwrap();
                operation(number);
                raise(Signal::SIGSTOP).unwrap();
            }
        }
        self.turns.wait();
    }

    /// Runs the operations, in the order of `SECTIONS`.
    fn run(&self, store: &Store, counter: &AtomicU64) {
        let (db, none) = (&store.db, |_| ());
        let mut out = Vec::with_capacity(VALUE.len());
        self.section(none, |number| {
            counter.fetch_add(std::hint::black_box(number), Ordering::Relaxed);
        });
        let mut new = (1..).map(|at| KEYS + at * THREADS as u64 + self.number as u64);
        self.section(none, |_| db.put(key(new.next().unwrap()), VALUE).unwrap());
        self.section(none, |number| db.put(key(number), VALUE).unwrap());
        self.section(none, |number| assert!(db.get_into(key(number), &mut out).unwrap()));
        if self.number == 0 {
            db.flush().unwrap();
            db.optimize(..).unwrap();
            db.settle().unwrap();
            assert_eq!(db.stats().memory_entries, 0);
            store.read(0..KEYS);
        }
        self.turns.wait();
        self.section(none, |number| assert!(db.get_into(key(number), &mut out).unwrap()));
        let mut pairs = db.iter().unwrap();
        self.section(none, |number| pairs.seek(key(number)).unwrap());
        drop(pairs);
        self.section(none, |number| {
            let mut pairs = db.iter().unwrap();
            pairs.seek(key(number)).unwrap();
        });
        self.section(none, |_| drop(db.snapshot()));
        self.section(|number| db.put(key(number), VALUE).unwrap(), |_| db.sync().unwrap());
    }
}

/// The test harness can only start tests, so the entry point of the child is an ignored test.
#[test]
#[ignore = "not a test, but the entry point of a child process"]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    std::thread::spawn(|| {
        std::thread::sleep(PATIENCE);
        std::process::abort();
    });
    let (store, counter, turns) = (Store::without_syncs(64), AtomicU64::new(0), Barrier::new(THREADS));
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (store, counter, turns) = (&store, &counter, &turns);
            scope.spawn(move || {
                // Only these threads are traced. The parent waits for them, so they must be traced before it learns their
                // ids.
                match ptrace::traceme() {
                    Ok(()) => println!("{THREAD}{number} {}", gettid()),
                    Err(why) => {
                        println!("{REFUSED}{why}");
                        std::process::exit(0);
                    }
                }
                Worker { number, turns }.run(store, counter);
            });
        }
    });
}

/// Starts the child. Returns its output, too, which must stay open until it has ended: it fails if it cannot print. The
/// error says why it cannot be traced.
fn start() -> Result<(Traced, BufReader<ChildStdout>), String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "shared_lines::child"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut threads = [None; THREADS];
    let mut output = BufReader::new(child.stdout.take().unwrap());
    while threads.contains(&None) {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "the child has failed");
        let line = line.trim_end();
        if let Some((_, thread)) = line.split_once(THREAD) {
            let (number, id) = thread.split_once(' ').unwrap();
            threads[number.parse::<usize>().unwrap()] = Some(Pid::from_raw(id.parse().unwrap()));
        } else if line.contains(REFUSED) {
            child.wait().unwrap();
            return Err(line.to_owned());
        }
    }
    Ok((Traced::new(child, threads.into_iter().flatten().collect()), output))
}

/// The places in code that write to a line.
type Places = BTreeSet<String>;

/// The lines that two operations share, each with the places that write to it.
fn shared(one: &Operation, other: &Operation, names: &Names) -> BTreeMap<u64, Places> {
    let both = one.lines.iter().filter_map(|(line, of_one)| Some((line, of_one, other.lines.get(line)?)));
    let places = both.map(|(line, of_one, of_other)| {
        let writes = of_one.writes.values().chain(of_other.writes.values());
        (*line, writes.map(|calls| names.of(calls)).collect::<Places>())
    });
    places.filter(|(_, places)| !places.is_empty()).collect()
}

/// The lines that most pairs of operations share.
fn usually_shared(one: &[Operation], other: &[Operation], names: &Names) -> BTreeMap<u64, Places> {
    let mut lines: BTreeMap<u64, (usize, Places)> = BTreeMap::new();
    for (one, other) in one.iter().zip(other) {
        for (line, places) in shared(one, other, names) {
            let (pairs, all) = lines.entry(line).or_default();
            *pairs += 1;
            all.extend(places);
        }
    }
    let usual = lines.into_iter().filter(|(_, (pairs, _))| *pairs > COUNTED / 2);
    usual.map(|(line, (_, places))| (line, places)).collect()
}

/// Prints shared lines by the places that write to them.
fn print(what: &str, lines: &BTreeMap<u64, Places>) {
    let mut counts: BTreeMap<&Places, usize> = BTreeMap::new();
    lines.values().for_each(|places| *counts.entry(places).or_default() += 1);
    println!("{what}: {} shared lines", lines.len());
    for (places, count) in counts {
        let places: Vec<_> = places.iter().map(String::as_str).collect();
        println!("  {count} of {}", places.join(", "));
    }
}

/// Each line has one of the expected names, and no two the same. Those of `OF_SAME_LEAF` depend on the keys.
fn check(what: &str, lines: &BTreeMap<u64, Places>, expected: &[&str]) {
    let of_library =
        |places: &Places| places.iter().find(|place| place.starts_with("src/")).or(places.first()).cloned();
    let is_named = |places: &Places, name: &str| of_library(places).unwrap_or_default().contains(name);
    for name in expected {
        let count = lines.values().filter(|places| is_named(places, name)).count();
        assert_eq!(count, 1, "{what}: shared lines of {name}");
    }
    for places in lines.values() {
        let is_expected = expected.iter().chain(&OF_SAME_LEAF).any(|name| is_named(places, name));
        assert!(is_expected, "{what}: an unexpected shared line, which is written at {places:#?}");
    }
}

#[test]
fn operations_of_two_threads_share_few_lines() {
    let (traced, _output) = match start() {
        Ok(started) => started,
        Err(why) => return skip(&format!("shared lines were not counted: {why}")),
    };
    let names = Names::new(traced.base());
    let of_thread = |thread| (0..COUNTED).map(|_| traced.operation(thread)).collect::<nix::Result<Vec<_>>>();
    let of_section = |_| Ok([of_thread(0)?, of_thread(1)?]);
    let sections: nix::Result<Vec<[Vec<Operation>; THREADS]>> = SECTIONS.iter().map(of_section).collect();
    let sections = match sections {
        Ok(sections) => sections,
        Err(why) => {
            drop(traced);
            return skip(&format!("shared lines were not counted: {why}"));
        }
    };
    for (Section { what, locked_max, shared }, [one, other]) in SECTIONS.iter().zip(&sections) {
        // Now and then an operation also collects garbage of the epochs.
        let mut locked: Vec<_> = one.iter().chain(other).map(|operation| &operation.locked).collect();
        locked.sort_by_key(|locked| locked.len());
        let locked = locked[COUNTED];
        let lines = usually_shared(one, other, &names);
        print(&format!("{what}: {} read-modify-writes", locked.len()), &lines);
        assert!(!locked.is_empty(), "{what}: none is counted");
        assert!(locked.len() <= *locked_max, "{what}: {} read-modify-writes, at {locked:x?}", locked.len());
        if let Some(shared) = shared {
            check(what, &lines, shared);
        }
    }
    let of = |what| &sections[SECTIONS.iter().position(|section| section.what == what).unwrap()];
    for (one, other, expected) in PAIRS {
        let what = format!("{one} beside {other}");
        let lines = usually_shared(&of(one)[0], &of(other)[1], &names);
        print(&what, &lines);
        check(&what, &lines, expected);
    }
}
