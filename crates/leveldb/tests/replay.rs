//! Runs random operations with LevelDB itself and with this library, and compares the answers.

use crate::install::{Whose, compile, has, has_leveldb, text};
use tempfile::tempdir;

#[test]
fn random_operations_have_the_results_of_leveldb() {
    if !has("cc") || !has_leveldb() {
        return;
    }
    let program = compile("tests/c/replay.c", Whose::LevelDb, &[]);
    let seeds: u64 = std::env::var("ALLUVIUM_REPLAYS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(2);
    for seed in 1..=seeds {
        for comparator in ["0", "1"] {
            let answers = [Whose::LevelDb, Whose::Ours].map(|whose| {
                let folder = tempdir().unwrap();
                let directory = folder.path().join("db");
                let directory = directory.to_str().unwrap();
                text(&program.run(whose, &[directory, &seed.to_string(), "3000", comparator]))
            });
            let [real, ours] = &answers;
            let differs = real.lines().zip(ours.lines()).position(|(real, ours)| real != ours);
            assert!(
                differs.is_none() && real.len() == ours.len(),
                "seed {seed}, comparator {comparator}: line {differs:?} differs"
            );
            assert!(real.lines().count() > 500, "too few answers");
        }
    }
}
