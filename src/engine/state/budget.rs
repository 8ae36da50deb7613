//! How the memory budget is split between Memtables, page cache, log and workers.

use crate::branch::Compression;
use crate::disk::{ComponentOptions, TrunkOptions};
use crate::engine::resources::default_budget::default_budget;
use crate::engine::resources::resources::{BUDGET_MAX, BUDGET_MIN, Resources, THREADS_MAX};
use crate::engine::resources::shared_memory::{MEMTABLE_BYTES_SMALL, MemorySizes};
use crate::engine::types::options::Options;
use crate::memory::{MEMTABLE_SOFT_BYTES_MAX, memtables_bytes};
use crate::util::{Error, Result};

/// The most generations in memory: one that is written to; the others wait for incorporation.
pub(crate) const GENERATIONS_MAX: usize = 3;
/// The trunk's debt at which writers begin to be slowed, in Memtables: two full trunk nodes. At `DEBT_LIMIT`, six full
/// nodes, the delay is greatest.
pub(crate) const DEBT_START: u64 = 16;
/// See `DEBT_START`.
pub(crate) const DEBT_LIMIT: u64 = 48;
/// Writers begin to be slowed when the estimated garbage exceeds this percentage of the live data plus `GARBAGE_START`
/// Memtables (the latter for stores with little live data). At `GARBAGE_LIMIT_PERCENT` plus `GARBAGE_LIMIT` the delay
/// is greatest. This bounds the space that uniform overwriting takes (`docs/performance.md`).
pub(crate) const GARBAGE_START_PERCENT: u64 = 40;
/// See `GARBAGE_START_PERCENT`.
pub(crate) const GARBAGE_LIMIT_PERCENT: u64 = 100;
/// See `GARBAGE_START_PERCENT`.
pub(crate) const GARBAGE_START: u64 = 4;
/// See `GARBAGE_START_PERCENT`.
pub(crate) const GARBAGE_LIMIT: u64 = 16;
/// A Memtable is a twelfth of the budget up to a budget of 384 MiB, 32 MiB up to a budget of 2 GiB, and a sixty-fourth
/// from there to 4 GiB. Larger ones save some merging, but take memory from the cache, so that data which just fits no
/// longer does while there are writes (`engine/memory/arbiter.rs`; `docs/performance.md`).
const MEMTABLE_PART: u64 = 12;
const MEMTABLE_BYTES_MEDIUM: u64 = 32 << 20;
const MEMTABLE_PART_LARGE: u64 = 64;
/// Larger ones save little more, and their log takes longer to read after a crash. `Options::write_buffer` may be
/// larger.
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;
const MEMTABLE_BYTES_MIN: u64 = 32 << 10;
/// `Options::write_buffer` is at most this part of the budget: three Memtables of this size with their indexes leave
/// enough for the rest.
const WRITE_BUFFER_PART: u64 = 6;
/// The size of the value files of one generation, in Memtables. They are removed with the generation, so this bounds
/// the space that large values take when they are overwritten in place. Each switch costs a small branch.
const VALUE_FILES_PART: u64 = 4;
const VALUE_FILES_BYTES_MIN: u64 = 16 << 20;
/// Larger segments only take longer to create and to recycle, and a small store has two of them.
const SEGMENT_BYTES_MAX: u64 = 8 << 20;
const SEGMENT_BYTES_MIN: u64 = 256 << 10;
/// Chunks of a segment: as many as possible, because a segment is full once every chunk has an owner, however little
/// the owners have written. With chunks of 256 KiB, 64 threads that rarely wrote waited for new segments
/// (`docs/performance.md`).
const CHUNKS: u64 = 512;
/// With this size a thread takes a new chunk about every hundred small writes.
const CHUNK_BYTES_MAX: u64 = 16 << 10;
const CHUNK_BYTES_MIN: u64 = 4 << 10;
/// A worker's memory for extents, as a part of the budget: a merge of sixteen runs reads ahead in large extents. With a
/// sixty-fourth, merges under a budget of 256 MiB read 16 KiB at a time and waited half of the time.
const EXTENTS_PART: u64 = 24;
/// See `EXTENTS_PART`.
const EXTENTS_BYTES_MAX: u64 = 16 << 20;
/// Workers get this much even if it exceeds a small budget: the alternative is to read page by page.
const EXTENTS_BYTES_MIN: u64 = 256 << 10;
/// Memory that is not counted (allocator overhead, tables of nodes and files, reads ahead) in a store of medium size.
const UNCOUNTED_BYTES: u64 = 24 << 20;
/// The most workers by default: more cores do not help the background work of one store.
const WORKERS_MAX: usize = 8;
/// The parts of the budget, in bytes unless noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) total: u64,
    /// Soft size of one Memtable's arena; its hash index comes on top, about a quarter.
    pub(crate) memtable: usize,
    /// That of the first Memtable.
    pub(crate) first_memtable: usize,
    pub(crate) cache: usize,
    /// Memory into which merges and scans read ahead.
    pub(crate) extents: usize,
    pub(crate) segment: usize,
    pub(crate) chunk: usize,
    /// The size of the log that forces a switch of generations.
    pub(crate) log: u64,
    /// The size of a generation's value files that forces a switch.
    pub(crate) value_files: u64,
    /// Number of worker threads.
    pub(crate) workers: usize,
}

/// The sizes and settings of an open store, derived from its options.
#[derive(Clone, Debug)]
pub(crate) struct StoreConfig {
    pub(crate) budget: Budget,
    pub(crate) disk: ComponentOptions,
}

impl StoreConfig {
    /// The options of the disk component follow from the budget.
    pub(crate) fn new(budget: Budget, options: &Options) -> Self {
        let trunk = TrunkOptions { maplets: options.maplets, ..TrunkOptions::new(budget.memtable as u64) };
        Self { budget, disk: ComponentOptions { chosen: options.disk_component.clone(), trunk, memory: budget.total } }
    }
}

impl Budget {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        if let (Some(_), Some(_)) = (&options.resources, options.memory_budget) {
            return Err(Error::InvalidArgument(
                "both resources and memory_budget are set; a store has the one or the other".into(),
            ));
        }
        if let Some(resources) = &options.resources {
            resources.check_process()?;
        }
        let shared = options.resources.as_ref().map(Resources::memory);
        let total = options.memory_budget.or(shared).unwrap_or_else(default_budget);
        if total < BUDGET_MIN {
            return Err(Error::InvalidArgument(format!(
                "memory_budget is {total} bytes, at least {BUDGET_MIN} are needed"
            )));
        }
        if total > BUDGET_MAX {
            return Err(Error::InvalidArgument(format!(
                "memory_budget is {total} bytes, at most {BUDGET_MAX} are allowed; the default is a quarter of the machine's memory, at most 1 GiB"
            )));
        }
        check_write_limit(options.background_write_limit)?;
        options.compression.check_built_in()?;
        options.deep_compression.map_or(Ok(()), Compression::check_built_in)?;
        let cores = || std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let threads = options.resources.as_ref().and_then(Resources::threads);
        let workers = options.background_threads.or(threads).unwrap_or_else(|| cores().clamp(2, WORKERS_MAX));
        if workers == 0 {
            return Err(Error::InvalidArgument("background_threads is 0, at least 1 is needed".into()));
        }
        if workers > THREADS_MAX {
            return Err(Error::InvalidArgument(format!(
                "background_threads is {workers}, at most {THREADS_MAX} are allowed; the default is as many as the machine has \
                 cores, up to {WORKERS_MAX}"
            )));
        }
        let part = total / WRITE_BUFFER_PART;
        let most = part.min(MEMTABLE_SOFT_BYTES_MAX as u64);
        let memtable = match options.write_buffer {
            None => {
                let small = (total / MEMTABLE_PART).min(MEMTABLE_BYTES_MEDIUM);
                small.max(total / MEMTABLE_PART_LARGE).clamp(MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX)
            }
            Some(bytes) if (MEMTABLE_BYTES_MIN..=most).contains(&bytes) => bytes,
            Some(bytes) => {
                let reason =
                    if most < part { "as much as one generation can have" } else { "a sixth of memory_budget" };
                return Err(Error::InvalidArgument(format!(
                    "write_buffer is {bytes} bytes; at least {MEMTABLE_BYTES_MIN} are needed, and at most {most}, {reason}, fit"
                )));
            }
        };
        if let Some(component) = &options.disk_component {
            component.check(memtable)?;
        }
        let segment = (memtable / 4).next_power_of_two().clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        // The cache gets the rest after the Memtables with their indexes, three mapped segments, the workers' extents,
        // and up to an eighth for memory that is not counted.
        let extents = workers as u64 * (total / EXTENTS_PART).clamp(EXTENTS_BYTES_MIN, EXTENTS_BYTES_MAX);
        let fixed = GENERATIONS_MAX as u64 * memtable * 5 / 4
            + 3 * segment
            + extents
            + (total / 8).min(UNCOUNTED_BYTES + total / 32);
        let cache = total.saturating_sub(fixed).max(total / 8);
        Ok(Self {
            total,
            memtable: memtable as usize,
            // A size that the caller has chosen is there for bursts, also for the first one.
            first_memtable: options.write_buffer.map_or(MEMTABLE_BYTES_SMALL, |bytes| bytes as usize),
            cache: cache as usize,
            extents: extents as usize,
            segment: segment as usize,
            chunk: (segment / CHUNKS).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX) as usize,
            log: (memtable * 6).max(segment * 4),
            value_files: (memtable * VALUE_FILES_PART).max(VALUE_FILES_BYTES_MIN),
            workers,
        })
    }
}

impl Budget {
    /// The sizes of what stores share.
    pub(crate) fn memory_sizes(&self) -> MemorySizes {
        MemorySizes { cache: self.cache, memtables: memtables_bytes(self.memtable), extents: self.extents }
    }

    /// The most generations that opening fills from the log. The cost of an insert bounds the size of a Memtable, so on
    /// a large machine a few Memtables are little memory; there the log's entries may take an eighth of the budget,
    /// since the cache is still empty.
    pub(crate) fn generations_at_open(&self) -> usize {
        let memtable = self.memtable as u64 * 5 / 4;
        ((self.total / 8 / memtable) as usize).max(GENERATIONS_MAX)
    }
}

#[cfg(any(test, feature = "testing"))]
impl Budget {
    /// Parts so small that a few dozen writes cause every kind of switch and merge, and that opening costs almost
    /// nothing: for tests that open a store hundreds of thousands of times.
    pub(crate) fn small(options: &Options) -> Result<Self> {
        let small = Self {
            memtable: 4 << 10,
            cache: 64 << 10,
            segment: 16 << 10,
            chunk: 4 << 10,
            log: 64 << 10,
            value_files: 1 << 20,
            ..Self::new(options)?
        };
        Ok(small)
    }
}

/// Refuses a write limit of 0, under which background work would never end.
pub(crate) fn check_write_limit(limit: Option<u64>) -> Result<()> {
    if limit == Some(0) {
        return Err(Error::InvalidArgument(
            "background_write_limit is 0 bytes a second, at least 1 is needed; None means no limit".into(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_stay_within_the_budget() {
        for shift in 20..40 {
            for extra in [0, 12345] {
                let options = Options {
                    memory_budget: Some((1 << shift) + extra),
                    background_threads: Some(2),
                    ..Options::default()
                };
                let budget = Budget::new(&options).unwrap();
                let memory = GENERATIONS_MAX * budget.memtable * 5 / 4 + 3 * budget.segment + budget.cache;
                if budget.total >= 8 << 20 {
                    assert!(memory as u64 <= budget.total, "{budget:?}");
                }
                assert!(budget.segment.is_multiple_of(budget.chunk) && budget.chunk.is_multiple_of(4096), "{budget:?}");
                assert!(budget.log >= 2 * budget.memtable as u64, "{budget:?}");
            }
        }
        let with_buffer = |bytes| {
            Budget::new(&Options { memory_budget: Some(60 << 20), write_buffer: Some(bytes), ..Options::default() })
        };
        let budget = with_buffer(10 << 20).unwrap();
        assert_eq!(budget.memtable, 10 << 20);
        assert!(
            GENERATIONS_MAX * budget.memtable * 5 / 4 + 3 * budget.segment + budget.cache <= 60 << 20,
            "{budget:?}"
        );
        for bad in [0, 1000, (10 << 20) + 1, u64::MAX] {
            let error = with_buffer(bad).unwrap_err().to_string();
            assert!(error.contains("write_buffer") && error.contains(&(10u64 << 20).to_string()), "{error}");
        }
        assert!(Budget::new(&Options { memory_budget: Some(1), ..Options::default() }).is_err());
        assert!(Budget::new(&Options { background_threads: Some(0), ..Options::default() }).is_err());
        assert!(Budget::new(&Options::default()).unwrap().total >= BUDGET_MIN);
    }

    /// Once, any value was accepted: a hundred thousand threads ran out of memory, and a budget near 2^64 overflowed in
    /// the sum of its parts.
    #[test]
    fn sizes_above_the_limits_are_refused() {
        let refused = |options: Options, what: &str, found: u64, most: u64| {
            let error = Budget::new(&options).unwrap_err();
            let text = error.to_string();
            let parts = [what, &found.to_string(), &most.to_string(), "the default is"];
            assert!(
                matches!(error, Error::InvalidArgument(_)) && parts.iter().all(|part| text.contains(part)),
                "{text}"
            );
        };
        for threads in [THREADS_MAX + 1, 100_000, usize::MAX] {
            let options = Options { background_threads: Some(threads), ..Options::default() };
            refused(options, "background_threads", threads as u64, THREADS_MAX as u64);
        }
        for bytes in [BUDGET_MAX + 1, u64::MAX] {
            // A write buffer that such a budget would allow: its parts overflowed.
            let options = Options { memory_budget: Some(bytes), write_buffer: Some(bytes / 6), ..Options::default() };
            refused(options, "memory_budget", bytes, BUDGET_MAX);
        }
        let largest = Options {
            memory_budget: Some(BUDGET_MAX),
            background_threads: Some(THREADS_MAX),
            write_buffer: Some(MEMTABLE_SOFT_BYTES_MAX as u64),
            ..Options::default()
        };
        // Once, a Memtable was silently smaller than that.
        let larger = Options { write_buffer: largest.write_buffer.map(|bytes| bytes + 1), ..largest.clone() };
        let error = Budget::new(&larger).unwrap_err().to_string();
        assert!(error.contains(&MEMTABLE_SOFT_BYTES_MAX.to_string()) && error.contains("one generation"), "{error}");
        let budget = Budget::new(&largest).unwrap();
        let fixed = (GENERATIONS_MAX * budget.memtable * 5 / 4 + 3 * budget.segment + budget.extents) as u64;
        assert!(fixed + budget.cache as u64 <= BUDGET_MAX && budget.log > 0, "{budget:?}");
    }
}
