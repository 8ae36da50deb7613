//! How the one memory budget is split.

use crate::disk::{ComponentOptions, TrunkOptions};
use crate::engine::types::options::Options;
use crate::util::{Error, Result};

/// Memory generations at most: one written to, the others waiting for incorporation.
pub(crate) const GENERATIONS_MAX: usize = 3;
/// Waiting trunk work at which writers begin to be slowed, and at which they are slowed most, in Memtables: two and six
/// full trunk nodes.
pub(crate) const DEBT_START: u64 = 16;
/// See `DEBT_START`.
pub(crate) const DEBT_LIMIT: u64 = 48;
/// What is probably garbage, in percent of what is live, at which writers begin to be slowed, and at which they are slowed most; and
/// so many Memtables beyond that, for where little is live. It bounds the space that uniform overwriting takes (`docs/performance.md`).
pub(crate) const GARBAGE_START_PERCENT: u64 = 40;
/// See `GARBAGE_START_PERCENT`.
pub(crate) const GARBAGE_LIMIT_PERCENT: u64 = 100;
/// See `GARBAGE_START_PERCENT`.
pub(crate) const GARBAGE_START: u64 = 4;
/// See `GARBAGE_START_PERCENT`.
pub(crate) const GARBAGE_LIMIT: u64 = 16;
/// The least budget a store opens with.
const BUDGET_MIN: u64 = 256 << 10;
/// And the largest, 64 TiB: more than any machine has, and so far below 2^64 that no sum of parts comes near it.
const BUDGET_MAX: u64 = 64 << 40;
/// What a Memtable gets of a small budget, up to `MEMTABLE_BYTES_MIDDLING`, and of a large one, up to `MEMTABLE_BYTES_MAX`. Larger
/// ones save some merging, and take from the cache, so that data which just fits no longer does while there are writes (`memory_arbiter`;
/// `docs/performance.md`). So it is a twelfth up to 384 MiB of budget, 32 MiB up to 2 GiB, and a sixty-fourth from there to 4 GiB.
const MEMTABLE_PART: u64 = 12;
const MEMTABLE_BYTES_MIDDLING: u64 = 32 << 20;
const MEMTABLE_PART_LARGE: u64 = 64;
/// Larger ones save little more, and their log takes longer to read after a crash; `Options::write_buffer` may ask for more.
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;
const MEMTABLE_BYTES_MIN: u64 = 32 << 10;
/// A write buffer is at most this part of the budget: three of them with their indexes leave room for the rest.
const WRITE_BUFFER_PART: u64 = 6;
/// What a generation may hold of values in files of their own, in Memtables. Their files go with the generation, so this bounds the space
/// that overwriting them in place takes; a switch costs a small branch.
const VALUE_FILES_PART: u64 = 4;
const VALUE_FILES_BYTES_MIN: u64 = 16 << 20;
/// Larger segments only take longer to make and to recycle, and a small store holds two of them.
const SEGMENT_BYTES_MAX: u64 = 8 << 20;
const SEGMENT_BYTES_MIN: u64 = 256 << 10;
/// Chunks of a segment, as many as may be: a segment is full when each is some thread's, however little that thread has written. With
/// chunks of 256 KiB 64 threads that wrote now and then waited for each other's segments (`docs/performance.md`).
const CHUNKS: u64 = 512;
/// A thread comes back for a chunk every hundred small writes.
const CHUNK_BYTES_MAX: u64 = 16 << 10;
const CHUNK_BYTES_MIN: u64 = 4 << 10;
/// Extents of a worker, as a part of the budget: a merge of sixteen runs reads ahead in large ones. With a sixty-fourth merges under
/// 256 MiB read 16 KiB at a time, and stood waiting half of the time.
const EXTENTS_PART: u64 = 24;
/// At most.
const EXTENTS_BYTES_MAX: u64 = 16 << 20;
/// A budget so small is passed by this rather than reading page by page.
const EXTENTS_BYTES_MIN: u64 = 256 << 10;
/// What nobody counts (the allocator's own, tables of nodes and files, reads ahead) in a store of middling size.
const UNCOUNTED_BYTES: u64 = 24 << 20;
/// What the kernel gives at most is asked for; more cores than this do not help a store's background work.
const WORKERS_MAX: usize = 8;
/// Who asks gets as many. A tree seldom has more than a dozen merges that can run side by side, while every thread has a stack, and
/// extents of its own of up to `EXTENTS_BYTES_MAX`: with so many these are 1 GiB.
const WORKERS_ASKED_MAX: usize = 64;

/// The parts of the budget, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) total: u64,
    /// Soft size of one Memtable's arena; its hash index comes on top, about a quarter.
    pub(crate) memtable: usize,
    pub(crate) cache: usize,
    /// What cursors read leaves into.
    pub(crate) extents: usize,
    pub(crate) segment: usize,
    pub(crate) chunk: usize,
    /// Log bytes that force a switch of generations.
    pub(crate) log: u64,
    /// Bytes of values in files of their own that force a switch of one generation.
    pub(crate) value_files: u64,
    pub(crate) workers: usize,
}

/// What a store reckons with while it is open.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) budget: Budget,
    pub(crate) disk: ComponentOptions,
}

impl Figures {
    /// The tree's figures follow the budget's.
    pub(crate) fn new(budget: Budget, options: &Options) -> Self {
        let trunk = TrunkOptions { maplets: options.maplets, ..TrunkOptions::new(budget.memtable as u64) };
        Self { budget, disk: ComponentOptions::Trunk(trunk) }
    }
}

impl Budget {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let total = options.memory_budget.unwrap_or_else(default_total);
        if total < BUDGET_MIN {
            return Err(Error::InvalidArgument(format!(
                "memory_budget is {total} bytes, at least {BUDGET_MIN} are needed"
            )));
        }
        if total > BUDGET_MAX {
            return Err(Error::InvalidArgument(format!(
                "memory_budget is {total} bytes, more than the {BUDGET_MAX} that may be asked for; None takes half of the machine's \
                 memory"
            )));
        }
        check_write_limit(options.background_write_limit)?;
        let cores = || std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let workers = options.background_threads.unwrap_or_else(|| cores().clamp(2, WORKERS_MAX));
        if workers == 0 {
            return Err(Error::InvalidArgument("background_threads is 0, at least 1 is needed".into()));
        }
        if workers > WORKERS_ASKED_MAX {
            return Err(Error::InvalidArgument(format!(
                "background_threads is {workers}, more than the {WORKERS_ASKED_MAX} that may be asked for; None takes as many as the \
                 machine has cores, up to {WORKERS_MAX}"
            )));
        }
        let memtable = match options.write_buffer {
            None => {
                let small = (total / MEMTABLE_PART).min(MEMTABLE_BYTES_MIDDLING);
                small.max(total / MEMTABLE_PART_LARGE).clamp(MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX)
            }
            Some(bytes) if bytes >= MEMTABLE_BYTES_MIN && bytes <= total / WRITE_BUFFER_PART => bytes,
            Some(bytes) => {
                let most = total / WRITE_BUFFER_PART;
                return Err(Error::InvalidArgument(format!(
                    "write_buffer is {bytes} bytes; at least {MEMTABLE_BYTES_MIN} are needed, and at most {most}, a sixth of \
                     memory_budget, fit"
                )));
            }
        };
        let segment = (memtable / 4).next_power_of_two().clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        // Memtables with their indexes, three mapped segments, some megabytes of extents a worker, and up to an eighth for what
        // nobody counts: the rest is cache.
        let extents = workers as u64 * (total / EXTENTS_PART).clamp(EXTENTS_BYTES_MIN, EXTENTS_BYTES_MAX);
        let fixed = GENERATIONS_MAX as u64 * memtable * 5 / 4
            + 3 * segment
            + extents
            + (total / 8).min(UNCOUNTED_BYTES + total / 32);
        let cache = total.saturating_sub(fixed).max(total / 8);
        Ok(Self {
            total,
            memtable: memtable as usize,
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
    /// Memory generations at most that opening fills from the log. A Memtable's size is bounded by what an insert costs, not by
    /// the memory of a large machine: there the log's entries may take an eighth of the budget, while the cache is empty.
    pub(crate) fn generations_at_open(&self) -> usize {
        let memtable = self.memtable as u64 * 5 / 4;
        ((self.total / 8 / memtable) as usize).max(GENERATIONS_MAX)
    }
}

#[cfg(any(test, feature = "testing"))]
impl Budget {
    /// Parts so small that a few dozen writes take a store through every switch and every merge, and that opening it costs
    /// next to nothing: for tests that do so hundreds of thousands of times.
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

/// Refuses a write limit under which nothing would ever be done.
pub(crate) fn check_write_limit(limit: Option<u64>) -> Result<()> {
    if limit == Some(0) {
        return Err(Error::InvalidArgument(
            "background_write_limit is 0 bytes a second, at least 1 is needed; None is no limit".into(),
        ));
    }
    Ok(())
}

/// Half of the memory of the machine, or of the container where that has a limit.
fn default_total() -> u64 {
    let machine = read_number("/proc/meminfo", |text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
    });
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let container = limits.iter().filter_map(|path| read_number(path, |text| text.trim().parse().ok())).min();
    let memory = machine.into_iter().chain(container).min().unwrap_or(1 << 30);
    (memory / 2).max(BUDGET_MIN)
}

fn read_number(path: &str, parse: impl FnOnce(&str) -> Option<u64>) -> Option<u64> {
    parse(&std::fs::read_to_string(path).ok()?)
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

    /// Once, any number was taken: a hundred thousand threads died of memory, and a budget near 2^64 overflowed where its parts are
    /// added.
    #[test]
    fn absurd_sizes_are_refused_and_the_largest_work() {
        let refused = |options: Options, what: &str, found: u64, most: u64| {
            let error = Budget::new(&options).unwrap_err();
            let told = error.to_string();
            let parts = [what, &found.to_string(), &most.to_string(), "None takes"];
            assert!(
                matches!(error, Error::InvalidArgument(_)) && parts.iter().all(|part| told.contains(part)),
                "{told}"
            );
        };
        for threads in [WORKERS_ASKED_MAX + 1, 100_000, usize::MAX] {
            let options = Options { background_threads: Some(threads), ..Options::default() };
            refused(options, "background_threads", threads as u64, WORKERS_ASKED_MAX as u64);
        }
        for bytes in [BUDGET_MAX + 1, u64::MAX] {
            // A write buffer that such a budget would allow: its parts overflowed.
            let options = Options { memory_budget: Some(bytes), write_buffer: Some(bytes / 6), ..Options::default() };
            refused(options, "memory_budget", bytes, BUDGET_MAX);
        }
        let largest = Options {
            memory_budget: Some(BUDGET_MAX),
            background_threads: Some(WORKERS_ASKED_MAX),
            write_buffer: Some(BUDGET_MAX / WRITE_BUFFER_PART),
            ..Options::default()
        };
        let budget = Budget::new(&largest).unwrap();
        let fixed = (GENERATIONS_MAX * budget.memtable * 5 / 4 + 3 * budget.segment + budget.extents) as u64;
        assert!(fixed + budget.cache as u64 <= BUDGET_MAX && budget.log > 0, "{budget:?}");
    }
}
