//! The key range of a Memtable: its least and greatest key. A get of a key outside touches nothing else of the
//! Memtable. (Kanda §2.2.1 has the min and max of a memory run, for disk blocks.)
//!
//! Any thread. Keys are distinguished by their first eight bytes only; if all keys have the same ones, no key with
//! these is outside. Bounds are rounded outwards, so that rising keys move a bound only once in thousands of keys.
//!
//! Invariant (`docs/concurrency.md`, M10): the range is widened before an entry can be found, and never narrowed.

use crate::util::sync::{AtomicU64, Ordering};

/// Bounds are rounded outwards by this many bits.
const STEP_BITS: u32 = 12;

/// See the module.
#[derive(Debug)]
pub struct KeyRange {
    least: AtomicU64,
    greatest: AtomicU64,
}

impl Default for KeyRange {
    /// Contains no key.
    fn default() -> Self {
        Self { least: AtomicU64::new(u64::MAX), greatest: AtomicU64::new(0) }
    }
}

impl KeyRange {
    /// Widens the range to include a user key.
    pub fn widen(&self, user_key: &[u8]) {
        let step = (1 << STEP_BITS) - 1;
        let (low, high) = (head(user_key) & !step, head(user_key) | step);
        if low < self.least.load(Ordering::Relaxed) {
            self.least.fetch_min(low, Ordering::Relaxed);
        }
        if high > self.greatest.load(Ordering::Relaxed) {
            self.greatest.fetch_max(high, Ordering::Relaxed);
        }
    }

    /// Whether a user key may be in the range.
    pub fn may_contain(&self, user_key: &[u8]) -> bool {
        let head = head(user_key);
        self.least.load(Ordering::Relaxed) <= head && head <= self.greatest.load(Ordering::Relaxed)
    }

    /// Whether the range contains no key.
    pub fn is_empty(&self) -> bool {
        self.greatest.load(Ordering::Relaxed) == 0
    }
}

/// The first eight bytes of a key as a number, in the order of the keys.
fn head(user_key: &[u8]) -> u64 {
    match user_key.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; size_of::<u64>()];
            first[..user_key.len()].copy_from_slice(user_key);
            u64::from_be_bytes(first)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_keys_are_within_and_distant_keys_are_not() {
        let key_range = KeyRange::default();
        assert!(
            key_range.is_empty()
                && !key_range.may_contain(b"")
                && !key_range.may_contain(b"key")
                && !key_range.may_contain(&[0xff; 9])
        );
        key_range.widen(b"m");
        assert!(
            !key_range.is_empty()
                && key_range.may_contain(b"m")
                && !key_range.may_contain(b"l")
                && !key_range.may_contain(b"n")
        );
        key_range.widen(b"river/danube");
        for within in [&b"m"[..], b"mouth", b"pebble", b"river/danube", b"river/da"] {
            assert!(key_range.may_contain(within), "{within:?}");
        }
        assert!(
            !key_range.may_contain(b"river/volga") && !key_range.may_contain(b"estuary") && !key_range.may_contain(b"")
        );
    }

    #[test]
    fn the_least_and_greatest_possible_keys_can_be_included() {
        for end in [&b""[..], &[0; 8], &[0; 30], &[0xff; 8], &[0xff; 30]] {
            let key_range = KeyRange::default();
            key_range.widen(end);
            assert!(!key_range.is_empty() && key_range.may_contain(end), "{end:?}");
            assert!(!key_range.may_contain(b"between"), "{end:?}");
        }
    }
}
