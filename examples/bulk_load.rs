//! Bulk loading: unsynced batches from several threads, with one sync at the end. `optimize` then arranges the data for
//! the fastest reads.
//!
//!     cargo run --release --example bulk_load -- DIRECTORY [PAIRS]

use alluvium::{Db, Options, WriteBatch};
use std::path::Path;
use std::time::Instant;

const THREADS: u64 = 2;
const BATCH: u64 = 500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| "bulk_load.store".into());
    let pairs = match arguments.next() {
        Some(pairs) => pairs.parse().map_err(|why| format!("PAIRS is {pairs:?}: {why}"))?,
        None => 2_000_000,
    };
    Ok(run(Path::new(&directory), pairs)?)
}

/// Scatters numbers, so that keys arrive in random order.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Runs the example.
pub fn run(directory: &Path, pairs: u64) -> alluvium::Result<()> {
    let db = Db::open(directory, Options::new().memory_budget(512 << 20))?;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let loaders: Vec<_> = (0..THREADS)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || {
                    let (mut at, end) = (pairs * thread / THREADS, pairs * (thread + 1) / THREADS);
                    while at < end {
                        let mut batch = WriteBatch::new();
                        for number in at..end.min(at + BATCH) {
                            batch.put(key(number), format!("value of {number}"));
                        }
                        at += BATCH;
                        db.write(batch)?;
                    }
                    alluvium::Result::Ok(())
                })
            })
            .collect();
        loaders.into_iter().try_for_each(|loader| loader.join().expect("a loader does not panic"))
    })?;
    db.sync()?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{pairs} pairs in {seconds:.2} s: {:.0} a second", pairs as f64 / seconds);

    db.optimize(..)?;
    println!("{}", db.stats());
    // An earlier run may have left more pairs.
    assert!(db.iter()?.keys().count() as u64 >= pairs);
    assert_eq!(db.get(key(pairs / 2))?, Some(format!("value of {}", pairs / 2).into_bytes()));
    db.close()
}
