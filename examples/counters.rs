//! Counters that many threads increment at once without a lock: `Db::update` reads and writes a key atomically.
//!
//!     cargo run --release --example counters -- DIRECTORY

use alluvium::{Db, Options};
use std::path::Path;

const THREADS: u64 = 4;
const VISITS: u64 = 20_000;

fn main() -> alluvium::Result<()> {
    run(Path::new(&std::env::args().nth(1).unwrap_or_else(|| "counters.store".into())))
}

/// A counter is eight bytes; a missing key counts as 0.
fn count(value: Option<&[u8]>) -> u64 {
    value.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

fn add(db: &Db, key: &str, more: u64) -> alluvium::Result<u64> {
    let new = db.update(key, |old| Some((count(old) + more).to_be_bytes().to_vec()))?;
    Ok(count(new.as_deref()))
}

/// Runs the example.
pub fn run(directory: &Path) -> alluvium::Result<()> {
    let db = Db::open(directory, Options::default())?;
    let before = count(db.get("visits/all")?.as_deref());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || {
                    for visit in 0..VISITS {
                        add(db, "visits/all", 1)?;
                        add(db, &format!("visits/page{}", (thread + visit) % 10), 1)?;
                    }
                    alluvium::Result::Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    for pair in db.prefix("visits/")? {
        let (key, value) = pair?;
        println!("{:14} {:8}", String::from_utf8_lossy(&key), count(Some(&value)));
    }
    assert_eq!(add(&db, "visits/all", 0)?, before + THREADS * VISITS, "no increment is lost");
    db.close()
}
