//! How much is rewritten, at a small scale. Bytes are those of files, their indexes and filters included, so branches are
//! not too small here.

use super::rig::{Random, Rig, Write, key, number_key, small_options};
use crate::disk::trunk::TreeFigures;

const BRANCH_BYTES: u64 = 256 << 10;
const ENTRY_BYTES: u64 = 112;
const ENTRIES_PER_BRANCH: u64 = BRANCH_BYTES / ENTRY_BYTES;

fn random_write(random: &mut Random) -> Write {
    (key(&format!("{:08x}", random.next() as u32)), Some(vec![random.next() as u8; 100]))
}

/// Loads `branches` Memtables, with all work done after each.
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
    let figures = TreeFigures::of(&rig.tree);
    println!("{:.2} {figures:?}", rig.write_amplification());
    assert!(rig.write_amplification() < 3.5, "{:.2} {figures:?}", rig.write_amplification());
    let runs: u64 = figures.levels.iter().map(|level| level.runs_max).sum();
    assert!(runs <= 8 * figures.levels.len() as u64 + 8, "{figures:?}");
}

/// SplinterDB §3: a load that goes to one leaf after the other is merged nowhere.
#[test]
fn a_sequential_load_is_written_once() {
    let mut rig = Rig::new(small_options(BRANCH_BYTES));
    let mut next = 0;
    load(&mut rig, 60, || {
        next += 1;
        (number_key(next), Some(vec![7; 100]))
    });
    println!("{:.2} {:?}", rig.write_amplification(), TreeFigures::of(&rig.tree));
    assert_eq!(rig.trunk.written().compacted_bytes, 0);
    assert!(rig.write_amplification() < 1.5);
}

#[test]
fn overwriting_keeps_the_space_bounded() {
    let mut rig = Rig::new(small_options(BRANCH_BYTES));
    let mut random = Random(12);
    let keys = 12 * ENTRIES_PER_BRANCH;
    let mut peak = 0.0f64;
    for round in 0..8 {
        load(&mut rig, 12, || (number_key(random.next() % keys), Some(vec![random.next() as u8; 100])));
        let live: u64 = rig.expected(u64::MAX).iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
        let space = TreeFigures::of(&rig.tree).file_bytes as f64 / live as f64;
        println!("{space:.2} {:.2}", rig.write_amplification());
        if round >= 2 {
            peak = peak.max(space);
        }
    }
    assert!(peak < 2.0, "{peak:.2} {:?}", TreeFigures::of(&rig.tree));
}

#[test]
#[ignore]
fn explore() {
    for overwrite in [false, true] {
        for (runs_max, percent) in [(6, 25), (8, 25), (12, 25), (16, 25), (8, 50), (12, 50), (8, 12)] {
            let options = crate::disk::trunk::TrunkOptions {
                runs_max,
                node_percent_of_below: percent,
                ..small_options(BRANCH_BYTES)
            };
            let mut rig = Rig::new(options);
            let mut random = Random(11);
            let keys = 12 * ENTRIES_PER_BRANCH;
            let mut line = String::new();
            let (mut space, mut peak, mut n) = (0.0, 0.0f64, 0.0);
            for round in 0..9 {
                let before = rig.trunk.written();
                load(&mut rig, 9, || {
                    if overwrite {
                        (number_key(random.next() % keys), Some(vec![random.next() as u8; 100]))
                    } else {
                        random_write(&mut random)
                    }
                });
                let written = rig.trunk.written();
                let f = TreeFigures::of(&rig.tree);
                let runs: Vec<u64> = f.levels.iter().map(|l| l.runs_max).collect();
                let entries: u64 = f.levels.iter().map(|l| l.load.entries).sum();
                let live = rig.expected(u64::MAX).len() as f64;
                if round >= 3 {
                    space += entries as f64 / live;
                    n += 1.0;
                    peak = peak.max(entries as f64 / live);
                }
                line += &format!(
                    " {:.2}/{:.2}({:?}{})",
                    (written.incorporated_entries + written.compacted_entries) as f64 / rig.user_entries as f64,
                    1.0 + (written.compacted_entries - before.compacted_entries) as f64
                        / (written.incorporated_entries - before.incorporated_entries) as f64,
                    runs,
                    f.levels.last().unwrap().nodes
                );
            }
            println!("runs {runs_max} c {percent}: space {:.2} {peak:.2} {line}", space / n);
        }
    }
}
