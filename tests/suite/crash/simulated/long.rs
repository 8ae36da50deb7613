//! Runs drawn from a seed, at sampled crash points. A run that fails is shrunk to a short list of operations.

use super::explore::{Failure, Plan, Tally, explore};
use super::step::{Kind, Step, draw, read};
use super::world::{Shape, Strikes, Tree};
use crate::support::{Random, setting};
use std::time::Instant;

/// With every third seed the log is not written through mappings. The tree has maplets except with every third
/// seed, and small nodes except with every fourth.
fn plan(points: u64, seed: u64) -> Plan {
    Plan {
        points,
        cuts: setting("ALLUVIUM_CRASH_CUTS", 1),
        rare_deaths: 8,
        during_recovery: 40,
        depth: 2,
        go_on: 3,
        // Sometimes the disk hangs for longer than the sync interval.
        faults: "(any p=0.02) -> write-back; (any p=0.002) -> slow=100s",
        mapped: !seed.is_multiple_of(3),
        maplets: !seed.is_multiple_of(3),
        tree: if seed.is_multiple_of(4) { Tree::Usual } else { Tree::Small { fanout: 2 + seed as usize % 3 } },
        spared: 0,
    }
}

/// With each of three seeds the levels have another shape.
fn plan_on_levels(points: u64, seed: u64) -> Plan {
    Plan { maplets: false, tree: Tree::Levels(Shape::of(seed)), ..plan(points, seed) }
}

/// A short list that still fails. Leaves out operations: first halves of the list, then smaller and smaller pieces.
pub fn shrink(steps: &[Step], fails: &dyn Fn(&[Step]) -> Option<Failure>) -> Option<Failure> {
    let (mut steps, mut failure) = (steps.to_vec(), fails(steps)?);
    let mut piece = steps.len() / 2;
    while piece > 0 {
        let (mut at, mut shrunk) = (0, false);
        while at < steps.len() {
            let end = (at + piece).min(steps.len());
            let shorter = [&steps[..at], &steps[end..]].concat();
            match fails(&shorter) {
                Some(found) => (steps, failure, shrunk) = (shorter, found, true),
                None => at = end,
            }
        }
        if !shrunk {
            piece /= 2;
        }
    }
    Some(failure)
}

/// Executes one run. A failing run is shrunk, with all crash points tried, and reported.
fn check(steps: &[Step], seed: u64, points: u64, plan: fn(u64, u64) -> Plan) -> Tally {
    match explore(steps, seed, &plan(points, seed)) {
        Ok(tally) => tally,
        Err(first) => {
            let fails = |steps: &[Step]| explore(steps, seed, &plan(1, seed)).err();
            match shrink(steps, &fails) {
                Some(shrunk) => panic!("{first}\nshrunk to:\n{shrunk}"),
                None => panic!("{first}\nthe run does not fail when every crash point is tried"),
            }
        }
    }
}

#[test]
fn long_runs_survive_sampled_deaths() {
    let first = setting("ALLUVIUM_SEED", 1);
    if let Ok(run) = std::env::var("ALLUVIUM_CRASH_RUN") {
        println!("{:?}", check(&read(&run), first, 1, plan));
        return;
    }
    let (started, mut tally) = (Instant::now(), Tally::default());
    let worlds = setting("ALLUVIUM_CRASH_WORLDS", 8);
    for seed in first..first + worlds {
        println!("seed {seed}");
        let mut random = Random(seed);
        let points = setting("ALLUVIUM_CRASH_POINTS", 20);
        // The same work takes more disk operations in a tree.
        let (kind, length, points) = match plan(1, seed).tree {
            Tree::Usual => (Kind::FewKeys, 40 + random.below(120), points),
            Tree::Small { .. } | Tree::Levels(_) => (Kind::Trees, 60 + random.below(120), points * 2),
        };
        tally.add(check(&draw(&mut random, length as usize, kind), seed, points, plan));
    }
    println!("{worlds} runs, {tally:?}, {:.1} s", started.elapsed().as_secs_f64());
    if worlds >= 8 {
        assert!(tally.mapped > 0, "no store that died had maplets");
        // Reused files and rewritten live data are left to `small`: few crash points are tried here.
        let Strikes { in_splits, in_joins, in_merges, .. } = tally.deaths;
        let of_trees = [tally.grown, in_splits, in_joins, in_merges];
        assert!(of_trees.iter().all(|count| *count > 0), "a kind of work was never interrupted: {tally:?}");
    }
}

/// `ALLUVIUM_CRASH_RUN` is for trunks.
#[test]
fn long_runs_on_levels_survive_sampled_deaths() {
    let first = setting("ALLUVIUM_SEED", 1);
    let (started, mut tally) = (Instant::now(), Tally::default());
    let worlds = setting("ALLUVIUM_CRASH_WORLDS", 8).div_ceil(2);
    for seed in first..first + worlds {
        println!("seed {seed}");
        let mut random = Random(seed);
        let (length, points) = (60 + random.below(120), setting("ALLUVIUM_CRASH_POINTS", 20) * 2);
        tally.add(check(&draw(&mut random, length as usize, Kind::Trees), seed, points, plan_on_levels));
    }
    println!("{worlds} runs, {tally:?}, {:.1} s", started.elapsed().as_secs_f64());
    if worlds >= 4 {
        assert!(tally.grown > 0 && tally.deaths.in_merges > 0, "merges were never interrupted: {tally:?}");
        assert!(tally.rebuilt > 0 && tally.deaths.in_buffering > 0, "nothing has waited in memory: {tally:?}");
    }
}

/// A disk that reports success for syncs of the log, from the second on, but does nothing breaks promise 5, whatever the store does. The
/// harness must detect this and shrink the run to a few operations.
#[test]
fn a_disk_that_ignores_syncs_is_detected_and_the_run_shrinks() {
    let plan = Plan {
        faults: "(sync name~.log nth=2..) -> stale",
        mapped: true,
        maplets: false,
        tree: Tree::Usual,
        ..plan(1, 3)
    };
    let fails = |steps: &[Step]| explore(steps, 3, &plan).err();
    let failure =
        shrink(&draw(&mut Random(3), 60, Kind::FewKeys), &fails).expect("a disk that ignores syncs is not detected");
    let text = failure.to_string();
    println!("{text}");
    let operations = text.split(" operations").next().and_then(|text| text.rsplit(' ').next());
    let operations: usize = operations.and_then(|number| number.parse().ok()).expect("the number of operations");
    assert!((1..=3).contains(&operations), "{text}");
    // The same seed gives the same failure.
    let steps = read(text.lines().next().and_then(|line| line.split_once("operations: ")).expect("the operations").1);
    assert_eq!(fails(&steps).expect("it fails again").to_string(), text);
}
