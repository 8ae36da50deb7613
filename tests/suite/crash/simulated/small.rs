//! All runs of up to three operations: most known file-system bugs need no more (CrashMonkey, OSDI 2018).

use super::explore::{Plan, Tally, explore};
use super::step::{Step, read};
use super::world::{Shape, Tree};
use crate::support::setting;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const ALPHABET: [Step; 8] = [
    Step::Put(1),
    Step::Delete(1),
    Step::Batch(0),
    Step::Transaction(1),
    Step::Flush,
    Step::Compact,
    Step::Sync,
    Step::Wait,
];

/// The contents of the store before the run: nothing, or data in memory, in the log and in files.
const GROUNDS: [&[Step]; 2] =
    [&[], &[Step::Put(1), Step::Put(2), Step::Flush, Step::Batch(1), Step::Sync, Step::Put(0)]];

/// Enough data for several leaves.
const FILLED: &str = "fill 0; fill 5; fill 10; fill 15; fill 20; fill 25; fill 30; fill 35; fill 2; fill 7; fill 12; fill 17; \
                      fill 22; fill 27; fill 32; fill 37; fill 4; fill 9; fill 14; fill 19; fill 24; fill 29; fill 34; fill 39";

/// After `FILLED`, each leaves a tree with work to do: one that was only incorporated, and one whose leaves were
/// emptied.
const TREES: [&str; 2] =
    ["put 3; put 33; delete 5; flush", "compact; clear 0; clear 16; clear 24; fill 2; fill 37; flush"];

/// After `FILLED`, each leaves levels in which keys have skipped one, with work to do: some wait in memory; some have come
/// back to files.
const SKIPPED: [&str; 2] = [
    "compact; fill 2; fill 12; flush; fill 7; fill 30; flush; put 20; fill 35; flush; work",
    "compact; fill 2; fill 12; flush; fill 7; fill 30; flush; put 20; fill 35; flush; work; work; fill 3; flush; \
     clear 4; flush; fill 22; fill 37; flush",
];

const ON_TREES: [Step; 7] =
    [Step::Work, Step::Compact, Step::CompactRange(5), Step::Optimize(0), Step::Fill(3), Step::Clear(30), Step::Full];

/// Every run of `length` operations of the alphabet.
fn runs(length: usize) -> Vec<Vec<Step>> {
    (0..ALPHABET.len().pow(length as u32))
        .map(|number| {
            (0..length as u32).map(|place| ALPHABET[number / ALPHABET.len().pow(place) % ALPHABET.len()]).collect()
        })
        .collect()
}

fn plan() -> Plan {
    Plan {
        points: 1,
        cuts: setting("ALLUVIUM_CRASH_CUTS", 1),
        rare_deaths: setting("ALLUVIUM_CRASH_RARE", 10),
        during_recovery: setting("ALLUVIUM_CRASH_RECOVERIES", 60),
        depth: setting("ALLUVIUM_CRASH_DEPTH", 2) as u32,
        go_on: setting("ALLUVIUM_CRASH_GO_ON", 4),
        faults: "(any p=0.05) -> write-back",
        mapped: true,
        maplets: false,
        tree: Tree::Usual,
        spared: 0,
    }
}

/// Tries the deaths of runs on all cores. Reports the first failure in the order of the list.
pub fn explore_all(runs: &[Vec<Step>], seed: u64, plan: &Plan) -> Tally {
    let (next, all) = (AtomicUsize::new(0), Mutex::new((Tally::default(), Vec::new())));
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((at, run)) =
                    { Some(next.fetch_add(1, Ordering::Relaxed)) }.and_then(|at| Some((at, runs.get(at)?)))
                {
                    let done = explore(run, seed + at as u64, plan);
                    let mut all = all.lock().unwrap();
                    match done {
                        Ok(tally) => all.0.add(tally),
                        Err(failure) => {
                            all.1.push((at, failure));
                            return;
                        }
                    }
                }
            });
        }
    });
    let (tally, mut failures) = all.into_inner().unwrap();
    failures.sort_by_key(|(at, _)| *at);
    if let Some((_, failure)) = failures.first() {
        panic!("{failure}");
    }
    tally
}

#[test]
fn every_short_run_survives_every_death() {
    let started = Instant::now();
    let length = setting("ALLUVIUM_CRASH_LENGTH", 2) as usize;
    let seed = setting("ALLUVIUM_SEED", 1);
    let plan = plan();
    let mut all = Vec::new();
    for ground in GROUNDS {
        for length in 1..=length {
            all.extend(runs(length).into_iter().map(|run| [ground, &run].concat()));
        }
    }
    assert_eq!(runs(3).len(), 512);
    let mut tally = explore_all(&all, seed, &plan);
    // The longest runs have a log that is written, not mapped, and maplets; a setting chooses how many of them.
    let some = setting("ALLUVIUM_CRASH_MEMORY_EVERY", 3) as usize;
    let some: Vec<_> = all.iter().rev().step_by(some.max(1)).cloned().collect();
    tally.add(explore_all(&some, seed, &Plan { mapped: false, maplets: true, ..plan }));
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "seed {seed}: {} runs, {} crash points, {} recoveries, {:.1} s, {:.0} recoveries a second",
        all.len(),
        tally.points,
        tally.recoveries,
        seconds,
        tally.recoveries as f64 / seconds
    );
    assert!(tally.points > 1000, "{tally:?}");
}

/// The same with a tree that has work to do.
#[test]
fn every_short_run_on_a_tree_survives_deaths() {
    let started = Instant::now();
    let mut tally = Tally::default();
    for (at, rest) in TREES.into_iter().enumerate() {
        let ground = [read(FILLED), read(rest)].concat();
        let mut runs: Vec<_> = ON_TREES.into_iter().map(|step| vec![step]).collect();
        runs.extend(ON_TREES.into_iter().flat_map(|first| ON_TREES.map(|second| vec![first, second])));
        let runs: Vec<_> = runs.into_iter().map(|run| [&ground[..], &run].concat()).collect();
        let tree = Tree::Small { fanout: 2 + at };
        let points = setting("ALLUVIUM_CRASH_POINTS", 6);
        let plan = Plan { points, tree, spared: ground.len(), maplets: at == 0, ..plan() };
        tally.add(explore_all(&runs, setting("ALLUVIUM_SEED", 1), &plan));
    }
    println!("{tally:?}, {:.1} s", started.elapsed().as_secs_f64());
    let least = tally.grown.min(tally.deaths.least());
    assert!(least > 20, "too few deaths during some kind of work on the tree: {tally:?}");
}

/// After `FILLED`, it leaves a tree in which nothing is due, but in which a search for key 3 meets a run in the leaf and
/// more in the root.
const SCATTERED: &str = "compact; put 3; flush; put 3; flush; work; work; work; work";

/// The same for what is rewritten in a quiet time, and for what comes before and after it.
#[test]
fn every_quiet_time_survives_deaths() {
    let ground = [read(FILLED), read(SCATTERED)].concat();
    let mut runs = vec![vec![Step::Quiet]];
    runs.extend(ON_TREES.into_iter().flat_map(|step| [vec![step, Step::Quiet], vec![Step::Quiet, step]]));
    let runs: Vec<_> = runs.into_iter().map(|run| [&ground[..], &run].concat()).collect();
    let points = setting("ALLUVIUM_CRASH_POINTS", 1);
    let plan = Plan { points, tree: Tree::Small { fanout: 3 }, spared: ground.len(), ..plan() };
    let tally = explore_all(&runs, setting("ALLUVIUM_SEED", 1), &plan);
    println!("{tally:?}");
    assert!(tally.deaths.in_quiet_times > 100, "too few deaths while data was rewritten: {tally:?}");
}

/// All pairs of operations after `FILLED` and the rest of the ground.
fn explore_pairs(rest: &str, shape: Shape) -> Tally {
    let ground = [read(FILLED), read(rest)].concat();
    let pairs = ON_TREES.into_iter().flat_map(|first| ON_TREES.map(|second| vec![first, second]));
    let runs: Vec<_> = pairs.map(|run| [&ground[..], &run].concat()).collect();
    let points = setting("ALLUVIUM_CRASH_POINTS", 6);
    let plan = Plan { points, tree: Tree::Levels(shape), spared: ground.len(), ..plan() };
    explore_all(&runs, setting("ALLUVIUM_SEED", 1), &plan)
}

/// The same with levels that have work to do.
#[test]
fn every_short_run_on_levels_survives_deaths() {
    let started = Instant::now();
    let mut tally = Tally::default();
    for (rest, shape) in TREES.into_iter().cycle().zip(Shape::ALL) {
        tally.add(explore_pairs(rest, shape));
    }
    println!("{tally:?}, {:.1} s", started.elapsed().as_secs_f64());
    let least = tally.grown.min(tally.deaths.in_merges).min(tally.deaths.in_reuses);
    assert!(least > 20, "too few deaths during some kind of work on the levels: {tally:?}");
}

/// The same with keys that wait in memory, or are about to.
#[test]
fn every_short_run_on_levels_that_skip_survives_deaths() {
    let started = Instant::now();
    let mut tally = Tally::default();
    for rest in SKIPPED {
        tally.add(explore_pairs(rest, Shape::Skip));
    }
    println!("{tally:?}, {:.1} s", started.elapsed().as_secs_f64());
    let least = tally.rebuilt.min(tally.deaths.least_of_buffers());
    assert!(least > 20, "too few deaths around what waits in memory: {tally:?}");
}
