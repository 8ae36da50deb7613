//! A store with tiny budgets, and threads that do one run after another on it, each run with its own keys.

use super::checker::check;
use super::client::{Board, Broken, Client};
use super::history::{Action, By, History, Outcome, Transaction};
use super::lists::Lists;
use crate::concurrency::linearizability::stalls::{self, Stalls};
use crate::support::{Random, tiny};
use alluvium::internals::open_small;
use alluvium::merge_operators::Append;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, MemoryComponent};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// The figures of a world's runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub histories: u64,
    pub committed: u64,
    pub conflicts: u64,
    /// Committed transactions that read nothing and merged.
    pub blind: u64,
    /// Range deletes that were committed.
    pub deleted_ranges: u64,
    /// Scans that passed a key before it existed.
    pub phantoms: u64,
    pub incorporations: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.histories += other.histories;
        self.committed += other.committed;
        self.conflicts += other.conflicts;
        self.blind += other.blind;
        self.deleted_ranges += other.deleted_ranges;
        self.phantoms += other.phantoms;
        self.incorporations += other.incorporations;
    }

    fn note(&mut self, history: &History) {
        let is_passed =
            |action: &&Action| matches!(action, Action::Read { list, by: By::Range, .. } if list.is_empty());
        for transaction in &history.transactions {
            match transaction.outcome {
                Outcome::Committed => self.committed += 1,
                Outcome::Aborted => self.conflicts += 1,
            }
            let count = |is: fn(&Action) -> bool| transaction.actions.iter().filter(|action| is(action)).count() as u64;
            if transaction.outcome == Outcome::Committed {
                let is_blind = count(|action| matches!(action, Action::Read { .. })) == 0;
                let is_merge = count(|action| matches!(action, Action::Merge(..))) > 0;
                self.blind += u64::from(transaction.name == "transaction" && is_blind && is_merge);
                self.deleted_ranges += count(|action| matches!(action, Action::DeleteRange(_)));
            }
            self.phantoms += transaction.actions.iter().filter(is_passed).count() as u64;
        }
        self.histories += 1;
    }
}

/// Runs some histories; an error describes the first bad one.
pub fn run(seed: u64, histories: u64) -> Result<Tally, String> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let options = tiny()
        .background_threads(1 + random.below(2) as usize)
        .memory_component(if random.one_in(4) { MemoryComponent::Skiplist } else { MemoryComponent::TwoLevel })
        .maplets(random.one_in(2))
        .merge_operator(Append);
    let others = stalls::background_threads();
    let disk = Arc::new(SimulatedStorage::new(seed));
    let opened = match random.below(4) {
        0 => Db::open_with(disk, options.memory_budget(4 << 20)),
        1 => Db::open_with(disk, options),
        _ => open_small(disk, options),
    };
    let db = opened.map_err(|error| format!("the store does not open: {error}"))?;
    let stalled = !random.one_in(4);
    let _background = stalled.then(|| stalls::of_background(others));
    let mut tally = Tally::default();
    for run in 0..histories {
        let history = one(&db, run, &mut random, stalled)?;
        tally.note(&history);
        check(&history).map_err(|anomaly| format!("history {run} of world {seed}: {anomaly}"))?;
    }
    tally.incorporations = db.stats().incorporations;
    db.verify().map_err(|error| format!("verify: {error}"))?;
    db.close().map_err(|error| format!("the store does not close: {error}"))?;
    Ok(tally)
}

fn one(db: &Db, run: u64, random: &mut Random, stalled: bool) -> Result<History, String> {
    let lists = Lists::new(run, 1 + random.below(3) as usize);
    let made = (0..lists.ranges).map(|_| AtomicUsize::new(0)).collect();
    let board = Board { lists, ticks: AtomicU64::new(1), items: AtomicU32::new(1), made };
    let (threads, steps, seed) = (2 + random.below(4) as usize, 10 + random.below(50), random.next());
    let mut transactions = Vec::new();
    let done: Vec<Result<Vec<Transaction>, String>> = std::thread::scope(|scope| {
        let spawn = |thread: usize| {
            let board = &board;
            scope.spawn(move || {
                let stalls = stalled.then(|| Stalls::new(thread as u64));
                if let Some(stalls) = &stalls {
                    stalls.begin(100_000);
                }
                let mut client = Client::new(db, board, thread, seed ^ thread as u64);
                let outcome = caught(|| (0..steps).try_for_each(|_| client.step()));
                if let Some(stalls) = &stalls {
                    stalls.stop();
                }
                outcome.map(|()| client.finish())
            })
        };
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    });
    for done in done {
        transactions.extend(done?);
    }
    let mut last = Client::new(db, &board, threads, 0);
    last.read_all()?;
    transactions.extend(last.finish());
    Ok(History { transactions })
}

fn caught(run: impl FnOnce() -> Broken) -> Broken {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("a thread panicked: {}", message.unwrap_or("unknown message")))
    })
}
