//! Scans have the runs that they meet merged, once they have paid for it, and not before.

use super::rig::{Random, Rig, Write, number_key, small_options};
use crate::io::simulated::Operation;
use crate::merge::Cursor;
use crate::util::SequenceNumber;

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

/// Searches for so many keys below `limit`.
fn seek(rig: &Rig, count: u64, limit: u64) {
    let mut cursor = rig.tree.cursor();
    for at in 0..count {
        cursor.seek(&number_key(at * 7919 % limit), SequenceNumber::MAX).unwrap();
    }
}

/// Does what scans have paid for; the jobs, as text.
fn work_for_scans(rig: &mut Rig) -> Vec<String> {
    let mut done = Vec::new();
    while let Some(job) = rig.trunk.pick_for_scans(&rig.tree) {
        done.push(job.to_string());
        rig.finish(&job);
        assert!(done.len() < 1000, "it does not end: {:?}", &done[980..]);
    }
    done
}

#[test]
fn what_scans_paid_for_is_merged_once_and_the_rest_is_left() {
    let mut rig = rig();
    assert!(work_for_scans(&mut rig).is_empty(), "nobody has scanned yet");
    seek(&rig, 20, 1000);
    assert!(work_for_scans(&mut rig).is_empty(), "twenty searches are not worth a merge");
    let whole = rig.tree.bytes();
    seek(&rig, 5000, 1000);
    let done = work_for_scans(&mut rig);
    assert!(
        done.iter().any(|job| job.starts_with("flush")) && done.iter().any(|job| job.starts_with("merge")),
        "{done:?}"
    );
    let rewritten = rig.trunk.written().scan_compacted_bytes;
    assert!(rewritten > 0 && rewritten < whole / 2, "{rewritten} of {whole}: only the leaf that was scanned, {done:?}");
    seek(&rig, 50_000, 1000);
    assert!(work_for_scans(&mut rig).is_empty(), "one run costs scans nothing");
    rig.check_reads(&mut Random(8), 100);
}

/// Scans of a tree that is in no cache read its first leaf and what follows at once, as soon as a few have told how long they are.
#[test]
fn scans_tell_those_behind_them_how_much_to_read_at_once() {
    let mut rig = Rig::new(small_options(1 << 20));
    let writes = (0..20_000).map(|at| (number_key(at * 50), Some(vec![1; 100])));
    rig.incorporate(writes.collect());
    rig.work();
    let scan = |steps: usize, at: u64| {
        // Each begins with nothing in memory but what leads to the leaves.
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
    assert!(first >= 1, "nothing is known of the first");
    assert!(later <= 3, "{later} reads on the way of ten: but for a file's end they have read what they need");
}

/// What merging costs is what scans had paid before, however often new runs come.
#[test]
fn merges_for_scans_cost_no_more_than_the_scans() {
    let mut rig = rig();
    let (mut random, mut seeks) = (Random(5), 0);
    for _ in 0..20 {
        seek(&rig, 300, 1_000_000);
        seeks += 300;
        work_for_scans(&mut rig);
        let keys = (0..60).map(|_| random.next() % 1_000_000);
        let writes: Vec<Write> = keys.map(|key| (number_key(key), Some(vec![2; 100]))).collect();
        rig.incorporate(writes);
        rig.work();
    }
    // By `scans.rs` a search in n runs pays for n - 1 times 250 bytes, and for reads, of which there are none here.
    let (rewritten, runs_max) = (rig.trunk.written().scan_compacted_bytes, 24);
    assert!(rewritten > 0 && rewritten < seeks * runs_max * 250, "{rewritten} bytes for {seeks} searches");
    rig.check_reads(&mut Random(9), 100);
}
