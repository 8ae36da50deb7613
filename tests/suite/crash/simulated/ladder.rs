//! The error ladder: operation N of a run fails, once or for ever, for every N, in every way. The run continues as far
//! as the store allows. Then the store is reopened in the same life, and after a power cut.
//!
//! Whatever fails, there is no panic, no hang and no wrong answer. Either the store continues to work correctly, or it
//! refuses writes and every later error and the statistics give the reason. At the next opening in the same life every
//! acknowledged write is there. After a power cut, or after a failed sync that the store could not repair, every synced
//! write is there.

use super::death::{SYNC_INTERVAL, options};
use super::promise::{Contents, Promise};
use super::step::{Changes, Step, read};
use super::world::{Grown, Shape, Strikes, Tree, contents, open, write};
use crate::support::setting;
use alluvium::Error;
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::{Operation, SimulatedStorage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// A run that makes, reads and removes every kind of file in few operations.
const RUN: &str = "put 1; batch 2; sync; large 5; wait; fill 3; work; fill 4; put-sync 6; delete 1; flush; work; fill 7; large 5; fill 8; \
                   sync; fill 9; batch 4; compact; work; reopen; put 2; fill 3; flush; delete 5; put-sync 1; put 8";

/// More operations than any run has: a run that reaches this number loops for ever.
const OPERATIONS_MAX: u64 = 20_000;

/// The same for a tree of several levels, which splits and joins leaves, merges, and reuses files. The scans that check
/// the contents pay for merges too, so that little of what is written waits for long.
const RUN_ON_A_TREE: &str = "fill 0; fill 5; fill 10; fill 15; fill 20; fill 25; fill 30; fill 35; fill 2; fill 7; fill 12; fill 17; \
                             fill 22; fill 27; sync; fill 32; fill 37; fill 4; fill 9; fill 14; fill 19; fill 24; fill 29; fill 34; \
                             fill 39; compact; clear 8; clear 0; flush; fill 0; fill 1; fill 2; fill 3; fill 4; fill 5; fill 6; \
                             fill 7; compact; fill 10; fill 12; fill 20; fill 30; compact; clear 0; clear 8; clear 16; clear 24; \
                             compact; fill 2; fill 37; flush; work; compact; put-sync 6; reopen; fill 3; optimize 0; put 8";

/// In every other million of seeds, the log is not written through mappings.
const WRITTEN: u64 = 1_000_000;
/// From this seed on the store has a tree of several levels.
const ON_A_TREE: u64 = 2 * WRITTEN;
/// From this seed on it has levels: of another shape with each of three seeds.
const ON_LEVELS: u64 = 4 * WRITTEN;

fn tree_of(seed: u64) -> Tree {
    match seed {
        ..ON_A_TREE => Tree::Usual,
        ON_A_TREE..ON_LEVELS => Tree::Small { fanout: 3 },
        ON_LEVELS.. => Tree::Levels(Shape::of(seed)),
    }
}

/// A store under faults.
struct Climb {
    disk: SimulatedStorage,
    db: Option<DeterministicDb>,
    promise: Promise,
    /// The reason that the store gave for refusing writes.
    reason: Option<String>,
    tree: Tree,
}

type Checked = Result<(), String>;

impl Climb {
    /// If the fault hits the opening, the next opening without the fault must succeed.
    fn open(disk: &SimulatedStorage, tree: Tree) -> Result<DeterministicDb, String> {
        if let Ok(db) = open(disk, options(), tree) {
            return Ok(db);
        }
        disk.clear_faults();
        open(disk, options(), tree).map_err(|error| format!("the store does not open after the fault: {error}"))
    }

    fn apply(&mut self, step: Step, at: usize) -> Checked {
        let Some(db) = &self.db else { return Ok(()) };
        if let Some(changes) = step.changes(at) {
            let done = write(db, &changes, step);
            return self.written(step, changes, done);
        }
        let done = match step {
            Step::Sync => db.sync(),
            Step::Flush => db.flush(),
            Step::Compact => db.compact(),
            Step::CompactRange(key) => db.compact_range(Step::range_from(key)),
            Step::Optimize(key) => db.optimize(Step::range_from(key)),
            Step::Work => {
                db.step();
                Ok(())
            }
            Step::Wait => {
                self.disk.advance(SYNC_INTERVAL);
                db.step();
                // Later calls return the error of the sync.
                if db.stats().synced_number == db.stats().last_number {
                    self.promise.sync();
                }
                Ok(())
            }
            Step::Reopen => {
                let closed = self.db.take().map_or(Ok(()), DeterministicDb::close);
                let poisoned = self.is_poisoned();
                self.check_reason(&closed)?;
                if closed.is_ok() {
                    self.promise.sync();
                }
                return self.reopen(poisoned);
            }
            _ => unreachable!("the run has no such operation"),
        };
        self.check_reason(&done)?;
        if done.is_ok() && matches!(step, Step::Sync | Step::Flush | Step::Compact | Step::CompactRange(_)) {
            self.promise.sync();
        }
        self.check_contents()
    }

    fn written(&mut self, step: Step, changes: Changes, done: alluvium::Result<()>) -> Checked {
        self.promise.begin(changes);
        match &done {
            Ok(()) => {
                self.promise.acknowledge();
                if matches!(step, Step::PutSync(_)) {
                    self.promise.sync();
                }
            }
            // The write was refused before it had a number, unlike a write whose own sync failed.
            Err(Error::ReadOnly { .. }) if self.reason.is_some() => self.promise.take_back(),
            Err(error) if error.is_disk_full() && !matches!(step, Step::PutSync(_)) => self.promise.take_back(),
            Err(_) => self.promise.doubt(),
        }
        self.check_reason(&done)?;
        self.check_contents()
    }

    /// The first error after which the store refuses writes gives the reason. Later errors and the statistics give the
    /// same reason.
    fn check_reason<T>(&mut self, done: &alluvium::Result<T>) -> Checked {
        match (done, &self.reason) {
            (Err(Error::ReadOnly { reason }), None) => self.reason = Some(reason.clone()),
            (Err(Error::ReadOnly { reason }), Some(first)) if reason != first => {
                return Err(format!("the reason was {first:?} and is now {reason:?}"));
            }
            _ => {}
        }
        if let (Some(reason), Some(db)) = (&self.reason, &self.db) {
            let failure = db.stats().failure;
            if !failure.as_ref().is_some_and(|failure| failure.contains(reason)) {
                return Err(format!("the statistics say {failure:?}, not {reason:?}"));
            }
            if !self.disk.failed_operations().is_empty() && !reason.contains("/simulated") {
                return Err(format!("the reason names no file: {reason:?}"));
            }
        }
        Ok(())
    }

    /// Reads may fail while the disk fails, but what they return must be right.
    fn check_contents(&self) -> Checked {
        let Some(db) = &self.db else { return Ok(()) };
        match try_contents(db)? {
            Some(found) => self
                .promise
                .prefix(&found, self.promise.acknowledged)
                .map(drop)
                .map_err(|error| format!("running, {error}")),
            None if self.disk.failed_operations().is_empty() => Err("a read failed without a fault".into()),
            None => Ok(()),
        }
    }

    /// Whether a sync failed whose file the store could not replace.
    fn is_poisoned(&self) -> bool {
        self.disk.current_image().contains_key("POISON")
    }

    fn reopen(&mut self, poisoned: bool) -> Checked {
        let at_least = if poisoned { self.promise.synced } else { self.promise.acknowledged };
        let db = Self::open(&self.disk, self.tree)?;
        self.reason = None;
        if let Some(found) = try_contents(&db)? {
            self.promise.prefix(&found, at_least).map_err(|error| format!("reopened, {error}"))?;
            self.promise = Promise::of(found);
        } else {
            self.disk.clear_faults();
            let found = contents(&db)?;
            self.promise.prefix(&found, at_least).map_err(|error| format!("reopened, {error}"))?;
            self.promise = Promise::of(found);
        }
        self.db = Some(db);
        Ok(())
    }

    /// The end: a kill and a power cut, each followed by an opening without faults.
    fn end(mut self, seed: u64) -> Checked {
        if self.disk.is_dead() {
            return Err("the run loops for ever".into());
        }
        if let Some(db) = self.db.take() {
            // The drop closes the store and reports nothing.
            if !seed.is_multiple_of(2) {
                drop(db);
            } else if db.close().is_ok() {
                self.promise.sync();
            }
        }
        let poisoned = self.is_poisoned();
        let sync_failed = self.disk.failed_operations().iter().any(|(operation, _)| {
            matches!(
                operation,
                Operation::Sync | Operation::MapSync | Operation::CheckWriteback | Operation::SyncDirectory
            )
        });
        let cut = self.disk.clone_disk().power_cut(seed);
        check_opened((&cut, self.tree), &self.promise, self.promise.synced)
            .map_err(|error| format!("after power cut {seed}: {error}"))?;
        let killed = self.disk.kill();
        let at_least = if poisoned { self.promise.synced } else { self.promise.acknowledged };
        let found = check_opened((&killed, self.tree), &self.promise, at_least)
            .map_err(|error| format!("after a kill: {error}"))?;
        // What was recovered stays, unless the mark of the failed sync could not be written.
        if poisoned || !sync_failed {
            let again = killed.power_cut(seed);
            let promise = Promise::of(found);
            check_opened((&again, self.tree), &promise, 0)
                .map_err(|error| format!("after a kill and power cut {seed}: {error}"))?;
        }
        Ok(())
    }
}

fn check_opened(
    (disk, tree): (&SimulatedStorage, Tree),
    promise: &Promise,
    at_least: usize,
) -> Result<Contents, String> {
    let db = open(disk, options(), tree).map_err(|error| format!("the store does not open: {error}"))?;
    let found = contents(&db)?;
    promise.prefix(&found, at_least)?;
    db.verify().map_err(|error| format!("verify: {error}"))?;
    db.put("key00", "goes on")
        .and_then(|()| db.sync())
        .map_err(|error| format!("the store refuses writes: {error}"))?;
    db.delete("key00").map_err(|error| format!("the store refuses writes: {error}"))?;
    match found.get("key00") {
        Some(value) => db.put("key00", value),
        None => Ok(()),
    }
    .and_then(|()| db.close())
    .map_err(|error| format!("the store refuses writes: {error}"))?;
    Ok(found)
}

/// The contents of the store; `None` if a read fails with an error.
fn try_contents(db: &DeterministicDb) -> Result<Option<Contents>, String> {
    match contents(db) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.contains("cannot ") => Ok(None),
        Err(error) => Err(error),
    }
}

/// Executes the run under a fault. Returns the number of operations of the disk. Records what the fault interrupted.
fn climb(fault: &str, seed: u64, strikes: &mut Strikes) -> Result<u64, String> {
    let (disk, tree) = (SimulatedStorage::new(seed), tree_of(seed));
    disk.set_maps_safely((seed / WRITTEN).is_multiple_of(2));
    disk.inject(fault);
    disk.inject(&format!("(any nth={OPERATIONS_MAX}) -> crash"));
    let db = Climb::open(&disk, tree)?;
    let mut climb = Climb { disk, db: Some(db), promise: Promise::default(), reason: None, tree };
    let mut struck = String::new();
    let run = if tree == Tree::Usual { RUN } else { RUN_ON_A_TREE };
    for (at, step) in read(run).into_iter().enumerate() {
        let before = climb.db.as_ref().map(Grown::of);
        climb.apply(step, at).map_err(|error| format!("{struck}at operation {}, {step}: {error}", at + 1))?;
        if let (true, Some((operation, name))) = (struck.is_empty(), climb.disk.failed_operations().first()) {
            struck = format!("struck {operation} {name} in operation {}, {step}; ", at + 1);
            if let (Some(before), Some(after)) = (before, climb.db.as_ref().map(Grown::of)) {
                strikes.note(before, after, 1);
            }
        }
    }
    let operations = climb.disk.operations();
    climb.end(seed).map_err(|error| format!("{struck}{error}"))?;
    Ok(operations)
}

#[test]
fn every_operation_may_fail_once_or_for_ever() {
    let mut strikes = Strikes::default();
    if let Ok(fault) = std::env::var("ALLUVIUM_LADDER_FAULT") {
        climb(&fault, setting("ALLUVIUM_SEED", 1), &mut strikes).unwrap();
        return;
    }
    // By default every operation fails in some ways, and every way is tried at some operations.
    fail_every_operation(0, setting("ALLUVIUM_LADDER_EVERY", 12), &mut strikes);
}

/// On a tree of several levels there are more operations; each fails in fewer ways.
#[test]
fn every_operation_on_a_tree_may_fail() {
    let mut strikes = Strikes::default();
    fail_every_operation(ON_A_TREE, setting("ALLUVIUM_LADDER_EVERY", 160), &mut strikes);
    let Strikes { on_trees, in_splits, in_joins, in_merges, in_reuses, .. } = strikes;
    let least = [on_trees, in_splits, in_joins, in_merges, in_reuses].into_iter().min().unwrap();
    assert!(least > 5, "some kind of work on the tree had too few faults: {strikes:?}");
}

/// The same on levels with keys that skip some.
#[test]
fn every_operation_on_levels_may_fail() {
    let mut strikes = Strikes::default();
    fail_every_operation(ON_LEVELS + 1, setting("ALLUVIUM_LADDER_EVERY", 80), &mut strikes);
    let least = [strikes.on_trees, strikes.in_merges, strikes.in_reuses].into_iter().min().unwrap();
    assert!(least > 5, "some kind of work on the levels had too few faults: {strikes:?}");
}

/// Uses seeds from `first` on.
fn fail_every_operation(first: u64, every: u64, strikes: &mut Strikes) {
    let started = Instant::now();
    let without_fault = |seed| climb("", seed, &mut Strikes::default()).unwrap();
    let total = without_fault(first + 1).max(without_fault(first + WRITTEN + 1));
    assert!(total > 100, "{total}");
    let (mut runs, mut failures) = (0, Vec::new());
    for nth in 1..=total {
        let mut ways = Vec::new();
        for error in ["eio", "enospc", "emfile", "eacces"] {
            for (range, part) in
                [("", ""), ("..", ""), ("", " part=all"), ("", " part=some"), ("", " part=none"), ("..", " part=all")]
            {
                ways.push(format!("(any nth={nth}{range}) -> {error}{part}"));
            }
        }
        for (at, fault) in ways.iter().enumerate() {
            if !(nth * 7 + at as u64).is_multiple_of(every) {
                continue;
            }
            // Alternates between a log that is mapped and one that is written, or tries both with each fault if every
            // fault is tried.
            for place in 0..2 {
                if every == 1 || (nth / every + place).is_multiple_of(2) {
                    runs += 1;
                    failures.extend(climb_caught(fault, first + nth * 100 + at as u64 + place * WRITTEN, strikes));
                }
            }
        }
    }
    println!("{total} operations, {runs} runs, {strikes:?}, {:.1} s", started.elapsed().as_secs_f64());
    assert_none_failed(runs, &failures);
}

/// The data that a failed sync drops depends on chance, so every sync fails with several seeds.
#[test]
fn every_sync_may_fail() {
    let (mut runs, mut failures) = (0, Vec::new());
    let mapped = [("sync", 50, 0), ("sync-directory", 30, 0), ("check-writeback", 16, 0), ("write name~.log", 40, 0)];
    let written = [("write name~.log", 40, WRITTEN), ("sync name~.log", 30, WRITTEN)];
    for (operation, count, place) in mapped.into_iter().chain(written) {
        for nth in 1..=count {
            for seed in 0..setting("ALLUVIUM_LADDER_SEEDS", 6) {
                runs += 1;
                let fault = format!("({operation} nth={nth}) -> eio");
                failures.extend(climb_caught(&fault, seed + nth * 100 + place, &mut Strikes::default()));
            }
        }
    }
    assert_none_failed(runs, &failures);
}

/// What is wrong with the run under a fault, including panics.
fn climb_caught(fault: &str, seed: u64, strikes: &mut Strikes) -> Option<String> {
    let done = catch_unwind(AssertUnwindSafe(|| climb(fault, seed, strikes))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("panic: {}", text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")))
    });
    done.err().map(|error| format!("{fault}, seed {seed}: {error}"))
}

fn assert_none_failed(runs: u64, failures: &[String]) {
    let shown = failures.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {runs} runs failed:\n{shown}", failures.len());
}
