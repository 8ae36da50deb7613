//! Range tombstones and merge operands on their way through the tree, with puts and deletes, against a model that
//! applies every write in order.

use super::rig::{AnyWrite, Append, Random, Rig, number_key, small_options};
use crate::disk::runs::requested_range::RequestedRange;
use crate::disk::trunk::{Job, Outcome, TrunkOptions};
use crate::merge::{Cursor, MergeOperators, VisibleCursor};
use crate::util::SequenceNumber;
use crate::util::sync::{Arc, AtomicBool};

fn options(folds: bool, branch_bytes: u64) -> TrunkOptions {
    let mut options = small_options(branch_bytes);
    if folds {
        options.merge_operators = MergeOperators::new(Some(Arc::new(Append)));
    }
    options
}

/// Random writes; the given percentages are merges and range deletes.
fn writes(random: &mut Random, count: usize, keys: u64, merges: usize, range_deletes: usize) -> Vec<AnyWrite> {
    let said = |_| {
        let key = random.next() % keys;
        let length = 20 + random.below(100);
        let kind = random.below(100);
        if kind < range_deletes {
            // Mostly short, some long.
            let span = keys >> random.below(14);
            return AnyWrite::RangeDelete(
                number_key(key),
                number_key((key + 1 + random.next() % span.max(1)).min(keys)),
            );
        }
        if kind < range_deletes + merges {
            return AnyWrite::Merge(number_key(key), vec![b'a' + random.below(26) as u8; 1 + random.below(9)]);
        }
        if random.below(10) == 0 {
            return AnyWrite::Delete(number_key(key));
        }
        AnyWrite::Put(number_key(key), vec![random.next() as u8; length])
    };
    (0..count).map(said).collect()
}

fn incorporate(rig: &mut Rig, writes: Vec<AnyWrite>) {
    let outcome = rig.incorporation_of(writes);
    rig.apply(outcome);
}

struct Mix {
    seed: u64,
    keys: u64,
    rounds: usize,
    merges: usize,
    range_deletes: usize,
    folds: bool,
}

fn run(mix: &Mix) -> Rig {
    println!("seed {}", mix.seed);
    let mut random = Random(mix.seed);
    let mut rig = Rig::new(options(mix.folds, 16 << 10));
    for round in 0..mix.rounds {
        let count = 1 + random.below(400);
        let writes = writes(&mut random, count, mix.keys, mix.merges, mix.range_deletes);
        incorporate(&mut rig, writes);
        match random.below(8) {
            0 => drop(rig.pins.insert(rig.last)),
            1 => drop(rig.pins.pop_first()),
            2 => rig.reopen(),
            _ => {}
        }
        if random.below(3) == 0 {
            rig.work();
        } else {
            for _ in 0..random.below(4) {
                let Some(job) = rig.trunk.pick(&rig.tree, &rig.retention()) else { break };
                rig.finish(&job);
            }
        }
        if round % 8 == 0 {
            rig.check_reads(&mut random, 50);
        }
    }
    rig.work();
    rig.check_reads(&mut random, 300);
    rig.reopen();
    rig.check_reads(&mut random, 300);
    rig
}

#[test]
fn range_deletes_among_many_keys() {
    let mix = Mix { seed: 31, keys: 20_000, rounds: 60, merges: 0, range_deletes: 3, folds: false };
    let rig = run(&mix);
    assert!(rig.tree.root().height >= 1 && rig.tree.has_range_tombstones());
}

#[test]
fn operands_with_and_without_an_operator() {
    for (seed, folds) in [(32, true), (33, false)] {
        run(&Mix { seed, keys: 1_500, rounds: 40, merges: 50, range_deletes: 0, folds });
    }
}

#[test]
fn everything_at_once() {
    for (seed, keys, folds) in [(34, 3_000, true), (35, 40, true), (36, 3_000, false)] {
        run(&Mix { seed, keys, rounds: 40, merges: 30, range_deletes: 2, folds });
    }
}

/// Several jobs are picked, run against the current tree and applied in any order, concurrently with incorporations and
/// with snapshots that begin and end.
#[test]
fn jobs_finish_in_any_order() {
    for seed in 41..43 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut rig = Rig::new(options(true, 16 << 10));
        let mut running: Vec<(Job, Option<Outcome>)> = Vec::new();
        for step in 0..400 {
            match random.below(7) {
                0 => {
                    let writes = writes(&mut random, 300, 4_000, 20, 1);
                    incorporate(&mut rig, writes);
                }
                1 | 2 if running.len() < 6 => {
                    running.extend(rig.trunk.pick(&rig.tree, &rig.retention()).map(|job| (job, None)))
                }
                3 if !running.is_empty() => {
                    let at = random.below(running.len());
                    let (job, outcome) = &mut running[at];
                    if outcome.is_none() {
                        let never = AtomicBool::new(false);
                        *outcome = Some(rig.trunk.run(job, &rig.tree, &rig.retention(), &never).unwrap());
                    }
                }
                4 | 5 if !running.is_empty() => {
                    let (job, outcome) = running.swap_remove(random.below(running.len()));
                    let run = || rig.trunk.run(&job, &rig.tree, &rig.retention(), &AtomicBool::new(false)).unwrap();
                    let outcome = outcome.unwrap_or_else(run);
                    rig.apply(outcome);
                }
                6 if random.below(4) == 0 => drop(rig.pins.insert(rig.last)),
                6 if random.below(4) == 0 => drop(rig.pins.pop_first()),
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

/// A tree of several leaves, all of whose keys but a few are deleted by one range tombstone, which is incorporated
/// alone.
fn deleted_at_once() -> Rig {
    let mut rig = Rig::new(options(false, 16 << 10));
    for round in 0..20u64 {
        let put = |at| AnyWrite::Put(number_key(round * 400 + at), vec![1; 100]);
        incorporate(&mut rig, (0..400).map(put).collect());
        rig.work();
    }
    assert!(rig.tree.root().height >= 1);
    incorporate(&mut rig, vec![AnyWrite::RangeDelete(number_key(10), number_key(7_990))]);
    rig
}

/// A Memtable has nothing but one range tombstone, so its file has no entries. Reads see it at once, and on a full disk
/// it frees everything that it hides.
#[test]
fn one_range_tombstone_frees_what_it_hides() {
    let mut rig = deleted_at_once();
    let newest = rig.tree.branches().into_iter().find(|branch| branch.meta().entries == 0).unwrap().meta().clone();
    assert!(newest.range_tombstones == 1 && newest.open_ended && newest.key_max == number_key(7_990));
    rig.check_reads(&mut Random(1), 200);
    rig.reopen();
    let full = rig.tree.figures().file_bytes;
    let mut steps = 0;
    while let Some(job) = rig.trunk.pick_to_free_space(&rig.tree) {
        rig.finish(&job);
        steps += 1;
        assert!(steps < 500, "work does not end");
    }
    let figures = rig.tree.figures();
    assert!(!rig.tree.has_range_tombstones() && figures.file_bytes < full / 20, "{figures:?}, {full} bytes before");
    assert_eq!(rig.expected(u64::MAX).len(), 20);
    rig.check_reads(&mut Random(2), 200);
    rig.check_files();
}

/// A seek into a deleted range visits the leaf that it begins in and the one behind the range, not those between, as long as
/// the range tombstone is above them.
#[test]
fn a_seek_into_a_deleted_range_skips_the_leaves_inside() {
    let mut rig = deleted_at_once();
    let leaves = rig.tree.root().pivots.len();
    assert!(leaves > 5, "{leaves} leaves");
    let last = rig.last;
    let seek = |rig: &Rig, from: u64, at: u64| {
        let searches = || rig.context.reads.figures().searches.iter().sum::<u64>();
        let mut cursor = VisibleCursor::new(rig.tree.cursor(), SequenceNumber(at), Vec::new(), None).masked(true);
        let before = searches();
        cursor.seek(&number_key(from)).unwrap();
        let seeked = searches() - before;
        let first = cursor.entry().key.to_vec();
        cursor.next().unwrap();
        (first, cursor.entry().key.to_vec(), seeked)
    };
    let keys = |first, next| (number_key(first), number_key(next));
    for from in [10, 11, 400, 3_999, 7_600, 7_989] {
        let (first, next, searches) = seek(&rig, from, SequenceNumber::MAX.0);
        assert_eq!((first, next), keys(7_990, 7_991));
        assert!(searches <= 2, "{searches} searches from {from}");
    }
    // A snapshot from before sees everything.
    let (first, next, _) = seek(&rig, 20, last - 1);
    assert_eq!((first, next), keys(20, 21));
    // Newer data in the range is not skipped: in a newer run, and in the run that has a second tombstone.
    incorporate(&mut rig, vec![AnyWrite::Put(number_key(4_000), vec![2; 100])]);
    let again = AnyWrite::RangeDelete(number_key(4_001), number_key(7_900));
    incorporate(&mut rig, vec![again, AnyWrite::Put(number_key(6_000), vec![3; 100])]);
    for (from, first, next) in [(20, 4_000, 6_000), (4_001, 6_000, 7_990), (6_001, 7_990, 7_991)] {
        let found = seek(&rig, from, SequenceNumber::MAX.0);
        assert_eq!((found.0, found.1), keys(first, next));
        assert!(found.2 <= 3, "{} searches from {from}", found.2);
    }
    rig.check_reads(&mut Random(8), 200);
}

/// Hidden data stays while an older snapshot reads it, and is freed once the snapshot is released.
#[test]
fn a_snapshot_retains_data_under_a_range_tombstone() {
    let mut rig = deleted_at_once();
    rig.pins.insert(rig.last - 1);
    while let Some(job) = rig.trunk.pick_to_free_space(&rig.tree) {
        rig.finish(&job);
    }
    rig.check_reads(&mut Random(3), 200);
    assert_eq!(rig.expected(rig.last - 1).len(), 8_000);
    rig.pins.clear();
    // A compacted leaf is merged again once it gets new data.
    incorporate(&mut rig, vec![AnyWrite::RangeDelete(number_key(0), number_key(8_000))]);
    while let Some(job) = rig.trunk.pick_to_free_space(&rig.tree) {
        rig.finish(&job);
    }
    rig.check_reads(&mut Random(4), 200);
    // A leaf that was empty refers to the range tombstone until it gets other data.
    let entries: u64 = rig.tree.figures().levels.iter().map(|level| level.load.entries).sum();
    assert!(entries == 0, "{}", rig.tree.describe());
}

/// Part files end inside range tombstones. Between two part files lie keys that only older runs have. Each is hidden by
/// exactly the part file that a get searches.
#[test]
fn range_tombstones_cover_keys_between_part_files() {
    let options = TrunkOptions { part_bytes: 8 << 10, ..options(false, 64 << 10) };
    let mut rig = Rig::new(options);
    // Odd keys are in older runs. Even keys come later: each range of a hundred is deleted and partly written again.
    incorporate(&mut rig, (0..2_000).map(|at| AnyWrite::Put(number_key(at * 2 + 1), vec![1; 60])).collect());
    let mut again = vec![AnyWrite::RangeDelete(number_key(100), number_key(3_900))];
    again.extend((100..1_900).map(|at| AnyWrite::Put(number_key(at * 2), vec![2; 60])));
    incorporate(&mut rig, again);
    let parts = rig.tree.root().slots[0].runs[0].parts().to_vec();
    assert!(parts.len() > 5, "{} parts", parts.len());
    for (at, part) in parts.iter().enumerate() {
        assert_eq!(part.meta().range_tombstones, 1);
        let last = at + 1 == parts.len();
        assert!(part.meta().open_ended && (last || part.meta().key_max == parts[at + 1].meta().key_min));
    }
    for at in 0..4_000 {
        let there = if at % 2 == 1 { !(100..3_900).contains(&at) } else { (200..3_800).contains(&at) };
        assert_eq!(rig.get(&number_key(at), SequenceNumber::MAX.0).is_some(), there, "{at}");
    }
    rig.check_reads(&mut Random(5), 300);
    rig.reopen();
}

/// A leaf is split inside a range tombstone, whose file both halves then share. Each half merges its own part of it.
#[test]
fn halves_of_a_leaf_share_a_range_tombstone() {
    let mut rig = Rig::new(options(false, 16 << 10));
    incorporate(&mut rig, (0..3_000).map(|at| AnyWrite::Put(number_key(at), vec![1; 100])).collect());
    rig.pins.insert(rig.last);
    incorporate(&mut rig, vec![AnyWrite::RangeDelete(number_key(500), number_key(2_500))]);
    let height = rig.tree.root().height;
    while let Some(job) = rig.trunk.pick_requested(&rig.tree, &RequestedRange::ALL, &rig.retention()) {
        rig.finish(&job);
    }
    assert!(height == 0 && rig.tree.root().height > 0, "{}", rig.tree.describe());
    let count = rig.tree.root().pivots.iter().filter(|pivot| pivot.child.totals.range_tombstones > 0).count();
    assert!(count > 1, "only {count} of the leaves have range tombstones");
    let mut cursor = rig.tree.cursor();
    cursor.seek(&number_key(1_000), SequenceNumber::MAX).unwrap();
    assert_eq!(cursor.covering(&number_key(1_000), SequenceNumber::MAX), SequenceNumber(3_001));
    rig.check_reads(&mut Random(6), 200);
    rig.reopen();
}

/// A counter: however often it is incremented, one put remains at its leaf.
#[test]
fn operands_fold_into_one_put() {
    let mut rig = Rig::new(options(true, 16 << 10));
    for round in 0..30u8 {
        let add = |at: u64| AnyWrite::Merge(number_key(at % 50), vec![b'a' + round % 26; 5]);
        incorporate(&mut rig, (0..500).map(add).collect());
    }
    while let Some(job) = rig.trunk.pick_requested(&rig.tree, &RequestedRange::ALL, &rig.retention()) {
        rig.finish(&job);
    }
    let entries: u64 = rig.tree.figures().levels.iter().map(|level| level.load.entries).sum();
    assert_eq!(entries, 50);
    rig.check_reads(&mut Random(7), 100);
}
