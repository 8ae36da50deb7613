//! Random writes of every kind, snapshots, reopenings, concurrent jobs and requested compactions, against a model of
//! every version.

use super::rig::{AnyWrite, Random, Rig, number_key, small};
use crate::disk::levels::{Job, LevelsOptions, Outcome};
use crate::disk::runs::requested_range::RequestedRange;
use crate::util::SequenceNumber;

fn any_write(random: &mut Random, keys: u64) -> AnyWrite {
    let key = number_key(random.next() % keys);
    match random.below(100) {
        0..60 => AnyWrite::Put(key, vec![random.next() as u8; 20 + random.below(100)]),
        60..85 => AnyWrite::Delete(key),
        85..99 => AnyWrite::Merge(key, vec![random.next() as u8; 1 + random.below(9)]),
        _ => {
            let from = random.next() % keys;
            let span = 1 + random.next() % (keys / 20 + 1);
            AnyWrite::RangeDelete(number_key(from), number_key(from + span))
        }
    }
}

/// Jobs that run at the same time as others, and whose outcomes are applied in any order.
#[derive(Default)]
struct Running(Vec<(Job, Outcome)>);

impl Running {
    fn begin(&mut self, rig: &Rig) {
        if let Some(job) = rig.pick() {
            let outcome = rig.run(&job);
            self.0.push((job, outcome));
        }
    }

    fn end(&mut self, rig: &mut Rig, at: usize) {
        let (job, outcome) = self.0.swap_remove(at);
        rig.apply(outcome);
        drop(job);
    }
}

fn run(seed: u64, options: &LevelsOptions, keys: u64, rounds: usize) -> Rig {
    println!("seed {seed}, {options:?}");
    let mut random = Random(seed);
    let mut rig = Rig::new(options);
    let mut running = Running::default();
    for round in 0..rounds {
        let count = 1 + random.below(300);
        rig.incorporate((0..count).map(|_| any_write(&mut random, keys)).collect());
        match random.below(10) {
            0 => drop(rig.pins.insert(rig.last)),
            1 => drop(rig.pins.pop_first()),
            2 if running.0.is_empty() => rig.reopen(),
            3 if running.0.is_empty() => drop(rig.work()),
            _ => {}
        }
        for _ in 0..random.below(4) {
            if random.below(2) == 0 {
                running.begin(&rig);
            } else if !running.0.is_empty() {
                let at = random.below(running.0.len());
                running.end(&mut rig, at);
            }
        }
        if round % 8 == 0 {
            rig.check_reads(&mut random, 50);
        }
    }
    while !running.0.is_empty() {
        running.end(&mut rig, 0);
    }
    rig.work();
    rig.check_reads(&mut random, 300);
    rig.reopen();
    rig.check_reads(&mut random, 300);
    rig
}

/// Compacts a range, as a store does.
fn compact(rig: &mut Rig, range: &RequestedRange) -> usize {
    let mut jobs = 0;
    while let Some(left) = rig.levels.remaining(&rig.version, range, &rig.retention()) {
        let job = rig.levels.pick_requested(&rig.version, range, &rig.retention());
        let job = job.unwrap_or_else(|| panic!("{left} bytes are left, but no job\n{}", rig.describe()));
        rig.finish(&job);
        jobs += 1;
        assert!(jobs < 1000, "a requested compaction does not end");
    }
    jobs
}

fn presets() -> [LevelsOptions; 10] {
    let lazy = LevelsOptions { merge_percent: 50, ..small(LevelsOptions::tiered()) };
    let one = LevelsOptions { level0_runs: 1, ..small(LevelsOptions::leveled()) };
    // As far as there are levels, into few runs; and one level, into many.
    let far = LevelsOptions { max_skip: 6, skip_runs: 1, base_level_bytes: Some(8192), ..small(LevelsOptions::skip()) };
    let near = LevelsOptions { max_skip: 1, skip_runs: 9, ..small(LevelsOptions::skip()) };
    // In files, in hardly any memory, and in more memory than there is data.
    let buffers = |bytes| LevelsOptions { buffer_bytes: Some(bytes), ..small(LevelsOptions::skip()) };
    let (leveled, tiered, skip) = (LevelsOptions::leveled(), LevelsOptions::tiered(), LevelsOptions::skip());
    [small(leveled), small(tiered), lazy, one, small(skip), far, near, buffers(0), buffers(3000), buffers(1 << 30)]
}

#[test]
fn many_keys() {
    for (seed, options) in presets().iter().enumerate() {
        let rig = run(seed as u64, options, 4000, 80);
        assert!(rig.version.levels().len() >= 3 || options.runs_per_level == 1, "{}", rig.describe());
    }
}

#[test]
fn few_keys_with_many_versions() {
    for (seed, options) in presets().iter().enumerate() {
        run(10 + seed as u64, options, 9, 40);
    }
}

#[test]
fn distinct_keys_make_several_levels() {
    for options in presets() {
        let (mut rig, mut random) = (Rig::new(&options), Random(20));
        for _ in 0..60 {
            rig.incorporate(
                (0..150).map(|_| AnyWrite::Put(number_key(random.next() % 100_000_000), vec![1; 100])).collect(),
            );
            rig.work();
        }
        assert!(rig.version.levels().len() >= 4, "{}", rig.describe());
        let skipped = rig.levels.written().skipped;
        assert_eq!(options.max_skip > 1, skipped[2..].iter().any(|count| *count > 0), "{skipped:?}");
        rig.check_reads(&mut random, 200);
    }
}

#[test]
fn requested_compactions_leave_one_run_without_garbage() {
    for (seed, options) in presets().iter().enumerate() {
        let mut random = Random(30 + seed as u64);
        let mut rig = run(30 + seed as u64, options, 2000, 40);
        rig.pins.clear();
        let part = RequestedRange { lower: number_key(300), upper: Some(number_key(900)), ..RequestedRange::ALL };
        compact(&mut rig, &part);
        rig.check_reads(&mut random, 100);
        let met = |rig: &Rig| {
            let meets = |run: &&(usize, &crate::disk::levels::state::version::LevelRun)| {
                run.1.run.parts().iter().any(|branch| part.counts(branch))
            };
            rig.version.runs().collect::<Vec<_>>().iter().filter(meets).count()
        };
        assert_eq!(met(&rig), 1, "{}", rig.describe());
        let clean = RequestedRange { clean: true, ..RequestedRange::ALL };
        compact(&mut rig, &clean);
        assert_eq!(rig.version.runs().count(), 1, "{}", rig.describe());
        let load = rig.version.load();
        assert_eq!((load.tombstones, load.range_tombstones), (0, 0));
        assert_eq!(load.entries, rig.expected(SequenceNumber::MAX.0).len() as u64);
        assert_eq!(compact(&mut rig, &clean), 0);
        rig.work();
        rig.reopen();
        rig.check_reads(&mut random, 100);
    }
}

#[test]
fn everything_deleted_leaves_nothing() {
    for options in presets() {
        let mut rig = Rig::new(&options);
        for round in 0..30u64 {
            rig.incorporate((0..100).map(|at| AnyWrite::Put(number_key(round * 100 + at), vec![1; 100])).collect());
            rig.work();
        }
        for round in 0..30u64 {
            rig.incorporate((0..100).map(|at| AnyWrite::Delete(number_key(round * 100 + at))).collect());
            rig.work();
        }
        assert_eq!(rig.version.load().entries, 0, "{}", rig.describe());
        assert!(rig.state.branches.is_empty() && rig.state.runs.is_empty());
    }
}
