//! How large the levels of a leveled store may be. They follow its data: the deepest level has nearly everything, and
//! each level above has `size_ratio` times less, so that little space goes to data that a deeper level has too. (With
//! sizes that are fixed from the top down, the deepest level may have as little as the one above: twice the space.) Plain
//! data; any thread.

use crate::disk::levels::options::LEVELED_LEVELS;
use crate::format::manifest_edit::LevelsShape;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    base: usize,
    /// The bytes of each full level, from level 0 on.
    bytes: [u64; LEVELED_LEVELS],
}

impl Targets {
    /// The targets of a store whose levels, level 0 first, have these bytes. `is_behind`: level 0 has as many runs as it
    /// may have, or more.
    pub fn new(levels: &[u64], is_behind: bool, shape: &LevelsShape) -> Self {
        let (ratio, base_bytes) = (u64::from(shape.size_ratio.max(2)), shape.base_bytes);
        let below = || levels.iter().enumerate().skip(1);
        let mut left = below().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let mut bytes = [0; LEVELED_LEVELS];
        for target in bytes.iter_mut().skip(1).rev() {
            *target = left;
            left /= ratio;
        }
        // The deepest level that is not too large for what comes from level 0: at most about the square root of the ratio
        // larger than it should be; the level above would be smaller by more than that.
        let square = |bytes: u64| u128::from(bytes) * u128::from(bytes);
        let is_small = |target: u64| square(target) <= square(base_bytes).saturating_mul(ratio.into());
        let fitting = (1..LEVELED_LEVELS).rev().find(|level| is_small(bytes[*level])).unwrap_or(1);
        // No data is passed, because it is older than what comes from level 0.
        let first_used = below().find(|(_, bytes)| **bytes > 0).map(|(at, _)| at);
        let base = first_used.map_or(fitting, |used| used.min(fitting));
        if is_behind {
            raise(&mut bytes[base..], levels.first().copied().unwrap_or(0));
        }
        bytes[0] = base_bytes;
        bytes[LEVELED_LEVELS - 1] = u64::MAX;
        Self { base, bytes }
    }

    /// The level that level 0 is merged into.
    pub fn base(&self) -> usize {
        self.base
    }

    /// How many levels are below a level. Unused ones above the base level do not count.
    pub fn height(&self, level: usize) -> usize {
        let level = if level == 0 { self.base.saturating_sub(1) } else { level };
        (LEVELED_LEVELS - 1).saturating_sub(level)
    }

    /// The bytes of a full level. Level 0 is full by bytes when it has as many as the options give the base level.
    pub fn bytes(&self, level: usize) -> u64 {
        self.bytes.get(level).copied().unwrap_or(u64::MAX)
    }
}

/// Raises the sizes of the base level and of the levels between it and the deepest one, if the base level would be smaller
/// than what waits in level 0 (as RocksDB does): then each level is the same number of times as large as the one above.
/// *Otherwise:* merges of level 0 fill the base level several times over, and each of its files overlaps much of the next
/// level.
fn raise(bytes: &mut [u64], level0_bytes: u64) {
    let (Some(base), Some(deepest)) = (bytes.first().copied(), bytes.last().copied()) else { return };
    if bytes.len() < 2 || base >= level0_bytes || level0_bytes >= deepest {
        return;
    }
    let steps = (bytes.len() - 1) as f64;
    let ratio = (deepest as f64 / level0_bytes as f64).powf(1.0 / steps);
    let mut raised = level0_bytes as f64;
    for target in bytes.iter_mut().rev().skip(1).rev() {
        *target = (*target).max(raised as u64);
        raised *= ratio;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn targets(levels: &[u64]) -> Targets {
        Targets::new(levels, false, &shape())
    }

    fn shape() -> LevelsShape {
        LevelsShape { size_ratio: 10, base_bytes: 64 * MIB, ..LevelsShape::default() }
    }

    #[test]
    fn levels_follow_the_deepest_one() {
        // Nothing, and less than fits the base level: everything goes to the deepest level.
        assert_eq!((targets(&[]).base(), targets(&[100 * MIB]).base()), (6, 6));
        assert_eq!(targets(&[0, 0, 0, 0, 0, 0, 200 * MIB]).base(), 6);
        let two = targets(&[0, 0, 0, 0, 0, 0, 250 * MIB]);
        assert_eq!((two.base(), two.bytes(5), two.bytes(6)), (5, 25 * MIB, u64::MAX));
        let four = targets(&[0, 0, 0, 0, 0, 0, 30_000 * MIB]);
        assert_eq!((four.base(), four.bytes(3), four.bytes(4), four.bytes(5)), (3, 30 * MIB, 300 * MIB, 3000 * MIB));
        // More than fits seven levels.
        assert_eq!(targets(&[0, 0, 0, 0, 0, 0, u64::MAX]).base(), 1);
    }

    /// Level 0 once was merged into a level of a tenth of its size, which then overflowed into much of the next one.
    #[test]
    fn a_base_level_is_not_smaller_than_what_waits_in_level_0() {
        let behind = |level0, deepest| Targets::new(&[level0, 0, 0, 0, 0, 0, deepest], true, &shape());
        let of_middle = |targets: &Targets| [4, 5].map(|level| targets.bytes(level) / MIB);
        let usual = targets(&[60 * MIB, 0, 0, 0, 0, 0, 3000 * MIB]);
        assert_eq!((usual.base(), of_middle(&usual)), (4, [30, 300]));
        // The ratio is the square root of 3000 / 60 at both steps.
        let raised = behind(60 * MIB, 3000 * MIB);
        assert_eq!((raised.base(), of_middle(&raised)), (4, [60, 424]));
        // As large as all other data, or no level in between: nothing to raise.
        assert_eq!(of_middle(&behind(4000 * MIB, 3000 * MIB)), [30, 300]);
        assert_eq!(behind(60 * MIB, 100 * MIB).base(), 6);
    }

    #[test]
    fn level_0_passes_no_data_and_unused_levels_do_not_count() {
        let shrunk = targets(&[10 * MIB, 0, 0, 0, 5 * MIB, 0, 100 * MIB]);
        assert_eq!((shrunk.base(), shrunk.bytes(4)), (4, MIB));
        assert_eq!([0, 4, 5, 6].map(|level| shrunk.height(level)), [3, 2, 1, 0]);
    }
}
