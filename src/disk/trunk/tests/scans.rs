//! Merges for scans happen once scans have paid for them, and not before.

use super::rig::{Random, Rig, Write, number_key, small_options};
use crate::disk::runs::jobs::claims::Claims;
use crate::disk::trunk::jobs::change::{Change, NodeRange, Outcome};
use crate::disk::trunk::jobs::claim::Claim;
use crate::disk::trunk::jobs::job::Purpose;
use crate::disk::trunk::plan::choice::Choice;
use crate::disk::trunk::tree::empty_overlaps::SplitPlan;
use crate::disk::trunk::tree::merge_range;
use crate::disk::trunk::tree::scan_cost::BYTES_PER_UNIT;
use crate::disk::trunk::{Job, TrunkOptions};
use crate::io::simulated::Operation;
use crate::merge::{Cursor, EntryRef, Limit};
use crate::util::SequenceNumber;
use crate::util::sync::Arc;
use std::ops::ControlFlow;

/// A tree with several runs on every path.
fn rig() -> Rig {
    let mut rig = Rig::new(small_options(64 << 10));
    rig.checks = false;
    let mut random = Random(3);
    for _ in 0..10 {
        let keys = (0..600).map(|_| random.next() % 1_000_000);
        let writes: Vec<Write> = keys.map(|key| (number_key(key), Some(vec![1; 100]))).collect();
        rig.incorporate(writes);
        rig.work();
    }
    rig.incorporate((0..20).map(|at| (number_key(at * 50_000), Some(vec![3; 100]))).collect());
    rig.checks = true;
    rig
}

/// Searches for this many keys below `limit`.
fn seek(rig: &Rig, count: u64, limit: u64) {
    let mut cursor = rig.tree.cursor();
    for at in 0..count {
        cursor.seek(&number_key(at * 7919 % limit), SequenceNumber::MAX).unwrap();
    }
}

/// Does the work that scans have paid for. Returns the jobs as text.
fn work_for_scans(rig: &mut Rig) -> Vec<String> {
    let mut done = Vec::new();
    while let Some(job) = rig.trunk.pick_for_scans(&rig.tree) {
        done.push(job.to_string());
        rig.finish(&job);
        assert!(done.len() < 1000, "work does not end: {:?}", &done[980..]);
    }
    done
}

#[test]
fn only_the_leaf_that_scans_paid_for_is_merged() {
    let mut rig = rig();
    assert!(work_for_scans(&mut rig).is_empty(), "work for scans before any scan");
    seek(&rig, 20, 1000);
    assert!(work_for_scans(&mut rig).is_empty(), "a merge for only twenty searches");
    let whole = rig.tree.bytes();
    seek(&rig, 5000, 1000);
    let done = work_for_scans(&mut rig);
    assert!(
        done.iter().any(|job| job.starts_with("flush")) && done.iter().any(|job| job.starts_with("merge")),
        "{done:?}"
    );
    let rewritten = rig.trunk.written().scan_compacted_bytes;
    assert!(
        rewritten > 0 && rewritten < whole / 2,
        "{rewritten} of {whole} bytes rewritten, but only one leaf was scanned: {done:?}"
    );
    seek(&rig, 50_000, 1000);
    assert!(work_for_scans(&mut rig).is_empty(), "work for scans on a single run");
    rig.check_reads(&mut Random(8), 100);
}

/// Scans of an uncached tree read the first leaf and what follows it in one read, once a few scans have shown their
/// length.
#[test]
fn scans_size_their_first_read_by_earlier_scans() {
    let mut rig = Rig::new(small_options(1 << 20));
    let writes = (0..20_000).map(|at| (number_key(at * 50), Some(vec![1; 100])));
    rig.incorporate(writes.collect());
    rig.work();
    let scan = |steps: usize, at: u64| {
        // Each scan starts with only the index pages in the cache.
        for branch in rig.tree.branches() {
            rig.context.cache.remove_file(branch.meta().file);
        }
        let mut cursor = rig.tree.cursor();
        cursor.seek(&number_key(at * 50), SequenceNumber::MAX).unwrap();
        let before = rig.disk.operation_count(Operation::Read);
        for _ in 0..steps {
            cursor.next().unwrap();
        }
        rig.disk.operation_count(Operation::Read) - before
    };
    let first = scan(60, 1900);
    let later: u64 = (0..40).map(|at| scan(60, 100 + at * 450)).skip(30).sum();
    assert!(first >= 1, "the first scan read everything at once although it had no estimate");
    assert!(later <= 3, "{later} more reads in ten scans: only a scan at the end of a file needs a second read");
}

/// Merges process no more than what scans have paid for before, however often new runs come.
#[test]
fn merges_for_scans_process_no_more_than_scans_have_paid_for() {
    let mut rig = rig();
    let (mut random, mut paid) = (Random(5), 0);
    let units = |rig: &Rig| leaves(rig).iter().map(|(units, _)| units).sum::<u64>();
    for _ in 0..20 {
        let before = units(&rig);
        seek(&rig, 300, 1_000_000);
        paid += units(&rig) - before;
        work_for_scans(&mut rig);
        let keys = (0..60).map(|_| random.next() % 1_000_000);
        let writes: Vec<Write> = keys.map(|key| (number_key(key), Some(vec![2; 100]))).collect();
        rig.incorporate(writes);
        rig.work();
    }
    let rewritten = rig.trunk.written().scan_compacted_bytes;
    assert!(rewritten > 0 && rewritten < paid * BYTES_PER_UNIT, "{rewritten} bytes for {paid} units");
    rig.check_reads(&mut Random(9), 100);
}

/// The scans' units of every leaf, and its entries.
fn leaves(rig: &Rig) -> Vec<(u64, u64)> {
    let mut leaves = Vec::new();
    rig.tree.visit(&mut |node| leaves.extend(node.is_leaf().then(|| (node.scans.units(), node.active.entries))));
    leaves
}

/// Scans everything, row by row or as users' scans do.
fn scan(rig: &Rig, by_pass: bool) {
    let mut cursor = rig.tree.cursor();
    cursor.seek(&[], SequenceNumber::MAX).unwrap();
    while cursor.valid() {
        if by_pass {
            let mut left = 64;
            let mut count = |_: EntryRef<'_>| {
                left -= 1;
                if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let flow = cursor.pass(Limit::NONE, &mut count).unwrap();
            assert!(flow.is_break() || !cursor.valid());
        } else {
            cursor.next().unwrap();
        }
    }
}

/// Rows that take turns between runs cost scans more than a search does, and each leaf is charged for its own.
#[test]
fn turns_between_runs_are_charged_to_their_leaf() {
    for by_pass in [false, true] {
        let mut rig = rig();
        scan(&rig, by_pass);
        let charged = leaves(&rig);
        assert!(charged.len() > 1, "{}", rig.tree.describe());
        for (units, entries) in charged {
            // Ten turns are a unit (`tree/scan_cost.rs`). There are no more turns than rows; the search, and rows from
            // above the leaf, come on top. Of two runs at random, half of the rows or more are turns.
            assert!(units >= entries / 40 && units < entries / 8 + 30, "{units} units for {entries} entries");
        }
        let mut scans = 0;
        while work_for_scans(&mut rig).is_empty() {
            scan(&rig, by_pass);
            scans += 1;
            assert!(scans < 1000, "scans never pay for a merge: {:?}", leaves(&rig));
        }
        for _ in 0..1000 {
            scan(&rig, by_pass);
            work_for_scans(&mut rig);
        }
        // They have paid for one run in each leaf, which costs nothing.
        let before = leaves(&rig);
        scan(&rig, by_pass);
        assert_eq!(leaves(&rig), before, "{}", rig.tree.describe());
        rig.check_reads(&mut Random(7), 100);
    }
}

/// Regression test: rows were once charged by the number of runs alone. A second run of a single entry then made scans of
/// everything else pay for a merge of the leaf.
#[test]
fn a_run_with_next_to_nothing_costs_rows_nothing() {
    let mut rig = Rig::new(TrunkOptions { leaf_bytes_min: 4 << 20, ..small_options(1 << 20) });
    rig.incorporate((0..3000).map(|at| (number_key(at * 50), Some(vec![1; 100]))).collect());
    rig.incorporate(vec![(number_key(75_001), Some(vec![2; 100]))]);
    let runs: usize = rig.tree.root().runs();
    assert_eq!((leaves(&rig).len(), runs), (1, 2), "{}", rig.tree.describe());
    for by_pass in [false, true] {
        let before = leaves(&rig)[0].0;
        scan(&rig, by_pass);
        // One search in a second run; two turns are less than a unit.
        assert_eq!(leaves(&rig)[0].0, before + 1);
    }
}

/// A root that is a leaf of six runs, for which scans have paid about as much as a merge of `part` of it costs.
fn paid_leaf(part: f64) -> Rig {
    let mut rig = Rig::new(TrunkOptions { leaf_bytes_min: 4 << 20, ..small_options(1 << 20) });
    let mut random = Random(6);
    for _ in 0..6 {
        let keys = (0..300).map(|_| random.next() % 1_000_000);
        rig.incorporate(keys.map(|key| (number_key(key), Some(vec![1; 100]))).collect());
    }
    assert!(rig.tree.root().is_leaf() && rig.tree.root().runs() == 6);
    while !rig.tree.root().scans.exceeds((rig.tree.bytes() as f64 * part) as u64) {
        seek(&rig, 10, 1_000_000);
    }
    rig
}

fn merge(rig: &Rig, range: std::ops::Range<usize>) -> Job {
    let choice = Choice::Merge(rig.tree.root().clone(), range);
    Job { claim: Arc::new(Claims::default()).take(Claim::of(&choice)).unwrap(), choice, purpose: Purpose::Needed }
}

/// Regression test: a merge of some runs of a leaf, or a split, once forgot what scans had paid for it. Beside writes
/// each new run led to one of these, so leaves that were scanned all the time were never merged for it.
#[test]
fn what_scans_have_paid_outlives_a_merge_of_some_runs_and_a_split() {
    let mut rig = paid_leaf(0.9);
    let (paid, merged) = (rig.tree.root().scans.units(), merge_range::load(rig.tree.root(), 4..6).bytes);
    let job = merge(&rig, 4..6);
    rig.finish(&job);
    drop(job);
    let left = rig.tree.root().scans.units();
    assert_eq!(left, paid - merged.div_ceil(BYTES_PER_UNIT), "{paid} units were paid and {merged} bytes merged");
    assert!(left > paid / 2);

    let range = NodeRange::of(rig.tree.root());
    let split = SplitPlan { keys: vec![number_key(500_000)[..].into()], ..SplitPlan::default() };
    rig.apply(Outcome::of(Change::Split { range, split }, None));
    let parts: Vec<u64> = rig.tree.root().pivots.iter().map(|pivot| pivot.child.scans.units()).collect();
    assert_eq!(parts, [left / 2; 2]);

    // Once the whole leaf is merged, a new count begins.
    let mut rig = paid_leaf(1.5);
    let job = merge(&rig, 0..6);
    rig.finish(&job);
    assert_eq!(rig.tree.root().scans.units(), 0);
}

/// While scans have paid for the whole, no time is spent on some of the runs.
#[test]
fn a_leaf_that_is_paid_for_is_merged_whole_by_ordinary_work() {
    let mut rig = paid_leaf(0.9);
    // Whether the leaf is large enough for a split is found first.
    while let Some(job) =
        rig.trunk.pick(&rig.tree, &rig.retention()).filter(|job| job.to_string().starts_with("sample"))
    {
        rig.finish(&job);
    }
    let next = |rig: &Rig| rig.trunk.pick(&rig.tree, &rig.retention()).map_or(String::new(), |job| job.to_string());
    assert!(next(&rig).starts_with("build maplet"), "{}", next(&rig));
    seek(&rig, 2000, 1_000_000);
    assert!(next(&rig).starts_with("merge"), "{}", next(&rig));
    rig.work();
    assert_eq!(rig.tree.root().runs(), 1, "{}", rig.tree.describe());
    rig.check_reads(&mut Random(9), 100);
}
