//! Write and space amplification, at a small scale. Bytes are those of files, indexes and filters included, so branches
//! are not too small here.

use super::rig::{Random, Rig, Write, key, number_key, small_options};
use crate::disk::runs::requested_range::RequestedRange;

const BRANCH_BYTES: u64 = 256 << 10;
/// With this entry size, the file of a Memtable has 1.17 times `BRANCH_BYTES`. The figures of nearly sequential loads
/// depend on that: with 1.09 times, a load of 99% is written 1.05 times and not 1.03 times.
const ENTRY_BYTES: u64 = 105;
const ENTRIES_PER_BRANCH: u64 = BRANCH_BYTES / ENTRY_BYTES;

fn random_write(random: &mut Random) -> Write {
    (key(&format!("{:08x}", random.next() as u32)), Some(vec![random.next() as u8; 100]))
}

/// Loads `branches` Memtables and does all work after each.
fn load(rig: &mut Rig, branches: u64, mut write: impl FnMut() -> Write) {
    rig.checks = false;
    for _ in 0..branches {
        let writes = (0..ENTRIES_PER_BRANCH).map(|_| write()).collect();
        rig.incorporate(writes);
        rig.work();
    }
    rig.check_files();
}

#[test]
fn a_random_load_is_rewritten_little() {
    let mut rig = Rig::new(small_options(BRANCH_BYTES));
    let mut random = Random(11);
    load(&mut rig, 80, || random_write(&mut random));
    let figures = rig.tree.figures();
    println!("{:.2} {:.2} {figures:?}", rig.writes_per_entry(), rig.write_amplification());
    assert!(
        rig.writes_per_entry() < 2.3 && rig.write_amplification() < 3.5,
        "{:.2} {figures:?}",
        rig.writes_per_entry()
    );
    let runs: u64 = figures.levels.iter().map(|level| level.runs_max).sum();
    assert!(runs <= 8 * figures.levels.len() as u64 + 8, "{figures:?}");
}

/// SplinterDB §3: a load that fills one leaf after the other is never merged.
#[test]
fn a_sequential_load_is_written_once() {
    let mut rig = Rig::new(small_options(BRANCH_BYTES));
    let mut next = 0;
    load(&mut rig, 60, || {
        next += 1;
        (number_key(next), Some(vec![7; 100]))
    });
    println!("{:.2} {:?}", rig.write_amplification(), rig.tree.figures());
    assert_eq!(rig.trunk.written().compacted_bytes, 0);
    assert!(rig.write_amplification() < 1.5);
}

/// Uniform overwrites in steady state. Entries are counted, not bytes: at this scale one more page in each file
/// would distort the result.
#[test]
fn overwriting_keeps_the_space_bounded() {
    let mut rig = Rig::new(small_options(BRANCH_BYTES));
    let mut random = Random(12);
    let keys = 12 * ENTRIES_PER_BRANCH;
    let (mut peak, mut sum) = (0.0f64, 0.0);
    for round in 0..12 {
        load(&mut rig, 6, || (number_key(random.next() % keys), Some(vec![random.next() as u8; 100])));
        let live = rig.expected(u64::MAX).len() as f64;
        let figures = rig.tree.figures();
        let space = figures.levels.iter().map(|level| level.load.entries).sum::<u64>() as f64 / live;
        println!("{space:.2} {:.2}", rig.writes_per_entry());
        if round >= 4 {
            peak = peak.max(space);
            sum += space;
        }
    }
    assert!(peak < 1.75 && sum / 8.0 < 1.5, "{peak:.2} {:.2} {:?}", sum / 8.0, rig.tree.figures());
    assert!(rig.writes_per_entry() < 2.4, "{:.2}", rig.writes_per_entry());
}

/// An idle store is merged into one run, and then there is nothing more to do.
#[test]
fn a_requested_merge_leaves_one_run() {
    let mut rig = Rig::new(small_options(BRANCH_BYTES));
    let mut random = Random(13);
    load(&mut rig, 20, || random_write(&mut random));
    let before = rig.tree.figures();
    let mut jobs = 0;
    while let Some(job) = rig.trunk.pick_requested(&rig.tree, &RequestedRange::ALL, &rig.retention()) {
        jobs += 1;
        assert!(jobs < 200, "{job}");
        rig.finish(&job);
    }
    let after = rig.tree.figures();
    assert!(before.levels.iter().any(|level| level.runs_max > 1));
    assert_eq!(after.levels.iter().map(|level| level.runs_max).sum::<u64>(), 1, "{after:?}");
    rig.check_files();
    rig.check_reads(&mut random, 100);
}

/// SplinterDB figure 9: the closer to sequential a load is, the less of it is rewritten. Its few scattered keys make
/// branches that span every leaf. Regression: leaves counted these as runs, although they had no key there, and were
/// merged although nothing was new (1.14 at 99%, and 1.39 at 90%).
#[test]
fn nearly_sequential_loads_are_rewritten_less() {
    let mut before = f64::MAX;
    for (percent, rewriting_max) in [(0, 2.2), (50, 2.0), (90, 1.2), (99, 1.04), (100, 1.0)] {
        let mut rig = Rig::new(small_options(BRANCH_BYTES));
        let (mut random, mut next) = (Random(14), 0);
        load(&mut rig, 60, || {
            next += 1;
            let key = if random.next() % 100 < percent { next } else { random.next() % 10_000_000 };
            (number_key(key), Some(vec![7; 100]))
        });
        println!("{percent}: {:.3} {:.2}", rig.writes_per_entry(), rig.write_amplification());
        assert!(
            rig.writes_per_entry() <= before && rig.writes_per_entry() <= rewriting_max,
            "{percent}: {:.3}",
            rig.writes_per_entry()
        );
        before = rig.writes_per_entry();
        rig.check_reads(&mut random, 100);
    }
}

/// The same if work is done only now and then, as under concurrent writers, so that many Memtables are flushed at once.
/// Regression: the stretches of close keys of many Memtables were rewritten with the few scattered keys between them
/// (1.9 at 99%, where 1.3 is the goal).
///
/// With 105 bytes an entry, as above, it is 1.17 at 99%. The stretch of a Memtable is then a little larger than a part
/// file. The rest is too small for a file of its own (`REUSED_PARTS_MIN`) and goes into the file of the scattered keys.
/// That file overlaps all files in between, so merges reuse none of them. It is 1.15 to 1.17 with 100 to 105 bytes.
/// With 96 bytes, where the rest is large enough for a file, and from 106 bytes on, where there is no rest, it is 1.01.
#[test]
fn stretches_of_close_keys_are_not_rewritten_with_scattered_ones() {
    for (percent, rewriting_max) in [(90, 1.2), (99, 1.15), (100, 1.0)] {
        let mut rig = Rig::new(small_options(BRANCH_BYTES));
        rig.checks = false;
        let (mut random, mut next) = (Random(15), 0);
        for _ in 0..8 {
            for _ in 0..12 {
                let write = |_| {
                    next += 1;
                    let close = random.next() % 100 < percent;
                    let number = if close { next } else { 10_000_000 + random.next() % 80_000_000 };
                    (number_key(number), Some(vec![7; 100]))
                };
                let writes = (0..BRANCH_BYTES / 112).map(write).collect();
                rig.incorporate(writes);
            }
            rig.work();
        }
        println!("{percent}: {:.3} {:.2}", rig.writes_per_entry(), rig.write_amplification());
        assert!(
            rig.writes_per_entry() <= rewriting_max,
            "{percent}: {:.3} {}",
            rig.writes_per_entry(),
            rig.tree.describe()
        );
        rig.check_files();
        rig.check_reads(&mut random, 100);
    }
}
