//! The options of the levels. Plain data; any thread. The manifest has the shape; only a conversion of the closed store
//! changes it.

use crate::filter::quotient;
use crate::format::filter_page::REMAINDER_BITS_MAX;
use crate::format::manifest_edit::LevelsShape;
use crate::util::{Error, Result};
use std::ops::RangeInclusive;

/// By default the target of a branch file is this part of a Memtable.
const FILE_PART: u64 = 4;
/// By default it is at least this: a file has at least a page each of data, index, filter, properties and footer.
const FILE_BYTES_USUAL_MIN: u64 = 256 << 10;
/// By default the level below level 0 has at least this many files when it is full.
const BASE_FILES_MIN: u64 = 4;
/// The smallest target that can be chosen.
pub const FILE_BYTES_MIN: u64 = 4096;
/// The levels that a leveled store has, level 0 included. The deepest one may have any size.
pub const LEVELED_LEVELS: usize = 7;
/// How many levels further a merge places keys in a store that skips levels (SkipStore §4.1: two are best).
const MAX_SKIP: u32 = 2;
/// The most that make a difference.
const MAX_SKIP_MOST: u32 = LEVELED_LEVELS as u32 - 1;
/// By default, the runs of keys that skipped levels which a level may have.
const SKIP_RUNS: u32 = 6;
/// The recorded size of buffers that follows from the memory budget.
pub const AUTOMATIC: u64 = u64::MAX;
/// The largest number that a knob takes.
const KNOB_MAX: u32 = 1000;
/// The largest size that a knob takes.
const BYTES_MAX: u64 = 1 << 44;

/// The shape of a store with levels (`DiskComponent::Levels`): leveled, tiered, or between the two. It is fixed when
/// the store is created or converted (`Db::convert`).
///
/// ```
/// use alluvium::{DiskComponent, LevelsOptions, Options};
/// let levels = LevelsOptions::leveled().size_ratio(8);
/// let options = Options::new().disk_component(DiskComponent::Levels(levels));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
///
/// ```
/// use alluvium::{LevelFilters, LevelsOptions};
/// let levels = LevelsOptions::leveled().filters(LevelFilters::Equal).filter_bits(8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LevelFilters {
    /// All levels have filters of the same bits.
    Equal,
    /// The smaller a level, the more precise are its filters: its share of false positives is that of its data, as in
    /// Monkey. That takes hardly any space, because the smaller levels have few keys, and most false positives are gone.
    FinerAbove,
}

impl LevelsOptions {
    /// The default options: those of `leveled`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

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

    /// Sets the field `size_ratio`.
    #[must_use]
    pub fn size_ratio(self, times: u32) -> Self {
        Self { size_ratio: times, ..self }
    }

    /// Sets the field `runs_per_level`.
    #[must_use]
    pub fn runs_per_level(self, runs: u32) -> Self {
        Self { runs_per_level: runs, ..self }
    }

    /// Sets the field `level0_runs`.
    #[must_use]
    pub fn level0_runs(self, runs: u32) -> Self {
        Self { level0_runs: runs, ..self }
    }

    /// Sets the field `merge_percent`.
    #[must_use]
    pub fn merge_percent(self, percent: u32) -> Self {
        Self { merge_percent: percent, ..self }
    }

    /// Sets the field `file_bytes`.
    #[must_use]
    pub fn file_bytes(self, bytes: impl Into<Option<u64>>) -> Self {
        Self { file_bytes: bytes.into(), ..self }
    }

    /// Sets the field `base_level_bytes`.
    #[must_use]
    pub fn base_level_bytes(self, bytes: impl Into<Option<u64>>) -> Self {
        Self { base_level_bytes: bytes.into(), ..self }
    }

    /// Sets the field `filter_bits`.
    #[must_use]
    pub fn filter_bits(self, bits: u32) -> Self {
        Self { filter_bits: bits, ..self }
    }

    /// Sets the field `filters`.
    #[must_use]
    pub fn filters(self, filters: LevelFilters) -> Self {
        Self { filters, ..self }
    }

    /// Sets the field `max_skip`.
    #[must_use]
    pub fn max_skip(self, levels: u32) -> Self {
        Self { max_skip: levels, ..self }
    }

    /// Sets the field `skip_runs`.
    #[must_use]
    pub fn skip_runs(self, runs: u32) -> Self {
        Self { skip_runs: runs, ..self }
    }

    /// Sets the field `buffer_bytes`.
    #[must_use]
    pub fn buffer_bytes(self, bytes: impl Into<Option<u64>>) -> Self {
        Self { buffer_bytes: bytes.into(), ..self }
    }

    /// With the bits for which at most this share of gets, above 0 and below 1, reads a file of the deepest level that
    /// does not have the key. The least is one in 65536, the greatest a half.
    ///
    /// ```
    /// use alluvium::LevelsOptions;
    /// assert_eq!(LevelsOptions::leveled().false_positive_rate(0.01).filter_bits, 7);
    /// ```
    #[must_use]
    pub fn false_positive_rate(self, rate: f64) -> Self {
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
