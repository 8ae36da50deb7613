//! Jobs that run concurrently with each other and with changes of what they work on.

use super::rig::{Random, Rig, Write, number_key, small_options};
use crate::disk::runs::jobs::claims::Claims;
use crate::disk::trunk::jobs::change::{Change, NodeRange};
use crate::disk::trunk::jobs::claim::Claim;
use crate::disk::trunk::jobs::job::Purpose;
use crate::disk::trunk::plan::choice::Choice;
use crate::disk::trunk::tree::empty_overlaps::{EmptyOverlaps, SplitPlan};
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::{Job, Outcome};
use crate::merge::Cursor;
use crate::util::sync::Arc;
use crate::util::sync::AtomicBool;

fn writes(random: &mut Random, count: usize, keys: u64) -> Vec<Write> {
    (0..count).map(|_| (number_key(random.next() % keys), Some(vec![random.next() as u8; 60]))).collect()
}

/// Several jobs are picked, run against the current tree and applied in any order, between incorporations. Some
/// are dropped unfinished, some are cancelled.
#[test]
fn jobs_finish_in_any_order() {
    for seed in 1..4 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut rig = Rig::new(small_options(16 << 10));
        let mut running: Vec<(Job, Option<Outcome>)> = Vec::new();
        for step in 0..600 {
            match random.below(6) {
                0 => {
                    let writes = writes(&mut random, 300, if seed == 1 { 100_000_000 } else { 4_000 });
                    rig.incorporate(writes);
                }
                1 | 2 if running.len() < 6 => {
                    running.extend(rig.trunk.pick(&rig.tree, &rig.retention()).map(|job| (job, None)))
                }
                3 if !running.is_empty() => {
                    let at = random.below(running.len());
                    let (job, outcome) = &mut running[at];
                    let cancel = AtomicBool::new(step % 7 == 0);
                    if outcome.is_none() {
                        *outcome = Some(rig.trunk.run(job, &rig.tree, &rig.retention(), &cancel).unwrap());
                    }
                }
                4 if !running.is_empty() => {
                    let (job, outcome) = running.swap_remove(random.below(running.len()));
                    let outcome = match outcome {
                        Some(outcome) => outcome,
                        None => rig.trunk.run(&job, &rig.tree, &rig.retention(), &AtomicBool::new(false)).unwrap(),
                    };
                    rig.apply(outcome);
                }
                5 if !running.is_empty() && random.below(8) == 0 => {
                    drop(running.swap_remove(random.below(running.len())));
                    rig.remove_obsolete_files();
                }
                _ => {}
            }
            if step % 50 == 0 && rig.last > 0 {
                rig.check_reads(&mut random, 20);
            }
        }
        running.clear();
        rig.work();
        rig.check_files();
        rig.check_reads(&mut random, 200);
        rig.reopen();
    }
}

/// A leaf is split while its runs are merged, so the result goes to both halves.
#[test]
fn a_leaf_is_split_while_its_bundles_are_merged() {
    let mut rig = Rig::new(small_options(32 << 10));
    let mut random = Random(21);
    let merge = loop {
        rig.incorporate(writes(&mut random, 200, 100_000_000));
        // Other jobs are dropped, so that the leaf is not split and has many runs.
        let Some(job) = rig.trunk.pick(&rig.tree, &rig.retention()) else { continue };
        if job.to_string().starts_with("merge at node 1 ") {
            break job;
        }
        drop(job);
        if let Some(job) = merge_of_root_leaf(&rig) {
            break job;
        }
    };
    let outcome = rig.trunk.run(&merge, &rig.tree, &rig.retention(), &AtomicBool::new(false)).unwrap();
    let leaf = rig.tree.root().clone();
    let middle = number_key(50_000_000);
    rig.apply(split(&leaf, &middle));
    assert_eq!(rig.tree.root().height, 1);
    let runs: Vec<usize> = rig.tree.root().pivots.iter().map(|pivot| pivot.child.runs()).collect();
    rig.apply(outcome);
    for (pivot, before) in rig.tree.root().pivots.iter().zip(runs) {
        assert!(pivot.child.runs() < before, "{}", rig.tree.describe());
    }
    drop((merge, leaf));
    rig.check_files();
    rig.check_reads(&mut random, 300);
}

/// The merge of the bundles of the root, if it is a leaf with too many runs.
fn merge_of_root_leaf(rig: &Rig) -> Option<Job> {
    let root = rig.tree.root();
    let choice = Choice::Merge(root.clone(), root.merge.clone().filter(|_| root.is_leaf())?);
    let claim = Arc::new(Claims::default()).take(Claim::of(&choice))?;
    Some(Job { choice, claim, purpose: Purpose::Needed })
}

fn split(leaf: &Node, at: &[u8]) -> Outcome {
    let split = SplitPlan { keys: vec![at.into()], ..SplitPlan::default() };
    Outcome::of(Change::Split { range: NodeRange::of(leaf), split }, None)
}

/// The merged bundles have been flushed meanwhile, so the result is useless and its files become obsolete.
#[test]
fn a_merge_result_that_nothing_needs_is_dropped() {
    let mut rig = Rig::new(small_options(16 << 10));
    let mut random = Random(22);
    let (merge, node) = loop {
        rig.incorporate(writes(&mut random, 300, 100_000_000));
        let mut found = None;
        while let Some(job) = rig.trunk.pick(&rig.tree, &rig.retention()) {
            let mut inner = None;
            rig.tree.visit(&mut |node| {
                if node.height > 0 && job.to_string().starts_with(&format!("merge at node {} ", node.id.0)) {
                    inner = Some(node.clone());
                }
            });
            if let Some(node) = inner {
                found = Some((job, node));
                break;
            }
            rig.finish(&job);
        }
        if let Some(found) = found {
            break found;
        }
    };
    let outcome = rig.trunk.run(&merge, &rig.tree, &rig.retention(), &AtomicBool::new(false)).unwrap();
    for pivot in &node.pivots {
        let range = NodeRange::of(&node);
        let change = Change::Flush {
            range,
            child: pivot.child.id,
            empty_overlaps: EmptyOverlaps::default(),
            runs_max: usize::MAX,
        };
        rig.apply(Outcome::of(change, None));
    }
    let before = rig.tree.describe();
    let applied = rig.trunk.apply(outcome, &rig.tree);
    assert!(applied.is_empty() && !applied.obsolete.is_empty());
    applied.finish();
    drop((merge, node));
    assert_eq!(rig.tree.describe(), before);
    rig.check_files();
    rig.check_reads(&mut random, 100);
}

/// An old tree stays readable while it is referenced, and its files are removed with its last reference.
#[test]
fn an_old_tree_stays_readable() {
    let mut rig = Rig::new(small_options(16 << 10));
    let mut random = Random(23);
    rig.incorporate(writes(&mut random, 300, 500));
    let old = rig.tree.clone();
    let files = rig.state.branches.len();
    rig.checks = false;
    for _ in 0..30 {
        rig.incorporate(writes(&mut random, 300, 500));
        rig.work();
    }
    let mut cursor = old.cursor();
    drop(old);
    cursor.seek_first().unwrap();
    let mut seen = 0;
    while cursor.valid() {
        assert!(cursor.entry().number.0 <= 300);
        seen += 1;
        cursor.next().unwrap();
    }
    assert!(seen > 100 && files > 0);
    drop(cursor);
    rig.check_files();
}

/// Two jobs never claim the same bundles.
#[test]
fn a_claim_holds_until_the_job_is_dropped() {
    let mut rig = Rig::new(small_options(16 << 10));
    let mut random = Random(24);
    rig.incorporate(writes(&mut random, 2000, 100_000_000));
    let first = rig.trunk.pick(&rig.tree, &rig.retention()).unwrap();
    let text = first.to_string();
    let others: Vec<Job> = std::iter::from_fn(|| rig.trunk.pick(&rig.tree, &rig.retention())).collect();
    assert!(others.iter().all(|job| job.to_string() != text));
    drop(first);
    assert_eq!(rig.trunk.pick(&rig.tree, &rig.retention()).unwrap().to_string(), text);
    drop(others);
    assert_eq!(rig.trunk.running(), 0);
}

/// A job that fails releases its claim and leaves no file.
#[test]
fn a_failed_job_leaves_nothing() {
    let mut rig = Rig::new(small_options(16 << 10));
    let mut random = Random(25);
    rig.incorporate(writes(&mut random, 3000, 1000));
    for _ in 0..10 {
        rig.incorporate(writes(&mut random, 300, 1000));
    }
    let job = loop {
        let Some(job) = rig.trunk.pick(&rig.tree, &rig.retention()) else {
            rig.incorporate(writes(&mut random, 300, 1000));
            continue;
        };
        if job.to_string().starts_with("merge") {
            break job;
        }
        rig.finish(&job);
    };
    for nth in 1..7 {
        rig.disk.inject(&format!("(write,sync nth={nth}) -> eio"));
        let result = rig.trunk.run(&job, &rig.tree, &rig.retention(), &AtomicBool::new(false));
        rig.disk.clear_faults();
        drop(result);
        rig.remove_obsolete_files();
    }
    let text = job.to_string();
    drop(job);
    rig.check_files();
    let job = rig.trunk.pick(&rig.tree, &rig.retention()).unwrap();
    assert_eq!(job.to_string(), text);
    rig.finish(&job);
    drop(job);
    rig.work();
    rig.check_reads(&mut random, 100);
}
