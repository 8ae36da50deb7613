//! Tests with two or three threads under a model checker, which runs thousands of interleavings of their steps (feature
//! `model-checking`; `docs/concurrency.md`, Model checking).
//!
//! `stores` tests whole stores on a simulated disk. `memtables` tests a Memtable in states that a store cannot be
//! brought into. `merges`, `updates`, `transactions`, `keyspaces` and `expiry` test merges, read-modify-writes,
//! transactions, drops and creations of keyspaces, and ticks of their expiry on whole stores.

mod expiry;
mod keyspaces;
mod memtables;
mod merges;
mod stores;
mod transactions;
mod updates;

use crate::util::sync::Arc;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner};

/// A test with more steps than this is considered hung.
const STEPS_MAX: usize = 200_000;
const STACK_BYTES: usize = 512 << 10;
/// Depths for PCT: the number of priority changes plus one. Small depths find most bugs, with the greatest probability.
const DEPTHS: [usize; 2] = [3, 5];

pub(crate) type Thread<'a> = Box<dyn FnOnce() + Send + 'a>;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs a test in as many interleavings as `ALLUVIUM_SCHEDULES` says: half of them random, half with priorities that
/// change a few times (PCT).
pub(crate) fn check(test: impl Fn() + Send + Sync + 'static) {
    let schedules = setting("ALLUVIUM_SCHEDULES", 400) as usize;
    let seed = setting("ALLUVIUM_SEED", 1);
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    let test = Arc::new(test);
    let first = Arc::clone(&test);
    Runner::new(RandomScheduler::new_from_seed(seed, schedules.div_ceil(2)), config.clone()).run(move || first());
    for depth in DEPTHS {
        let test = Arc::clone(&test);
        Runner::new(PctScheduler::new_from_seed(seed, depth, schedules.div_ceil(4)), config.clone())
            .run(move || test());
    }
}

/// Runs threads concurrently and waits until all have ended.
pub(crate) fn together(threads: Vec<Thread<'_>>) {
    shuttle::thread::scope(|scope| {
        for thread in threads {
            scope.spawn(thread);
        }
    });
}

/// The value for a key and a count: equal words that encode both. The number of words depends on the count.
fn value(key: &str, count: u64) -> Vec<u8> {
    let word = u64::from(key.as_bytes()[0]) << 32 | count;
    (0..words(count)).flat_map(|_| word.to_le_bytes()).collect()
}

fn words(count: u64) -> usize {
    2 + count as usize % 2
}

/// The count that a value encodes. Panics if the value is torn or belongs to another key.
fn count(key: &str, value: &[u8]) -> u64 {
    let read: Vec<u64> = value.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let Some(first) = read.first() else { panic!("{key}: a value of {} bytes", value.len()) };
    let count = first & u64::from(u32::MAX);
    assert!(read.iter().all(|word| word == first) && read.len() == words(count), "{key}: the value is torn: {read:x?}");
    assert_eq!(first >> 32, u64::from(key.as_bytes()[0]), "{key}: the value is another key's");
    count
}
