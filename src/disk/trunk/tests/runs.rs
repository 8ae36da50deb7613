//! Counting runs without grouping branches.

use super::rig::{Random, Rig, Write, number_key, small_options};
use crate::branch::Branch;
use crate::disk::runs::run::{count, group, runs_begun};
use crate::disk::trunk::plan::choice::Choice;
use crate::disk::trunk::{Job, Outcome, TrunkOptions};
use crate::format::manifest_edit::BranchMeta;
use crate::util::FileNumber;
use crate::util::sync::{Arc, AtomicBool};
use std::collections::VecDeque;

/// Regression: the picker counted the runs of all ranges of bundles one by one, in time cubic in the bundles. A small
/// store under load spent nine tenths of its processor time there.
#[test]
fn the_runs_of_neighbouring_bundles_are_a_sum() {
    let rig = Rig::new(small_options(4096));
    let mut random = Random(11);
    for _ in 0..300 {
        let mut branch = |file: u64| {
            let (min, max) = (random.below(30) as u8, random.below(8) as u8);
            let (key_min, key_max) = (vec![min], vec![min + max]);
            Branch::new(&rig.context, BranchMeta { file: FileNumber(file), key_min, key_max, ..BranchMeta::default() })
        };
        let sizes = [3, 1, 2, 4, 1, 1];
        let bundles: Vec<Vec<Arc<Branch>>> = sizes.map(|size| (0..size).map(&mut branch).collect()).into();
        let begun = runs_begun(bundles.iter().map(|bundle| &bundle[..]));
        for from in 0..bundles.len() {
            assert_eq!(count(&bundles[from]), group(&bundles[from]).len());
            for to in from + 1..=bundles.len() {
                let sum = begun[from].alone + begun[from + 1..to].iter().map(|next| next.after).sum::<usize>();
                let expected = group(bundles[from..to].iter().flatten()).len();
                assert_eq!(sum, expected, "{from}..{to} of {begun:?}");
            }
        }
    }
}

/// Regression: a thousand puts by a thousand processes left a file for each. In ascending order of keys these are one
/// run, which no merge touched; and once one did, it took them over by reference.
#[test]
fn many_tiny_files_are_merged_even_if_they_are_one_run() {
    for scatter in [1, 7919] {
        let mut rig = Rig::new(TrunkOptions::new(4 << 20));
        for number in 0..200 {
            rig.incorporate(vec![(number_key(number * scatter % 1009), Some(vec![1; 100]))]);
            rig.work();
        }
        let branches = rig.tree.branches().len();
        assert!(branches <= 16, "{branches} files of 200 pairs");
        assert!(rig.writes_per_entry() < 20.0, "an entry is written {} times", rig.writes_per_entry());
        rig.check_reads(&mut Random(3), 100);
    }
}

/// Regression: where merges were slower than writers, nodes had up to 57 runs, and 238 in a store with a tiny budget, since
/// the limit only ordered the work.
#[test]
fn no_node_exceeds_the_bound_on_its_runs() {
    let mut rig = Rig::new(small_options(4096));
    rig.checks = false;
    let (mut random, bound) = (Random(5), rig.tree.options().runs_bound);
    let (mut most, mut waits) = (vec![0; 4], 0);
    let mut look = |rig: &Rig| {
        rig.tree.visit(&mut |node| most[node.height as usize] = most[node.height as usize].max(node.runs()));
    };
    // Merges that have begun and not ended.
    let mut merges = VecDeque::new();
    let mut slow: Option<(usize, Job, Outcome)> = None;
    for round in 0..1000 {
        if let Some((_, job, outcome)) = slow.take_if(|(until, ..)| *until <= round) {
            rig.apply(outcome);
            drop(job);
            look(&rig);
        }
        // As the scheduler, which does not begin an incorporation at the bound.
        while rig.tree.root().runs() >= bound {
            waits += 1;
            let job = merges.pop_front().or_else(|| rig.trunk.pick(&rig.tree, &rig.retention()));
            rig.finish(&job.expect("nothing makes room"));
            look(&rig);
        }
        let write = |_| -> Write { (number_key(random.next() % 40_000), Some(vec![round as u8; 100])) };
        rig.incorporate((0..30).map(write).collect());
        look(&rig);
        while let Some(job) = rig.trunk.pick(&rig.tree, &rig.retention()) {
            if matches!(job.choice, Choice::Flush(..)) {
                // Some flushes are slow, so that others move runs into their node before they move theirs.
                if random.below(3) == 0 && slow.is_none() {
                    let (retention, never) = (rig.retention(), AtomicBool::new(false));
                    let outcome = rig.trunk.run(&job, &rig.tree, &retention, &never).unwrap();
                    slow = Some((round + 1 + random.below(6), job, outcome));
                    continue;
                }
                rig.finish(&job);
                look(&rig);
            } else if merges.len() < 2 {
                merges.push_back(job);
            } else {
                break;
            }
        }
        if round % 12 == 11
            && let Some(job) = merges.pop_front()
        {
            rig.finish(&job);
            look(&rig);
        }
    }
    assert!(waits > 0, "no incorporation waited, at most {most:?} runs by height");
    assert!(most.iter().all(|most| *most <= bound), "up to {most:?} runs by height, and {bound} are allowed");
    assert!(most[..2].iter().all(|most| *most > bound / 2), "up to {most:?} runs by height: merges kept up");
    drop(slow);
    merges.into_iter().for_each(|job| rig.finish(&job));
    rig.work();
    rig.check();
    rig.check_reads(&mut random, 100);
}
