//! Is the store linearizable? Many short runs of real threads on a real store with tiny parts, so that generations are switched,
//! drained and incorporated in the middle of them; each run's history is judged by a checker of our own.
//!
//! - `history`: what the threads did and saw, and when. `checker`: whether some order of instants explains it. `shrink`, `report`: the
//!   smallest part of it that nothing explains, for people. `hand_made`: the checker itself is tested.
//! - `plan`: what the threads are to do, drawn from a seed. `values`: what they write. `recorder`: a thread that does it and writes
//!   down what it saw. `stalls`: threads stand still in the middle of operations. `world`: a store, its threads, run after run.
//!
//! More by command: `ALLUVIUM_HISTORIES=100000 cargo test --test suite linearizability -- --nocapture`, from `ALLUVIUM_SEED`
//! on. A failure prints the smallest part of its history, its seed, and the command that tries the same plan again and again: threads
//! do not repeat themselves, so it may take many tries.

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

/// Histories of one store.
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
            panic!(
                "{error}\ntry it again with ALLUVIUM_AGAIN=1 ALLUVIUM_SEED={seed} ALLUVIUM_HISTORIES=100000 {command}"
            )
        });
        total.add(tally);
        if (at + 1).is_multiple_of(200) {
            println!("{} histories in {:?}", total.histories, begun.elapsed());
        }
    }
    println!("{total:?} in {:?}", begun.elapsed());
    assert!(total.overlaps > total.operations / 2 && total.incorporations > total.histories / 10, "{total:?}");
}
