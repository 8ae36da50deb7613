//! Zipfian ranks as YCSB draws them: the closed formula of Gray et al. (SIGMOD 1994), one power per draw. Each thread
//! has its own.
//!
//! YCSB's constant, 0.99, gives the most popular of a million items about 6.5% of all draws.

use crate::random::Random;

/// YCSB's skew.
const THETA: f64 = 0.99;
/// Terms of the zeta sum that are added one by one; the Euler-Maclaurin formula gives the rest, to better than 1e-9.
const TERMS: u64 = 100;

/// Draws ranks below a count, 0 most often.
#[derive(Clone, Debug)]
pub struct Zipfian {
    count: f64,
    alpha: f64,
    eta: f64,
    zeta: f64,
    head: f64,
}

impl Zipfian {
    /// Ranks below `count`, which is not 0.
    pub fn new(count: u64) -> Self {
        let head = (1..TERMS).map(|rank| (rank as f64).powf(-THETA)).sum();
        let mut zipfian = Self { count: 0.0, alpha: 1.0 / (1.0 - THETA), eta: 0.0, zeta: 0.0, head };
        zipfian.grow(count);
        zipfian
    }

    /// Changes the count. Costs a few powers, not a sum over all items.
    pub fn grow(&mut self, count: u64) {
        self.count = count as f64;
        self.zeta = if count < TERMS { harmonic(count) } else { self.head + tail(count) };
        let two = 1.0 + 0.5f64.powf(THETA);
        self.eta = if count <= 2 {
            0.0 // The formula below is not reached: the first two ranks are drawn directly.
        } else {
            (1.0 - (2.0 / self.count).powf(1.0 - THETA)) / (1.0 - two / self.zeta)
        };
    }

    /// The next rank.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 || self.count < 2.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) || self.count < 3.0 {
            return 1;
        }
        let rank = self.count * (self.eta * (unit - 1.0) + 1.0).powf(self.alpha);
        (rank as u64).min(self.count as u64 - 1)
    }
}

/// The generalized harmonic number, term by term.
fn harmonic(count: u64) -> f64 {
    (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum()
}

/// The sum of the terms from `TERMS` to `count`: integral, half of both ends, and the first correction.
fn tail(count: u64) -> f64 {
    let (from, to) = (TERMS as f64, count as f64);
    let integral = (to.powf(1.0 - THETA) - from.powf(1.0 - THETA)) / (1.0 - THETA);
    let ends = (from.powf(-THETA) + to.powf(-THETA)) / 2.0;
    let slopes = THETA * (from.powf(-THETA - 1.0) - to.powf(-THETA - 1.0)) / 12.0;
    integral + ends + slopes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_sum_is_the_sum() {
        for count in [1, 2, 99, 100, 101, 1000, 100_000] {
            let (fast, slow) = (Zipfian::new(count).zeta, harmonic(count));
            assert!((fast - slow).abs() < 1e-8 * slow, "{count}: {fast} and {slow}");
        }
    }

    #[test]
    fn shares_are_those_of_theory() {
        let count = 100_000;
        let zipfian = Zipfian::new(count);
        let (mut random, draws) = (Random::new(1, 0), 1_000_000u32);
        let mut counts = vec![0u32; count as usize];
        (0..draws).for_each(|_| counts[zipfian.rank(&mut random) as usize] += 1);
        let zeta = harmonic(count);
        // The closed formula is exact for the first two ranks and follows the curve after them.
        for (ranks, tolerance) in [(0..1, 0.02), (1..2, 0.03), (2..10, 0.2), (10..100, 0.1), (100..10_000, 0.05)] {
            let share = ranks.clone().map(|rank| f64::from(counts[rank])).sum::<f64>() / f64::from(draws);
            let theory = ranks.clone().map(|rank| (rank as f64 + 1.0).powf(-THETA)).sum::<f64>() / zeta;
            assert!((share / theory - 1.0).abs() < tolerance, "{ranks:?}: {share} instead of {theory}");
        }
    }

    #[test]
    fn few_items_and_growth_stay_in_range() {
        let mut random = Random::new(1, 0);
        let mut zipfian = Zipfian::new(1);
        for count in 1..50 {
            zipfian.grow(count);
            assert!((0..1000).all(|_| zipfian.rank(&mut random) < count), "{count}");
        }
    }
}
