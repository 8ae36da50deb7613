//! Values: pieces of a pool of random bytes, so that no value costs a copy and no block compresses, unless it shall.
//! Shared by all threads.
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

/// In a pool that compresses, each piece of so many bytes ends with zeroes. A block compressor spends some five bytes on them.
const PIECE_BYTES: usize = 256;
const ZEROES_BYTES: usize = 5;

/// The pool.
#[derive(Debug)]
pub struct Values {
    pool: Vec<u8>,
    bytes: usize,
}

impl Values {
    /// Values of this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self::compressing(bytes, 100)
    }

    /// Values of this many bytes that compress to about this percentage.
    pub fn compressing(bytes: usize, percent: u8) -> Self {
        let mut random = Random::new(0x5eed, 0);
        let words = ((1 << PLACE_BITS) + bytes).div_ceil(8);
        let mut pool: Vec<u8> = (0..words).flat_map(|_| random.bits().to_le_bytes()).collect();
        if percent < 100 {
            let kept = (PIECE_BYTES * usize::from(percent) / 100).saturating_sub(ZEROES_BYTES);
            pool.chunks_mut(PIECE_BYTES).for_each(|piece| piece.iter_mut().skip(kept).for_each(|byte| *byte = 0));
        }
        Self { pool, bytes }
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
    fn values_that_compress_are_told_apart_and_have_their_share_of_zeroes() {
        let values = Values::compressing(1024, 74);
        for number in 0..1000 {
            let value = values.of(number, 0);
            let zeroes = value.iter().filter(|byte| **byte == 0).count();
            assert!((270..310).contains(&zeroes), "{zeroes}");
            assert!(values.fits(number, value) && !values.fits(number + 1, value));
        }
    }

    #[test]
    fn every_byte_occurs_equally_often() {
        let mut counts = [0u32; 256];
        Values::new(100).pool.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        assert!(counts.iter().all(|count| (3_700..4_500).contains(count)), "{counts:?}");
    }
}
