//! What the levels of an open store go by: their shape and the memory for their buffers. Plain data; any thread.

use super::options::{AUTOMATIC, FILE_BYTES_MIN, LEVELED_LEVELS};
use crate::format::filter_page::REMAINDER_BITS_MAX;
use crate::format::manifest_edit::LevelsShape;
use crate::merge::MergeOperators;
use crate::util::sync::Arc;

/// Files are cut at the bounds of files of the next level only from this part of their target on, and reused from this
/// part on, because a reused file ends the new files on either side.
const SMALL_FILE_PART: u64 = 4;
/// The most files of the next deeper level that a new file overlaps. *Otherwise:* it is costly to merge it there.
pub const OVERLAPPED_FILES_MAX: usize = 10;
/// Buffers whose size is not chosen are this part of the budget (SkipStore §6.1: 256 MB of 2 GB).
const BUFFER_PART: u64 = 8;
/// A chosen size is at most this part.
const BUFFER_PART_MOST: u64 = 2;
/// So many parts of a hundred of the buffers may be full: merges need the rest, for what they make of what is in them.
const USABLE_PERCENT: u64 = 75;
/// The files that are kept only for what is in the buffers may have so many times the bytes of the buffers.
const PARENTS_PART: u64 = 2;
/// Parts in memory end at the bounds of files of their level from this size on. They need not be large, as no file is made
/// of them; the smaller they are, the fewer are taken along by merges in other ranges.
const BUFFERED_BYTES_MIN: u64 = 64 << 10;
/// The deepest level that a conversion uses. Levels grow at least twofold, so it holds anything.
const LEVEL_MAX: usize = 60;

/// What the levels of an open store go by.
#[derive(Clone, Debug)]
pub struct LevelsTuning {
    /// Recorded in the manifest.
    pub shape: LevelsShape,
    /// The size of a Memtable when the store was created: the unit of the debt.
    pub memtable_bytes: u64,
    /// They fold merge operands.
    pub merge_operators: Arc<MergeOperators>,
    /// Bytes of memory in which keys that skipped levels wait.
    pub buffer_bytes: u64,
}

impl LevelsTuning {
    /// For a store of this shape. `memory` is its budget; 0 if it does no work.
    pub fn new(shape: LevelsShape, memtable_bytes: u64, memory: u64, merge_operators: Arc<MergeOperators>) -> Self {
        let buffer_bytes = match shape.buffer_bytes {
            AUTOMATIC => memory / BUFFER_PART,
            chosen => chosen.min(memory / BUFFER_PART_MOST),
        };
        Self { shape, memtable_bytes, merge_operators, buffer_bytes }
    }

    /// The bytes that merges may leave in memory.
    pub fn usable_buffer_bytes(&self) -> u64 {
        self.buffer_bytes / 100 * USABLE_PERCENT
    }

    /// The bytes that a merge of what is in memory may have if its result is to stay there.
    pub fn joined_buffer_bytes(&self) -> u64 {
        self.buffer_bytes / 100 * (100 - USABLE_PERCENT)
    }

    /// The bytes that files may have which are kept only for what is in the buffers.
    pub fn parent_bytes(&self) -> u64 {
        self.buffer_bytes.saturating_mul(PARENTS_PART)
    }

    /// The bytes from which on a part in memory ends at a bound of a file of its level.
    pub fn small_buffered_bytes(&self) -> u64 {
        self.small_file_bytes().min(BUFFERED_BYTES_MIN)
    }

    /// The deepest level in which a merge into a level may place keys.
    pub fn deepest_skip(&self, level: usize) -> usize {
        (level + self.shape.max_skip as usize).min(LEVELED_LEVELS - 1).max(level)
    }

    /// Whether merges place keys in deeper levels than the next.
    pub fn skips(&self) -> bool {
        self.shape.max_skip > 0
    }

    /// Whether levels below level 0 have one run, apart from runs of keys that skipped levels.
    pub fn is_leveled(&self) -> bool {
        self.shape.runs_per_level <= 1
    }

    /// Bits of a remainder in the filters of a level that is so many levels above the deepest one.
    pub fn filter_bits(&self, height: usize) -> u32 {
        let more = self.shape.filter_bits_above.saturating_mul(height.try_into().unwrap_or(u32::MAX));
        self.shape.filter_bits.saturating_add(more).min(REMAINDER_BITS_MAX)
    }

    /// The bytes from which on a file ends at a bound of a file of the next level, and is reused.
    pub fn small_file_bytes(&self) -> u64 {
        (self.shape.file_bytes / SMALL_FILE_PART).max(FILE_BYTES_MIN)
    }

    /// The level for one run of this size that is all data of a store: in a leveled store the deepest one, in a tiered one
    /// the first whose runs usually are as large. *Otherwise:* merges soon rewrite the run, level by level.
    pub fn level_for(&self, bytes: u64) -> u32 {
        if self.is_leveled() {
            return (LEVELED_LEVELS - 1) as u32;
        }
        let mut run_bytes = self.memtable_bytes.max(1);
        for level in 1..LEVEL_MAX {
            // A merge of a full level takes so many runs.
            let taken = (self.level_runs(level - 1) as u64 * u64::from(self.shape.merge_percent)).div_ceil(100).max(2);
            run_bytes = run_bytes.saturating_mul(taken);
            if bytes <= run_bytes {
                return level as u32;
            }
        }
        LEVEL_MAX as u32
    }

    /// In a tiered store, and for level 0: the runs of a full level.
    pub fn level_runs(&self, level: usize) -> usize {
        // A level of one run has nothing to merge.
        let runs = if level == 0 { self.shape.level0_runs } else { self.shape.runs_per_level.max(2) };
        runs as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::levels::options::LevelsOptions;

    #[test]
    fn one_run_of_all_data_goes_where_it_is_not_merged_again() {
        let tuning = |options: LevelsOptions| {
            LevelsTuning::new(options.shape(1 << 20).unwrap(), 1 << 20, 16 << 20, Arc::default())
        };
        let leveled = tuning(LevelsOptions::leveled());
        assert_eq!([0, 10 << 20, 1 << 40].map(|bytes| leveled.level_for(bytes)), [6; 3]);
        // Ten runs of a Memtable each become a run of level 1, ten of these a run of level 2.
        let tiered = tuning(LevelsOptions::tiered());
        for (bytes, level) in [(0, 1), (10 << 20, 1), ((10 << 20) + 1, 2), (100 << 20, 2), (101 << 20, 3)] {
            assert_eq!(tiered.level_for(bytes), level, "{bytes} bytes, tiered");
        }
        let slow =
            tuning(LevelsOptions { size_ratio: 2, runs_per_level: 2, merge_percent: 1, ..LevelsOptions::tiered() });
        for tuning in [leveled, tiered, slow] {
            assert!(u64::from(tuning.level_for(u64::MAX)) <= LEVEL_MAX as u64);
        }
    }
}
