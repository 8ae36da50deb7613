//! Slowing writers smoothly, so that background work keeps up and nobody ever meets a wall (`design.md`, Background work).
//!
//! The delay of a write is its bytes times a rate: twice what background work needs per byte (measured) times how far memory or tree
//! debt is between where it starts to matter and where it must not go. At the far end writers are twice as slow as background
//! work, so the far end is not reached. What is needed for memory is its writing out; what is needed for debt is that and the
//! merging that follows; both by what users wrote, which is less than what it takes in memory or in files. A limit on background
//! writes (`rate_limit`) shows in what is measured, and from the first write on.

use crate::engine::state::budget::{GARBAGE_LIMIT, GARBAGE_LIMIT_PERCENT, GARBAGE_START, GARBAGE_START_PERCENT};
use crate::io::Clock;
use crate::util::sync::{AtomicU64, Ordering};
use std::time::Duration;

/// Sleeping less than this costs more than it delays.
const SLEEP_NS_MIN: u64 = 100_000;
/// One sleep is not longer, unless more than `OWED_PART` times as much is owed: a slowdown stays invisible in single calls.
const SLEEP_NS_MAX: u64 = 2_000_000;
/// Of more than that a part so large is slept at a time. *Else:* writes of large values owed more than they slept, for ever, until memory
/// was full and they stood.
const OWED_PART: u64 = 8;
/// One sleep is never longer than this.
const SLEEP_NS_LIMIT: u64 = 250_000_000;
/// How many bytes a thread may write before it looks at the rate again.
const LOOK_BYTES: u64 = 16 << 10;
/// Less work than this says nothing of its speed.
const TELLING_BYTES: u64 = 4096;
/// How many bytes background work writes for one of a user at most, as far as it is believed.
const WRITTEN_MAX: u64 = 64;

/// Measured speed of background work. Any thread. All accesses relaxed: figures order nothing.
#[derive(Debug)]
pub(crate) struct BackgroundSpeed {
    /// Nanoseconds a KiB of user data that incorporation takes; a moving average.
    incorporation: AtomicU64,
    /// The same of the incorporation that runs; 0 where none has run for long.
    running: AtomicU64,
    /// Nanoseconds a KiB that a merge takes, by what it writes; a moving average.
    merge: AtomicU64,
}

/// 100 MB/s until something was measured.
const UNMEASURED: u64 = 10_240;

impl Default for BackgroundSpeed {
    fn default() -> Self {
        Self { incorporation: UNMEASURED.into(), running: 0.into(), merge: UNMEASURED.into() }
    }
}

/// What background work has come to so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// Bytes that users wrote of what was written out.
    pub(crate) user: u64,
    /// Bytes of branch files that incorporation and merges wrote.
    pub(crate) incorporated: u64,
    pub(crate) compacted: u64,
    /// Threads that merge.
    pub(crate) workers: u64,
}

impl Done {
    /// `ns` a KiB of files, as nanoseconds a KiB of user data; of each byte there was one as long as nothing tells otherwise.
    fn of_user(&self, ns: u64, written: u64) -> u64 {
        if self.user < TELLING_BYTES {
            return ns;
        }
        let written = written.min(self.user.saturating_mul(WRITTEN_MAX));
        (u128::from(ns) * u128::from(written) / u128::from(self.user)) as u64
    }
}

fn ns_per_kib(bytes: u64, took: Duration) -> u64 {
    ((took.as_nanos() as u64).saturating_mul(1024) / bytes.max(1)).clamp(64, 1 << 30)
}

fn average(average: &AtomicU64, bytes: u64, took: Duration) {
    if bytes >= TELLING_BYTES {
        let old = average.load(Ordering::Relaxed);
        average.store((old * 3 + ns_per_kib(bytes, took)) / 4, Ordering::Relaxed);
    }
}

impl BackgroundSpeed {
    /// Tells of a Memtable that was written out.
    pub(crate) fn record(&self, bytes: u64, took: Duration) {
        average(&self.incorporation, bytes, took);
    }

    /// Tells of one that is being written out; of no bytes once none is.
    pub(crate) fn record_running(&self, bytes: u64, took: Duration) {
        let measured = if took.is_zero() { 0 } else { ns_per_kib(bytes.max(1), took) };
        self.running.store(measured, Ordering::Relaxed);
    }

    /// Tells of a merge that has written so much.
    pub(crate) fn record_merge(&self, written: u64, took: Duration) {
        average(&self.merge, written, took);
    }

    /// Nanoseconds that a KiB of user data takes to be written out. `limit`: bytes a second that may be written.
    fn of_memory(&self, limit: Option<u64>, done: &Done) -> u64 {
        let measured = self.incorporation.load(Ordering::Relaxed).max(self.running.load(Ordering::Relaxed));
        measured.max(done.of_user(least(limit), done.incorporated))
    }

    /// The same, with the merging that comes of it.
    fn of_tree(&self, limit: Option<u64>, done: &Done) -> u64 {
        let merge = (self.merge.load(Ordering::Relaxed) / done.workers.max(1)).max(least(limit));
        self.of_memory(limit, done) + done.of_user(merge, done.compacted)
    }

    /// By how much writes are delayed.
    pub(crate) fn delay_rate(&self, full: Fullness, limit: Option<u64>, done: impl FnOnce() -> Done) -> Rate {
        let tree = full.tree.max(full.garbage);
        if full.memory == 0 && tree == 0 {
            return Rate::default();
        }
        let done = done();
        let (for_memory, for_tree) = (full.memory * self.of_memory(limit, &done), tree * self.of_tree(limit, &done));
        Rate {
            ns_per_kib: 2 * for_memory.max(for_tree) / 1024,
            for_garbage: for_tree > for_memory && full.garbage > full.tree,
        }
    }
}

/// Nanoseconds that writing a KiB takes at the least.
fn least(limit: Option<u64>) -> u64 {
    limit.map_or(0, |limit| 1024 * 1_000_000_000 / limit.max(1))
}

/// How far memory, the tree's debt and its garbage are on their way to where writers would have to wait, in 1/1024.
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

/// By how much writes are delayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Nanoseconds a KiB.
    pub(crate) ns_per_kib: u64,
    /// Whether garbage makes it what it is, more than memory and debt.
    pub(crate) for_garbage: bool,
}

/// How full something is between two marks, in 1/1024: 0 at `start`, 1024 at `limit` and beyond.
pub(crate) fn fullness(used: u64, start: u64, limit: u64) -> u64 {
    (used.saturating_sub(start).saturating_mul(1024) / (limit - start).max(1)).min(1024)
}

/// How far a tree of `tree` bytes, of which `garbage` are probably garbage, is on its way to taking too much space, in 1/1024.
pub(crate) fn garbage_fullness(garbage: u64, tree: u64, memtable: u64) -> u64 {
    let live = tree.saturating_sub(garbage) / 100;
    let start = live * GARBAGE_START_PERCENT + memtable * GARBAGE_START;
    fullness(garbage, start, live * GARBAGE_LIMIT_PERCENT + memtable * GARBAGE_LIMIT)
}

/// One thread's account of delay that it still owes.
#[derive(Debug, Default)]
pub(crate) struct WriterDelay {
    rate: Rate,
    bytes_until_look: u64,
    owed_ns: u64,
}

impl WriterDelay {
    /// Accounts for a write of `bytes` and sleeps when enough has come together; returns the nanoseconds slept. The rate is asked for
    /// now and then only, the clock only around a sleep.
    pub(crate) fn delay(&mut self, bytes: u64, clock: &dyn Clock, rate: impl FnOnce() -> Rate) -> u64 {
        if self.bytes_until_look <= bytes {
            self.rate = rate();
            self.bytes_until_look = LOOK_BYTES;
        } else {
            self.bytes_until_look -= bytes;
        }
        if self.rate.ns_per_kib == 0 {
            // Nothing is behind any more.
            self.owed_ns = 0;
            return 0;
        }
        self.owed_ns = self.owed_ns.saturating_add(bytes.saturating_mul(self.rate.ns_per_kib) / 1024);
        if self.owed_ns < SLEEP_NS_MIN {
            return 0;
        }
        let part = (self.owed_ns / OWED_PART).clamp(SLEEP_NS_MAX, SLEEP_NS_LIMIT);
        let started = clock.now();
        clock.sleep(Duration::from_nanos(self.owed_ns.min(part)));
        let slept = clock.now().saturating_sub(started).as_nanos() as u64;
        self.owed_ns = self.owed_ns.saturating_sub(slept);
        slept
    }

    /// Whether garbage sets the rate that was asked for last.
    pub(crate) fn is_for_garbage(&self) -> bool {
        self.rate.for_garbage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Storage;
    use crate::io::simulated::SimulatedStorage;

    const DONE: Done = Done { user: 100 << 10, incorporated: 200 << 10, compacted: 300 << 10, workers: 2 };

    fn rate(full: Fullness, limit: Option<u64>) -> u64 {
        BackgroundSpeed::default().delay_rate(full, limit, || DONE).ns_per_kib
    }

    fn of(ns_per_kib: u64) -> Rate {
        Rate { ns_per_kib, for_garbage: false }
    }

    /// Garbage slows as debt does, and only where it slows more than everything else is it told to be why.
    #[test]
    fn the_delay_is_for_garbage_where_that_weighs_most() {
        let rate = |memory, tree, garbage| {
            BackgroundSpeed::default().delay_rate(Fullness { memory, tree, garbage }, None, || DONE)
        };
        let tree_alone = rate(0, 512, 0);
        assert!(tree_alone.ns_per_kib > 0 && !tree_alone.for_garbage);
        assert_eq!(rate(0, 0, 512), Rate { for_garbage: true, ..tree_alone });
        assert_eq!(rate(0, 512, 512), tree_alone);
        assert_eq!(rate(0, 300, 512), rate(0, 0, 512));
        assert!(!rate(1024, 0, 1).for_garbage && rate(1, 0, 1024).for_garbage);
    }

    #[test]
    fn fullness_rises_smoothly_between_its_marks() {
        assert_eq!(fullness(0, 100, 200), 0);
        assert_eq!(fullness(100, 100, 200), 0);
        assert_eq!(fullness(150, 100, 200), 512);
        assert_eq!(fullness(900, 100, 200), 1024);
    }

    /// A queue, of which little lives at a time, is nearly all garbage: percents alone would slow it for ever.
    #[test]
    fn garbage_slows_by_what_is_live_and_not_where_little_is() {
        let memtable = 1000;
        assert_eq!(garbage_fullness(44_000, 144_000, memtable), 0);
        assert_eq!(garbage_fullness(80_000, 180_000, memtable), 512);
        assert_eq!(garbage_fullness(116_000, 216_000, memtable), 1024);
        assert_eq!(garbage_fullness(4000, 4000, memtable), 0);
        assert_eq!(garbage_fullness(10_000, 10_000, memtable), 512);
    }

    #[test]
    fn no_pressure_no_delay_and_full_pressure_slows_to_half_the_background_speed() {
        let disk = SimulatedStorage::new(1);
        let clock = disk.deterministic_clock();
        let mut delay = WriterDelay::default();
        assert_eq!(rate(Fullness::default(), None), 0);
        assert_eq!((0..1000).map(|_| delay.delay(1000, &*clock, Rate::default)).sum::<u64>(), 0);
        assert_eq!(disk.now(), Duration::ZERO);
        let full = of(rate(Fullness { memory: 1024, ..Fullness::default() }, None));
        let mut delay = WriterDelay::default();
        let slept: u64 = (0..1000).map(|_| delay.delay(1000, &*clock, || full)).sum();
        // A million bytes at 20 ns each; what is still owed at the end may be missing.
        assert!(slept > 20_000_000 - SLEEP_NS_MIN && slept <= 20_000_000, "{slept}");
        assert_eq!(disk.now(), Duration::from_nanos(slept));
    }

    /// Once, the delay for debt followed from the speed of incorporation alone: where merging took most of the time, a limit on
    /// background writes above all, writers at the full delay were faster than background work, and debt grew without end.
    #[test]
    fn debt_slows_by_what_merging_takes_as_well() {
        let of_memory = Fullness { memory: 1024, ..Fullness::default() };
        let of_tree = |tree| Fullness { tree, ..Fullness::default() };
        let memory = rate(of_memory, None);
        // Three bytes merged for each of a user's, by two threads.
        assert_eq!(rate(of_tree(1024), None), memory + memory * 3 / 2);
        assert_eq!(rate(of_tree(512), None), (memory + memory * 3 / 2) / 2);
        // A MiB a second for all: two bytes of each written out, three merged; writers are half as fast.
        let limit = Some(1 << 20);
        let ns_per_kib = 1_000_000_000 / 1024;
        assert_eq!(rate(of_memory, limit), 4 * ns_per_kib);
        assert_eq!(rate(of_tree(1024), limit), 10 * ns_per_kib);
    }

    /// A store that was just opened has little of a user's to set what it wrote against, perhaps nothing: merges of what came before would
    /// seem to cost a hundred times what they do, and the first writes would be slowed as much.
    #[test]
    fn what_little_says_nothing_is_not_believed() {
        let full = Fullness { tree: 1024, ..Fullness::default() };
        let rate = |done| BackgroundSpeed::default().delay_rate(full, None, || done).ns_per_kib;
        let done = |user, compacted| Done { user, incorporated: 0, compacted, workers: 1 };
        let one_for_one = rate(done(TELLING_BYTES, TELLING_BYTES));
        for user in [0, 1, TELLING_BYTES - 1] {
            assert_eq!(rate(done(user, 1 << 40)), one_for_one, "{user}");
        }
        let most = rate(done(TELLING_BYTES, TELLING_BYTES * WRITTEN_MAX));
        assert!(most > one_for_one && rate(done(TELLING_BYTES, 1 << 40)) == most);
    }

    /// Once, what was known of a disk's speed came from Memtables that were written out: two more were full by the time that the first
    /// one was, and writers stood for as long as it took.
    #[test]
    fn an_incorporation_that_runs_tells_its_speed() {
        let speed = BackgroundSpeed::default();
        speed.record_running(1024, Duration::from_millis(1));
        assert_eq!(speed.of_memory(None, &DONE), 1_000_000);
        speed.record_running(0, Duration::ZERO);
        assert_eq!(speed.of_memory(None, &DONE), UNMEASURED);
    }

    #[test]
    fn what_one_large_write_owes_is_slept_in_small_pieces() {
        let disk = SimulatedStorage::new(1);
        let (clock, mut delay) = (disk.deterministic_clock(), WriterDelay::default());
        let slept: Vec<u64> =
            [1_000_000].into_iter().chain([1; 12]).map(|bytes| delay.delay(bytes, &*clock, || of(20_480))).collect();
        assert!(slept.iter().all(|slept| *slept <= 20_000_000 / OWED_PART), "{slept:?}");
        // The small ones owe a little themselves.
        let sum = slept.iter().sum::<u64>();
        assert!((20_000_000..20_000_300).contains(&sum), "{slept:?}");
    }

    /// Once, no sleep was longer than two milliseconds, whatever was owed: writes of large values on a slow disk were hardly slowed,
    /// until memory was full and they stood.
    #[test]
    fn large_writes_are_slowed_by_all_that_they_owe() {
        let disk = SimulatedStorage::new(1);
        let (clock, mut delay) = (disk.deterministic_clock(), WriterDelay::default());
        // 10 ms each.
        let slept: Vec<u64> = (0..1000).map(|_| delay.delay(10 << 10, &*clock, || of(1_000_000))).collect();
        let (sum, longest) = (slept.iter().sum::<u64>(), slept.iter().max().unwrap());
        assert!(sum > 9_800_000_000 && *longest < 11_000_000, "{sum} in all, {longest} at most");
    }
}
