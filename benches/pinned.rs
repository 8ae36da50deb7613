//! What copying values costs: gets and scans that copy values, borrow them from the cache (`Pinned`), or skip them
//! (`Iter::keys`), from cached pages (docs/performance.md, Values without copies).
//!
//! `cargo bench --bench pinned [directory] [seconds]`. About 64 MiB in branch files, all of it cached. Nanoseconds per
//! get or pair.

use alluvium::{Db, Options};
use std::hint::black_box;
use std::time::{Duration, Instant};

const DATA: usize = 64 << 20;

/// Nanoseconds per unit of `work`, which returns the number of units it did; the best of three runs after a warm-up.
fn measure(time: Duration, mut work: impl FnMut() -> usize) -> f64 {
    work();
    let mut best = f64::MAX;
    for _ in 0..3 {
        let (start, mut units) = (Instant::now(), 0);
        while start.elapsed() < time / 3 {
            units += work();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / units as f64);
    }
    best
}

fn main() -> alluvium::Result<()> {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let directory = arguments.next().map_or_else(std::env::temp_dir, Into::into).join("alluvium-pinned");
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let time = Duration::from_secs_f64(seconds);
    println!("value bytes: get, pinned; scan, pinned, keys; backwards: the same (ns)");
    for length in [20, 100, 300, 1 << 10, 4 << 10, 16 << 10] {
        let options = Options::new().memory_budget(1 << 30);
        let db = Db::open(&directory, options)?;
        let count = DATA / (length + 16);
        let key = |number: usize| (number as u64).to_be_bytes();
        for number in 0..count {
            db.put(key(number), vec![number as u8; length])?;
        }
        db.compact()?;
        db.settle()?;
        // Fills the cache.
        for number in 0..count {
            black_box(db.get(key(number))?);
        }
        let mut state = 1_usize;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % count
        };
        // Reads the first and last byte of each value, as a parser would touch them.
        let touch = |value: &[u8]| {
            black_box(value.first().copied().unwrap_or(0) ^ value.last().copied().unwrap_or(0));
        };
        let get = measure(time, || {
            for _ in 0..1000 {
                if let Ok(Some(value)) = db.get(key(random())) {
                    touch(&value);
                }
            }
            1000
        });
        let pinned = measure(time, || {
            for _ in 0..1000 {
                if let Ok(Some(value)) = db.get_pinned(key(random())) {
                    touch(&value);
                }
            }
            1000
        });
        let scan = |back: bool| {
            let iter = || db.iter().expect("the store is open");
            let copied = measure(time, || count_items(iter(), back, |(_, value)| touch(&value)));
            let held = measure(time, || count_items(iter().pinned(), back, |(_, value)| touch(&value)));
            let keys = measure(time, || count_items(iter().keys(), back, |key| touch(&key)));
            format!("{copied:.0}, {held:.0}, {keys:.0}")
        };
        println!("{length}: {get:.0}, {pinned:.0}; {}; {}", scan(false), scan(true));
        db.close()?;
        Db::destroy(&directory)?;
    }
    Ok(())
}

/// The number of items of an iterator, in either direction.
fn count_items<T>(
    mut items: impl DoubleEndedIterator<Item = alluvium::Result<T>>,
    back: bool,
    mut see: impl FnMut(T),
) -> usize {
    let mut count = 0;
    while let Some(Ok(next)) = if back { items.next_back() } else { items.next() } {
        see(next);
        count += 1;
    }
    count
}
