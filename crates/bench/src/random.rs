//! Pseudo-random numbers from a seed: a generator, a bijection of 64-bit numbers, permutations of a range. Pure
//! functions and plain values; each thread has its own generators.

use rand_core::TryRng;
use std::convert::Infallible;

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const FIRST: u64 = 0xbf58_476d_1ce4_e5b9;
const SECOND: u64 = 0x94d0_49bb_1331_11eb;

/// A bijection of 64-bit numbers, the finalizer of SplitMix64: random keys without repetition.
#[inline]
pub fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(FIRST);
    z = (z ^ (z >> 27)).wrapping_mul(SECOND);
    z ^ (z >> 31)
}

/// A bijection of the numbers below 2^`bits`, 1 to 64 bits, of the same kind: additions, products with odd numbers and
/// right shifts are all invertible within that many bits.
#[inline]
pub fn scramble_within(number: u64, bits: u32) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    let shift = bits.div_ceil(2);
    let mut z = number.wrapping_add(STEP) & mask;
    z = (z ^ (z >> shift)).wrapping_mul(FIRST) & mask;
    z = (z ^ (z >> shift)).wrapping_mul(SECOND) & mask;
    // Shifting a 1-bit number by 1 gives 0, so nothing is lost at the smallest size.
    z ^ (z >> shift)
}

/// A permutation of the numbers below a size that may grow up to a fixed capacity. Growth moves only few numbers: those
/// whose search met a number that was outside before.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    size: u64,
    bits: u32,
}

impl Permutation {
    /// Of `0..size`; `capacity` is the maximum size. Neither may be 0.
    pub fn new(size: u64, capacity: u64) -> Self {
        debug_assert!(size > 0);
        let bits = 64 - (capacity.max(size).max(2) - 1).leading_zeros();
        Self { size, bits }
    }

    /// Grows. Numbers beyond the capacity stay outside.
    pub fn grow(&mut self, size: u64) {
        self.size = size.min((u64::MAX >> (64 - self.bits)).saturating_add(1)).max(self.size);
    }

    /// The image of a number. Skips numbers that are outside; fewer than half are, so it takes at most two steps on
    /// average while the size is near its capacity.
    #[inline]
    pub fn at(&self, number: u64) -> u64 {
        debug_assert!(number < self.size);
        let mut place = scramble_within(number, self.bits);
        while place >= self.size {
            place = scramble_within(place, self.bits);
        }
        place
    }
}

/// SplitMix64: one addition and one finalizer per number.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator of one thread of a run.
    pub fn new(seed: u64, thread: u64) -> Self {
        Self { state: scramble(seed ^ scramble(thread.wrapping_mul(SECOND))) }
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        scramble(self.state)
    }

    /// A number below `bound`, by the high half of a product: its bias is below `bound` / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in 0..1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// So that the distributions of `rand_distr` can draw from it.
impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.bits() >> 32) as u32)
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.bits())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.bits().to_le_bytes()[..piece.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn bijections_of_few_bits_hit_every_number_once() {
        for bits in 1..=16 {
            let images: HashSet<u64> = (0..1 << bits).map(|number| scramble_within(number, bits)).collect();
            assert_eq!(images.len(), 1 << bits, "{bits} bits");
            assert!(images.iter().all(|image| *image < 1 << bits), "{bits} bits");
        }
    }

    #[test]
    fn a_permutation_hits_every_number_once_and_growth_keeps_most_places() {
        for size in [1, 2, 3, 10, 100, 1000, 1025] {
            let permutation = Permutation::new(size, size * 2);
            let images: HashSet<u64> = (0..size).map(|number| permutation.at(number)).collect();
            assert_eq!(images.len() as u64, size);
            assert!(images.iter().all(|image| *image < size));
        }
        let before = Permutation::new(10_000, 11_000);
        let mut after = before;
        after.grow(10_100);
        let moved = (0..10_000).filter(|number| before.at(*number) != after.at(*number)).count();
        assert!(moved < 300, "{moved} moved");
        let images: HashSet<u64> = (0..10_100).map(|number| after.at(number)).collect();
        assert_eq!(images.len(), 10_100);
    }

    #[test]
    fn threads_have_streams_of_their_own_and_seeds_repeat() {
        let take = |seed, thread| -> Vec<u64> {
            let mut random = Random::new(seed, thread);
            (0..100).map(|_| random.bits()).collect()
        };
        assert_eq!(take(1, 0), take(1, 0));
        let all: HashSet<u64> = (0..10).flat_map(|thread| take(1, thread)).chain(take(2, 0)).collect();
        assert_eq!(all.len(), 1100);
    }

    #[test]
    fn numbers_below_a_bound_are_even() {
        let mut random = Random::new(7, 0);
        let mut counts = [0u32; 10];
        (0..100_000).for_each(|_| counts[random.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        let mean = (0..100_000).map(|_| random.unit()).sum::<f64>() / 100_000.0;
        assert!((0.495..0.505).contains(&mean), "{mean}");
    }
}
