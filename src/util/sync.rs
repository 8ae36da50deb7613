//! The only source of atomics and locks in the store, so that a model checker can replace them (feature
//! `model-checking`).

#[cfg(feature = "model-checking")]
#[allow(dead_code, reason = "it has the whole interface of what it replaces")]
mod checked;

mod keyspace_map;
mod locks;
#[cfg(feature = "model-checking")]
mod points;
mod striped;

#[cfg(feature = "model-checking")]
pub use checked::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Condvar};
pub use keyspace_map::KeyspaceMap;
#[cfg(not(feature = "model-checking"))]
pub use locks::Condvar;
pub use locks::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
#[cfg(not(feature = "model-checking"))]
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
pub use std::sync::atomic::{Ordering, fence};
pub use std::sync::{Arc, OnceLock};
pub use striped::Striped;

/// The number of this thread, for spreading threads over counters or lists.
#[inline]
pub fn thread_number() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

/// Waits for a moment: spins first, then yields the processor. For waits that end within microseconds.
#[derive(Default)]
pub struct Backoff {
    rounds: u32,
}

impl Backoff {
    /// A new wait.
    pub fn new() -> Self {
        Self::default()
    }

    /// One round of waiting. Rounds get longer.
    pub fn wait(&mut self) {
        #[cfg(feature = "model-checking")]
        if points::give_way() {
            return;
        }
        if self.rounds < 6 {
            for _ in 0..(1 << self.rounds) {
                std::hint::spin_loop();
            }
        } else if self.rounds < 64 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
        self.rounds = self.rounds.saturating_add(1);
    }
}
