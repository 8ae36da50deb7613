//! Space of overwritten data: the estimate of garbage, which leaves go first, and where part files end.

use super::rig::{Random, Rig, Write, number_key, small_options};
use crate::disk::runs::requested_range::RequestedRange;
use crate::disk::trunk::options::TrunkOptions;
use crate::disk::trunk::plan::choice::Choice;
use crate::disk::trunk::plan::policy;
use crate::disk::trunk::tree::newer_data;
use crate::disk::trunk::tree::node::Node;
use crate::util::sync::Arc;
use std::cell::Cell;

const BRANCH_BYTES: u64 = 64 << 10;
const ENTRIES_PER_BRANCH: u64 = BRANCH_BYTES / 105;
const KEYS: u64 = 12 * ENTRIES_PER_BRANCH;

/// Writes the entries of one Memtable with random keys from a range, and does all work.
fn write(rig: &mut Rig, random: &mut Random, keys: std::ops::Range<u64>) {
    let width = keys.end - keys.start;
    let write = |_| -> Write { (number_key(keys.start + random.next() % width), Some(vec![random.next() as u8; 100])) };
    let writes = (0..ENTRIES_PER_BRANCH).map(write).collect();
    rig.incorporate(writes);
    rig.work();
}

fn rig() -> Rig {
    let mut rig = Rig::new(small_options(BRANCH_BYTES));
    rig.checks = false;
    rig
}

#[test]
fn merges_measure_the_garbage_of_a_tree() {
    let (mut rig, mut random) = (rig(), Random(1));
    for _ in 0..40 {
        write(&mut rig, &mut random, 0..u64::MAX);
    }
    let all = rig.tree.bytes();
    let mut newer = 0;
    rig.tree.visit(&mut |node| newer += newer_data::newer(node).bytes);
    let known = rig.tree.garbage();
    assert!(
        newer > all / 8 && known < all / 20,
        "a load overwrites almost nothing, but {known} bytes are estimated: {newer} newer, {all} in all"
    );
    // A small part of it is overwritten again and again. That is no information about the rest.
    for _ in 0..60 {
        write(&mut rig, &mut random, 0..KEYS);
    }
    let (known, all) = (rig.tree.garbage(), rig.tree.bytes());
    assert!(known > 0 && known < all / 4, "{known} of {all} bytes");
}

#[test]
fn garbage_of_uniform_overwrites_is_estimated_well() {
    let (mut rig, mut random) = (rig(), Random(4));
    for _ in 0..60 {
        write(&mut rig, &mut random, 0..KEYS);
    }
    let (mut known, mut real) = (0, 0);
    for _ in 0..40 {
        write(&mut rig, &mut random, 0..KEYS);
        known += rig.tree.garbage();
        let entries = rig.tree.root().totals.entries;
        real += rig.tree.bytes() * (entries - rig.expected(u64::MAX).len() as u64) / entries;
    }
    assert!(known * 3 > real * 2 && known * 2 < real * 3, "{known} bytes estimated, {real} measured");
}

#[test]
fn the_leaf_with_the_densest_updates_is_sampled_first() {
    let (mut rig, mut random) = (rig(), Random(2));
    for _ in 0..40 {
        write(&mut rig, &mut random, 0..u64::MAX);
    }
    // Enough data that all leaves are to be sampled, with most of it for those of the upper half.
    for _ in 0..10 {
        let half = random.below(4) == 0;
        let keys = if half { 0..u64::MAX / 2 } else { u64::MAX / 2..u64::MAX };
        let write = |_| -> Write {
            let width = keys.end - keys.start;
            (number_key(keys.start + random.next() % width), Some(vec![3; 100]))
        };
        let writes = (0..ENTRIES_PER_BRANCH).map(write).collect();
        rig.incorporate(writes);
        // Flushes move only references.
        while let Some(job) =
            rig.trunk.pick(&rig.tree, &rig.retention()).filter(|job| matches!(job.choice, Choice::Flush(..)))
        {
            rig.finish(&job);
        }
    }
    let density = |leaf: &Node| {
        let (newer, all) = (newer_data::newer(leaf), leaf.active);
        let share = |newer: u64, all: u64| newer as f64 / ((all - newer) as f64).max(1.0);
        share(newer.bytes, all.bytes).max(share(newer.entries, all.entries))
    };
    let (last, samples) = (Cell::new(f64::MAX), Cell::new(0));
    policy::choose(&rig.tree, &|_| false, |choice: &Choice| {
        if let Choice::SampleLeaf(leaf) = choice {
            assert!(density(leaf) <= last.get() * 1.001, "{} after {}", density(leaf), last.get());
            last.set(density(leaf));
            samples.set(samples.get() + 1);
        }
        false
    });
    assert!(samples.get() > 3, "{} leaves", samples.get());
}

/// Regression: part files were cut at the pivots of the node for which they were made. Each was shared by all leaves
/// below a child of that node, and took space from the merge of the first of these leaves to that of the last.
#[test]
fn part_files_end_at_leaf_bounds() {
    let options = small_options(BRANCH_BYTES);
    let (mut rig, mut random) = (Rig::new(TrunkOptions { part_bytes_min: 512, ..options }), Random(3));
    rig.checks = false;
    for _ in 0..50 {
        write(&mut rig, &mut random, 0..u64::MAX);
    }
    let root = rig.tree.root();
    assert!(root.height >= 2, "{}", rig.tree.describe());
    let mut edges = Vec::new();
    rig.tree.visit(&mut |node: &Arc<Node>| {
        if node.is_leaf() {
            edges.push(node.lower.to_vec());
        }
    });
    let before = rig.tree.root().bundles.len();
    let writes = (0..ENTRIES_PER_BRANCH).map(|_| (number_key(random.next()), Some(vec![4; 100]))).collect();
    rig.incorporate(writes);
    let root = rig.tree.root();
    let newest = &root.bundles[before];
    let crossing = |edge: &&Vec<u8>| {
        newest.branches.iter().any(|branch| branch.meta().key_min < **edge && branch.meta().key_max >= **edge)
    };
    let crossed = edges.iter().filter(crossing).count();
    assert!(crossed * 4 <= edges.len(), "{crossed} of {} leaves begin inside a file", edges.len());
}

/// Regression: leaves to be rewritten came before all merges and maplets. Under a writer at full speed there was always
/// one, and a get met 130 runs on its path, most of them without a maplet.
#[test]
fn leaves_of_very_many_runs_go_before_leaves_of_garbage() {
    let (mut rig, mut random) = (rig(), Random(5));
    // Here flushes are to gather more runs than a store has.
    rig.reopen_with(TrunkOptions { runs_bound: 1000, ..rig.tree.options().clone() });
    for _ in 0..20 {
        write(&mut rig, &mut random, 0..KEYS);
    }
    // Memtables are incorporated and flushed, and no other work is done.
    for _ in 0..60 {
        let writes = (0..ENTRIES_PER_BRANCH).map(|_| (number_key(random.next() % KEYS), Some(vec![6; 100])));
        rig.incorporate(writes.collect());
        while let Some(job) =
            rig.trunk.pick(&rig.tree, &rig.retention()).filter(|job| matches!(job.choice, Choice::Flush(..)))
        {
            rig.finish(&job);
        }
    }
    let mut order = Vec::new();
    policy::choose(&rig.tree, &|_| false, |choice: &Choice| {
        order.push(choice.clone());
        false
    });
    let limit = rig.tree.options().runs_limit;
    let is_urgent = |choice: &Choice| match choice {
        Choice::Merge(node, _) => node.runs() > limit,
        Choice::BuildMaplet(node, at) => node.slots[*at].replaceable_probes() >= limit / 2,
        _ => false,
    };
    let last = order.iter().rposition(is_urgent).unwrap();
    let urgent = &order[..=last];
    // Rewriting such a leaf whole also removes its many runs.
    let is_of_many = |choice: &Choice| matches!(choice, Choice::SampleLeaf(leaf) if leaf.runs() > limit);
    assert!(urgent.iter().all(|choice| is_urgent(choice) || is_of_many(choice)), "{} choices", order.len());
    let count = |what: fn(&Choice) -> bool| urgent.iter().filter(|choice| what(choice)).count();
    let merges = count(|choice| matches!(choice, Choice::Merge(..)));
    let maps = count(|choice| matches!(choice, Choice::BuildMaplet(..)));
    let samples = count(|choice| matches!(choice, Choice::SampleLeaf(_)));
    assert!(merges > 0 && maps > 0, "{merges} merges and {maps} maplets of {} choices", order.len());
    assert!(samples > 0 && order.len() > last + 1, "{samples} sampled, {} choices", order.len());
}

/// Puts values of `bytes` under every number up to `count`, or deletes the numbers, a Memtable at a time, and does all
/// work.
fn write_all(rig: &mut Rig, count: u64, bytes: Option<usize>) {
    let write = |number: u64| -> Write {
        // Scattered, as the keys of a hash are.
        let key = number_key(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24);
        (key, bytes.map(|bytes| vec![number as u8; bytes]))
    };
    let numbers: Vec<u64> = (0..count).collect();
    for some in numbers.chunks(BRANCH_BYTES as usize / (20 + bytes.unwrap_or(0))) {
        rig.incorporate(some.iter().map(|number| write(*number)).collect());
        rig.work();
    }
}

/// Regression: tombstones were weighed by their own bytes in the choice of flushes. Those of all keys of a store stayed
/// in the root for ever, and so did all data below.
#[test]
fn deletes_free_their_space() {
    const COUNT: u64 = 6000;
    let mut rig = rig();
    write_all(&mut rig, COUNT, Some(1000));
    let full = rig.tree.bytes();
    assert!(rig.tree.root().height > 0);
    for deleted in [COUNT / 3, COUNT * 4 / 5] {
        write_all(&mut rig, deleted, None);
        // Not bytes: files of this size are mostly overhead.
        let (now, live) = (rig.tree.root().totals.entries, rig.expected(u64::MAX).len() as u64);
        assert!(now < live * 3 / 2, "{now} entries are left of {COUNT}, and {live} live");
    }
    write_all(&mut rig, COUNT, None);
    assert!(rig.tree.bytes() < full / 20, "{full} bytes became {}, and nothing is live", rig.tree.bytes());
}

/// A leaf is sampled for fewer tombstones than updates.
#[test]
fn a_leaf_is_rewritten_for_a_third_of_tombstones() {
    const COUNT: u64 = 3000;
    let mut rig = rig();
    write_all(&mut rig, COUNT, Some(300));
    // One run everywhere, so that only the next writes are newer.
    let wanted = RequestedRange { clean: true, ..RequestedRange::ALL };
    while let Some(job) = rig.trunk.pick_requested(&rig.tree, &wanted, &rig.retention()) {
        rig.finish(&job);
    }
    write_all(&mut rig, COUNT / 3, None);
    let (now, live) = (rig.tree.root().totals.entries, rig.expected(u64::MAX).len() as u64);
    assert!(now < live * 5 / 4, "{now} entries are left of {COUNT}, and {live} live");
}

/// Regression: small values over large ones stayed above them for ever, as tombstones did.
#[test]
fn small_values_over_large_ones_free_their_space() {
    const COUNT: u64 = 20_000;
    let mut rig = rig();
    write_all(&mut rig, COUNT, Some(300));
    let full = rig.tree.bytes();
    write_all(&mut rig, COUNT, Some(1));
    let now = rig.tree.bytes();
    assert!(now < full / 2, "{full} bytes became {now}");
}

/// Regression: a leaf that was left because snapshots needed its data was not sampled again when they were gone, and
/// neither was data that merges had written for them.
#[test]
fn data_that_only_a_snapshot_needs_is_freed_with_it() {
    const COUNT: u64 = 6000;
    let mut rig = rig();
    write_all(&mut rig, COUNT, Some(300));
    let full = rig.tree.bytes();
    rig.pins.insert(rig.last);
    for _ in 0..2 {
        write_all(&mut rig, COUNT, Some(300));
    }
    let held = rig.tree.bytes();
    assert!(held > full * 2 - full / 4, "{full} bytes became {held} under a snapshot");
    assert!(rig.work().is_empty());
    rig.pins.clear();
    rig.work();
    let now = rig.tree.bytes();
    assert!(now < full * 3 / 2, "{full} bytes became {held} under a snapshot and {now} after it");
    // Snapshots that did not exist when the leaf was sampled do not matter.
    rig.pins.insert(rig.last);
    assert!(rig.work().is_empty());
}
