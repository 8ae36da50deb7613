//! The same operations under many random settings give the same answers.
//!
//! One sequence of operations is drawn from a seed and applied to a model and to several stores. Each store has its own
//! settings, which change with each opening. Some do the operations in the default keyspace, others in one with a name.
//! Between the operations each store also does work that may not change any answer: pauses and limits of background
//! work, flushes, merges, checks, and writes, drops and creations of other keyspaces. Every answer must be that of the
//! model. After each close `verify` must find no damage, and the files on the disk must be those that the manifest names.
//!
//! - `operation`: the operations, drawn from a seed.
//! - `model`: sorted maps, which give the right answers.
//! - `settings`: how a store is opened.
//! - `store`: a store that does the operations.
//!
//! `ALLUVIUM_METAMORPHIC` is the number of sequences, with seeds from `ALLUVIUM_SEED` on. A failure prints the seed,
//! the settings and the operation; on a store without threads the sequence is then shrunk to a short one that still
//! fails.

mod model;
mod operation;
mod settings;
mod store;

use crate::support::setting;
use model::Model;
use operation::{Answer, Drawn, draw};
use std::panic::{AssertUnwindSafe, catch_unwind};
use store::Store;

/// The number of stores. The first half has no threads and is a pure function of the seed.
const STORES: u64 = 6;
const OPERATIONS: usize = 700;
/// The largest number of runs for shrinking a failing sequence.
const SHRINKING_RUNS: usize = 300;

/// The operations of a seed with their answers, and the store that does them.
struct Case<'a> {
    seed: u64,
    store: u64,
    drawn: &'a [Drawn],
    answers: &'a [Answer],
}

impl Case<'_> {
    /// Returns the index of the first operation that fails, and a description of the fault.
    fn run(&self) -> Result<Store, (usize, String)> {
        let mut store = Store::open(self.seed, self.store);
        for (at, (drawn, expected)) in self.drawn.iter().zip(self.answers).enumerate() {
            let done = catch_unwind(AssertUnwindSafe(|| {
                store.disturb(drawn.id);
                store.apply(drawn)
            }));
            let found = done.map_err(|panic| (at, format!("{}: {}", store.settings(), message(&*panic))))?;
            if found != *expected {
                let difference = found.difference(expected);
                return Err((at, format!("{}: {difference}", store.settings())));
            }
        }
        let last = self.drawn.len();
        let ended = catch_unwind(AssertUnwindSafe(|| store.end()));
        ended.map_err(|panic| (last, format!("{}: at the end: {}", store.settings(), message(&*panic))))?;
        Ok(store)
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic")
}

fn answers(drawn: &[Drawn]) -> Vec<Answer> {
    let mut model = Model::default();
    drawn.iter().map(|drawn| model.apply(&drawn.operation)).collect()
}

/// Finds a short sequence that fails on this store, and its fault, by removing pieces, large ones first.
fn shrink(seed: u64, store: u64, drawn: &[Drawn]) -> Option<(Vec<Drawn>, String)> {
    let fails = |drawn: &[Drawn]| {
        let answers = answers(drawn);
        Case { seed, store, drawn, answers: &answers }.run().err()
    };
    let (mut runs, mut shortest, mut length) = (0, drawn.to_vec(), drawn.len() / 2);
    let mut found = None;
    while length > 0 {
        let (mut from, mut removed) = (0, false);
        while from < shortest.len() && runs < SHRINKING_RUNS {
            let mut shorter = shortest.clone();
            shorter.drain(from..shorter.len().min(from + length));
            runs += 1;
            match fails(&shorter) {
                Some((at, what)) => {
                    shorter.truncate(at + 1);
                    (shortest, found, removed) = (shorter, Some(what), true);
                }
                None => from += length,
            }
        }
        length = if removed && length == 1 { 1 } else { length / 2 };
        if runs >= SHRINKING_RUNS {
            break;
        }
    }
    Some((shortest, found?))
}

#[test]
fn answers_do_not_depend_on_settings() {
    let first = setting("ALLUVIUM_SEED", 1);
    let (mut deepest, mut maplets, mut incorporations) = (0, 0, 0);
    for seed in first..first + setting("ALLUVIUM_METAMORPHIC", 4) {
        let drawn = draw(seed, OPERATIONS);
        let answers = answers(&drawn);
        for number in 0..STORES {
            let case = Case { seed, store: number, drawn: &drawn, answers: &answers };
            match case.run() {
                Ok(store) => {
                    deepest = store.seen.levels.max(deepest);
                    maplets += store.seen.maplets;
                    incorporations += store.seen.incorporations;
                }
                Err((at, what)) => fail(&case, at, &what),
            }
        }
    }
    println!("{deepest} levels, {maplets} maplets, {incorporations} incorporations");
    assert!(deepest >= 3 && maplets > 0 && incorporations > 100, "the settings reach too few parts of the store");
}

fn fail(case: &Case<'_>, at: usize, what: &str) -> ! {
    let operation = case.drawn.get(at).map_or("the end".to_owned(), |drawn| format!("{:?}", drawn.operation));
    println!("seed {}, store {}: operation {at}, {operation}: {what}", case.seed, case.store);
    if case.store < STORES / 2 {
        let until = &case.drawn[..case.drawn.len().min(at + 1)];
        match shrink(case.seed, case.store, until) {
            Some((shortest, what)) => {
                println!("{} of its operations are enough:", shortest.len());
                shortest.iter().for_each(|drawn| println!("    {}: {:?}", drawn.id, drawn.operation));
                println!("{what}");
            }
            None => println!("no shorter sequence fails"),
        }
    }
    panic!("ALLUVIUM_SEED={} ALLUVIUM_METAMORPHIC=1 fails, see above", case.seed);
}
