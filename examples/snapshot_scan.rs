//! A report over all accounts while transfers go on: a snapshot shows the store as it was at one moment, for as long as the report
//! takes, and no writer waits for it.
//!
//!     cargo run --release --example snapshot_scan -- DIRECTORY

use alluvium::{Db, Options, WriteBatch};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ACCOUNTS: u64 = 1_000;
const MONEY: u64 = 100;

fn main() -> alluvium::Result<()> {
    run(Path::new(&std::env::args().nth(1).unwrap_or_else(|| "snapshot_scan.store".into())))
}

fn key(account: u64) -> Vec<u8> {
    [b"account/", &account.to_be_bytes()[..]].concat()
}

fn money(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_be_bytes)
}

/// Moves money round the accounts until it is told to end. A batch is seen whole or not at all.
fn transfer(db: &Db, done: &AtomicBool, transfers: &AtomicU64) -> alluvium::Result<()> {
    let mut at = 0;
    while !done.load(Ordering::Relaxed) {
        let (from, to) = (key(at % ACCOUNTS), key((at * 7 + 1) % ACCOUNTS));
        at += 1;
        let [has, gets] =
            [&from, &to].map(|account| db.get(account).map(|value| value.map_or(0, |value| money(&value))));
        let (has, gets) = (has?, gets?);
        if from != to && has > 0 {
            let mut batch = WriteBatch::new();
            batch.put(from, (has - 1).to_be_bytes()).put(to, (gets + 1).to_be_bytes());
            db.write(batch)?;
            transfers.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// The whole program.
pub fn run(directory: &Path) -> alluvium::Result<()> {
    let db = Db::open(directory, Options::default())?;
    for account in 0..ACCOUNTS {
        db.put(key(account), MONEY.to_be_bytes())?;
    }
    let (done, transfers) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| transfer(&db, &done, &transfers));
        let reports = report(&db, &transfers);
        done.store(true, Ordering::Relaxed);
        writer.join().expect("the writer does not panic")?;
        reports
    })?;
    db.close()
}

fn report(db: &Db, transfers: &AtomicU64) -> alluvium::Result<()> {
    for number in 1..=10 {
        let snapshot = db.snapshot()?;
        let before = transfers.load(Ordering::Relaxed);
        let (mut sum, mut richest) = (0, (0, 0));
        for pair in snapshot.prefix("account/")? {
            let (key, value) = pair?;
            sum += money(&value);
            richest = richest.max((money(&value), key.last_chunk().map_or(0, |account| u64::from_be_bytes(*account))));
        }
        let meanwhile = transfers.load(Ordering::Relaxed) - before;
        println!(
            "report {number:2}: {sum} in all, account {} has the most, {}; {meanwhile} transfers meanwhile",
            richest.1, richest.0
        );
        assert_eq!(sum, ACCOUNTS * MONEY, "nothing is lost or made between two accounts");
    }
    Ok(())
}
