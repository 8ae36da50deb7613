//! What reads of users have cost since the store was opened: runs that searches met, rows that were read ahead, waits
//! for the disk. Any thread.
//!
//! Searches and rows are counted with a load and a store and no atomic addition, which would cost a short scan more
//! than what it counts. Where two threads share a counter, some counts may be lost.

use crate::io::Clock;
use crate::util::sync::{Arc, AtomicU64, Ordering, Striped};
use std::fmt;

/// As in `ReadFigures::searches`.
const RUN_CLASSES: usize = 8;

/// The counts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadFigures {
    /// Searches of cursors by the runs in which they searched: 1, 2, 3, 4, 5 or 6, 7 or 8, 9 to 16, more.
    pub searches: [u64; RUN_CLASSES],
    /// Rows that were read ahead.
    pub rows_ahead: u64,
    /// Waits for pages that were not in memory. Pages that were read together are one wait.
    pub waits: u64,
    /// The time of all waits, in nanoseconds.
    pub wait_ns: u64,
}

#[derive(Debug, Default)]
struct Counts {
    searches: [AtomicU64; RUN_CLASSES],
    rows_ahead: AtomicU64,
    waits: AtomicU64,
    wait_ns: AtomicU64,
}

/// See the module.
pub struct ReadCounters {
    clock: Arc<dyn Clock>,
    counts: Striped<Counts>,
}

#[inline]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl ReadCounters {
    /// Counters at zero.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, counts: Striped::default() }
    }

    /// Counts a search in this many runs.
    #[inline]
    pub fn note_search(&self, runs: usize) {
        let class = match runs {
            0 => return,
            1..=4 => runs - 1,
            5..=6 => 4,
            7..=8 => 5,
            9..=16 => 6,
            _ => 7,
        };
        add(&self.counts.mine().searches[class], 1);
    }

    /// Counts rows that were read ahead.
    pub fn note_rows_ahead(&self, rows: usize) {
        add(&self.counts.mine().rows_ahead, rows as u64);
    }

    /// Counts the wait for the disk that `wait` is.
    pub fn waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        let began = self.clock.now();
        let result = wait();
        let counts = self.counts.mine();
        counts.waits.fetch_add(1, Ordering::Relaxed);
        counts.wait_ns.fetch_add(self.clock.now().saturating_sub(began).as_nanos() as u64, Ordering::Relaxed);
        result
    }

    /// The counts so far.
    pub fn figures(&self) -> ReadFigures {
        let sum = |of: fn(&Counts) -> &AtomicU64| self.counts.sum(|counts| of(counts).load(Ordering::Relaxed));
        ReadFigures {
            searches: std::array::from_fn(|class| {
                self.counts.sum(|counts| counts.searches[class].load(Ordering::Relaxed))
            }),
            rows_ahead: sum(|counts| &counts.rows_ahead),
            waits: sum(|counts| &counts.waits),
            wait_ns: sum(|counts| &counts.wait_ns),
        }
    }
}

impl fmt::Debug for ReadCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.figures().fmt(f)
    }
}
