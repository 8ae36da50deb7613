//! Maplets at the slots of a tree: built where gets would probe many filters, used across splits and flushes, missing
//! and damaged. (All tests of the trunk build maplets, and so check that reads with them are right.)

use super::rig::{AnyWrite, Random, Rig, Write, number_key, small_options};
use crate::branch::maplet_name;
use crate::disk::runs::jobs::claims::Claims;
use crate::disk::runs::jobs::progress::Progress;
use crate::disk::trunk::jobs::change::{Change, NodeRange};
use crate::disk::trunk::jobs::claim::Claim;
use crate::disk::trunk::jobs::job::Purpose;
use crate::disk::trunk::plan::choice::Choice;
use crate::disk::trunk::tree::empty_overlaps::{EmptyOverlaps, SplitPlan};
use crate::disk::trunk::tree::maplet_index::RUNS_MAX;
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::slot::Slot;
use crate::disk::trunk::{Job, Outcome, TrunkOptions};
use crate::io::{OpenMode, Storage};
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Ordering};

const KEYS: u64 = 100_000_000;

fn writes(random: &mut Random, count: usize, keys: u64) -> Vec<Write> {
    (0..count).map(|_| (number_key(random.next() % keys), Some(vec![random.next() as u8; 60]))).collect()
}

/// A leaf, or a root over two leaves, with this many runs, for which no work was done yet.
pub fn with_runs(runs: usize, is_split: bool) -> (Rig, Random) {
    let (mut rig, mut random) = (Rig::new(small_options(1 << 20)), Random(41));
    if is_split {
        rig.incorporate(writes(&mut random, 200, KEYS));
        rig.apply(split(rig.tree.root(), KEYS / 2));
    }
    for _ in 0..runs {
        rig.incorporate(writes(&mut random, 200, KEYS));
    }
    (rig, random)
}

pub fn split(leaf: &Node, at: u64) -> Outcome {
    let split = SplitPlan { keys: vec![number_key(at)[..].into()], ..SplitPlan::default() };
    Outcome::of(Change::Split { range: NodeRange::of(leaf), split }, None)
}

fn flush(node: &Node, at: usize) -> Outcome {
    let (range, child) = (NodeRange::of(node), node.pivots[at].child.id);
    Outcome::of(Change::Flush { range, child, empty_overlaps: EmptyOverlaps::default(), runs_max: usize::MAX }, None)
}

fn maplet_job(node: &Arc<Node>, slot: usize) -> Job {
    let choice = Choice::BuildMaplet(Arc::clone(node), slot);
    let claim = Arc::new(Claims::default()).take(Claim::of(&choice)).unwrap();
    Job { choice, claim, purpose: Purpose::Needed }
}

pub fn build_maplet(rig: &mut Rig, node: &Arc<Node>, slot: usize) {
    rig.finish(&maplet_job(node, slot));
}

fn files(slot: &Slot) -> Vec<u64> {
    slot.maplet_index.maplets().map(|maplet| maplet.meta().file.0).collect()
}

#[test]
fn no_slot_needs_many_lookups_once_the_work_is_done() {
    let mut rig = Rig::new(small_options(32 << 10));
    let mut random = Random(42);
    let mut most = 0;
    for _ in 0..60 {
        rig.incorporate(writes(&mut random, 200, KEYS));
        rig.work();
        rig.tree.visit(&mut |node| {
            for slot in &node.slots {
                assert!(
                    slot.probes() < small_options(0).probes_max,
                    "{} lookups\n{}",
                    slot.probes(),
                    rig.tree.describe()
                );
                most = most.max(slot.runs.len());
            }
        });
    }
    assert!(most >= 6 && !rig.maplets().is_empty(), "{most} runs at most");
    assert!(rig.trunk.written().mapped_bytes > 0);
    rig.check_files();
    rig.check_maplets();
    rig.check_reads(&mut random, 500);
}

/// A maplet covers no run beyond the newest `RUNS_MAX`. An incorporation that pushed its runs out once left the maplet in
/// the manifest for ever, and verification reported it after its branches had been merged.
#[test]
fn a_maplet_whose_runs_are_too_old_is_dropped() {
    let (mut rig, mut random) = with_runs(5, false);
    let root = rig.tree.root().clone();
    build_maplet(&mut rig, &root, 0);
    drop(root);
    for _ in 0..RUNS_MAX - 5 {
        rig.incorporate(writes(&mut random, 20, KEYS));
    }
    assert_eq!(rig.maplets().len(), 1);
    for left in [1, 1, 1, 1, 0] {
        rig.incorporate(writes(&mut random, 20, KEYS));
        assert_eq!(rig.maplets().len(), left);
        rig.check_maplets();
    }
    rig.work();
    rig.check_files();
    rig.check_maplets();
    rig.check_reads(&mut random, 300);
}

#[test]
fn both_halves_of_a_split_leaf_use_its_maplet() {
    let (mut rig, mut random) = with_runs(5, false);
    let root = rig.tree.root().clone();
    build_maplet(&mut rig, &root, 0);
    let old = files(&rig.tree.root().slots[0]);
    assert_eq!((old.len(), rig.tree.root().slots[0].probes()), (1, 1));
    let root = rig.tree.root().clone();
    rig.apply(split(&root, KEYS / 3));
    let leaves: Vec<_> = rig.tree.root().pivots.iter().map(|pivot| pivot.child.clone()).collect();
    assert!(leaves.len() == 2 && leaves.iter().all(|leaf| files(&leaf.slots[0]) == old && leaf.slots[0].probes() == 1));
    rig.check_reads(&mut random, 300);
    drop(root);
    rig.reopen();
    // Rebuilt, each has only its own keys, and the old maplet is dropped with its last user.
    let leaves: Vec<_> = rig.tree.root().pivots.iter().map(|pivot| pivot.child.clone()).collect();
    for leaf in &leaves {
        build_maplet(&mut rig, leaf, 0);
        assert!(rig.maplets().len() <= 2);
    }
    drop(leaves);
    rig.check_files();
    assert!(!rig.maplets().iter().any(|file| old.contains(&file.0)));
    let entries: u64 =
        rig.tree.maplets().iter().flat_map(|maplet| &maplet.meta().columns).map(|column| column.entries).sum();
    assert_eq!(entries, 1000);
    rig.check_maplets();
    rig.check_reads(&mut random, 300);
}

#[test]
fn flushed_branches_take_their_maplet_along() {
    let (mut rig, mut random) = with_runs(4, true);
    let root = rig.tree.root().clone();
    build_maplet(&mut rig, &root, 1);
    let old = files(&rig.tree.root().slots[1]);
    assert_eq!((old.len(), rig.tree.root().slots[0].probes(), rig.tree.root().slots[1].probes()), (1, 4, 1));
    let root = rig.tree.root().clone();
    rig.apply(flush(&root, 1));
    let leaf = rig.tree.root().pivots[1].child.clone();
    assert_eq!((leaf.slots[0].runs.len(), leaf.slots[0].probes()), (5, 2));
    assert_eq!(files(&leaf.slots[0]), old);
    rig.check_reads(&mut random, 300);
    drop((root, leaf));
    rig.reopen();
    // The entries of the oldest run come from its fingerprints, all others from the old maplet.
    let leaf = rig.tree.root().pivots[1].child.clone();
    build_maplet(&mut rig, &leaf, 0);
    drop(leaf);
    let leaf = &rig.tree.root().pivots[1].child;
    assert_eq!((leaf.slots[0].probes(), files(&leaf.slots[0]).len()), (1, 1));
    rig.check_files();
    rig.check_maplets();
    rig.check_reads(&mut random, 300);
}

/// A new maplet is made from the old one: the branches that the old one covers are not read.
#[test]
fn branches_covered_by_a_maplet_are_not_read_again() {
    let (mut rig, mut random) = with_runs(5, false);
    let root = rig.tree.root().clone();
    build_maplet(&mut rig, &root, 0);
    drop(root);
    let old: Vec<_> = rig.tree.root().branches().map(|branch| branch.meta().file).collect();
    rig.incorporate(writes(&mut random, 200, KEYS));
    for file in old {
        rig.disk.inject(&format!("(read name={file}.branch) -> eio"));
    }
    let root = rig.tree.root().clone();
    assert_eq!(root.slots[0].probes(), 2);
    build_maplet(&mut rig, &root, 0);
    rig.disk.clear_faults();
    drop(root);
    assert_eq!(rig.tree.root().slots[0].probes(), 1);
    rig.check_files();
    rig.check_maplets();
    rig.check_reads(&mut random, 300);
}

/// The outcome of a job may be dropped instead of applied, for example when the store is closed meanwhile. Regression:
/// the file of the maplet stayed until the next opening, while the files of a dropped merge were removed at once. It
/// was found when new sizes of branch files made the random order of `jobs_finish_in_any_order` drop one.
#[test]
fn a_dropped_outcome_leaves_no_maplet() {
    let (rig, _) = with_runs(5, false);
    let job = maplet_job(rig.tree.root(), 0);
    let outcome = rig.trunk.run(&job, &rig.tree, &rig.retention(), &AtomicBool::new(false)).unwrap();
    assert!(matches!(outcome.change, Change::BuildMaplet { .. }));
    let written = rig.disk.list().unwrap().iter().filter(|name| name.ends_with(".maplet")).count();
    assert_eq!(written, 1);
    drop((outcome, job));
    rig.check_files();
}

/// Reads use the filters instead, `verify` reports the damage, and the picker has the maplet rebuilt.
#[test]
fn a_lost_or_damaged_maplet_changes_no_answers() {
    for lost in [true, false] {
        let (mut rig, mut random) = with_runs(5, false);
        let root = rig.tree.root().clone();
        build_maplet(&mut rig, &root, 0);
        drop(root);
        let file = *rig.maplets().first().unwrap();
        if lost {
            rig.disk.remove(&maplet_name(file)).unwrap();
        } else {
            rig.disk.corrupt(&maplet_name(file), 600, 4);
        }
        rig.context.files.close(file);
        rig.context.cache.remove_file(file);
        let error = rig.tree.maplets()[0].verify(&[], true).unwrap_err();
        assert!(error.is_damage() && error.to_string().contains(&maplet_name(file)), "{error}");
        rig.checks = false;
        rig.check_reads(&mut random, 300);
        assert!(rig.tree.root().slots[0].maplet_index.is_broken());
        if lost {
            // Creates the file again, so that the removal of obsolete files finds it.
            rig.disk.open(&maplet_name(file), OpenMode::Create).unwrap();
        }
        let done = rig.work();
        assert!(done.iter().any(|job| job.starts_with("build maplet")), "{done:?}");
        assert!(!rig.maplets().contains(&file) && !rig.maplets().is_empty());
        rig.check_files();
        rig.check_maplets();
        rig.check_reads(&mut random, 300);
    }
}

/// A damaged maplet is not a source of the next one: its branches are.
#[test]
fn a_damaged_maplet_is_not_merged() {
    let (mut rig, mut random) = with_runs(5, false);
    let root = rig.tree.root().clone();
    build_maplet(&mut rig, &root, 0);
    drop(root);
    let file = *rig.maplets().first().unwrap();
    rig.disk.corrupt(&maplet_name(file), 600, 4);
    rig.incorporate(writes(&mut random, 200, KEYS));
    let root = rig.tree.root().clone();
    build_maplet(&mut rig, &root, 0);
    drop(root);
    assert!(!rig.maplets().contains(&file));
    rig.check_files();
    rig.check_maplets();
    rig.check_reads(&mut random, 300);
}

#[test]
fn a_failed_or_cancelled_build_leaves_nothing() {
    let (rig, _) = with_runs(5, false);
    let root = rig.tree.root().clone();
    let before = rig.disk.list().unwrap();
    let job = maplet_job(&root, 0);
    for nth in 1..3 {
        rig.disk.inject(&format!("(write,sync nth={nth}) -> eio"));
        assert!(rig.trunk.run(&job, &rig.tree, &rig.retention(), &AtomicBool::new(false)).is_err());
        rig.disk.clear_faults();
    }
    let cancelled = rig.trunk.run(&job, &rig.tree, &rig.retention(), &AtomicBool::new(true)).unwrap();
    assert!(matches!(cancelled.change, Change::Nothing));
    assert_eq!(rig.disk.list().unwrap(), before);
    // Nor does a build that ends after its branches were merged.
    let mut rig = rig;
    let outcome = rig.trunk.run(&job, &rig.tree, &rig.retention(), &AtomicBool::new(false)).unwrap();
    let choice = Choice::Merge(root.clone(), 0..root.bundles.len());
    let merge =
        Job { claim: Arc::new(Claims::default()).take(Claim::of(&choice)).unwrap(), choice, purpose: Purpose::Needed };
    rig.finish(&merge);
    drop((merge, root));
    rig.apply(outcome);
    drop(job);
    assert!(rig.maplets().is_empty());
    rig.check_files();
}

/// Without the option no maplets are built, and existing ones are dropped by the next edit. Regression: an outcome that
/// changed nothing, such as that of sampling a leaf, made the trunk drop them without an edit, and the manifest named
/// them as long as the store was open.
#[test]
fn maplets_can_be_switched_off() {
    let options = TrunkOptions { maplets: false, ..small_options(1 << 20) };
    let (mut rig, mut random) = with_runs(5, false);
    let root = rig.tree.root().clone();
    build_maplet(&mut rig, &root, 0);
    drop(root);
    rig.reopen_with(options);
    assert!(rig.maplets().is_empty() && !rig.state.maplets.is_empty());
    rig.checks = false;
    rig.apply(Outcome::of(Change::Nothing, None));
    rig.checks = true;
    rig.incorporate(writes(&mut random, 200, KEYS));
    assert!(rig.state.maplets.is_empty());
    while let Some(job) = rig.trunk.pick(&rig.tree, &rig.retention()) {
        assert!(!job.to_string().starts_with("build maplet"));
        rig.finish(&job);
    }
    rig.check_reads(&mut random, 300);
    rig.check_files();
}

/// A range tombstone hides keys of which its branch has no fingerprint, so no maplet may cover the branch. Nor are
/// maplets built for the slot again and again because of it.
#[test]
fn a_run_with_range_tombstones_is_never_covered() {
    let (mut rig, mut random) = with_runs(4, false);
    for _ in 0..4 {
        let outcome = rig.incorporation_of(vec![AnyWrite::RangeDelete(number_key(KEYS / 4), number_key(KEYS / 2))]);
        rig.apply(outcome);
    }
    let root = rig.tree.root().clone();
    build_maplet(&mut rig, &root, 0);
    drop(root);
    let slot = &rig.tree.root().slots[0];
    assert!(slot.maplet_index.maplets().count() == 1 && slot.replaceable_probes() == 1 && slot.probes() > 1);
    rig.check_reads(&mut random, 500);
    rig.check_files();
}

/// Counts what a job reports.
#[derive(Default)]
struct Reported {
    entries: AtomicU64,
    bytes: AtomicU64,
}

impl Progress for Reported {
    fn advance(&self, entries: u64, written: u64) -> bool {
        self.entries.fetch_add(entries, Ordering::Relaxed);
        self.bytes.fetch_add(written, Ordering::Relaxed);
        true
    }
}

/// Regression: building a maplet reported only bytes written, so its progress was zero until it was done.
#[test]
fn building_a_maplet_reports_progress() {
    let (rig, _) = with_runs(12, false);
    let job = maplet_job(rig.tree.root(), 0);
    let reported = Reported::default();
    rig.trunk.run(&job, &rig.tree, &rig.retention(), &reported).unwrap();
    let (entries, all) = (reported.entries.into_inner(), job.scope().load.entries);
    assert!(entries > all / 2 && entries <= all, "{entries} of {all} entries");
    assert!(reported.bytes.into_inner() > 0);
}
