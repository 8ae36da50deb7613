//! Reports over all accounts during transfers: a snapshot shows the store as it was at one moment for as long as the
//! report takes, and no writer waits for it.
//!
//!     cargo run --release --example snapshot_scan -- DIRECTORY

use alluvium::{Db, Error, Options, Transaction};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const ACCOUNTS: u64 = 1_000;
const MONEY: u64 = 100;
const WRITERS: u64 = 2;
/// Per writer.
const TRANSFERS: u64 = 200_000;

fn main() -> alluvium::Result<()> {
    run(Path::new(&std::env::args().nth(1).unwrap_or_else(|| "snapshot_scan.store".into())))
}

fn key(account: u64) -> Vec<u8> {
    [b"account/", &account.to_be_bytes()[..]].concat()
}

fn money(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_be_bytes)
}

/// Moves money from one account to another; false if the first has none. Transfers may run concurrently: one that loses
/// the race runs again, so it must read and write only through the transaction.
fn transfer(db: &Db, from: u64, to: u64) -> alluvium::Result<bool> {
    db.transact(|transaction: &Transaction| {
        let has = transaction.get(key(from))?.map_or(0, |value| money(&value));
        if from == to || has == 0 {
            return Ok::<_, Error>(false);
        }
        let gets = transaction.get(key(to))?.map_or(0, |value| money(&value));
        transaction.put(key(from), (has - 1).to_be_bytes())?;
        transaction.put(key(to), (gets + 1).to_be_bytes())?;
        Ok(true)
    })
}

/// Runs the example.
pub fn run(directory: &Path) -> alluvium::Result<()> {
    let db = Db::open(directory, Options::default())?;
    for account in 0..ACCOUNTS {
        db.put(key(account), MONEY.to_be_bytes())?;
    }
    let transfers = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (db, transfers) = (&db, &transfers);
                scope.spawn(move || {
                    for at in (writer * 37..).take(TRANSFERS as usize) {
                        let done = transfer(db, at % ACCOUNTS, (at * 7 + 1) % ACCOUNTS)?;
                        transfers.fetch_add(done.into(), Ordering::Relaxed);
                    }
                    alluvium::Result::Ok(())
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            report(&db, &transfers)?;
            std::thread::sleep(Duration::from_millis(50));
        }
        writers.into_iter().try_for_each(|writer| writer.join().expect("a writer does not panic"))
    })?;
    // Once more, after the last transfer.
    report(&db, &transfers)?;
    db.close()
}

fn report(db: &Db, transfers: &AtomicU64) -> alluvium::Result<()> {
    let snapshot = db.snapshot();
    let before = transfers.load(Ordering::Relaxed);
    let (mut sum, mut richest) = (0, (0, 0));
    for pair in snapshot.prefix("account/")? {
        let (key, value) = pair?;
        sum += money(&value);
        richest = richest.max((money(&value), key.last_chunk().map_or(0, |account| u64::from_be_bytes(*account))));
    }
    let meanwhile = transfers.load(Ordering::Relaxed) - before;
    println!(
        "{before} transfers: {sum} in total, account {} has the most, {}; {meanwhile} transfers during the report",
        richest.1, richest.0
    );
    assert_eq!(sum, ACCOUNTS * MONEY, "transfers neither lose nor create money");
    Ok(())
}
