//! Values: pieces of a pool of random bytes, so that no value costs a copy and no block compresses. Shared by all
//! threads.
//!
//! A key's value follows from its number and one of `VERSIONS` versions: an overwrite changes the bytes, and a reader
//! can still check whether a value belongs to the key.

use crate::random::{Random, scramble};

/// The number of values that a key may have.
pub const VERSIONS: u64 = 4;
/// Largest value.
pub const VALUE_BYTES_MAX: usize = 64 << 20;
/// The number of offsets at which a value may begin; the pool fits in the processor's second-level cache.
const PLACE_BITS: u32 = 20;

/// The pool.
#[derive(Debug)]
pub struct Values {
    pool: Vec<u8>,
    bytes: usize,
}

impl Values {
    /// Values of this many bytes.
    pub fn new(bytes: usize) -> Self {
        let mut random = Random::new(0x5eed, 0);
        let words = ((1 << PLACE_BITS) + bytes).div_ceil(8);
        Self { pool: (0..words).flat_map(|_| random.bits().to_le_bytes()).collect(), bytes }
    }

    /// Bytes of every value.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The value of a key in a version.
    #[inline]
    pub fn of(&self, number: u64, version: u64) -> &[u8] {
        let place = (scramble(number ^ (version % VERSIONS).rotate_right(8)) >> (64 - PLACE_BITS)) as usize;
        &self.pool[place..place + self.bytes]
    }

    /// Whether a value is one of those that the key may have.
    #[inline]
    pub fn fits(&self, number: u64, value: &[u8]) -> bool {
        (0..VERSIONS).any(|version| self.of(number, version) == value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_apart_by_key_and_every_version_fits() {
        let values = Values::new(100);
        for number in 0..1000 {
            for version in 0..VERSIONS {
                assert_eq!(values.of(number, version).len(), 100);
                assert!(values.fits(number, values.of(number, version)));
                assert!(!values.fits(number + 1, values.of(number, version)));
            }
            assert_ne!(values.of(number, 0), values.of(number, 1));
            assert!(!values.fits(number, &values.of(number, 0)[..99]));
        }
        assert!(Values::new(0).fits(1, b""));
    }

    #[test]
    fn every_byte_occurs_equally_often() {
        let mut counts = [0u32; 256];
        Values::new(100).pool.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        assert!(counts.iter().all(|count| (3_700..4_500).contains(count)), "{counts:?}");
    }
}
