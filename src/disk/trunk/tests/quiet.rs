//! Quiet times: what is rewritten for readers, and that it never costs more than the credit.

use super::rig::{Random, Rig, Write, number_key, small_options};
use crate::disk::trunk::TrunkOptions;
use crate::disk::trunk::jobs::job::Purpose;
use crate::disk::trunk::tree::node::Node;
use crate::merge::Cursor;
use crate::util::SequenceNumber;

/// Random puts of one Memtable.
fn puts(random: &mut Random, count: usize) -> Vec<Write> {
    (0..count).map(|_| (number_key(random.next() % 1_000_000), Some(vec![1; 100]))).collect()
}

/// A tree with several runs on every path.
fn rig(quiet_percent: u64) -> Rig {
    let mut rig = Rig::new(TrunkOptions { quiet_percent, ..small_options(64 << 10) });
    rig.checks = false;
    let mut random = Random(3);
    for _ in 0..10 {
        rig.incorporate(puts(&mut random, 600));
        rig.work();
    }
    rig.checks = true;
    rig
}

/// Does the work for quiet times, and what becomes due by its merges, as background work does. Returns the jobs as text.
fn work_when_quiet(rig: &mut Rig) -> Vec<String> {
    let mut done = Vec::new();
    while let Some(job) = rig.trunk.pick_when_quiet(&rig.tree) {
        assert!(done.len() < 1000, "work does not end: {:?}", &done[980..]);
        done.push(job.to_string());
        if let Some(charge) = job.charge() {
            rig.apply(charge);
        }
        rig.finish(&job);
        drop(job);
        if !done.last().is_some_and(|job| job.starts_with("flush")) {
            rig.work();
        }
    }
    done
}

/// The most runs that a search meets on a path from the root to a leaf.
fn runs_of_searches(rig: &Rig) -> usize {
    fn at_and_below(node: &Node) -> usize {
        let own = |at: usize| node.slots[at].runs.len();
        let below = |at: usize| own(at) + at_and_below(&node.pivots[at].child);
        (0..node.pivots.len()).map(below).max().unwrap_or_else(|| own(0))
    }
    at_and_below(rig.tree.root())
}

#[test]
fn with_enough_credit_a_search_meets_two_runs() {
    let mut rig = rig(1000);
    let before = runs_of_searches(&rig);
    let done = work_when_quiet(&mut rig);
    let count = |kind: &str| done.iter().filter(|job| job.starts_with(kind)).count();
    assert!(count("flush") > 0 && count("merge") > 0 && done.len() == count("flush") + count("merge"), "{done:?}");
    let after = runs_of_searches(&rig);
    assert!(before > 4 && after <= 2, "{after} runs after, {before} before: {}", rig.tree.describe());
    rig.check_reads(&mut Random(8), 300);
    rig.reopen();
    assert!(work_when_quiet(&mut rig).is_empty(), "the same data is rewritten again");
}

/// A store that is written again and again with quiet times between.
#[test]
fn the_credit_limits_what_is_rewritten_over_the_life_of_a_store() {
    let mut rig = Rig::new(TrunkOptions { quiet_percent: 50, ..small_options(64 << 10) });
    rig.checks = false;
    let (mut random, mut rewritten, mut rounds) = (Random(7), 0, 0);
    for round in 0..50 {
        rig.incorporate(puts(&mut random, 600));
        rig.work();
        rounds += usize::from(!work_when_quiet(&mut rig).is_empty());
        let credit = rig.tree.credit();
        assert!(credit.user_bytes <= rig.user_bytes, "{credit:?}, but users wrote {}", rig.user_bytes);
        let written = rewritten + rig.trunk.written().quiet_compacted_bytes;
        assert!(written <= credit.quiet_bytes, "{written} bytes were rewritten, {credit:?}");
        assert!(credit.quiet_bytes <= credit.user_bytes / 2, "{credit:?} in round {round}");
        if round % 10 == 9 {
            rewritten = written;
            rig.reopen();
            assert_eq!(rig.tree.credit(), credit, "after an opening");
        }
    }
    let part = rewritten as f64 / rig.user_bytes as f64;
    assert!(part > 0.2 && rounds > 10, "{part} of what users wrote was rewritten, in {rounds} rounds");
    rig.check_reads(&mut Random(9), 300);
}

/// A crash in the middle of a merge: what it had written counts, so that a store that crashes again and again does not
/// write without bound.
#[test]
fn a_merge_that_does_not_end_stays_charged() {
    let mut rig = rig(1000);
    let left = rig.tree.credit_left();
    let job = loop {
        let job = rig.trunk.pick_when_quiet(&rig.tree).unwrap();
        let Some(charge) = job.charge() else {
            rig.finish(&job);
            continue;
        };
        rig.apply(charge);
        break job;
    };
    let (charged, bytes) = (rig.tree.credit(), job.scope().load.bytes);
    assert!(charged.quiet_bytes > bytes && rig.tree.credit_left() < left - bytes, "{charged:?}");
    drop(job);
    rig.reopen();
    assert_eq!(rig.tree.credit(), charged);
    // One that ends gives back what it did not write.
    let job = rig.trunk.pick_when_quiet(&rig.tree).unwrap();
    rig.apply(job.charge().unwrap());
    rig.finish(&job);
    let merged = rig.trunk.written().quiet_compacted_bytes;
    let Purpose::Quiet(cost) = job.purpose else { panic!("{job}") };
    assert!(
        merged > 0 && rig.tree.credit().quiet_bytes == charged.quiet_bytes + merged + cost.maplet,
        "{merged} bytes after {charged:?}"
    );
}

#[test]
fn leaves_that_are_searched_most_come_first() {
    let first_merge = |key: u64| {
        let mut rig = rig(1000);
        let mut cursor = rig.tree.cursor();
        for _ in 0..100 {
            cursor.seek(&number_key(key), SequenceNumber::MAX).unwrap();
        }
        drop(cursor);
        loop {
            let job = rig.trunk.pick_when_quiet(&rig.tree).unwrap();
            let scope = job.scope();
            if job.charge().is_some() {
                let key = number_key(key);
                return *scope.lower <= key[..] && scope.upper.is_none_or(|upper| key[..] < *upper);
            }
            rig.finish(&job);
        }
    };
    for key in [1000, 500_000, 900_000] {
        assert!(first_merge(key), "the leaf of key {key} was searched, and another one was merged");
    }
}

#[test]
fn without_credit_nothing_is_rewritten() {
    let mut rig = rig(0);
    assert!(runs_of_searches(&rig) > 4);
    assert!(work_when_quiet(&mut rig).is_empty());
}
