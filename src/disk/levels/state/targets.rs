//! How large the levels of a leveled store may be. They follow its data: the deepest level has nearly everything, and
//! each level above has `size_ratio` times less, so that little space goes to data that a deeper level has too. (With
//! sizes that are fixed from the top down, the deepest level may have as little as the one above: twice the space.) Plain
//! data; any thread.

use super::version::Level;
use crate::disk::levels::options::LevelsTuning;

/// The levels that a leveled store has, level 0 included. The deepest one may have any size.
pub const LEVELED_LEVELS: usize = 7;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    base: usize,
    /// The bytes of each full level, from level 0 on.
    bytes: [u64; LEVELED_LEVELS],
}

impl Targets {
    /// The targets of a store with these levels.
    pub fn new(levels: &[Level], tuning: &LevelsTuning) -> Self {
        let (ratio, base_bytes) = (u64::from(tuning.shape.size_ratio.max(2)), tuning.shape.base_bytes);
        let below = || levels.iter().enumerate().skip(1);
        let mut left = below().map(|(_, level)| level.load().bytes).max().unwrap_or(0);
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
        let first_used = below().find(|(_, level)| !level.runs.is_empty()).map(|(at, _)| at);
        bytes[0] = base_bytes;
        bytes[LEVELED_LEVELS - 1] = u64::MAX;
        Self { base: first_used.map_or(fitting, |used| used.min(fitting)), bytes }
    }

    /// The level that level 0 is merged into.
    pub fn base(&self) -> usize {
        self.base
    }

    /// The bytes of a full level. Level 0 is full by bytes when it has as many as the options give the base level.
    pub fn bytes(&self, level: usize) -> u64 {
        self.bytes.get(level).copied().unwrap_or(u64::MAX)
    }
}
