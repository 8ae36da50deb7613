//! Whether a level has a key, by SkipStore's Bloom filters (§4.1) and by the store's: `cargo bench --bench absence`.
//!
//! A key goes past a level only if filters show that the level does not have it. Where they err, the key is refused: it
//! stays, and is rewritten in the level. In the paper each block has a Bloom filter of 8 bits an item with 3 hashes. The
//! store's files have quotient filters, with 9 bits of a remainder in the deepest level and 3 more for each level above
//! (`LevelFilters::FinerAbove`).
//!
//! A level of a million keys is asked, in key order as in a merge, for a million keys, one in ten of which it has. For each
//! way: the absent keys that it refuses, in a thousand; bits per key, pages and their headers included; nanoseconds per
//! question, the look-up of the block apart.

use alluvium::internals::{FilterPart, splitmix64};
use std::hint::black_box;
use std::time::Instant;
use xxhash_rust::xxh3::xxh3_128;

const KEYS: usize = 1_000_000;
const QUESTIONS: usize = 1_000_000;
/// One question in so many is for a key that the level has.
const PRESENT: usize = 10;
/// Pairs of 1 KiB and of 100 bytes in the store's leaves.
const BLOCK_KEYS: [usize; 2] = [7, 36];
const REMAINDER_BITS: [u32; 3] = [9, 12, 15];
const ROUNDS: usize = 5;

const BLOOM_BITS: usize = 8;
const BLOOM_HASHES: u64 = 3;

/// The Bloom filter of a block.
struct Bloom(Vec<u8>);

impl Bloom {
    fn build(keys: &[u64]) -> Self {
        let mut bloom = Self(vec![0; (keys.len() * BLOOM_BITS).div_ceil(8)]);
        for key in keys {
            for bit in places(*key, bloom.bits()) {
                bloom.0[bit / 8] |= 1 << (bit % 8);
            }
        }
        bloom
    }

    fn bits(&self) -> usize {
        self.0.len() * 8
    }

    fn may_contain(&self, key: u64) -> bool {
        places(key, self.bits()).all(|bit| self.0[bit / 8] & 1 << (bit % 8) != 0)
    }
}

/// Three places from two hashes.
fn places(key: u64, bits: usize) -> impl Iterator<Item = usize> {
    let hash = xxh3_128(&key.to_be_bytes());
    let (first, step) = (hash as u64, (hash >> 64) as u64);
    (0..BLOOM_HASHES).map(move |turn| (first.wrapping_add(step.wrapping_mul(turn)) % bits as u64) as usize)
}

/// What is asked.
struct Questions {
    /// Each with whether the level has it.
    keys: Vec<(u64, bool)>,
}

impl Questions {
    /// The refused in a thousand absent ones, and the nanoseconds of a question: the median of some rounds.
    fn ask(&self, may_contain: impl Fn(usize, u64) -> bool) -> (f64, f64) {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let started = Instant::now();
            for (at, (key, _)) in self.keys.iter().enumerate() {
                black_box(may_contain(at, *key));
            }
            times.push(started.elapsed().as_nanos() as f64 / self.keys.len() as f64);
        }
        times.sort_by(f64::total_cmp);
        let (mut absent, mut refused) = (0, 0);
        for (at, (key, present)) in self.keys.iter().enumerate() {
            let found = may_contain(at, *key);
            assert!(found || !present, "a filter says that a key is absent which is there");
            absent += u64::from(!present);
            refused += u64::from(found && !present);
        }
        (refused as f64 * 1000.0 / absent as f64, times[ROUNDS / 2])
    }
}

fn main() {
    let mut state = 5;
    let mut keys: Vec<u64> = (0..KEYS).map(|_| splitmix64(&mut state)).collect();
    keys.sort_unstable();
    let mut asked: Vec<(u64, bool)> = (0..QUESTIONS)
        .map(|at| match at % PRESENT {
            0 => (keys[splitmix64(&mut state) as usize % KEYS], true),
            _ => (splitmix64(&mut state), false),
        })
        .collect();
    asked.sort_unstable();
    let questions = Questions { keys: asked };
    println!("filter: refused of 1000 absent keys, bits per key, ns per question");
    for block_keys in BLOCK_KEYS {
        let blocks: Vec<Bloom> = keys.chunks(block_keys).map(Bloom::build).collect();
        // The block in whose range a key is; keys in no block's range need no filter, but get the next one here.
        let block_of = |(key, _): &(u64, bool)| keys.partition_point(|other| other < key).min(KEYS - 1) / block_keys;
        let of_questions: Vec<usize> = questions.keys.iter().map(block_of).collect();
        let bits = blocks.iter().map(Bloom::bits).sum::<usize>() as f64 / KEYS as f64;
        let (refused, time) = questions.ask(|at, key| blocks[of_questions[at]].may_contain(key));
        println!("Bloom filters of blocks of {block_keys} keys: {refused:.2}, {bits:.1}, {time:.1}");
    }
    let fingerprints: Vec<u32> = keys.iter().map(|key| FilterPart::fingerprint(&key.to_be_bytes())).collect();
    for remainder in REMAINDER_BITS {
        let filter = FilterPart::build_with(remainder, &fingerprints);
        let (refused, time) = questions.ask(|_, key| filter.may_contain(FilterPart::fingerprint(&key.to_be_bytes())));
        let bits = filter.bytes() as f64 * 8.0 / KEYS as f64;
        println!("quotient filter with remainders of {remainder} bits: {refused:.2}, {bits:.1}, {time:.1}");
    }
}
