//! Joins of nodes that deletes have left with little data: their effect on the structure, as text in `goldens/`, data
//! that must not become live again, and how often they happen.

use super::goldens::compare;
use super::rig::{AnyWrite, Random, Rig, Write, number_key, small_options};
use crate::disk::runs::requested_range::RequestedRange;
use crate::disk::trunk::jobs::change::{Change, NodeRange};
use crate::disk::trunk::tree::empty_overlaps::{EmptyOverlaps, SplitPlan};
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::{Job, Outcome, TrunkOptions};
use crate::util::sync::AtomicBool;

fn puts(numbers: impl Iterator<Item = u64>) -> Vec<Write> {
    numbers.map(|number| (number_key(number), Some(vec![number as u8; 100]))).collect()
}

fn deletes(numbers: impl Iterator<Item = u64>) -> Vec<Write> {
    numbers.map(|number| (number_key(number), None)).collect()
}

fn incorporate(rig: &mut Rig, writes: Vec<AnyWrite>) {
    let outcome = rig.incorporation_of(writes);
    rig.apply(outcome);
}

fn apply(rig: &mut Rig, change: Change) {
    rig.apply(Outcome::of(change, None));
}

fn flush(rig: &mut Rig, at: usize) {
    let root = rig.tree.root().clone();
    let (range, child) = (NodeRange::of(&root), root.pivots[at].child.id);
    apply(rig, Change::Flush { range, child, empty_overlaps: EmptyOverlaps::default(), runs_max: usize::MAX });
}

fn split(rig: &mut Rig, leaf: &Node, numbers: &[u64]) {
    let keys = numbers.iter().map(|number| number_key(*number)[..].into()).collect();
    apply(rig, Change::Split { range: NodeRange::of(leaf), split: SplitPlan { keys, ..SplitPlan::default() } });
}

/// Merges all that a child of the root holds.
fn merge(rig: &mut Rig, at: usize) {
    let leaf = rig.tree.root().pivots[at].child.clone();
    let (lower, upper) = (leaf.lower.to_vec(), leaf.upper.as_ref().map(|upper| upper.to_vec()));
    let wanted = RequestedRange { lower, upper, clean: true, ..RequestedRange::ALL };
    while let Some(job) = rig.trunk.pick_requested(&rig.tree, &wanted, &rig.retention()) {
        assert!(job.to_string().starts_with("merge"), "{job}");
        rig.finish(&job);
    }
}

/// Does all due work, including the removal of garbage, as `Db::compact_range` does. Returns the jobs as text.
fn settle(rig: &mut Rig) -> Vec<String> {
    let mut done = rig.work();
    let wanted = RequestedRange { clean: true, ..RequestedRange::ALL };
    while let Some(job) = rig.trunk.pick_requested(&rig.tree, &wanted, &rig.retention()) {
        done.push(job.to_string());
        rig.finish(&job);
    }
    done.extend(rig.work());
    done
}

fn nodes(rig: &Rig) -> u64 {
    rig.tree.figures().levels.iter().map(|level| level.nodes).sum()
}

#[test]
fn joins_after_most_keys_are_deleted() {
    let mut rig = Rig::new(TrunkOptions { fanout: 3, ..small_options(32 << 10) });
    for round in 0..12 {
        rig.incorporate(puts(round * 400..(round + 1) * 400));
        rig.work();
    }
    let mut text = format!("loaded\n{}", rig.tree.describe());
    rig.incorporate(deletes((0..4_800).filter(|number| number % 60 != 0)));
    for job in settle(&mut rig).iter().filter(|job| job.starts_with("join")) {
        text += &format!("{job}\n");
    }
    compare("join", &(text + &rig.tree.describe()));
    rig.check_files();
    rig.check_reads(&mut Random(1), 200);
    rig.reopen();
}

/// Two leaves refer to one file after a split. Everything in the right leaf's part was deleted and merged away,
/// tombstones included. The left leaf still uses the file. A joined leaf that referred to the file would show deleted
/// keys again.
#[test]
fn what_is_dead_in_a_shared_file_stays_dead() {
    let mut rig = Rig::new(small_options(256 << 10));
    rig.incorporate(puts(0..600));
    let leaf = rig.tree.root().clone();
    split(&mut rig, &leaf, &[300]);
    drop(leaf);
    rig.incorporate(deletes(300..600));
    flush(&mut rig, 1);
    merge(&mut rig, 1);
    assert!(rig.tree.root().pivots[1].child.bundles.is_empty(), "{}", rig.tree.describe());
    let shared = rig.tree.root().pivots[0].child.branches().map(|branch| branch.meta().key_max.clone()).max();
    assert!(shared > Some(number_key(300)), "no file extends past the bound");
    let jobs = rig.work();
    assert!(jobs.iter().any(|job| job.starts_with("join nodes 1 ")), "{jobs:?}");
    assert_eq!(rig.tree.root().height, 0, "{}", rig.tree.describe());
    let shown = (300..600).filter(|number| rig.get(&number_key(*number), u64::MAX).is_some()).count();
    assert_eq!(shown, 0, "deleted keys show again");
    assert_eq!(rig.tree.root().totals.entries, 300);
    rig.check_files();
    rig.check_reads(&mut Random(2), 300);
    rig.reopen();
}

/// A bundle of the parent is active for the left leaf only: the right one got its part and has deleted it since. The
/// bundle is flushed before the join. *Otherwise:* it becomes active for both, and shows deleted keys again.
#[test]
fn data_for_one_leaf_is_flushed_before_a_join() {
    let mut rig = Rig::new(small_options(64 << 10));
    // The data of the third leaf keeps the root from being full, which would be a reason to flush it.
    rig.incorporate(puts((0..600).step_by(30).chain(600..1_400)));
    let leaf = rig.tree.root().clone();
    split(&mut rig, &leaf, &[300, 600]);
    drop(leaf);
    rig.incorporate(puts((0..600).step_by(20)));
    flush(&mut rig, 1);
    rig.incorporate(deletes(300..600));
    flush(&mut rig, 1);
    merge(&mut rig, 1);
    let root = rig.tree.root().clone();
    let waits = |at: usize| !root.slots[at].runs.is_empty();
    assert!(waits(0) && !waits(1), "{}", rig.tree.describe());
    let bundle = &root.bundles[root.pivots[0].first_active];
    assert!(bundle.branches.iter().any(|branch| branch.meta().key_max > number_key(300)));
    let jobs = rig.work();
    let at = |what: &str| jobs.iter().position(|job| job.starts_with(what)).expect(what);
    assert!(at("flush node") < at("join nodes"), "{jobs:?}");
    assert_eq!(rig.tree.root().slot_upper(0).map(|upper| upper.to_vec()), Some(number_key(600)));
    assert_eq!(rig.get(&number_key(400), u64::MAX), None);
    drop(root);
    rig.check_files();
    rig.check_reads(&mut Random(3), 300);
}

/// Data that is active for both leaves at their parent need not be flushed before the join.
#[test]
fn data_for_both_leaves_stays_at_the_parent_in_a_join() {
    // The parent may hold more than it has here, so it is not flushed for its size.
    let mut rig = Rig::new(TrunkOptions { node_percent_of_below: 50, ..small_options(64 << 10) });
    rig.incorporate(puts((0..600).step_by(30)));
    let leaf = rig.tree.root().clone();
    split(&mut rig, &leaf, &[200, 400]);
    drop(leaf);
    // Enough data that the third leaf is not joined.
    rig.incorporate(puts(400..1_000));
    flush(&mut rig, 2);
    rig.incorporate(puts((0..400).step_by(50)));
    let jobs = rig.work();
    assert_eq!(jobs.iter().filter(|job| job.starts_with("join nodes 1 ")).count(), 1, "{jobs:?}");
    assert!(!jobs.iter().any(|job| job.ends_with(" to 1")), "{jobs:?}");
    assert!(!rig.tree.root().slots[0].runs.is_empty(), "{}", rig.tree.describe());
    rig.reopen();
    rig.check_reads(&mut Random(4), 300);
}

/// The first job that is a join. Executes the jobs before it.
fn next_join(rig: &mut Rig) -> Job {
    loop {
        let job = rig.trunk.pick(&rig.tree, &rig.retention()).expect("a join");
        if job.to_string().starts_with("join") {
            return job;
        }
        rig.finish(&job);
    }
}

/// While two leaves are joined, their parent is split between them, because a neighbour became too large. The outcome
/// is useless and its file becomes obsolete. Afterwards the leaves are joined if that is still possible.
#[test]
fn a_parent_is_split_between_the_leaves_that_are_joined() {
    let mut rig = Rig::new(TrunkOptions { fanout: 4, ..small_options(256 << 10) });
    rig.incorporate(puts((0..600).chain((600..900).step_by(30)).chain(900..1500)));
    let leaf = rig.tree.root().clone();
    split(&mut rig, &leaf, &[600, 750, 900]);
    drop(leaf);
    let children = rig.tree.root().pivots.iter().map(|pivot| pivot.child.id.0).collect::<Vec<_>>();
    let job = next_join(&mut rig);
    assert_eq!(job.to_string(), format!("join nodes {} {}", children[1], children[2]), "{}", rig.tree.describe());
    let outcome = rig.trunk.run(&job, &rig.tree, &rig.retention(), &AtomicBool::new(false)).unwrap();
    let last = rig.tree.root().pivots[3].child.clone();
    split(&mut rig, &last, &[1_200]);
    drop(last);
    assert_eq!(rig.tree.root().height, 2, "{}", rig.tree.describe());
    let before = rig.tree.describe();
    let applied = rig.trunk.apply(outcome, &rig.tree);
    assert!(applied.is_empty() && applied.obsolete.len() == 1, "{applied:?}");
    applied.finish();
    drop(job);
    assert_eq!(rig.tree.describe(), before);
    rig.check_files();
    rig.work();
    rig.check_files();
    rig.check_reads(&mut Random(5), 300);
}

/// During a join nothing is flushed to either leaf, however full the parent is, and neither is merged or split.
#[test]
fn nothing_is_flushed_to_leaves_that_are_being_joined() {
    let mut rig = Rig::new(TrunkOptions { fanout: 4, ..small_options(16 << 10) });
    rig.incorporate(puts((0..600).step_by(30).chain(600..1200)));
    let leaf = rig.tree.root().clone();
    split(&mut rig, &leaf, &[300, 600]);
    drop(leaf);
    (0..3).for_each(|at| merge(&mut rig, at));
    let job = next_join(&mut rig);
    let outcome = rig.trunk.run(&job, &rig.tree, &rig.retention(), &AtomicBool::new(false)).unwrap();
    for round in 0..12 {
        rig.incorporate(puts((0..600).step_by(3).map(|number| (number + round) % 600)));
        while let Some(other) = rig.trunk.pick(&rig.tree, &rig.retention()) {
            let text = other.to_string();
            assert!(!text.ends_with(" to 1") && !text.ends_with(" to 2") && !text.contains("leaf"), "{text}");
            rig.finish(&other);
        }
    }
    rig.apply(outcome);
    drop(job);
    assert_eq!(rig.tree.root().pivots.len(), 2, "{}", rig.tree.describe());
    rig.work();
    rig.check_files();
    rig.check_reads(&mut Random(6), 300);
}

/// Stretches of keys are loaded, and deleted by deletes and range deletes, under snapshots, while jobs run concurrently
/// and end in any order.
fn waves(seed: u64, fanout: usize) -> (Rig, usize) {
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut rig = Rig::new(TrunkOptions { fanout, ..small_options(16 << 10) });
    let mut running: Vec<(Job, Option<Outcome>)> = Vec::new();
    let mut joins = 0;
    for step in 0..1800 {
        match random.below(8) {
            0 => {
                let from = random.next() % 6_000;
                let count = 100 + random.next() % 400;
                let is_load = (step / 150) % 2 == 0;
                let writes: Vec<AnyWrite> = if is_load {
                    let put = |_| AnyWrite::Put(number_key(random.next() % 6_000), vec![7; 20 + random.below(100)]);
                    (0..count).map(put).collect()
                } else if random.below(3) == 0 {
                    vec![AnyWrite::RangeDelete(number_key(from), number_key(from + 4 * count))]
                } else {
                    (from..from + 2 * count).map(|number| AnyWrite::Delete(number_key(number))).collect()
                };
                incorporate(&mut rig, writes);
            }
            1..=3 if running.len() < 6 => {
                running.extend(rig.trunk.pick(&rig.tree, &rig.retention()).map(|job| (job, None)))
            }
            4 if !running.is_empty() => {
                let at = random.below(running.len());
                let (job, outcome) = &mut running[at];
                if outcome.is_none() {
                    let cancel = AtomicBool::new(step % 11 == 0);
                    *outcome = Some(rig.trunk.run(job, &rig.tree, &rig.retention(), &cancel).unwrap());
                }
            }
            5 | 6 if !running.is_empty() => {
                let (job, outcome) = running.swap_remove(random.below(running.len()));
                let run = || rig.trunk.run(&job, &rig.tree, &rig.retention(), &AtomicBool::new(false)).unwrap();
                let outcome = outcome.unwrap_or_else(run);
                let before = nodes(&rig);
                rig.apply(outcome);
                joins += usize::from(job.to_string().starts_with("join") && nodes(&rig) < before);
            }
            7 if random.below(6) == 0 => drop(rig.pins.insert(rig.last)),
            7 if random.below(4) == 0 => drop(rig.pins.pop_first()),
            7 if random.below(10) == 0 => {
                running.clear();
                rig.reopen();
            }
            _ => {}
        }
        if step % 100 == 0 && rig.last > 0 {
            rig.check_reads(&mut random, 20);
        }
    }
    running.clear();
    joins += rig.work().iter().filter(|job| job.starts_with("join")).count();
    rig.check_files();
    rig.check_reads(&mut random, 200);
    rig.reopen();
    (rig, joins)
}

#[test]
fn loads_and_deletes_with_jobs_in_any_order() {
    for (seed, fanout) in [(74, 3), (72, 4), (73, 8)] {
        let (_, joins) = waves(seed, fanout);
        assert!(joins >= 5, "only {joins} joins");
    }
}

/// Loads and deletes the same keys again and again. A cycle joins about as many nodes as it split, and ends: no split
/// undoes a join, and no join a split.
#[test]
fn repeated_loads_and_deletes_split_and_join_a_bounded_number_of_times() {
    let mut rig = Rig::new(small_options(16 << 10));
    rig.checks = false;
    let mut counts = Vec::new();
    for _ in 0..4 {
        let before = rig.trunk.written();
        let mut nodes_max = 0;
        for round in 0..10 {
            rig.incorporate(puts((0..400).map(|at| at * 10 + round)));
            rig.work();
            nodes_max = nodes_max.max(nodes(&rig));
        }
        assert!(nodes_max > 6, "{nodes_max} nodes");
        for round in 0..10 {
            rig.incorporate(deletes((0..400).map(|at| at * 10 + round).filter(|number| number % 97 != 0)));
            rig.work();
        }
        settle(&mut rig);
        let after = rig.trunk.written();
        let (splits, joins) = (after.splits - before.splits, after.joins - before.joins);
        // A join that is split again removes one node less than it joins.
        let is_bounded = splits <= nodes_max && joins <= 2 * nodes_max;
        assert!(is_bounded, "{splits} splits and {joins} joins, {nodes_max} nodes at most");
        assert!(joins > 0 && nodes(&rig) <= 3, "{joins} joins left\n{}", rig.tree.describe());
        counts.push((splits, joins));
    }
    println!("splits and joins of each cycle: {counts:?}");
    rig.check_files();
    rig.check_reads(&mut Random(8), 300);
}

/// A store that only grows, or whose keys are overwritten, has no nodes to join but those from when it was much
/// smaller.
#[test]
fn growing_and_overwriting_need_few_joins() {
    for is_random in [false, true] {
        let mut rig = Rig::new(small_options(16 << 10));
        rig.checks = false;
        let mut random = Random(9);
        for round in 0..30 {
            let at = |number: u64| if is_random { random.next() % 100_000_000 } else { round * 400 + number };
            let numbers: Vec<u64> = (0..400).map(at).collect();
            rig.incorporate(puts(numbers.into_iter()));
            rig.work();
        }
        let grown = rig.trunk.written();
        assert!(grown.joins <= 2, "{} joins and {} splits, random: {is_random}", grown.joins, grown.splits);
        for round in 0..10 {
            rig.incorporate(puts((0..400).map(|at| (at * 7 + round * 131) % 12_000)));
            rig.work();
        }
        assert!(rig.trunk.written().joins <= grown.joins + 1);
    }
}

/// A store that is emptied, by single deletes or by one range delete, ends as one leaf without a file.
#[test]
fn an_emptied_store_is_one_leaf_without_files() {
    for (by_range, fanout) in [(false, 3), (true, 3), (false, 8), (true, 8)] {
        let mut rig = Rig::new(TrunkOptions { fanout, ..small_options(16 << 10) });
        for round in 0..25 {
            rig.incorporate(puts((0..400).map(|at| at * 25 + round)));
            rig.work();
        }
        let height = rig.tree.root().height;
        assert!(height >= 1, "{}", rig.tree.describe());
        if by_range {
            incorporate(&mut rig, vec![AnyWrite::RangeDelete(number_key(0), number_key(10_000))]);
        } else {
            (0..25).for_each(|round| rig.incorporate(deletes((0..400).map(|at| at * 25 + round))));
        }
        settle(&mut rig);
        let figures = rig.tree.figures();
        assert!(figures.levels.len() == 1 && figures.files == 0, "{by_range} {fanout}\n{}", rig.tree.describe());
        rig.check_files();
        rig.reopen();
        rig.incorporate(puts(0..400));
        rig.work();
        rig.check_reads(&mut Random(10), 100);
    }
}
