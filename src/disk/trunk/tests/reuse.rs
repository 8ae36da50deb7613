//! Merges that reuse files that overlap no other input.

use super::rig::{AnyWrite, Append, Random, Rig, Write, number_key, small_options};
use crate::branch::Branch;
use crate::disk::runs::output::OutputWriter;
use crate::disk::runs::requested_range::RequestedRange;
use crate::disk::runs::reuse;
use crate::disk::trunk::TrunkOptions;
use crate::format::manifest_edit::BranchMeta;
use crate::merge::vec_cursor::VecEntry;
use crate::merge::{MergeOperators, RangeTombstone, RangeTombstones};
use crate::util::sync::Arc;
use crate::util::{FileNumber, Kind, SequenceNumber};
use std::collections::BTreeSet;

fn options() -> TrunkOptions {
    // Leaves that are not split.
    TrunkOptions {
        merge_operators: MergeOperators::new(Some(Arc::new(Append))),
        leaf_bytes_min: 64 << 20,
        ..small_options(256 << 10)
    }
}

fn puts(keys: impl Iterator<Item = u64>) -> Vec<Write> {
    keys.map(|number| (number_key(number), Some(vec![7; 100]))).collect()
}

fn files(rig: &Rig) -> BTreeSet<FileNumber> {
    rig.tree.branches().iter().map(|branch| branch.meta().file).collect()
}

/// Merges everything into one run.
fn merge_all(rig: &mut Rig, clean: bool) {
    let wanted = RequestedRange { clean, ..RequestedRange::ALL };
    let mut jobs = 0;
    while let Some(job) = rig.trunk.pick_requested(&rig.tree, &wanted, &rig.retention()) {
        jobs += 1;
        assert!(jobs < 50, "{job}\n{}", rig.tree.describe());
        rig.finish(&job);
    }
    assert_eq!(rig.tree.root().runs(), 1, "{}", rig.tree.describe());
    rig.check_files();
}

/// Stretches of keys that are written in descending order become a run each. A merge makes them one run of the same
/// files.
#[test]
fn stretches_in_descending_order_are_not_rewritten() {
    let mut rig = Rig::new(options());
    for at in (0..6).rev() {
        rig.incorporate(puts(at * 1000..at * 1000 + 500));
    }
    let before = files(&rig);
    assert_eq!(rig.tree.root().runs(), 6);
    merge_all(&mut rig, false);
    assert_eq!(files(&rig), before);
    assert_eq!(rig.trunk.written().compacted_bytes, 0);
    rig.reopen();
    rig.check_reads(&mut Random(51), 100);
}

/// Only the overwritten stretch is rewritten, and new part files end where reused ones begin.
#[test]
fn only_the_overwritten_stretch_is_rewritten() {
    let mut rig = Rig::new(options());
    for at in (0..5).rev() {
        rig.incorporate(puts(at * 1000..at * 1000 + 500));
    }
    let before = files(&rig);
    rig.incorporate(puts(2100..2200));
    for between in [700, 1700, 3700] {
        rig.incorporate(puts([between].into_iter()));
    }
    merge_all(&mut rig, true);
    assert_eq!(files(&rig).intersection(&before).count(), 4, "{}", rig.tree.describe());
    assert_eq!(rig.trunk.written().compacted_entries, 500);
    rig.reopen();
    rig.check_reads(&mut Random(52), 200);
}

/// A file with garbage is rewritten by a merge that can drop the garbage. *Otherwise:* a request for a clean range
/// waits for ever.
#[test]
fn a_file_with_tombstones_is_rewritten_at_the_bottom() {
    let mut rig = Rig::new(options());
    for at in (0..4).rev() {
        rig.incorporate(puts(at * 1000..at * 1000 + 500));
    }
    let deletes =
        (5000..6000).map(|number| (number_key(number), if number % 2 == 0 { None } else { Some(vec![7; 100]) }));
    rig.incorporate(deletes.collect());
    merge_all(&mut rig, true);
    assert!(rig.tree.branches().iter().all(|branch| branch.meta().tombstones == 0));
    assert_eq!(rig.trunk.written().compacted_entries, 500);
    rig.check_reads(&mut Random(53), 100);
}

/// Range tombstones between reused files: each stays on its side, in its own part file if there is no entry.
/// (*Otherwise:* one that is written after the reused file begins a new run, or hides nothing.)
#[test]
fn range_tombstones_around_reused_files() {
    let mut rig = Rig::new(options());
    rig.pins.insert(0);
    let mut random = Random(54);
    for at in (0..4).rev() {
        rig.incorporate(puts(at * 1000..at * 1000 + 500));
    }
    rig.pins.insert(rig.last);
    let before = files(&rig);
    for (start, end) in [(600, 700), (1550, 1650), (1600, 1800), (2500, 3000), (4000, 9000)] {
        let outcome = rig.incorporation_of(vec![AnyWrite::RangeDelete(number_key(start), number_key(end))]);
        rig.apply(outcome);
    }
    merge_all(&mut rig, false);
    assert!(files(&rig).is_superset(&before), "{}", rig.tree.describe());
    rig.check_reads(&mut random, 200);
    rig.incorporate(puts((0..10_000).step_by(7)));
    rig.pins.clear();
    merge_all(&mut rig, true);
    rig.check_reads(&mut random, 200);
    rig.reopen();
}

/// Range tombstones that exist only in a part file without entries still hide the data below.
#[test]
fn range_tombstones_without_entries_before_a_reused_file() {
    let rig = Rig::new(options());
    let tombstone =
        |start, end| RangeTombstone { start: number_key(start), end: number_key(end), number: SequenceNumber(9) };
    let mut writer = OutputWriter::new(&rig.context, &[], 4096, u64::MAX);
    writer.add_range_tombstones(RangeTombstones::new(vec![tombstone(1, 3), tombstone(5, 7)]));
    writer.add_reused(number_key(4)[..].into());
    writer.add(VecEntry::new(number_key(8), 10, Kind::Put, vec![7]).as_ref()).unwrap();
    writer.add_reused(number_key(9)[..].into());
    let parts = writer.finish().unwrap().take();
    let found: Vec<_> = parts.iter().map(|part| (&part.meta().key_min[..], part.meta().range_tombstones)).collect();
    assert_eq!(found, [(&number_key(1)[..], 1), (&number_key(5)[..], 1)]);
    assert!(parts[0].meta().ends_before(&number_key(3)));
}

/// All together: stretches, scattered writes of all kinds, pins, and merges of any range.
#[test]
fn stretches_among_scattered_writes() {
    for seed in 60..64 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut rig = Rig::new(TrunkOptions {
            merge_operators: MergeOperators::new(Some(Arc::new(Append))),
            ..small_options(64 << 10)
        });
        let mut reused = 0;
        for round in 0..50u64 {
            let from = random.next() % 100 * 1000;
            let mut writes: Vec<AnyWrite> =
                (from..from + 400).map(|number| AnyWrite::Put(number_key(number), vec![round as u8; 100])).collect();
            for _ in 0..random.below(6) {
                let key = random.next() % 100_000;
                writes.push(match random.below(4) {
                    0 => AnyWrite::Delete(number_key(key)),
                    1 => AnyWrite::Merge(number_key(key), vec![b'm'; 3]),
                    2 => AnyWrite::RangeDelete(number_key(key), number_key(key + 1 + random.next() % 600)),
                    _ => AnyWrite::Put(number_key(key), vec![1; 50]),
                });
            }
            let outcome = rig.incorporation_of(writes);
            rig.apply(outcome);
            match random.below(6) {
                0 => drop(rig.pins.insert(rig.last)),
                1 => drop(rig.pins.pop_first()),
                2 => rig.reopen(),
                _ => {}
            }
            let before = files(&rig);
            for _ in 0..random.below(4) {
                let Some(job) = rig.trunk.pick(&rig.tree, &rig.retention()) else { break };
                rig.finish(&job);
            }
            reused += files(&rig).intersection(&before).count();
            if round % 10 == 9 {
                rig.check_reads(&mut random, 100);
            }
        }
        assert!(reused > 0);
        while let Some(job) = rig.trunk.pick_requested(
            &rig.tree,
            &RequestedRange { clean: true, ..RequestedRange::ALL },
            &rig.retention(),
        ) {
            rig.finish(&job);
        }
        rig.check_files();
        rig.check_reads(&mut random, 300);
        rig.reopen();
    }
}

/// Against a comparison of every branch with every other.
#[test]
fn reused_files_overlap_no_other_input() {
    let rig = Rig::new(small_options(4096));
    let mut random = Random(55);
    let mut all_reused = 0;
    for _ in 0..2000 {
        let mut branch = |file: u64| {
            let (min, length) = (random.below(60) as u8, random.below(9) as u8);
            let open_ended = length > 0 && random.below(3) == 0;
            let (key_min, key_max) = (vec![min], vec![min + length]);
            let meta = BranchMeta {
                file: FileNumber(file),
                key_min,
                key_max,
                open_ended,
                bytes: 50 + file,
                ..BranchMeta::default()
            };
            Branch::new(&rig.context, meta)
        };
        let branches: Vec<_> = (0..8).map(&mut branch).collect();
        let inputs: Vec<_> = branches.iter().collect();
        let bounds = (&[5][..], Some(&[50][..]));
        let reused = reuse::choose(&inputs, bounds, true, &(52..=u64::MAX), None);
        let ends_before = |one: &Branch, other: &Branch| one.meta().ends_before(&other.meta().key_min);
        let expected = |branch: &&&Arc<Branch>| {
            let alone = |other: &&Arc<Branch>| {
                Arc::ptr_eq(other, branch) || ends_before(branch, other) || ends_before(other, branch)
            };
            let inside = branch.meta().key_min[..] >= [5][..] && branch.meta().ends_before(&[50]);
            inputs.iter().all(alone) && inside && branch.meta().bytes >= 52
        };
        let expected: BTreeSet<_> = inputs.iter().filter(expected).map(|branch| branch.meta().file).collect();
        assert_eq!(reused.iter().map(|branch| branch.meta().file).collect::<BTreeSet<_>>(), expected);
        all_reused += reused.len();
    }
    assert!(all_reused > 1000);
}
