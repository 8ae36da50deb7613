//! The latch table. A key's latch orders the writes of the key (`docs/concurrency.md`, W).
//!
//! Any thread. A latch is held for a few stores. Its holder takes no lock, makes no system call, and takes further
//! latches only in table order.
//!
//! Invariants:
//! 1. A latch word is odd while the latch is held. Locking and unlocking both add one, so a reader that saw the latch
//!    held knows when that holder has released it, even if another thread holds it by then.
//! 2. Locking is an acquire, unlocking a release: what one holder does happens before what the next holder does.

use crate::util::sync::{AtomicU32, Backoff, OnceLock, Ordering};

/// 16,384 words are 64 KiB: they fit in the second-level cache, and of 64 writers two share a latch by chance in one of
/// 500 puts.
const LATCHES: usize = 1 << 14;
/// Latches in a part, a page of memory. A part is made when its first latch is used, so that a store with few keys needs
/// little memory.
const PART: usize = 1 << 10;

/// All latches of a store.
pub(crate) struct Latches {
    parts: [OnceLock<Box<[AtomicU32]>>; LATCHES / PART],
}

/// The index of a latch in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LatchIndex(u32);

/// A held latch; unlocked on drop.
pub(crate) struct LatchGuard<'a> {
    word: &'a AtomicU32,
}

impl Latches {
    pub(crate) fn new() -> Self {
        Self { parts: std::array::from_fn(|_| OnceLock::new()) }
    }

    fn word(&self, index: LatchIndex) -> &AtomicU32 {
        let at = index.0 as usize;
        let part = self.parts[at / PART].get_or_init(|| (0..PART).map(|_| AtomicU32::new(0)).collect());
        &part[at % PART]
    }

    /// The latch of a key with this hash. Takes the low bits, because fingerprints take the high ones.
    pub(crate) fn index_of(hash: u64) -> LatchIndex {
        LatchIndex((hash as usize & (LATCHES - 1)) as u32)
    }

    /// A number that sorts hashes by the indexes of their latches. Different hashes have different numbers.
    pub(crate) fn order_of(hash: u64) -> u64 {
        hash.rotate_right(LATCHES.trailing_zeros())
    }

    /// Locks a latch; spins while another thread holds it.
    pub(crate) fn lock(&self, index: LatchIndex) -> LatchGuard<'_> {
        let word = self.word(index);
        let mut backoff = Backoff::new();
        loop {
            let seen = word.load(Ordering::Relaxed);
            if seen & 1 == 0
                && word.compare_exchange_weak(seen, seen.wrapping_add(1), Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return LatchGuard { word };
            }
            backoff.wait();
        }
    }

    /// Waits until the current holder of the latch, if any, has released it (rule S3).
    pub(crate) fn wait_for_holder(&self, index: LatchIndex) {
        let word = self.word(index);
        let seen = word.load(Ordering::Acquire);
        let mut backoff = Backoff::new();
        while seen & 1 == 1 && word.load(Ordering::Acquire) == seen {
            backoff.wait();
        }
    }
}

impl Drop for LatchGuard<'_> {
    fn drop(&mut self) {
        // Only the holder changes a held word, so an addition is enough.
        self.word.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_latch_has_one_holder_at_a_time() {
        let latches = Latches::new();
        let (inside, total) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..2000u64 {
                        let guard = latches.lock(Latches::index_of(round % 2));
                        if round % 2 == 0 {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            total.fetch_add(1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                        drop(guard);
                        latches.wait_for_holder(Latches::index_of(round));
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::SeqCst), 4000);
    }
}
