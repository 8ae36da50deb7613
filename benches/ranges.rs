//! Kanda's way to collect a range (§2.4) and the store's: `cargo bench --bench ranges [seconds]`.
//!
//! Kanda reads the range of one run after the other, newest first, into a hash table; what is in the table already is
//! older and dropped. That takes constant time for each entry, but the result has no order, and none of it is known before
//! all of it is read. The store merges the runs, which takes a comparison or more for each entry and run, and gives the
//! pairs in order, one by one.
//!
//! - **merge**: the pairs of the range in key order, copied into a buffer.
//! - **table**: the same pairs in no order: copied into a buffer when they are new to the table.
//! - **sorted**: the same, then sorted.
//!
//! The runs are branch files whose pages are in the cache; each has a random half of the keys, so that most keys are in
//! several runs. Tables are of the crate `hashbrown`, which probes by groups instead of linearly, and empty at the start
//! of each range, as in the paper. Nanoseconds per pair of the result; medians of rounds in which the ways alternate.

use alluvium::internals::{Entry, RunsPart, entry, splitmix64};
use hashbrown::HashTable;
use std::hint::black_box;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// Keys in all; each run has half of them.
const KEYS: u64 = 200_000;
const RUNS: [usize; 5] = [1, 2, 4, 8, 16];
const PAIRS: [u64; 4] = [10, 100, 1_000, 100_000];
const VALUE_BYTES: [usize; 2] = [4, 100];
const CACHE_BYTES: usize = 1 << 30;
const ROUNDS: usize = 5;

/// Pairs in one buffer, by their places.
#[derive(Default)]
struct Pairs {
    bytes: Vec<u8>,
    /// Start, end of the key, end of the value. The value of a tombstone ends before it starts.
    places: Vec<(usize, usize, usize)>,
}

impl Pairs {
    fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.places.push((start, middle, if value.is_some() { self.bytes.len() } else { 0 }));
    }

    fn key(&self, at: usize) -> &[u8] {
        let (start, middle, _) = self.places[at];
        &self.bytes[start..middle]
    }

    fn live(&self) -> usize {
        self.places.iter().filter(|(_, middle, end)| end >= middle).count()
    }
}

/// The ways to collect a range.
#[derive(Clone, Copy)]
enum Way {
    Merge,
    Table,
    Sorted,
}

const WAYS: [Way; 3] = [Way::Merge, Way::Table, Way::Sorted];

fn collect(runs: &RunsPart, way: Way, (from, to): (&[u8], &[u8]), pairs: &mut Pairs) {
    pairs.clear();
    if matches!(way, Way::Merge) {
        return runs.merged(from, to, &mut |key, value| pairs.push(key, Some(value))).expect("a range");
    }
    let mut table: HashTable<usize> = HashTable::new();
    let mut add = |key: &[u8], value: Option<&[u8]>| {
        let hash = xxh3_64(key);
        if table.find(hash, |at| pairs.key(*at) == key).is_none() {
            pairs.push(key, value);
            table.insert_unique(hash, pairs.places.len() - 1, |at| xxh3_64(pairs.key(*at)));
        }
    };
    runs.run_by_run(from, to, &mut add).expect("a range");
    if matches!(way, Way::Sorted) {
        let bytes = &pairs.bytes;
        pairs.places.sort_unstable_by(|one, other| bytes[one.0..one.1].cmp(&bytes[other.0..other.1]));
    }
}

/// The runs, newest first.
fn build(directory: &std::path::Path, runs: usize, value: &[u8]) -> RunsPart {
    let mut state = 7;
    let mut half = |number: u64| -> Vec<Entry> {
        let keys: Vec<u64> = (0..KEYS).filter(|_| splitmix64(&mut state) & 1 == 0).collect();
        keys.into_iter().map(|key| entry(&(key as u32).to_be_bytes(), number, value)).collect()
    };
    let runs: Vec<Vec<Entry>> = (0..runs as u64).rev().map(|age| half(age + 1)).collect();
    RunsPart::build(directory, CACHE_BYTES, &runs).expect("runs")
}

/// Nanoseconds per pair of ranges at random places.
fn measure(runs: &RunsPart, way: Way, pairs_wanted: u64, time: Duration) -> f64 {
    let (mut pairs, mut state, mut found, started) = (Pairs::default(), 11, 0, Instant::now());
    while found == 0 || started.elapsed() < time {
        let first = splitmix64(&mut state) % (KEYS - pairs_wanted);
        let bound = |key: u64| entry(&(key as u32).to_be_bytes(), 0, b"").key;
        collect(runs, way, (&bound(first), &bound(first + pairs_wanted)), &mut pairs);
        found += pairs.live();
        black_box(&pairs.bytes);
    }
    started.elapsed().as_nanos() as f64 / found as f64
}

fn main() {
    let seconds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(0.2);
    let time = Duration::from_secs_f64(seconds);
    println!("value bytes, runs, keys in range: merge, table, sorted (ns per pair)");
    for value_bytes in VALUE_BYTES {
        for count in RUNS {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let runs = build(directory.path(), count, &vec![1; value_bytes]);
            // Reads everything once: the cache is warm, and the ways agree.
            let all = |way| {
                let mut pairs = Pairs::default();
                let bound = |key: u32| entry(&key.to_be_bytes(), 0, b"").key;
                collect(&runs, way, (&bound(0), &bound(KEYS as u32)), &mut pairs);
                pairs
            };
            let (merged, sorted) = (all(Way::Merge), all(Way::Sorted));
            assert!((0..merged.places.len()).all(|at| merged.key(at) == sorted.key(at)), "the ways disagree");
            assert_eq!((merged.places.len(), all(Way::Table).live()), (sorted.places.len(), sorted.live()));
            for pairs_wanted in PAIRS {
                let mut times: [Vec<f64>; 3] = Default::default();
                for _ in 0..ROUNDS {
                    for (way, times) in WAYS.into_iter().zip(&mut times) {
                        times.push(measure(&runs, way, pairs_wanted, time / ROUNDS as u32));
                    }
                }
                let [merge, table, sorted] = times.map(|mut times| {
                    times.sort_by(f64::total_cmp);
                    times[ROUNDS / 2]
                });
                println!("{value_bytes}, {count}, {pairs_wanted}: {merge:.0}, {table:.0}, {sorted:.0}");
            }
        }
    }
}
