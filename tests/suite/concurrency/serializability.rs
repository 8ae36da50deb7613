//! Tests that transactions are strictly serializable. Real threads do many runs on a store with tiny budgets, and a
//! checker in the style of Elle verifies each run's history. `tests/suite/concurrency/linearizability.rs` checks
//! transactions, too: its checker takes any operation and is exact, but needs short histories. This checker takes long
//! histories and names the anomaly.
//!
//! - `history`: what transactions did and saw, and when. `effects`, `checker`, `graph`: whether some order explains it.
//!   `anomaly`: describes the violation. `hand_made`: tests of the checker.
//! - `lists`: the keys of a run and the meaning of their values. `client`: a thread that runs transactions and records
//!   what it saw. `world`: a store and its threads, which do one run after another.
//!
//! Longer runs: `ALLUVIUM_TRANSACTION_HISTORIES=10000 cargo test --test suite serializability -- --nocapture`, with
//! seeds from `ALLUVIUM_SEED` on.

mod anomaly;
mod checker;
mod client;
mod effects;
mod graph;
mod hand_made;
mod history;
mod lists;
mod world;

use crate::support::setting;
use std::time::Instant;

/// The number of histories of one store.
const HISTORIES_PER_WORLD: u64 = 6;

#[test]
fn random_histories_are_serializable() {
    let (first, histories) = (setting("ALLUVIUM_SEED", 1), setting("ALLUVIUM_TRANSACTION_HISTORIES", 150));
    let (mut total, begun) = (world::Tally::default(), Instant::now());
    for seed in first.. {
        if total.histories >= histories {
            break;
        }
        let tally = world::run(seed, HISTORIES_PER_WORLD).unwrap_or_else(|error| {
            let command = "cargo test --test suite serializability::random -- --nocapture";
            panic!("{error}\nrepeat it with ALLUVIUM_SEED={seed} ALLUVIUM_TRANSACTION_HISTORIES=1 {command}")
        });
        total.add(&tally);
        if seed.is_multiple_of(200) {
            println!("{} histories in {:?}", total.histories, begun.elapsed());
        }
    }
    println!("{total:?} in {:?}", begun.elapsed());
    assert!(total.committed > total.conflicts && total.conflicts > total.histories, "{total:?}");
    assert!(total.blind > total.histories && total.deleted_ranges > total.histories, "{total:?}");
    assert!(total.phantoms > 0 && total.incorporations > total.histories / 4, "{total:?}");
}
