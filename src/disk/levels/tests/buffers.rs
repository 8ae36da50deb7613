//! What waits in memory: how much, what depends on it, and what becomes of it.

use super::rig::{AnyWrite, MEMTABLE, Random, Rig, number_key, small};
use crate::branch::BlockingPages;
use crate::disk::levels::state::version::LevelsVersion;
use crate::disk::levels::{Levels, LevelsOptions, LevelsTuning};
use crate::disk::runs::requested_range::RequestedRange;
use crate::disk::runs::testing::Append;
use crate::merge::MergeOperators;
use crate::util::hash::encoded_key_hash;
use crate::util::sync::Arc;
use crate::util::{FileNumber, SequenceNumber};

fn puts(random: &mut Random, count: usize, value: u8) -> Vec<AnyWrite> {
    (0..count).map(|_| AnyWrite::Put(number_key(random.next() % 1_000_000), vec![value; 100])).collect()
}

/// Options of levels with buffers of this size.
fn with_buffers(bytes: u64) -> LevelsOptions {
    small(LevelsOptions { buffer_bytes: Some(bytes), ..LevelsOptions::skip() })
}

/// Writes until keys wait in memory that depend on several files.
fn filled(options: &LevelsOptions) -> Rig {
    let (mut rig, mut random) = (Rig::new(options), Random(3));
    for _ in 0..100 {
        rig.incorporate(puts(&mut random, 150, 1));
        rig.work();
        if rig.version.parents().iter().count() > 2 {
            return rig;
        }
    }
    panic!("nothing waits in memory\n{}", rig.describe());
}

fn find(version: &LevelsVersion, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let at = SequenceNumber::MAX;
    let found = version.get(key, encoded_key_hash(key), at, &mut BlockingPages::new(), &mut value).unwrap();
    found.map(|_| value)
}

/// One file more than that.
#[test]
fn buffers_keep_to_their_size_and_what_is_kept_for_them_to_a_multiple_of_it() {
    const BUFFERS: u64 = 2 * MEMTABLE;
    let (mut rig, mut random) = (Rig::new(&with_buffers(BUFFERS)), Random(4));
    let (mut most, mut most_kept) = (0, 0);
    for _ in 0..80 {
        rig.incorporate(puts(&mut random, 150, 2));
        rig.work();
        most = most.max(rig.version.buffered_bytes());
        most_kept = most_kept.max(rig.version.parents().bytes());
    }
    let written = rig.levels.written();
    assert!(written.checkpoint_bytes > 0 && written.buffered_bytes > 4 * BUFFERS, "{written:?}");
    assert!((BUFFERS / 2..=BUFFERS).contains(&most), "{most}");
    assert!(most_kept <= rig.version.tuning().parent_bytes(), "{most_kept}");
    rig.check_reads(&mut random, 200);
}

#[test]
fn without_buffers_all_that_skips_is_in_files() {
    let (mut rig, mut random) = (Rig::new(&with_buffers(0)), Random(5));
    for _ in 0..40 {
        rig.incorporate(puts(&mut random, 150, 1));
        rig.work();
        assert_eq!((rig.version.buffered_bytes(), rig.state.buffered.len()), (0, 0));
    }
    assert!(rig.levels.written().skipped[2] > 0);
    assert_eq!(rig.levels.written().transition_bytes, 0);
}

/// An opening with less memory writes what is too much.
#[test]
fn smaller_buffers_at_the_next_opening_are_written_to_files() {
    let mut rig = filled(&with_buffers(8 * MEMTABLE));
    let mut random = Random(6);
    let shape = rig.state.levels.unwrap();
    let tuning = LevelsTuning::new(shape, MEMTABLE, MEMTABLE / 16, MergeOperators::new(Some(Arc::new(Append))));
    assert!(rig.version.buffered_bytes() > 2 * tuning.buffer_bytes);
    (rig.levels, rig.version) = Levels::open(Arc::clone(&rig.context), tuning, &rig.state).unwrap();
    rig.work();
    assert!(rig.version.parents().bytes() <= rig.version.tuning().parent_bytes());
    rig.check_reads(&mut random, 200);
}

/// A parent has older versions, and keys that merges have taken elsewhere; the deletes that hid them may be gone.
#[test]
fn what_else_a_parent_has_stays_gone() {
    let mut rig = filled(&with_buffers(8 * MEMTABLE));
    let mut random = Random(7);
    // Deletes everything that is not in memory.
    let entries = crate::disk::runs::testing::entries(&mut rig.version.cursor());
    let waits = |key: &[u8]| {
        let buffered = rig.version.levels().iter().flat_map(|level| level.branches());
        buffered.filter(|branch| branch.in_buffer().is_some()).any(|branch| {
            let cursor: &mut dyn crate::merge::Cursor = &mut branch.cursor(crate::branch::Purpose::Read);
            cursor.seek(key, SequenceNumber::MAX).unwrap();
            cursor.valid() && cursor.entry().key == key
        })
    };
    let doomed: Vec<_> = entries.iter().map(|entry| entry.as_ref().key.to_vec()).filter(|key| !waits(key)).collect();
    assert!(doomed.len() > 100);
    let parents = rig.state.parents();
    rig.incorporate(doomed.iter().cloned().map(AnyWrite::Delete).collect());
    rig.work();
    let kept: Vec<FileNumber> = parents.intersection(&rig.state.parents()).copied().collect();
    for round in 0..2 {
        rig.check_reads(&mut random, 300);
        for key in &doomed {
            assert_eq!(rig.get(key, SequenceNumber::MAX.0), None, "after {round} openings, with {kept:?}");
        }
        rig.reopen();
    }
}

#[test]
fn an_older_version_reads_what_was_merged_and_its_memory_counts() {
    let mut rig = filled(&with_buffers(8 * MEMTABLE));
    let mut random = Random(8);
    let old = Arc::clone(&rig.version);
    let key = {
        let buffered =
            old.levels().iter().flat_map(|level| level.branches()).find(|branch| branch.in_buffer().is_some());
        buffered.unwrap().meta().key_min.clone()
    };
    let value = find(&old, &key);
    assert!(value.is_some());
    rig.incorporate(puts(&mut random, 300, 9));
    rig.incorporate(vec![AnyWrite::Delete(key.clone())]);
    let all = RequestedRange { clean: true, ..RequestedRange::ALL };
    while let Some(job) = rig.levels.pick_requested(&rig.version, &all, &rig.retention()) {
        rig.finish(&job);
    }
    assert_eq!((rig.version.buffered_bytes(), rig.version.parents().iter().count()), (0, 0));
    assert!(rig.state.buffered.is_empty());
    assert_eq!((find(&rig.version, &key), find(&old, &key)), (None, value));
    let counted = |rig: &Rig| rig.context.cache.memory().buffer_bytes();
    let (before, buffered) = (counted(&rig), old.buffered_bytes() as usize);
    drop(old);
    assert!(before - counted(&rig) >= buffered, "{before} {} {buffered}", counted(&rig));
}

/// A checkpoint takes what was in memory when it was asked for, whatever comes meanwhile.
#[test]
fn a_requested_checkpoint_leaves_files_only() {
    let mut rig = filled(&with_buffers(8 * MEMTABLE));
    let mut random = Random(9);
    let before = rig.state.buffered.len();
    let request = RequestedRange { buffered_below: Some(rig.context.numbers.next()), ..RequestedRange::ALL };
    assert!(before > 0 && rig.levels.remaining(&rig.version, &request, &rig.retention()).is_some());
    let mut jobs = 0;
    while let Some(job) = rig.levels.pick_requested(&rig.version, &request, &rig.retention()) {
        rig.finish(&job);
        // Its claim would hold up the work below.
        drop(job);
        jobs += 1;
        if jobs == 1 {
            rig.incorporate(puts(&mut random, 150, 3));
            rig.work();
        }
        assert!(jobs < 100);
    }
    assert_eq!(rig.levels.remaining(&rig.version, &request, &rig.retention()), None);
    let below = request.buffered_below.unwrap();
    assert!(rig.state.buffered.keys().all(|file| *file >= below));
    rig.check_reads(&mut random, 200);
    rig.reopen();
    rig.check_reads(&mut random, 200);
}

/// Two branches in memory of one run: the merge that consumes one leaves the other, although they came together.
#[test]
fn a_replay_removes_branches_and_not_key_ranges() {
    let mut rig = filled(&with_buffers(8 * MEMTABLE));
    let mut random = Random(10);
    let mut has_kept_neighbour = false;
    for _ in 0..200 {
        let before = rig.state.clone();
        if let Some(job) = rig.pick() {
            rig.finish(&job);
            let gone: Vec<_> = before.buffered.keys().filter(|file| !rig.state.buffered.contains_key(file)).collect();
            let input = job.compaction.files();
            assert!(gone.iter().all(|file| input.contains(file)), "{gone:?} {job}");
            let range = &job.compaction.range;
            has_kept_neighbour |= !gone.is_empty()
                && rig.state.buffered.iter().any(|(file, kept)| {
                    before.buffered.contains_key(file)
                        && kept.meta.key_min[..] < *range.upper
                        && !kept.meta.ends_before(&range.lower)
                });
        } else {
            rig.incorporate(puts(&mut random, 150, 4));
        }
    }
    assert!(has_kept_neighbour, "no merge left anything of its key range in memory");
    rig.reopen();
    rig.check_reads(&mut random, 300);
}
