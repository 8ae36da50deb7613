//! Random writes, snapshots and reopenings, against a model of every version.

use super::rig::{Random, Rig, Write, number_key, small_options};

fn random_writes(random: &mut Random, count: usize, keys: u64, deletes_percent: usize) -> Vec<Write> {
    let write = |_| {
        let key = number_key(random.next() % keys);
        let length = 20 + random.below(100);
        let value = (random.below(100) >= deletes_percent).then(|| vec![random.next() as u8; length]);
        (key, value)
    };
    (0..count).map(write).collect()
}

fn run(seed: u64, keys: u64, rounds: usize, deletes_percent: usize) -> Rig {
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut rig = Rig::new(small_options(16 << 10));
    for round in 0..rounds {
        let count = 1 + random.below(400);
        let writes = random_writes(&mut random, count, keys, deletes_percent);
        rig.incorporate(writes);
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
    rig.check_reads(&mut random, 500);
    rig.reopen();
    rig.check_reads(&mut random, 500);
    rig
}

#[test]
fn distinct_keys() {
    for seed in [1, 2] {
        let rig = run(seed, 100_000_000, 120, 0);
        assert!(rig.tree.root().height >= 2, "{:?}", rig.tree.figures());
    }
}

#[test]
fn overwrites_and_deletes() {
    for (seed, deletes) in [(3, 10), (4, 50)] {
        run(seed, 3_000, 100, deletes);
    }
}

#[test]
fn few_keys_with_many_versions() {
    for seed in [5, 6] {
        run(seed, 7, 40, 5);
    }
}

#[test]
fn everything_deleted_leaves_next_to_nothing() {
    let mut rig = Rig::new(small_options(16 << 10));
    for round in 0..40u64 {
        rig.incorporate((0..100).map(|at| (number_key(round * 100 + at), Some(vec![1; 100]))).collect());
        rig.work();
    }
    let full = rig.tree.figures().file_bytes;
    for round in 0..40u64 {
        rig.incorporate((0..100).map(|at| (number_key(round * 100 + at), None)).collect());
        rig.work();
    }
    let figures = rig.tree.figures();
    assert!(figures.file_bytes < full / 2, "{figures:?}, {full} bytes before");
    rig.check_reads(&mut Random(7), 100);
}
