//! Tests that the store is linearizable, in one keyspace and over two, of which one is emptied and dropped. Real threads
//! do many short runs on a store with tiny budgets, so that generations are switched, drained and incorporated during a
//! run. A checker decides for each run's history whether it is linearizable.
//!
//! - `history`: what the threads did and saw, and when. `checker`: whether some order of instants explains it.
//!   `shrink`, `report`: the smallest part that no order explains, for people. `hand_made`: tests of the checker.
//! - `plan`: what the threads do, drawn from a seed. `values`: what they write. `recorder`: a thread that follows the
//!   plan and records what it saw. `stalls`: stops threads in the middle of operations. `world`: a store and its
//!   threads, which do one run after another.
//!
//! Longer runs: `ALLUVIUM_HISTORIES=100000 cargo test --test suite linearizability -- --nocapture`, with seeds from
//! `ALLUVIUM_SEED` on. A failure prints the smallest failing part of its history, the seed, and the command that
//! repeats the plan. Threads are not deterministic, so many tries may be needed.

mod checker;
mod hand_made;
pub mod history;
mod plan;
mod recorder;
mod report;
mod shrink;
pub mod stalls;
pub mod values;
mod world;

use crate::support::setting;
use std::time::Instant;

/// The number of histories of one store.
const HISTORIES_PER_WORLD: u64 = 60;

/// Promises 1 to 3, on thousands of histories.
#[test]
fn random_histories_are_linearizable() {
    let (first, histories) = (setting("ALLUVIUM_SEED", 1), setting("ALLUVIUM_HISTORIES", 3000));
    let again = setting("ALLUVIUM_AGAIN", 0);
    let (mut total, begun) = (world::Tally::default(), Instant::now());
    for at in 0.. {
        if total.histories >= histories {
            break;
        }
        let seed = if again > 0 { first } else { first + at };
        let tally = world::run(seed, HISTORIES_PER_WORLD).unwrap_or_else(|error| {
            let command = "cargo test --test suite linearizability::random -- --nocapture";
            panic!("{error}\nrepeat it with ALLUVIUM_AGAIN=1 ALLUVIUM_SEED={seed} ALLUVIUM_HISTORIES=100000 {command}")
        });
        total.add(tally);
        if (at + 1).is_multiple_of(200) {
            println!("{} histories in {:?}", total.histories, begun.elapsed());
        }
    }
    println!("{total:?} in {:?}", begun.elapsed());
    assert!(total.overlaps > total.operations / 2 && total.incorporations > total.histories / 10, "{total:?}");
}
