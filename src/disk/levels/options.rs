//! The options of the levels, and their tuning. Plain data; any thread. The manifest has the shape; only a conversion of
//! the closed store changes it.

use crate::filter::quotient;
use crate::format::filter_page::REMAINDER_BITS_MAX;
use crate::format::manifest_edit::LevelsShape;
use crate::merge::MergeOperators;
use crate::util::sync::Arc;
use crate::util::{Error, Result};
use std::ops::RangeInclusive;

/// By default the target of a branch file is this part of a Memtable.
const FILE_PART: u64 = 4;
/// By default it is at least this: a file has at least a page each of data, index, filter, properties and footer.
const FILE_BYTES_USUAL_MIN: u64 = 256 << 10;
/// By default the level below level 0 has at least this many files when it is full.
const BASE_FILES_MIN: u64 = 4;
/// The smallest target that can be chosen.
const FILE_BYTES_MIN: u64 = 4096;
/// Files are cut at the bounds of files of the next level only from this part of their target on, and reused from this
/// part on, because a reused file ends the new files on either side.
const SMALL_FILE_PART: u64 = 4;
/// The most files of the next deeper level that a new file overlaps. *Otherwise:* it is costly to merge it there.
pub const OVERLAPPED_FILES_MAX: usize = 10;
/// The levels that a leveled store has, level 0 included. The deepest one may have any size.
pub const LEVELED_LEVELS: usize = 7;
/// How many levels further a merge places keys in a store that skips levels (SkipStore §4.1: two are best).
const MAX_SKIP: u32 = 2;
/// The most that make a difference.
const MAX_SKIP_MOST: u32 = LEVELED_LEVELS as u32 - 1;
/// By default, the runs of keys that skipped levels which a level may have.
const SKIP_RUNS: u32 = 6;
/// The recorded size of buffers that follows from the memory budget.
const AUTOMATIC: u64 = u64::MAX;
/// That size is this part of the budget (SkipStore §6.1: 256 MB of 2 GB).
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
/// The largest number that a knob takes.
const KNOB_MAX: u32 = 1000;
/// The deepest level that a conversion uses. Levels grow at least twofold, so it holds anything.
const LEVEL_MAX: usize = 60;
/// The largest size that a knob takes.
const BYTES_MAX: u64 = 1 << 44;

/// The shape of a store with levels (`DiskComponent::Levels`): leveled, tiered, or between the two. It is fixed when
/// the store is created or converted (`Db::convert`).
///
/// ```
/// use alluvium::{DiskComponent, LevelsOptions, Options};
/// let levels = LevelsOptions { size_ratio: 8, ..LevelsOptions::leveled() };
/// let options = Options { disk_component: Some(DiskComponent::Levels(levels)), ..Options::default() };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelsOptions {
    /// In a leveled store: how many times the bytes of a level the next deeper one may have. From 2 to 1000.
    pub size_ratio: u32,
    /// The runs that a level below level 0 may have. With 1 the store is leveled: merges rewrite part of the next level,
    /// so gets and scans meet one run for each level, and there is little garbage. With more it is tiered: the runs of a
    /// full level become one run of the next level, so that writes are rewritten once for each level, and reads meet
    /// more runs. From 1 to 1000.
    pub runs_per_level: u32,
    /// The runs of level 0, one for each incorporated Memtable, from which they are merged into a deeper level. From 1 to
    /// 1000.
    pub level0_runs: u32,
    /// In a tiered store: the percentage of the runs of a full level that one merge takes, the oldest ones. From 1 to
    /// 100.
    pub merge_percent: u32,
    /// About the size of a branch file. At least 4096. `None`: a quarter of the largest Memtable, at least 256 KiB.
    pub file_bytes: Option<u64>,
    /// In a leveled store: about the bytes of the level that level 0 is merged into. Levels follow the data: the deepest
    /// one has nearly everything, each level above `size_ratio` times less, down to the one that is nearest to this size.
    /// `None`: `size_ratio` times the largest Memtable, at least four files.
    pub base_level_bytes: Option<u64>,
    /// Bits of a fingerprint in the filters of the deepest level. A filter takes 3 bits more for a key, at a load of four
    /// fifths, and lets one get in 2^`filter_bits` read a file that does not have its key. From 1 to 16.
    pub filter_bits: u32,
    /// Which levels have these filters.
    pub filters: LevelFilters,
    /// In a leveled store: how many levels further than usual a merge may place a key whose older versions, by the
    /// filters, are in none of the levels passed (SkipStore §4.1). The key then is not rewritten in these levels. It
    /// waits in a run of its own, above that of the level, for a merge that is worth its while. 0: none. At most 6.
    pub max_skip: u32,
    /// With `max_skip`: the runs of such keys that a level may have. More write less, and gets and scans meet more runs.
    /// From 1 to 1000.
    pub skip_runs: u32,
    /// With `max_skip`: the memory in which such keys wait (SkipStore §4.2), a part of `Options::memory_budget`, of which
    /// it is at most a half. There they cost no write until they are merged. The files from which they came are kept for
    /// them meanwhile, up to twice as many bytes (`Stats::parent_bytes`), and read by the next opening. What does not fit
    /// waits in files. 0: all of it does. `None`: an eighth of the budget.
    pub buffer_bytes: Option<u64>,
}

/// How the precision of filters is spread over the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelFilters {
    /// All levels have filters of the same bits.
    Equal,
    /// The smaller a level, the more precise are its filters: its share of false positives is that of its data, as in
    /// Monkey. That takes hardly any space, because the smaller levels have few keys, and most false positives are gone.
    FinerAbove,
}

impl LevelsOptions {
    /// Reads and space first: one run for each level, each level ten times as large as the one above.
    pub fn leveled() -> Self {
        Self {
            size_ratio: 10,
            runs_per_level: 1,
            level0_runs: 4,
            merge_percent: 100,
            file_bytes: None,
            base_level_bytes: None,
            filter_bits: quotient::REMAINDER_BITS,
            filters: LevelFilters::FinerAbove,
            max_skip: 0,
            skip_runs: SKIP_RUNS,
            buffer_bytes: None,
        }
    }

    /// Writes first: up to ten runs for each level, which are merged into one run of the next level.
    pub fn tiered() -> Self {
        Self { runs_per_level: 10, level0_runs: 10, ..Self::leveled() }
    }

    /// Leveled, but keys go past levels that do not have them (SkipStore): writes are rewritten less often, and reads
    /// meet a few more runs.
    pub fn skip() -> Self {
        Self { max_skip: MAX_SKIP, ..Self::leveled() }
    }

    /// With the bits for which at most this share of gets, above 0 and below 1, reads a file of the deepest level that
    /// does not have the key. The least is one in 65536, the greatest a half.
    ///
    /// ```
    /// use alluvium::LevelsOptions;
    /// assert_eq!(LevelsOptions::leveled().with_false_positive_rate(0.01).filter_bits, 7);
    /// ```
    #[must_use]
    pub fn with_false_positive_rate(self, rate: f64) -> Self {
        // As many bits as halvings: 0.01 lies between 2^-6 and 2^-7.
        let filter_bits = (1..REMAINDER_BITS_MAX).find(|bits| 0.5f64.powi(*bits as i32) <= rate);
        Self { filter_bits: filter_bits.unwrap_or(REMAINDER_BITS_MAX), ..self }
    }

    /// The further bits of filters for each level above the deepest: as many as halve its size.
    fn filter_bits_above(&self) -> u32 {
        let times = if self.runs_per_level <= 1 { self.size_ratio } else { self.runs_per_level };
        match self.filters {
            LevelFilters::Equal => 0,
            LevelFilters::FinerAbove => times.ilog2().min(REMAINDER_BITS_MAX),
        }
    }

    /// The shape that the manifest records, for Memtables of this size.
    pub(in crate::disk) fn shape(&self, memtable_bytes: u64) -> Result<LevelsShape> {
        check("size_ratio", self.size_ratio.into(), 2..=KNOB_MAX.into())?;
        check("runs_per_level", self.runs_per_level.into(), 1..=KNOB_MAX.into())?;
        check("level0_runs", self.level0_runs.into(), 1..=KNOB_MAX.into())?;
        check("merge_percent", self.merge_percent.into(), 1..=100)?;
        check("max_skip", self.max_skip.into(), 0..=MAX_SKIP_MOST.into())?;
        check("skip_runs", self.skip_runs.into(), 1..=KNOB_MAX.into())?;
        if self.max_skip > 0 && self.runs_per_level > 1 {
            return Err(Error::InvalidArgument(format!(
                "max_skip of the levels is {} and runs_per_level is {}; only levels of one run are skipped: set \
                 runs_per_level to 1, or max_skip to 0",
                self.max_skip, self.runs_per_level
            )));
        }
        if let Some(bytes) = self.buffer_bytes {
            check("buffer_bytes", bytes, 0..=BYTES_MAX)?;
        }
        check("filter_bits", self.filter_bits.into(), 1..=REMAINDER_BITS_MAX.into())?;
        let file_bytes = self.file_bytes.unwrap_or((memtable_bytes / FILE_PART).max(FILE_BYTES_USUAL_MIN));
        check("file_bytes", file_bytes, FILE_BYTES_MIN..=BYTES_MAX)?;
        let base = memtable_bytes.saturating_mul(self.size_ratio.into()).max(file_bytes.saturating_mul(BASE_FILES_MIN));
        let base_bytes = self.base_level_bytes.unwrap_or(base.min(BYTES_MAX));
        check("base_level_bytes", base_bytes, FILE_BYTES_MIN..=BYTES_MAX)?;
        Ok(LevelsShape {
            size_ratio: self.size_ratio,
            runs_per_level: self.runs_per_level,
            level0_runs: self.level0_runs,
            merge_percent: self.merge_percent,
            file_bytes,
            base_bytes,
            filter_bits: self.filter_bits,
            filter_bits_above: self.filter_bits_above(),
            max_skip: self.max_skip,
            skip_runs: if self.max_skip > 0 { self.skip_runs } else { 0 },
            buffer_bytes: if self.max_skip > 0 { self.buffer_bytes.unwrap_or(AUTOMATIC) } else { 0 },
        })
    }

    /// Whether a store of this shape was created with these options. Sizes that are not named do not matter.
    pub(in crate::disk) fn is_shape(&self, shape: &LevelsShape) -> bool {
        self.size_ratio == shape.size_ratio
            && self.runs_per_level == shape.runs_per_level
            && self.level0_runs == shape.level0_runs
            && self.merge_percent == shape.merge_percent
            && self.filter_bits == shape.filter_bits
            && self.filter_bits_above() == shape.filter_bits_above
            && self.max_skip == shape.max_skip
            && (self.max_skip == 0 || self.skip_runs == shape.skip_runs)
            && (self.max_skip == 0 || self.buffer_bytes.unwrap_or(AUTOMATIC) == shape.buffer_bytes)
            && self.file_bytes.is_none_or(|bytes| bytes == shape.file_bytes)
            && self.base_level_bytes.is_none_or(|bytes| bytes == shape.base_bytes)
    }
}

impl Default for LevelsOptions {
    fn default() -> Self {
        Self::leveled()
    }
}

fn check(name: &str, found: u64, range: RangeInclusive<u64>) -> Result<()> {
    if range.contains(&found) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(Error::InvalidArgument(format!("{name} of the levels is {found}; it must be from {least} to {most}")))
}

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
