//! Transactions by the names of what they must not show (`docs/concurrency.md`, P). What others do comes at a chosen moment, in one
//! thread, since a transaction holds nothing.
//!
//! - `anomalies`: dirty reads to phantoms, one by one. `meanwhile`: everything that others can do to what was read, wherever it then lies.
//! - `own`: a transaction's view of itself, against a model. `life`: retries, savepoints, ends, limits.

mod anomalies;
mod life;
mod meanwhile;
mod own;

use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Error, Options, Transaction};
use std::sync::Arc;

/// Long enough for a file of its own.
const LARGE: usize = 300 << 10;

fn options() -> Options {
    Options { memory_budget: Some(256 << 10), sync_interval: None, ..Options::default() }
}

/// A store that does nothing but what is asked, whose memory a few writes fill.
fn store() -> DeterministicDb {
    on(&SimulatedStorage::new(1))
}

fn on(disk: &SimulatedStorage) -> DeterministicDb {
    DeterministicDb::open_small(Arc::new(disk.clone()), options()).unwrap()
}

/// Everything in memory goes to branch files, and nothing stays behind.
fn write_out(db: &DeterministicDb) {
    db.flush().unwrap();
    while db.step() {}
}

/// A generation is switched away from, and not written out.
fn seal(db: &DeterministicDb) {
    for at in 0.. {
        if db.stats().generations > 1 {
            return;
        }
        db.put(format!("x{at}"), [1; 500]).unwrap();
    }
}

fn text(found: Option<Vec<u8>>) -> String {
    found.map_or("absent".into(), |bytes| String::from_utf8(bytes).unwrap())
}

fn get(db: &Db, key: &str) -> String {
    text(db.get(key).unwrap())
}

fn seen(transaction: &Transaction, key: &str) -> String {
    text(transaction.get(key).unwrap())
}

/// The keys with a prefix, as a transaction walks over them.
fn walk(transaction: &Transaction, prefix: &str) -> Vec<String> {
    transaction.prefix(prefix).unwrap().map(|pair| text(Some(pair.unwrap().0))).collect()
}

/// It conflicts, and names one of these keys.
#[track_caller]
fn conflicts(transaction: Transaction, keys: &[&str]) {
    match transaction.commit() {
        Err(Error::Conflict { key }) => {
            let key = text(Some(key));
            assert!(keys.contains(&&*key), "the conflict names {key:?}, not one of {keys:?}");
        }
        other => panic!("{other:?}, no conflict at {keys:?}"),
    }
}
