//! The shared state of the workers of one workload.
//!
//! 1. `claim` hands out key numbers once, in ascending order.
//! 2. `acknowledged` is a number below which every key was put and the put has returned. A worker that claims first
//!    sets its lane's `pending` to a number no higher than the claimed one, and clears it after the put.

use crate::engine::Engine;
use crate::keys::Keys;
use crate::settings::Settings;
use crate::values::Values;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// No number.
const NONE: u64 = u64::MAX;

/// A worker's counters, in their own cache line.
#[derive(Debug)]
pub struct Lane {
    /// Operations done. Only its worker writes; readers only need a recent value, so `Relaxed` is enough.
    done: AtomicU64,
    /// Everything that this worker put up to this number is acknowledged; or `NONE`.
    pending: AtomicU64,
}

/// The shared state.
pub struct Field<'a> {
    /// The store.
    pub engine: &'a dyn Engine,
    /// The run's settings.
    pub settings: &'a Settings,
    /// The keys.
    pub keys: Keys,
    /// The values.
    pub values: &'a Values,
    /// Keys in the store at the start.
    pub loaded: u64,
    /// When the run began. Its duration and its time are both counted from here, so that no run is shorter than asked.
    pub started: Instant,
    /// When to stop, if the run has a duration.
    pub deadline: Option<Instant>,
    lanes: Vec<CachePadded<Lane>>,
    next: CachePadded<AtomicU64>,
    stop: AtomicBool,
}

impl<'a> Field<'a> {
    /// With this many lanes; numbers are handed out from `first` on.
    pub fn new(
        engine: &'a dyn Engine,
        settings: &'a Settings,
        keys: Keys,
        values: &'a Values,
        loaded: u64,
        first: u64,
    ) -> Self {
        let started = Instant::now();
        let lane = || CachePadded::new(Lane { done: AtomicU64::new(0), pending: AtomicU64::new(NONE) });
        Self {
            engine,
            settings,
            keys,
            values,
            loaded,
            started,
            deadline: settings.duration.map(|duration| started + duration),
            lanes: (0..settings.threads).map(|_| lane()).collect(),
            next: CachePadded::new(AtomicU64::new(first)),
            stop: AtomicBool::new(false),
        }
    }

    /// Claims numbers for `count` new keys and returns the first. They count as acknowledged only after `settle`.
    pub fn claim(&self, lane: usize, count: u64) -> u64 {
        // SeqCst on all three: a reader that sees the claim in `next` must see this announcement or a later one.
        self.lanes[lane].pending.store(self.next.load(Ordering::SeqCst), Ordering::SeqCst);
        self.next.fetch_add(count, Ordering::SeqCst)
    }

    /// The keys that this lane claimed are in the store.
    pub fn settle(&self, lane: usize) {
        self.lanes[lane].pending.store(NONE, Ordering::SeqCst);
    }

    /// Every key below this number is in the store.
    pub fn acknowledged(&self) -> u64 {
        let next = self.next.load(Ordering::SeqCst);
        self.lanes.iter().map(|lane| lane.pending.load(Ordering::SeqCst)).fold(next, u64::min)
    }

    /// Bytes of keys and values that are certainly in the store; `None` if there are none.
    pub fn live_bytes(&self) -> Option<u64> {
        let bytes = self.acknowledged() * (self.settings.key_size + self.settings.value_size) as u64;
        (bytes > 0).then_some(bytes)
    }

    /// The next number to be handed out.
    pub fn claimed(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    /// Counts a worker's operations.
    #[inline]
    pub fn tell(&self, lane: usize, operations: u64) {
        self.lanes[lane].done.store(operations, Ordering::Relaxed);
    }

    /// Operations of all workers so far.
    pub fn done(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.done.load(Ordering::Relaxed)).sum()
    }

    /// Stops all workers.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether a worker must stop: after a failure, or when the time is up.
    #[inline]
    pub fn stopped(&self, now: Instant) -> bool {
        self.stop.load(Ordering::Relaxed) || self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Whether something failed.
    pub fn failed(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
