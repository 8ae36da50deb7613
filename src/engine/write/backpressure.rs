//! Backpressure: slows writers smoothly, so that background work keeps up and writers do not stall. Any thread.
//!
//! The delay of a write is its size times a rate. The rate is twice the measured time that background work needs per
//! byte, times the fullness: how far memory, the tree's debt, its newest runs or its garbage is between the point where
//! delays start (0) and the point that must not be exceeded (1). At fullness 1 writers are half as fast as background
//! work, so that point is not exceeded. Memory needs incorporation; the others need incorporation and the merges that follow.
//! Both times are per byte that users wrote, which is less than its size in memory or in files. The limit on background
//! writes (`rate_limit`) shows in what is measured, and applies from the first write on.

use crate::engine::state::budget::{GARBAGE_LIMIT, GARBAGE_LIMIT_PERCENT, GARBAGE_START, GARBAGE_START_PERCENT};
use crate::io::Clock;
use crate::util::sync::{AtomicU64, Ordering};
use std::time::Duration;

/// The shortest sleep: a shorter one costs more than it delays.
const SLEEP_NS_MIN: u64 = 100_000;
/// The longest sleep while the debt is less than `DEBT_PART` times as much, so that the delay of a single call is not
/// noticed.
const SLEEP_NS_MAX: u64 = 2_000_000;
/// A larger debt is reduced by this part at a time. *Otherwise:* writes of large values add more debt than they sleep,
/// until memory is full and they stall.
const DEBT_PART: u64 = 8;
/// The longest sleep in any case.
const SLEEP_NS_LIMIT: u64 = 250_000_000;
/// How many bytes a thread writes before it computes the rate again.
const CHECK_BYTES: u64 = 16 << 10;
/// Less work than this is too little to measure its speed.
const MEASURABLE_BYTES: u64 = 4096;
/// The greatest write amplification that is accepted as plausible: bytes that background work writes for each byte of a
/// user.
const WRITE_AMPLIFICATION_MAX: u64 = 64;

/// The measured speed of background work. Any thread. All accesses are relaxed: these are statistics and order nothing.
#[derive(Debug)]
pub(crate) struct BackgroundSpeed {
    /// Nanoseconds that incorporation takes for a KiB of user data; a moving average.
    incorporation: AtomicU64,
    /// The same for the incorporation that is running; 0 if none has run long enough.
    running: AtomicU64,
    /// Nanoseconds that a merge takes for a KiB of its output; a moving average.
    merge: AtomicU64,
}

/// 100 MB/s, until something was measured.
const INITIAL_NS_PER_KIB: u64 = 10_240;

impl Default for BackgroundSpeed {
    fn default() -> Self {
        Self { incorporation: INITIAL_NS_PER_KIB.into(), running: 0.into(), merge: INITIAL_NS_PER_KIB.into() }
    }
}

/// The background work since the store was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkDone {
    /// Bytes that users wrote and that were incorporated.
    pub(crate) user: u64,
    /// Bytes of branch files that incorporations wrote.
    pub(crate) incorporated: u64,
    /// Bytes of branch files that merges wrote.
    pub(crate) compacted: u64,
    /// Threads that merge.
    pub(crate) workers: u64,
}

impl WorkDone {
    /// Converts nanoseconds for a KiB of files to nanoseconds for a KiB of user data, when `written` bytes of files
    /// were written so far. The write amplification counts as 1 until there was enough work to measure it.
    fn per_user_kib(&self, ns: u64, written: u64) -> u64 {
        if self.user < MEASURABLE_BYTES {
            return ns;
        }
        let written = written.min(self.user.saturating_mul(WRITE_AMPLIFICATION_MAX));
        (u128::from(ns) * u128::from(written) / u128::from(self.user)) as u64
    }
}

fn ns_per_kib(bytes: u64, took: Duration) -> u64 {
    ((took.as_nanos() as u64).saturating_mul(1024) / bytes.max(1)).clamp(64, 1 << 30)
}

/// Adds a measurement to a moving average.
fn update_average(average: &AtomicU64, bytes: u64, took: Duration) {
    if bytes >= MEASURABLE_BYTES {
        let old = average.load(Ordering::Relaxed);
        average.store((old * 3 + ns_per_kib(bytes, took)) / 4, Ordering::Relaxed);
    }
}

impl BackgroundSpeed {
    /// Records an incorporation that has ended.
    pub(crate) fn record_incorporation(&self, bytes: u64, took: Duration) {
        update_average(&self.incorporation, bytes, took);
    }

    /// Records the progress of an incorporation that is running; zeros once it has ended.
    pub(crate) fn record_running(&self, bytes: u64, took: Duration) {
        let measured = if took.is_zero() { 0 } else { ns_per_kib(bytes.max(1), took) };
        self.running.store(measured, Ordering::Relaxed);
    }

    /// Records a merge that has ended.
    pub(crate) fn record_merge(&self, written: u64, took: Duration) {
        update_average(&self.merge, written, took);
    }

    /// Nanoseconds to incorporate a KiB of user data. `limit`: the write limit, bytes a second.
    fn incorporation_ns_per_kib(&self, limit: Option<u64>, done: &WorkDone) -> u64 {
        let measured = self.incorporation.load(Ordering::Relaxed).max(self.running.load(Ordering::Relaxed));
        measured.max(done.per_user_kib(ns_per_kib_min(limit), done.incorporated))
    }

    /// Nanoseconds to incorporate a KiB of user data and to merge it.
    fn total_ns_per_kib(&self, limit: Option<u64>, done: &WorkDone) -> u64 {
        let merge = (self.merge.load(Ordering::Relaxed) / done.workers.max(1)).max(ns_per_kib_min(limit));
        self.incorporation_ns_per_kib(limit, done) + done.per_user_kib(merge, done.compacted)
    }

    /// The rate at which writes are delayed.
    pub(crate) fn delay_rate(&self, full: Fullness, limit: Option<u64>, done: impl FnOnce() -> WorkDone) -> DelayRate {
        let tree = full.tree.max(full.garbage);
        if full.memory == 0 && tree == 0 {
            return DelayRate::default();
        }
        let done = done();
        let for_memory = full.memory * self.incorporation_ns_per_kib(limit, &done);
        let for_tree = tree * self.total_ns_per_kib(limit, &done);
        DelayRate {
            ns_per_kib: 2 * for_memory.max(for_tree) / 1024,
            for_garbage: for_tree > for_memory && full.garbage > full.tree,
        }
    }
}

/// The least time to write a KiB under the write limit, nanoseconds.
fn ns_per_kib_min(limit: Option<u64>) -> u64 {
    limit.map_or(0, |limit| 1024 * 1_000_000_000 / limit.max(1))
}

/// How full memory is, and how far the tree's debt or newest runs, and its garbage, are from no delay (0) to the greatest delay (1024).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fullness {
    pub(crate) memory: u64,
    pub(crate) tree: u64,
    pub(crate) garbage: u64,
}

#[cfg(feature = "async")]
impl Fullness {
    /// Whether writers are slowed.
    pub(crate) fn is_any(self) -> bool {
        (self.memory, self.tree, self.garbage) != (0, 0, 0)
    }
}

/// The rate at which writes are delayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DelayRate {
    /// Nanoseconds a KiB.
    pub(crate) ns_per_kib: u64,
    /// Whether garbage determines the rate, not memory or debt.
    pub(crate) for_garbage: bool,
}

/// How full something is, in 1/1024: 0 up to `start`, 1024 from `limit` on.
pub(crate) fn fullness(used: u64, start: u64, limit: u64) -> u64 {
    (used.saturating_sub(start).saturating_mul(1024) / (limit - start).max(1)).min(1024)
}

/// The fullness, in 1/1024, of a tree of `tree` bytes of which an estimated `garbage` bytes are garbage.
pub(crate) fn garbage_fullness(garbage: u64, tree: u64, memtable: u64) -> u64 {
    let live = tree.saturating_sub(garbage) / 100;
    let start = live * GARBAGE_START_PERCENT + memtable * GARBAGE_START;
    fullness(garbage, start, live * GARBAGE_LIMIT_PERCENT + memtable * GARBAGE_LIMIT)
}

/// The delay that a writing thread still has to sleep.
#[derive(Debug, Default)]
pub(crate) struct WriterDelay {
    rate: DelayRate,
    bytes_until_check: u64,
    debt_ns: u64,
}

impl WriterDelay {
    /// Adds the delay of a write of `bytes` to the debt, and sleeps if the debt is large enough. Returns the
    /// nanoseconds slept. Calls `rate` once per `CHECK_BYTES`, and reads the clock only around a sleep.
    pub(crate) fn delay(&mut self, bytes: u64, clock: &dyn Clock, rate: impl FnOnce() -> DelayRate) -> u64 {
        if self.bytes_until_check <= bytes {
            self.rate = rate();
            self.bytes_until_check = CHECK_BYTES;
        } else {
            self.bytes_until_check -= bytes;
        }
        if self.rate.ns_per_kib == 0 {
            // Background work has caught up.
            self.debt_ns = 0;
            return 0;
        }
        self.debt_ns = self.debt_ns.saturating_add(bytes.saturating_mul(self.rate.ns_per_kib) / 1024);
        if self.debt_ns < SLEEP_NS_MIN {
            return 0;
        }
        let part = (self.debt_ns / DEBT_PART).clamp(SLEEP_NS_MAX, SLEEP_NS_LIMIT);
        let started = clock.now();
        clock.sleep(Duration::from_nanos(self.debt_ns.min(part)));
        let slept = clock.now().saturating_sub(started).as_nanos() as u64;
        self.debt_ns = self.debt_ns.saturating_sub(slept);
        slept
    }

    /// Whether garbage determines the current rate.
    pub(crate) fn is_for_garbage(&self) -> bool {
        self.rate.for_garbage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Storage;
    use crate::io::simulated::SimulatedStorage;

    const DONE: WorkDone = WorkDone { user: 100 << 10, incorporated: 200 << 10, compacted: 300 << 10, workers: 2 };

    fn rate(full: Fullness, limit: Option<u64>) -> u64 {
        BackgroundSpeed::default().delay_rate(full, limit, || DONE).ns_per_kib
    }

    fn delay_rate(ns_per_kib: u64) -> DelayRate {
        DelayRate { ns_per_kib, for_garbage: false }
    }

    /// Garbage slows writers as debt does. It is reported as the reason only if it causes a longer delay than memory
    /// and debt.
    #[test]
    fn garbage_is_the_reason_of_the_delay_if_it_delays_most() {
        let rate = |memory, tree, garbage| {
            BackgroundSpeed::default().delay_rate(Fullness { memory, tree, garbage }, None, || DONE)
        };
        let tree_alone = rate(0, 512, 0);
        assert!(tree_alone.ns_per_kib > 0 && !tree_alone.for_garbage);
        assert_eq!(rate(0, 0, 512), DelayRate { for_garbage: true, ..tree_alone });
        assert_eq!(rate(0, 512, 512), tree_alone);
        assert_eq!(rate(0, 300, 512), rate(0, 0, 512));
        assert!(!rate(1024, 0, 1).for_garbage && rate(1, 0, 1024).for_garbage);
    }

    #[test]
    fn fullness_rises_linearly_between_start_and_limit() {
        assert_eq!(fullness(0, 100, 200), 0);
        assert_eq!(fullness(100, 100, 200), 0);
        assert_eq!(fullness(150, 100, 200), 512);
        assert_eq!(fullness(900, 100, 200), 1024);
    }

    /// The tree of a queue, with little live data at a time, is nearly all garbage: a percentage alone would always
    /// slow its writers.
    #[test]
    fn the_garbage_limit_depends_on_live_data_and_on_the_memtable() {
        let memtable = 1000;
        assert_eq!(garbage_fullness(44_000, 144_000, memtable), 0);
        assert_eq!(garbage_fullness(80_000, 180_000, memtable), 512);
        assert_eq!(garbage_fullness(116_000, 216_000, memtable), 1024);
        assert_eq!(garbage_fullness(4000, 4000, memtable), 0);
        assert_eq!(garbage_fullness(10_000, 10_000, memtable), 512);
    }

    #[test]
    fn full_memory_slows_writers_to_half_the_background_speed() {
        let disk = SimulatedStorage::new(1);
        let clock = disk.deterministic_clock();
        let mut delay = WriterDelay::default();
        assert_eq!(rate(Fullness::default(), None), 0);
        assert_eq!((0..1000).map(|_| delay.delay(1000, &*clock, DelayRate::default)).sum::<u64>(), 0);
        assert_eq!(disk.now(), Duration::ZERO);
        let full = delay_rate(rate(Fullness { memory: 1024, ..Fullness::default() }, None));
        let mut delay = WriterDelay::default();
        let slept: u64 = (0..1000).map(|_| delay.delay(1000, &*clock, || full)).sum();
        // A million bytes at 20 ns each, except for the debt that is left at the end.
        assert!(slept > 20_000_000 - SLEEP_NS_MIN && slept <= 20_000_000, "{slept}");
        assert_eq!(disk.now(), Duration::from_nanos(slept));
    }

    /// Once, the delay for debt followed from the speed of incorporation alone. If merging took most of the time, above
    /// all under a write limit, writers at the full delay were faster than background work, and debt grew without
    /// bound.
    #[test]
    fn the_delay_for_debt_includes_the_time_of_merges() {
        let of_memory = Fullness { memory: 1024, ..Fullness::default() };
        let of_tree = |tree| Fullness { tree, ..Fullness::default() };
        let memory = rate(of_memory, None);
        // Three bytes merged for each of a user's, by two threads.
        assert_eq!(rate(of_tree(1024), None), memory + memory * 3 / 2);
        assert_eq!(rate(of_tree(512), None), (memory + memory * 3 / 2) / 2);
        // 1 MiB a second in total; for each user byte two bytes are incorporated and three merged. Writers are half as
        // fast.
        let limit = Some(1 << 20);
        let ns_per_kib = 1_000_000_000 / 1024;
        assert_eq!(rate(of_memory, limit), 4 * ns_per_kib);
        assert_eq!(rate(of_tree(1024), limit), 10 * ns_per_kib);
    }

    /// Just after opening, users have written little or nothing, but merges of older data may write much. The write
    /// amplification measured then would be far too high, and the first writes would be slowed accordingly.
    #[test]
    fn write_amplification_counts_only_after_enough_user_data() {
        let full = Fullness { tree: 1024, ..Fullness::default() };
        let rate = |done| BackgroundSpeed::default().delay_rate(full, None, || done).ns_per_kib;
        let done = |user, compacted| WorkDone { user, incorporated: 0, compacted, workers: 1 };
        let one_for_one = rate(done(MEASURABLE_BYTES, MEASURABLE_BYTES));
        for user in [0, 1, MEASURABLE_BYTES - 1] {
            assert_eq!(rate(done(user, 1 << 40)), one_for_one, "{user}");
        }
        let most = rate(done(MEASURABLE_BYTES, MEASURABLE_BYTES * WRITE_AMPLIFICATION_MAX));
        assert!(most > one_for_one && rate(done(MEASURABLE_BYTES, 1 << 40)) == most);
    }

    /// Once, only finished incorporations were measured: on a slow disk two more Memtables were full before the first
    /// incorporation ended, and writers stalled until it did.
    #[test]
    fn a_running_incorporation_is_measured() {
        let speed = BackgroundSpeed::default();
        speed.record_running(1024, Duration::from_millis(1));
        assert_eq!(speed.incorporation_ns_per_kib(None, &DONE), 1_000_000);
        speed.record_running(0, Duration::ZERO);
        assert_eq!(speed.incorporation_ns_per_kib(None, &DONE), INITIAL_NS_PER_KIB);
    }

    #[test]
    fn the_debt_of_a_large_write_is_slept_in_small_pieces() {
        let disk = SimulatedStorage::new(1);
        let (clock, mut delay) = (disk.deterministic_clock(), WriterDelay::default());
        let slept: Vec<u64> = [1_000_000]
            .into_iter()
            .chain([1; 12])
            .map(|bytes| delay.delay(bytes, &*clock, || delay_rate(20_480)))
            .collect();
        assert!(slept.iter().all(|slept| *slept <= 20_000_000 / DEBT_PART), "{slept:?}");
        // The small writes add a little debt themselves.
        let sum = slept.iter().sum::<u64>();
        assert!((20_000_000..20_000_300).contains(&sum), "{slept:?}");
    }

    /// Once, no sleep was longer than two milliseconds, whatever the debt: writes of large values on a slow disk were
    /// hardly slowed, until memory was full and they stalled.
    #[test]
    fn large_writes_sleep_their_whole_debt() {
        let disk = SimulatedStorage::new(1);
        let (clock, mut delay) = (disk.deterministic_clock(), WriterDelay::default());
        // 10 ms each.
        let slept: Vec<u64> = (0..1000).map(|_| delay.delay(10 << 10, &*clock, || delay_rate(1_000_000))).collect();
        let (sum, longest) = (slept.iter().sum::<u64>(), slept.iter().max().unwrap());
        assert!(sum > 9_800_000_000 && *longest < 11_000_000, "{sum} in all, {longest} at most");
    }
}
