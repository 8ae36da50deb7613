//! The rule for when a leaf is full. Stored sizes are multiples of 4 KiB; the rule keeps the waste by rounding small.
//! Pure.

use crate::branch::Compression;
use crate::format::page::{PAGE_BYTES, PAGE_HEADER_BYTES, SMALL_PAYLOAD_BYTES, stored_bytes};

/// A leaf is extended up to this stored size to reduce padding.
const GROWN_BYTES_MAX: usize = 32 << 10;
/// Target of the stored size of a compressed leaf.
const COMPRESSED_BYTES: usize = 8 << 10;
/// Bounds of the uncompressed payload of a compressed leaf.
const RAW_BYTES_MIN: usize = 4 << 10;
const RAW_BYTES_MAX: usize = 32 << 10;

/// Decides for each leaf when it is full.
#[derive(Debug)]
pub struct LeafSize {
    compression: Compression,
    /// Largest payload of the current leaf.
    capacity: usize,
    /// Stored bytes for 1024 raw bytes, averaged over the last leaves.
    ratio: usize,
}

impl LeafSize {
    /// The rule for leaves that are stored in this way.
    pub fn new(compression: Compression) -> Self {
        let mut size = Self { compression, capacity: 0, ratio: 512 };
        size.start_leaf();
        size
    }

    /// How the leaves are stored.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Whether to close a leaf with a payload of `present` bytes before an entry that would increase it to `grown`
    /// bytes. May increase the leaf's capacity.
    pub fn is_full(&mut self, present: usize, grown: usize) -> bool {
        if grown <= self.capacity {
            return false;
        }
        let padding = self.capacity.saturating_sub(present);
        let bytes = stored_bytes(grown);
        if self.compression == Compression::None && padding > self.capacity / 8 && bytes <= GROWN_BYTES_MAX {
            self.capacity = bytes - PAGE_HEADER_BYTES;
            return false;
        }
        true
    }

    /// Whether to store the compressed payload: it must save an eighth of the pages.
    pub fn is_worth(raw_len: usize, packed_len: usize) -> bool {
        stored_bytes(packed_len) * 8 <= stored_bytes(raw_len) * 7
    }

    /// Records the sizes of the closed leaf and starts the next one, with a target just below `COMPRESSED_BYTES`.
    pub fn close_leaf(&mut self, raw_len: usize, packed_len: usize) {
        let ratio = (packed_len * 1024).div_ceil(raw_len.max(1)).min(1024);
        self.ratio = (self.ratio * 3 + ratio).div_ceil(4);
        self.start_leaf();
    }

    fn start_leaf(&mut self) {
        self.capacity = match self.compression {
            Compression::None => SMALL_PAYLOAD_BYTES,
            Compression::Lz4 | Compression::Zstd => {
                let aim = (COMPRESSED_BYTES - PAGE_HEADER_BYTES) * 31 / 32;
                (aim * 1024 / self.ratio.max(1)).clamp(RAW_BYTES_MIN, RAW_BYTES_MAX)
            }
        };
    }
}

const _: () = assert!(COMPRESSED_BYTES.is_multiple_of(PAGE_BYTES));

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills leaves with entries of one size. Returns the payload bytes for a hundred stored bytes.
    fn use_of(entry: usize, count: usize) -> usize {
        let mut size = LeafSize::new(Compression::None);
        let (mut used, mut stored, mut present) = (0, 0, 0);
        for _ in 0..count {
            if present > 0 && size.is_full(present, present + entry) {
                used += present;
                stored += stored_bytes(present);
                size.close_leaf(present, present);
                present = 0;
            }
            present += entry;
        }
        used * 100 / stored
    }

    #[test]
    fn entries_of_medium_size_waste_little_space() {
        for entry in [20, 121, 500, 1_000, 1_500, 2_000, 2_100, 3_000, 4_050] {
            assert!(use_of(entry, 10_000) >= 87, "{entry}: {}", use_of(entry, 10_000));
        }
    }

    #[test]
    fn compressed_leaves_aim_at_two_pages() {
        let mut size = LeafSize::new(Compression::Lz4);
        for quarter in [1usize, 2, 3] {
            for _ in 0..50 {
                let raw = size.capacity;
                size.close_leaf(raw, raw * quarter / 4);
            }
            let packed = size.capacity * quarter / 4;
            assert_eq!(stored_bytes(packed), COMPRESSED_BYTES);
            assert!(packed > 7_000, "{packed}");
            assert!(LeafSize::is_worth(size.capacity, packed));
        }
        assert!(!LeafSize::is_worth(8_000, 7_000));
    }
}
