//! Runs drawn from a seed, with crash points sampled; what fails is shrunk to a short list of operations.

use super::explore::{Failure, Plan, Tally, explore};
use super::step::{Kind, Step, draw, read};
use super::world::{Strikes, Tree};
use crate::support::{Random, setting};
use std::time::Instant;

/// By every other seed the log goes to shared memory first, but for every third the tree has maplets, and but for every fourth it has
/// small nodes.
fn plan(points: u64, seed: u64) -> Plan {
    Plan {
        points,
        cuts: setting("ALLUVIUM_CRASH_CUTS", 1),
        rare_deaths: 8,
        during_recovery: 40,
        depth: 2,
        go_on: 3,
        // Now and then the disk hangs for so long that the sync interval is over.
        faults: "(any p=0.02) -> write-back; (any p=0.002) -> slow=100s",
        memory: !seed.is_multiple_of(2),
        maplets: !seed.is_multiple_of(3),
        tree: if seed.is_multiple_of(4) { Tree::Usual } else { Tree::Small { fanout: 2 + seed as usize % 3 } },
        spared: 0,
    }
}

/// The shortest list that still fails, as far as leaving out operations gets: halves first, then ever smaller pieces.
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

/// One run; a failure is shrunk with all its crash points, and told.
fn check(steps: &[Step], seed: u64, points: u64) -> Tally {
    match explore(steps, seed, &plan(points, seed)) {
        Ok(tally) => tally,
        Err(first) => {
            let fails = |steps: &[Step]| explore(steps, seed, &plan(1, seed)).err();
            match shrink(steps, &fails) {
                Some(shrunk) => panic!("{first}\nshrunk to:\n{shrunk}"),
                None => panic!("{first}\nwith every crash point looked at it does not fail"),
            }
        }
    }
}

#[test]
fn long_runs_survive_sampled_deaths() {
    let first = setting("ALLUVIUM_SEED", 1);
    if let Ok(run) = std::env::var("ALLUVIUM_CRASH_RUN") {
        println!("{:?}", check(&read(&run), first, 1));
        return;
    }
    let (started, mut tally) = (Instant::now(), Tally::default());
    let worlds = setting("ALLUVIUM_CRASH_WORLDS", 8);
    for seed in first..first + worlds {
        println!("seed {seed}");
        let mut random = Random(seed);
        let points = setting("ALLUVIUM_CRASH_POINTS", 20);
        // What is done in a tree takes more operations of the disk.
        let (kind, length, points) = match plan(1, seed).tree {
            Tree::Usual => (Kind::FewKeys, 40 + random.below(120), points),
            Tree::Small { .. } => (Kind::Trees, 60 + random.below(120), points * 2),
        };
        tally.add(check(&draw(&mut random, length as usize, kind), seed, points));
    }
    println!("{worlds} runs, {tally:?}, {:.1} s", started.elapsed().as_secs_f64());
    if worlds >= 8 {
        assert!(tally.mapped > 0, "no store that died had maplets");
        // Files that are kept and squeezed are for `small`: few of the points here are looked at.
        let Strikes { in_splits, in_joins, in_merges, .. } = tally.deaths;
        let of_trees = [tally.grown, in_splits, in_joins, in_merges];
        assert!(of_trees.iter().all(|count| *count > 0), "no store died while its tree did everything: {tally:?}");
    }
}

/// A disk that only says that it syncs the log breaks promise 5, whatever the store does: the harness must see it, and show it
/// in a few operations.
#[test]
fn a_disk_that_ignores_syncs_is_detected_and_the_run_shrinks() {
    let plan = Plan {
        faults: "(map-sync name~.log) -> stale",
        memory: false,
        maplets: false,
        tree: Tree::Usual,
        ..plan(1, 3)
    };
    let fails = |steps: &[Step]| explore(steps, 3, &plan).err();
    let failure = shrink(&draw(&mut Random(3), 60, Kind::FewKeys), &fails).expect("a disk that lies goes unnoticed");
    let text = failure.to_string();
    println!("{text}");
    let operations = text.split(" operations").next().and_then(|text| text.rsplit(' ').next());
    let operations: usize = operations.and_then(|number| number.parse().ok()).expect("the number of operations");
    assert!((1..=3).contains(&operations), "{text}");
    // The same seed, the same failure.
    let steps = read(text.lines().next().and_then(|line| line.split_once("operations: ")).expect("the operations").1);
    assert_eq!(fails(&steps).expect("it fails again").to_string(), text);
}
