//! Which jobs run at the same time, what snapshots retain, and what happens without disk space.

use super::rig::{AnyWrite, Random, Rig, number_key, small};
use crate::disk::levels::{Job, LevelsOptions};
use crate::disk::runs::requested_range::RequestedRange;

fn put(key: u64, value: u8) -> AnyWrite {
    AnyWrite::Put(number_key(key), vec![value; 100])
}

fn picked(rig: &Rig) -> Vec<Job> {
    std::iter::from_fn(|| rig.pick()).collect()
}

/// A leveled store with several levels.
fn leveled() -> Rig {
    let mut rig = Rig::new(&small(LevelsOptions::leveled()));
    let mut random = Random(1);
    for _ in 0..40 {
        rig.incorporate((0..150).map(|_| put(random.next() % 1_000_000, 1)).collect());
        rig.work();
    }
    rig
}

#[test]
fn jobs_of_disjoint_ranges_run_together_and_no_file_is_in_two() {
    let mut rig = leveled();
    for part in 0..6 {
        rig.incorporate((0..150).map(|at| put(part * 150_000 + at * 7, 2)).collect());
    }
    let jobs = picked(&rig);
    assert!(jobs.len() > 3, "{jobs:?}");
    let files: Vec<_> = jobs.iter().flat_map(|job| job.compaction.files()).collect();
    let distinct: std::collections::BTreeSet<_> = files.iter().collect();
    assert_eq!(distinct.len(), files.len());
    // In any order.
    for job in jobs.iter().rev() {
        rig.finish(job);
    }
    drop(jobs);
    assert_eq!(rig.levels.running(), 0);
    rig.work();
    rig.check_reads(&mut Random(2), 100);
}

/// Kanda §2.3: "the size of a levels runs is identical to the total size of its shallower neighbor multiplied by the
/// fraction of runs merged".
#[test]
fn runs_of_a_level_have_the_size_of_the_level_above_times_the_merge_fraction() {
    const EACH: u64 = 10;
    const RUNS: u32 = 8;
    for percent in [25, 50, 75, 100] {
        let options = LevelsOptions {
            runs_per_level: RUNS,
            level0_runs: RUNS,
            merge_percent: percent,
            ..small(LevelsOptions::tiered())
        };
        let mut rig = Rig::new(&options);
        for step in 0..150 {
            rig.incorporate((0..EACH).map(|at| put(at * 1000 + step, 1)).collect());
            rig.work();
        }
        let growth = u64::from(RUNS * percent / 100);
        let mut expected = EACH;
        let mut entries = 0;
        for level in rig.version.levels() {
            for run in &level.runs {
                let found: u64 = run.run.parts().iter().map(|part| part.meta().entries).sum();
                assert_eq!(found, expected, "{percent}%\n{}", rig.describe());
                entries += found;
            }
            expected *= growth;
        }
        assert_eq!(entries, 150 * EACH);
        assert!(rig.version.levels().len() >= 3, "{percent}%\n{}", rig.describe());
    }
}

#[test]
fn a_tiered_level_is_merged_by_one_job_at_a_time() {
    let mut rig = Rig::new(&small(LevelsOptions::tiered()));
    for _ in 0..3 {
        rig.incorporate((0..100).map(|at| put(at, 1)).collect());
    }
    let first = rig.pick().unwrap();
    for _ in 0..3 {
        rig.incorporate((0..100).map(|at| put(at, 2)).collect());
    }
    // Its result would be older than that of the first job, if that ended later.
    assert!(rig.pick().is_none());
    rig.finish(&first);
    drop(first);
    rig.work();
    rig.check_reads(&mut Random(2), 100);
}

#[test]
fn tombstones_stay_for_snapshots_and_go_with_them() {
    for options in [LevelsOptions::leveled(), LevelsOptions::tiered(), LevelsOptions::skip()] {
        let mut rig = Rig::new(&small(options));
        rig.incorporate((0..100).map(|key| put(key, 1)).collect());
        rig.pins.insert(rig.last);
        rig.incorporate((0..100).map(|key| AnyWrite::Delete(number_key(key))).collect());
        rig.work();
        rig.check_reads(&mut Random(3), 100);
        assert_eq!(rig.expected(100).len(), 100);
        assert!(rig.version.load().tombstones > 0, "the snapshot still shows what they hide");
        assert!(rig.pick().is_none(), "nothing is rewritten over and over");
        rig.pins.clear();
        rig.work();
        assert_eq!(rig.version.load().entries, 0, "{}", rig.describe());
    }
}

/// A tombstone may only go if nothing older is left for it to hide, also in levels that the merge does not touch.
#[test]
fn tombstones_above_older_data_stay() {
    let mut rig = leveled();
    assert!(rig.version.levels().len() >= 3, "{}", rig.describe());
    let oldest = rig.version.levels().last().unwrap().branches().next().unwrap().meta().key_min.clone();
    assert!(rig.get(&oldest, u64::MAX >> 8).is_some());
    // Many puts, so that the files are not mostly tombstones.
    for round in 0..3 {
        let mut writes: Vec<_> = (0..150).map(|at| put(at * 6000 + round, 3)).collect();
        writes.push(AnyWrite::Delete(oldest.clone()));
        rig.incorporate(writes);
    }
    rig.work();
    assert_eq!(rig.get(&oldest, u64::MAX >> 8), None);
    rig.check_reads(&mut Random(4), 100);
}

#[test]
fn work_that_found_no_space_waits_for_it() {
    let mut rig = Rig::new(&small(LevelsOptions::leveled()));
    for _ in 0..3 {
        rig.incorporate((0..100).map(|at| put(at, 1)).collect());
    }
    let job = rig.pick().unwrap();
    let bytes = job.scope().load.bytes;
    rig.levels.note_found_no_space(&job);
    drop(job);
    assert!(rig.pick().is_none() && rig.levels.is_backed_off());
    rig.levels.release_backoff(bytes);
    assert!(rig.pick().is_none());
    rig.levels.release_backoff(bytes * 2);
    assert!(rig.pick().is_some() && !rig.levels.is_backed_off());
}

#[test]
fn on_a_full_disk_tombstones_free_space_and_each_file_is_tried_once() {
    for options in [LevelsOptions::leveled(), LevelsOptions::tiered(), LevelsOptions::skip()] {
        let mut rig = Rig::new(&small(options));
        for step in 0..8u64 {
            rig.incorporate((0..100).map(|at| put(step * 100 + at, 1)).collect());
        }
        rig.work();
        let before = rig.version.load().bytes;
        assert!(rig.levels.pick_to_free_space(&rig.version).is_none(), "nothing is deleted");
        rig.incorporate((0..700).map(|key| AnyWrite::Delete(number_key(key))).collect());
        let failing = rig.levels.pick_to_free_space(&rig.version).unwrap();
        rig.levels.note_failed_on_full_disk(&failing);
        let text = failing.to_string();
        drop(failing);
        assert!(rig.levels.pick_to_free_space(&rig.version).is_none_or(|job| job.to_string() != text));
        rig.levels.clear_failures();
        let mut jobs = 0;
        while let Some(job) = rig.levels.pick_to_free_space(&rig.version) {
            rig.finish(&job);
            jobs += 1;
            assert!(jobs < 100, "{}", rig.describe());
        }
        assert!(rig.version.load().bytes < before / 4, "{} of {before}\n{}", rig.version.load().bytes, rig.describe());
        rig.check_reads(&mut Random(5), 50);
    }
}

#[test]
fn many_small_runs_become_one_on_a_full_disk() {
    let mut rig = Rig::new(&LevelsOptions { level0_runs: 100, ..small(LevelsOptions::leveled()) });
    for key in 0..10 {
        rig.incorporate(vec![put(key, 1)]);
    }
    let before = rig.version.load().bytes;
    let job = rig.levels.pick_to_free_space(&rig.version).unwrap();
    rig.finish(&job);
    drop(job);
    assert!(rig.version.load().bytes < before / 4 && rig.version.runs().count() == 1, "{}", rig.describe());
    rig.incorporate(vec![put(3, 2)]);
    rig.check_reads(&mut Random(6), 20);
    rig.reopen();
    rig.check_reads(&mut Random(6), 20);
}

#[test]
fn debt_is_what_full_levels_have_too_much() {
    let mut rig = Rig::new(&small(LevelsOptions::leveled()));
    rig.incorporate((0..100).map(|key| put(key, 1)).collect());
    assert_eq!(rig.version.debt(), 0);
    rig.incorporate((0..100).map(|key| put(key, 1)).collect());
    rig.incorporate((0..100).map(|key| put(key, 1)).collect());
    assert_eq!(rig.version.debt(), rig.version.load().bytes, "all of level 0 is merged");
    rig.work();
    assert_eq!(rig.version.debt(), 0);
}

/// Level 0 once was merged as soon as it had its runs, although the level below it was over full.
#[test]
fn level_0_waits_for_full_levels_below_it() {
    let mut rig = leveled();
    let is_of_level_0 = |rig: &Rig| rig.pick().is_some_and(|job| job.compaction.level() == 0);
    let mut random = Random(7);
    let mut incorporate = |rig: &mut Rig| {
        rig.incorporate((0..150).map(|_| put(random.next() % 1_000_000, 3)).collect());
    };
    for _ in 0..3 {
        incorporate(&mut rig);
    }
    assert!(is_of_level_0(&rig), "nothing else is full\n{}", rig.describe());
    // Merges of level 0 alone, until a deeper level is full.
    while is_of_level_0(&rig) {
        let job = rig.pick().unwrap();
        rig.finish(&job);
        drop(job);
        if rig.version.levels()[0].runs.len() < 3 && rig.pick().is_none() {
            (0..3).for_each(|_| incorporate(&mut rig));
        }
    }
    assert!(rig.pick().is_some() && rig.version.debt() > 0, "{}", rig.describe());
    let mut runs = rig.version.levels()[0].runs.len();
    while !is_of_level_0(&rig) {
        incorporate(&mut rig);
        runs += 1;
        assert!(runs < 100, "level 0 waits for ever\n{}", rig.describe());
    }
    assert!(runs > 3, "it did not wait: {runs} runs\n{}", rig.describe());
    rig.work();
    rig.check_reads(&mut random, 100);
}

/// The same for a requested compaction.
#[test]
fn on_a_full_disk_a_requested_compaction_leaves_out_what_failed() {
    let rig = {
        let mut rig = leveled();
        rig.incorporate((0..150).map(|at| put(at * 6000, 2)).collect());
        rig
    };
    let pick = || rig.levels.pick_requested_on_full_disk(&rig.version, &RequestedRange::ALL, &rig.retention());
    let mut failed = 0;
    while let Some(job) = pick() {
        let text = job.to_string();
        rig.levels.note_found_no_space(&job);
        drop(job);
        let again = pick().unwrap();
        assert_eq!(again.to_string(), text);
        rig.levels.note_failed_on_full_disk(&again);
        failed += 1;
        assert!(failed < 1000, "work does not end");
    }
    assert!(failed > 0);
    rig.levels.clear_failures();
    assert!(pick().is_some());
}
