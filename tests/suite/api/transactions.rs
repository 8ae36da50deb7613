//! Transactions and the anomalies that they exclude (`docs/concurrency.md`, P). The tests make conflicting writes at a
//! chosen moment in the same thread, which works because a transaction holds no lock.
//!
//! - `anomalies`: one test for each anomaly, from dirty reads to phantoms. `meanwhile`: every conflicting write to a
//!   key that was read, in every place.
//! - `own`: a transaction's view of its own writes, compared with a model. `life`: retries, savepoints, ends, limits.

mod anomalies;
mod life;
mod meanwhile;
mod own;

use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Error, Options, Transaction};
use std::sync::Arc;

/// Large enough for its own value file.
const LARGE: usize = 300 << 10;

fn options() -> Options {
    Options::new().memory_budget(256 << 10).sync_interval(None)
}

/// A store without threads, whose memory a few writes fill.
fn store() -> DeterministicDb {
    on(&SimulatedStorage::new(1))
}

fn on(disk: &SimulatedStorage) -> DeterministicDb {
    DeterministicDb::open_small(Arc::new(disk.clone()), options()).unwrap()
}

/// Incorporates all memory.
fn incorporate(db: &DeterministicDb) {
    db.flush().unwrap();
    while db.step() {}
}

/// Switches to a new generation without an incorporation.
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

/// The keys with a prefix, as a transaction scans them.
fn scan(transaction: &Transaction, prefix: &str) -> Vec<String> {
    transaction.prefix(prefix).unwrap().map(|pair| text(Some(pair.unwrap().0))).collect()
}

/// The commit must fail with a conflict that names one of these keys.
#[track_caller]
fn conflicts(transaction: Transaction, keys: &[&str]) {
    match transaction.commit() {
        Err(Error::Conflict { key, .. }) => {
            let key = text(Some(key));
            assert!(keys.contains(&&*key), "the conflict names {key:?}, not one of {keys:?}");
        }
        other => panic!("{other:?}, no conflict at {keys:?}"),
    }
}
