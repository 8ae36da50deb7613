//! Are transactions serializable, in the order of real time? Many runs of real threads on a real store with tiny parts; each run's history is
//! judged by a checker of our own, in the way of Elle. `tests/suite/concurrency/linearizability.rs` judges transactions, too, by another way that takes any
//! operation and is exact, on short histories; this one takes long ones, and names what is wrong.
//!
//! - `history`: what transactions did and saw, and when. `effects`, `checker`, `graph`: whether some order explains it. `anomaly`: what
//!   is wrong, as a story. `hand_made`: the checker itself is tested.
//! - `lists`: the keys of a run and what their values say. `client`: a thread that runs transactions and writes down what it saw. `world`:
//!   a store, its threads, run after run.
//!
//! More by command: `ALLUVIUM_TRANSACTION_HISTORIES=10000 cargo test --test suite serializability -- --nocapture`, from `ALLUVIUM_SEED` on.

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

/// Histories of one store.
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
            panic!("{error}\ntry it again with ALLUVIUM_SEED={seed} ALLUVIUM_TRANSACTION_HISTORIES=1 {command}")
        });
        total.add(&tally);
        if seed.is_multiple_of(200) {
            println!("{} histories in {:?}", total.histories, begun.elapsed());
        }
    }
    println!("{total:?} in {:?}", begun.elapsed());
    assert!(total.committed > total.conflicts && total.conflicts > total.histories, "{total:?}");
    assert!(total.phantoms > 0 && total.incorporations > total.histories / 4, "{total:?}");
}
