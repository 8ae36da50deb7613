//! Chooses loaded keys for operations. Each thread has its own chooser.

use crate::random::{Permutation, Random, scramble};
use crate::zipfian::Zipfian;
use rand_distr::{Distribution, Exp1, StandardNormal};
use serde::{Deserialize, Serialize};

/// Standard deviations of the normal distribution between the first and the last key number.
const NORMAL_DEVIATIONS: f64 = 6.0;
/// The mean of the exponential distribution, as a fraction of the keys: nearly all draws are among the first hundredth.
const EXPONENTIAL_MEAN: f64 = 0.001;
/// The items among which YCSB's scrambled zipfian draws, whatever the number of keys.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// A distribution over the loaded keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Choice {
    /// All keys equally often.
    Uniform,
    /// YCSB's zipfian; the popular keys are scattered.
    Zipfian,
    /// YCSB's scrambled zipfian, its usual choice: zipfian among ten billion items, each of which stands for a key that
    /// its hash names. The unpopular items spread evenly: of two million keys, all get about two fifths of the draws.
    Scrambled,
    /// Zipfian over age: the key loaded last is the most popular.
    Latest,
    /// A share of the operations goes to a share of the keys. FloDB's skew is 98 on 2; cLSM's reads are 90 on 10, in
    /// blocks.
    Hot {
        /// Percentage of operations on the popular keys; the others go to all keys.
        operations_percent: u8,
        /// Percentage of keys that are popular.
        keys_percent: u8,
        /// Size of a block of keys that are popular together: with sequential keys, neighbours.
        block: u64,
    },
    /// Normal over the key numbers: those in the middle most often, those at either end rarely.
    Normal,
    /// Exponential over the key numbers: the first ones most often. Few keys are drawn at all.
    Exponential,
}

/// Chooses key numbers.
#[derive(Clone, Debug)]
pub struct Chooser {
    choice: Choice,
    count: u64,
    zipfian: Zipfian,
    permutation: Permutation,
}

impl Chooser {
    /// Among `count` keys, which may grow to `capacity`. The count is not 0.
    pub fn new(choice: Choice, count: u64, capacity: u64) -> Self {
        let (places, places_max) = match choice {
            Choice::Hot { block, .. } => (count.div_ceil(block.max(1)), capacity.div_ceil(block.max(1))),
            _ => (count, capacity),
        };
        let items = if choice == Choice::Scrambled { SCRAMBLED_ITEMS } else { count };
        Self { choice, count, zipfian: Zipfian::new(items), permutation: Permutation::new(places, places_max) }
    }

    /// Sets the current number of keys.
    pub fn grow(&mut self, count: u64) {
        if count <= self.count {
            return;
        }
        self.count = count;
        match self.choice {
            Choice::Uniform | Choice::Scrambled | Choice::Normal | Choice::Exponential => {}
            Choice::Latest => self.zipfian.grow(count),
            Choice::Zipfian => {
                self.zipfian.grow(count);
                self.permutation.grow(count);
            }
            Choice::Hot { block, .. } => self.permutation.grow(count.div_ceil(block.max(1))),
        }
    }

    /// The number of an existing key.
    #[inline]
    pub fn pick(&self, random: &mut Random) -> u64 {
        match self.choice {
            Choice::Uniform => random.below(self.count),
            Choice::Zipfian => self.permutation.at(self.zipfian.rank(random)).min(self.count - 1),
            Choice::Scrambled => scramble(self.zipfian.rank(random)) % self.count,
            Choice::Latest => self.count - 1 - self.zipfian.rank(random),
            Choice::Hot { operations_percent, keys_percent, block } => {
                if random.below(100) >= u64::from(operations_percent) {
                    return random.below(self.count);
                }
                let block = block.max(1);
                let blocks = self.count.div_ceil(block);
                let popular = (blocks * u64::from(keys_percent) / 100).max(1);
                let place = self.permutation.at(random.below(popular)) * block + random.below(block);
                // The last block may be shorter.
                place.min(self.count - 1)
            }
            Choice::Normal => self.among(|| {
                let drawn: f64 = StandardNormal.sample(random);
                0.5 + drawn / NORMAL_DEVIATIONS
            }),
            Choice::Exponential => self.among(|| {
                let drawn: f64 = Exp1.sample(random);
                drawn * EXPONENTIAL_MEAN
            }),
        }
    }

    /// The number at a place from 0 to 1; draws again, which is rare, if a place is outside.
    fn among(&self, mut draw: impl FnMut() -> f64) -> u64 {
        loop {
            let place = draw();
            if (0.0..1.0).contains(&place) {
                return ((place * self.count as f64) as u64).min(self.count - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 10_000;

    /// How often each key is chosen in 40 draws per key, most popular first.
    fn drawn(choice: Choice) -> (Vec<u32>, Vec<u32>) {
        let (chooser, mut random) = (Chooser::new(choice, COUNT, COUNT), Random::new(3, 0));
        let mut counts = vec![0u32; COUNT as usize];
        (0..COUNT * 40).for_each(|_| counts[chooser.pick(&mut random) as usize] += 1);
        let mut sorted = counts.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        (counts, sorted)
    }

    fn share(counts: &[u32]) -> f64 {
        f64::from(counts.iter().sum::<u32>()) / (COUNT as f64 * 40.0)
    }

    #[test]
    fn uniform_reaches_every_key() {
        let (counts, sorted) = drawn(Choice::Uniform);
        assert!(counts.iter().all(|count| *count > 0) && sorted[0] < 90, "{} to {}", counts[0], sorted[0]);
    }

    #[test]
    fn ninety_eight_percent_go_to_two() {
        let (counts, sorted) = drawn(Choice::Hot { operations_percent: 98, keys_percent: 2, block: 1 });
        // 2% of the other operations also hit popular keys.
        let popular = share(&sorted[..200]);
        assert!((0.978..0.984).contains(&popular), "{popular}");
        assert!(sorted[199] > 10 * sorted[200], "{} and {}", sorted[199], sorted[200]);
        let first_half = counts[..5000].iter().filter(|count| **count > 100).count();
        assert!((60..140).contains(&first_half), "popular keys are scattered: {first_half}");
    }

    #[test]
    fn popular_blocks_are_neighbours() {
        let (counts, _) = drawn(Choice::Hot { operations_percent: 90, keys_percent: 10, block: 16 });
        let popular = |block: &[u32]| block.iter().sum::<u32>() > 16 * 100;
        let blocks: Vec<&[u32]> = counts.chunks(16).filter(|block| popular(block)).collect();
        assert_eq!(blocks.len(), 62, "a tenth of 625 blocks");
        let in_blocks = blocks.iter().map(|block| share(block)).sum::<f64>();
        assert!((0.905..0.915).contains(&in_blocks), "{in_blocks}");
    }

    #[test]
    fn zipfian_is_scattered_and_latest_is_not() {
        let (counts, sorted) = drawn(Choice::Zipfian);
        assert!(share(&sorted[..1]) > 0.08 && share(&sorted[..100]) > 0.45, "{}", share(&sorted[..100]));
        assert!(share(&counts[..5000]) < 0.8 && share(&counts[..5000]) > 0.2);
        let (counts, _) = drawn(Choice::Latest);
        assert!(share(&counts[9_900..]) > 0.45, "{}", share(&counts[9_900..]));
        assert_eq!(counts.iter().max(), counts.last());
    }

    #[test]
    fn scrambled_keys_are_less_skewed_and_all_are_drawn() {
        let (counts, sorted) = drawn(Choice::Scrambled);
        // The most popular of ten billion items has 1 of 26.47; the 10,000 most popular ones have 10.2 of it together.
        assert!((0.036..0.040).contains(&share(&sorted[..1])), "{}", share(&sorted[..1]));
        // The other items give each key 24.6 of its 40 draws on average.
        assert!(sorted[9_999] >= 5 && sorted[5_000] < 40, "{} and {}", sorted[9_999], sorted[5_000]);
        assert!(share(&counts[..5000]) < 0.6 && share(&counts[..5000]) > 0.4);
    }

    #[test]
    fn normal_keys_are_in_the_middle_and_exponential_ones_are_few() {
        let (counts, _) = drawn(Choice::Normal);
        // One deviation on either side has 68.27% of a normal distribution.
        let deviation = (COUNT as f64 / NORMAL_DEVIATIONS) as usize;
        let middle = share(&counts[5_000 - deviation..5_000 + deviation]);
        assert!((0.678..0.688).contains(&middle), "{middle}");
        assert!(share(&counts[..5_000]) > 0.495 && share(&counts[..5_000]) < 0.505);
        let (counts, sorted) = drawn(Choice::Exponential);
        // The first tenth of a percent has 1 - 1/e of an exponential distribution with that mean.
        let first = share(&counts[..10]);
        assert!((0.628..0.636).contains(&first), "{first}");
        assert_eq!(counts[..10], sorted[..10], "the first are the most popular, in order");
        assert!(counts.iter().filter(|count| **count > 0).count() < 200);
    }

    #[test]
    fn growth_takes_the_new_keys_in() {
        for choice in [Choice::Uniform, Choice::Zipfian, Choice::Scrambled, Choice::Latest, Choice::Normal] {
            let (mut chooser, mut random) = (Chooser::new(choice, 1, 1000), Random::new(3, 0));
            for count in 1..=1000 {
                chooser.grow(count);
                assert!((0..20).all(|_| chooser.pick(&mut random) < count), "{choice:?}, {count}");
            }
            assert!((0..10_000).any(|_| chooser.pick(&mut random) > 900), "{choice:?}");
        }
    }
}
