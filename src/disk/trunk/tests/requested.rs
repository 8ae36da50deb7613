//! Key ranges that somebody wants merged: what is done for it, as text in `goldens/`, and what is left alone.

use super::goldens::{compare, writes};
use super::rig::{Random, Rig, key, small_options};
use crate::disk::runs::requested_range::RequestedRange;
use crate::util::SequenceNumber;

fn wanted(lower: &str, upper: Option<&str>, clean: bool) -> RequestedRange {
    RequestedRange { lower: key(lower), upper: upper.map(key), through: SequenceNumber::MAX, clean }
}

/// Does all that is wanted; tells what it was.
fn reshape(rig: &mut Rig, wanted: &RequestedRange) -> Vec<String> {
    let mut done = Vec::new();
    let mut left = u64::MAX;
    while let Some(job) = rig.trunk.pick_requested(&rig.tree, wanted, &rig.retention()) {
        let now = rig.trunk.remaining(&rig.tree, wanted, &rig.retention()).expect("there is work, and none is left");
        // Flushes and splits move bytes about, and sizes are estimates.
        assert!(now <= left.saturating_add(left / 4), "{now} bytes after {left}");
        left = now;
        done.push(job.to_string());
        rig.finish(&job);
        assert!(done.len() < 1000, "work does not end: {done:?}");
    }
    assert_eq!(rig.trunk.remaining(&rig.tree, wanted, &rig.retention()), None);
    done
}

fn random_load(rig: &mut Rig) {
    let mut random = Random(31);
    for _ in 0..7 {
        let write = |random: &mut Random| (key(&format!("{:04x}", random.next() as u16)), Some(vec![1; 100]));
        rig.incorporate((0..600).map(|_| write(&mut random)).collect());
        rig.work();
    }
}

#[test]
fn what_is_done_for_a_range() {
    let mut rig = Rig::new(small_options(64 << 10));
    random_load(&mut rig);
    let mut text = String::new();
    for (lower, upper, clean) in [("3", Some("5"), false), ("3", Some("5"), true), ("", None, false), ("", None, true)]
    {
        let name = if clean { "compact" } else { "optimize" };
        text += &format!("{name} {lower:?} {upper:?}\n");
        for job in reshape(&mut rig, &wanted(lower, upper, clean)) {
            text += &format!("{job}\n");
        }
    }
    compare("requested", &(text + &rig.tree.describe()));
    rig.check_files();
    rig.check_reads(&mut Random(1), 100);
}

/// Entries of the tree in a range, all versions, and those that are tombstones.
fn entries(rig: &Rig) -> (u64, u64) {
    let load = rig.tree.root().active;
    let below: u64 = rig.tree.root().totals.entries;
    (below, load.tombstones)
}

/// Once, a tree of one run was never merged again: versions whose snapshots had gone stayed, and tombstones with them.
#[test]
fn garbage_goes_once_its_snapshot_has_and_is_looked_for_once() {
    let mut rig = Rig::new(small_options(64 << 10));
    rig.incorporate(writes("a", 100));
    let pin = rig.last;
    rig.pins.insert(pin);
    rig.incorporate(writes("a", 100));
    let clean = wanted("", None, true);
    assert!(!reshape(&mut rig, &clean).is_empty());
    assert_eq!(entries(&rig).0, 200, "the snapshot lost what it sees");
    assert_eq!(reshape(&mut rig, &clean), [""; 0], "what is kept for a snapshot is rewritten for nothing");
    // A newer snapshot is no reason, and none when it goes.
    rig.pins.insert(rig.last);
    assert_eq!(reshape(&mut rig, &clean), [""; 0]);
    rig.pins.remove(&rig.last.clone());
    assert_eq!(reshape(&mut rig, &clean), [""; 0]);
    rig.pins.remove(&pin);
    assert_eq!(reshape(&mut rig, &wanted("", None, false)), [""; 0], "optimize leaves one run alone");
    assert_eq!(reshape(&mut rig, &clean).len(), 1);
    assert_eq!(entries(&rig).0, 100, "an old version stays though no snapshot needs it");
    assert_eq!(reshape(&mut rig, &clean), [""; 0]);
    // The deletes of everything leave nothing.
    rig.pins.insert(rig.last);
    rig.incorporate(writes("a", 100).into_iter().map(|(key, _)| (key, None)).collect());
    reshape(&mut rig, &clean);
    assert_eq!(entries(&rig), (200, 100));
    rig.pins.clear();
    reshape(&mut rig, &clean);
    assert_eq!(entries(&rig), (0, 0));
    rig.check_files();
}

/// Whoever waits for a range does not wait for what others write meanwhile.
#[test]
fn what_is_newer_does_not_count() {
    let mut rig = Rig::new(small_options(64 << 10));
    random_load(&mut rig);
    let through = SequenceNumber(rig.last);
    let own = RequestedRange { through, ..wanted("", None, true) };
    reshape(&mut rig, &own);
    rig.incorporate(writes("0", 600));
    assert_eq!(rig.trunk.remaining(&rig.tree, &own, &rig.retention()), None);
    assert!(rig.trunk.remaining(&rig.tree, &wanted("", None, true), &rig.retention()).is_some());
}
