//! Requested compactions: the jobs that they need, as text in `goldens/`, and what they leave alone.

use super::goldens::{compare, writes};
use super::rig::{Random, Rig, key, small_options};
use crate::disk::runs::requested_range::RequestedRange;
use crate::util::SequenceNumber;

fn requested(lower: &str, upper: Option<&str>, clean: bool) -> RequestedRange {
    RequestedRange {
        lower: key(lower),
        upper: upper.map(key),
        through: SequenceNumber::MAX,
        clean,
        buffered_below: None,
        filters: None,
    }
}

/// Does all the work of a request. Returns the jobs as text.
fn compact(rig: &mut Rig, requested: &RequestedRange) -> Vec<String> {
    let mut done = Vec::new();
    let mut left = u64::MAX;
    while let Some(job) = rig.trunk.pick_requested(&rig.tree, requested, &rig.retention()) {
        let now =
            rig.trunk.remaining(&rig.tree, requested, &rig.retention()).expect("there is a job, but no bytes remain");
        // Flushes and splits move bytes, and sizes are estimates.
        assert!(now <= left.saturating_add(left / 4), "{now} bytes after {left}");
        left = now;
        done.push(job.to_string());
        rig.finish(&job);
        assert!(done.len() < 1000, "work does not end: {done:?}");
    }
    assert_eq!(rig.trunk.remaining(&rig.tree, requested, &rig.retention()), None);
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
fn the_jobs_of_a_requested_range() {
    let mut rig = Rig::new(small_options(64 << 10));
    random_load(&mut rig);
    let mut text = String::new();
    for (lower, upper, clean) in [("3", Some("5"), false), ("3", Some("5"), true), ("", None, false), ("", None, true)]
    {
        let name = if clean { "compact" } else { "optimize" };
        text += &format!("{name} {lower:?} {upper:?}\n");
        for job in compact(&mut rig, &requested(lower, upper, clean)) {
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

/// Regression: a tree of one run was never merged again. Versions whose snapshots were gone stayed, and so did
/// tombstones.
#[test]
fn garbage_is_freed_once_its_snapshot_is_gone() {
    let mut rig = Rig::new(small_options(64 << 10));
    rig.incorporate(writes("a", 100));
    let pin = rig.last;
    rig.pins.insert(pin);
    rig.incorporate(writes("a", 100));
    let clean = requested("", None, true);
    assert!(!compact(&mut rig, &clean).is_empty());
    assert_eq!(entries(&rig).0, 200, "the snapshot lost versions");
    assert_eq!(compact(&mut rig, &clean), [""; 0], "data was rewritten although a snapshot needs all of it");
    // A newer snapshot is no reason to merge, and neither is its release.
    rig.pins.insert(rig.last);
    assert_eq!(compact(&mut rig, &clean), [""; 0]);
    rig.pins.remove(&rig.last.clone());
    assert_eq!(compact(&mut rig, &clean), [""; 0]);
    rig.pins.remove(&pin);
    assert_eq!(compact(&mut rig, &requested("", None, false)), [""; 0], "optimize rewrote a single run");
    assert_eq!(compact(&mut rig, &clean).len(), 1);
    assert_eq!(entries(&rig).0, 100, "an old version remains although no snapshot needs it");
    assert_eq!(compact(&mut rig, &clean), [""; 0]);
    // After everything is deleted, nothing remains.
    rig.pins.insert(rig.last);
    rig.incorporate(writes("a", 100).into_iter().map(|(key, _)| (key, None)).collect());
    compact(&mut rig, &clean);
    assert_eq!(entries(&rig), (200, 100));
    rig.pins.clear();
    compact(&mut rig, &clean);
    assert_eq!(entries(&rig), (0, 0));
    rig.check_files();
}

/// A request does not wait for data that is written after it.
#[test]
fn newer_data_does_not_count() {
    let mut rig = Rig::new(small_options(64 << 10));
    random_load(&mut rig);
    let through = SequenceNumber(rig.last);
    let own = RequestedRange { through, ..requested("", None, true) };
    compact(&mut rig, &own);
    rig.incorporate(writes("0", 600));
    assert_eq!(rig.trunk.remaining(&rig.tree, &own, &rig.retention()), None);
    assert!(rig.trunk.remaining(&rig.tree, &requested("", None, true), &rig.retention()).is_some());
}

/// On a full disk nothing waits for space, because that would be for ever. What failed there is left out, so the work ends.
#[test]
fn on_a_full_disk_a_requested_compaction_leaves_out_what_failed() {
    let mut rig = Rig::new(small_options(64 << 10));
    random_load(&mut rig);
    let all = requested("", None, true);
    let mut left_out = 0;
    while let Some(job) = rig.trunk.pick_requested_on_full_disk(&rig.tree, &all, &rig.retention()) {
        let text = job.to_string();
        if text.starts_with("merge") && left_out % 2 == 0 {
            rig.trunk.note_found_no_space(&job);
            drop(job);
            let again = rig.trunk.pick_requested_on_full_disk(&rig.tree, &all, &rig.retention()).unwrap();
            assert_eq!(again.to_string(), text);
            rig.trunk.note_failed_on_full_disk(&again);
            left_out += 1;
        } else {
            left_out += usize::from(text.starts_with("merge"));
            rig.finish(&job);
        }
        assert!(left_out < 1000, "work does not end");
    }
    assert!(left_out > 2 && rig.trunk.remaining(&rig.tree, &all, &rig.retention()).is_some());
    rig.trunk.clear_failures();
    assert!(rig.trunk.pick_requested_on_full_disk(&rig.tree, &all, &rig.retention()).is_some());
}
