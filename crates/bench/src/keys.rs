//! Maps key numbers to bytes. Pure; every engine gets the same keys.
//!
//! 1. Within an order, numbers map to keys one to one. Missing keys differ from loaded ones in one bit: number `n` maps
//!    to `2n`, its missing neighbour to `2n + 1`, so missing keys are spread like the loaded ones.
//! 2. Sequential keys sort as their numbers do.

use crate::random::{scramble, scramble_within};
use serde::{Deserialize, Serialize};

/// Allowed key sizes.
pub const KEY_BYTES: std::ops::RangeInclusive<usize> = 2..=1024;
/// The part that distinguishes keys; longer keys continue with bytes that follow from it.
const HEAD_BYTES: usize = 8;
/// What a prefix consists of.
const SHARED_BYTE: u8 = b'/';

/// How key numbers map to key order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Scattered by a bijection.
    #[default]
    Random,
    /// In order, big-endian.
    Sequential,
    /// This share of the numbers in order, the others scattered (SplinterDB, section 6.3). A key of one kind collides
    /// with one of the other with probability `num` squared / 2^63: with 8 bytes and more, practically never.
    Near {
        /// Percentage of keys in the order of their numbers.
        sequential_percent: u8,
    },
}

/// The keys of one order and size.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    order: Order,
    bytes: usize,
    /// Bytes at the start of every key that are the same in all.
    prefix: usize,
}

impl Keys {
    /// Keys of this many bytes, within `KEY_BYTES`.
    pub fn new(order: Order, bytes: usize) -> Self {
        debug_assert!(KEY_BYTES.contains(&bytes));
        Self { order, bytes, prefix: 0 }
    }

    /// The same number of bytes, of which the first `prefix` are the same in all keys.
    pub fn sharing(self, prefix: usize) -> Self {
        debug_assert!(KEY_BYTES.contains(&self.bytes.saturating_sub(prefix)));
        Self { prefix, ..self }
    }

    /// Bytes of every key.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many numbers have different keys at this size.
    pub fn numbers_max(bytes: usize) -> u64 {
        if bytes >= HEAD_BYTES { 1 << 62 } else { 1 << (8 * bytes as u32 - 1) }
    }

    /// The number of a key of the sequential order, loaded or missing.
    #[inline]
    pub fn sequential_number(key: &[u8]) -> u64 {
        key.iter().take(HEAD_BYTES).fold(0, |head, byte| head << 8 | u64::from(*byte)) / 2
    }

    /// Writes the key of a number.
    #[inline]
    pub fn write(&self, number: u64, out: &mut [u8]) {
        self.place(number, number * 2, out);
    }

    /// Writes a key that no number has, next to that of this number.
    #[inline]
    pub fn write_missing(&self, number: u64, out: &mut [u8]) {
        self.place(number, number * 2 + 1, out);
    }

    #[inline]
    fn place(&self, number: u64, position: u64, out: &mut [u8]) {
        debug_assert_eq!(out.len(), self.bytes);
        let (shared, out) = out.split_at_mut(self.prefix);
        shared.fill(SHARED_BYTE);
        let scattered = match self.order {
            Order::Random => true,
            Order::Sequential => false,
            // A different bijection from that of the keys, so that the choice of sequential numbers is independent of
            // it.
            Order::Near { sequential_percent } => scramble(!number) % 100 >= u64::from(sequential_percent),
        };
        if out.len() < HEAD_BYTES {
            let bits = 8 * out.len() as u32;
            let head = if scattered { scramble_within(position, bits) } else { position };
            let start = HEAD_BYTES - out.len();
            out.copy_from_slice(&head.to_be_bytes()[start..]);
            return;
        }
        let head = if scattered { scramble(position) } else { position };
        out[..HEAD_BYTES].copy_from_slice(&head.to_be_bytes());
        for (at, piece) in out[HEAD_BYTES..].chunks_mut(8).enumerate() {
            let tail = scramble(head ^ (at as u64 + 1).rotate_right(8)).to_le_bytes();
            piece.copy_from_slice(&tail[..piece.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn key(order: Order, bytes: usize, number: u64) -> Vec<u8> {
        let mut out = vec![0; bytes];
        Keys::new(order, bytes).write(number, &mut out);
        out
    }

    #[test]
    fn no_two_numbers_share_a_key_and_missing_keys_are_missing() {
        for order in [Order::Random, Order::Sequential, Order::Near { sequential_percent: 50 }] {
            for bytes in [2, 3, 5, 8, 11, 24] {
                if bytes < 8 && matches!(order, Order::Near { .. }) {
                    continue;
                }
                let (keys, mut missing) = (Keys::new(order, bytes), vec![0; bytes]);
                let count = 30_000.min(Keys::numbers_max(bytes));
                let mut all: HashSet<Vec<u8>> = (0..count).map(|number| key(order, bytes, number)).collect();
                assert_eq!(all.len() as u64, count, "{order:?}, {bytes} bytes");
                for number in 0..count {
                    keys.write_missing(number, &mut missing);
                    assert!(all.insert(missing.clone()), "{order:?}, {bytes} bytes, {number}");
                }
            }
        }
    }

    #[test]
    fn a_prefix_is_in_front_of_keys_that_are_as_without_it() {
        for (order, bytes) in [(Order::Random, 16), (Order::Sequential, 5), (Order::Sequential, 8)] {
            let keys = Keys::new(order, bytes + 24).sharing(24);
            let (mut out, mut plain) = (vec![0; bytes + 24], vec![0; bytes]);
            for number in 0..1000 {
                keys.write(number, &mut out);
                assert_eq!((&out[..24], &out[24..]), (&[b'/'; 24][..], &key(order, bytes, number)[..]));
                keys.write_missing(number, &mut out);
                Keys::new(order, bytes).write_missing(number, &mut plain);
                assert_eq!(out[24..], plain);
            }
        }
    }

    #[test]
    fn sequential_keys_rise_and_random_ones_do_not() {
        for bytes in [3, 8, 24] {
            let rises = |order| (0..1000).filter(|n| key(order, bytes, *n) < key(order, bytes, n + 1)).count();
            assert_eq!(rises(Order::Sequential), 1000);
            assert!((400..600).contains(&rises(Order::Random)), "{bytes} bytes");
        }
    }

    #[test]
    fn numbers_of_sequential_keys_come_back() {
        for bytes in [2, 8, 24] {
            let keys = Keys::new(Order::Sequential, bytes);
            for number in [0, 1, 255, 10_000] {
                let mut missing = vec![0; bytes];
                keys.write_missing(number, &mut missing);
                let found = (
                    Keys::sequential_number(&key(Order::Sequential, bytes, number)),
                    Keys::sequential_number(&missing),
                );
                assert_eq!(found, (number, number), "{bytes} bytes");
            }
        }
    }

    #[test]
    fn the_sequential_share_is_as_asked() {
        for percent in [0, 1, 50, 90, 100] {
            let order = Order::Near { sequential_percent: percent };
            let share = (0..100_000).filter(|n| key(order, 8, *n) == key(Order::Sequential, 8, *n)).count();
            let expected = 1000 * usize::from(percent);
            assert!(share.abs_diff(expected) < 600, "{share} for {percent} percent");
        }
    }

    #[test]
    fn random_keys_spread_over_the_whole_range() {
        for bytes in [2, 8, 16] {
            let mut counts = [0u32; 16];
            (0..16_000).for_each(|n| counts[usize::from(key(Order::Random, bytes, n)[0] >> 4)] += 1);
            assert!(counts.iter().all(|count| (800..1200).contains(count)), "{bytes} bytes: {counts:?}");
        }
    }
}
