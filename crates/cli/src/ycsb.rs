//! The records of YCSB's load phase: "Benchmarking Cloud Serving Systems with YCSB" (SoCC 2010), section 4, with the
//! defaults of its core workload (hashed insert order; ten fields of 100 bytes, here one value of 1,000).
//!
//! 1. Record *i* has the same key in every run: `user` and the 64-bit FNV-1a hash of *i* as 20 digits, so 24 bytes.
//! 2. Its value depends only on (seed, *i*, size), so a later run can check or repeat it.

/// The hash that scatters record numbers over the key space.
fn scatter(record: u64) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    record.to_le_bytes().iter().fold(OFFSET_BASIS, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// The key of a record.
pub fn key(record: u64) -> Vec<u8> {
    format!("user{:020}", scatter(record)).into_bytes()
}

/// The value of a record: printable, and not compressible below six bits per byte.
pub fn value(seed: u64, record: u64, size: usize) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
    let mut state = mix(seed) ^ record;
    let mut out = Vec::with_capacity(size);
    while out.len() < size {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = mix(state);
        for _ in 0..10.min(size - out.len()) {
            out.push(ALPHABET[(bits & 63) as usize]);
            bits >>= 6;
        }
    }
    out
}

/// The finalizer of SplitMix64.
fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_distinct_and_of_one_length() {
        let keys: HashSet<Vec<u8>> = (0..100_000).map(key).collect();
        assert_eq!(keys.len(), 100_000);
        assert!(keys.iter().all(|key| key.len() == 24 && key.starts_with(b"user")));
    }

    #[test]
    fn values_depend_only_on_seed_record_and_size() {
        assert_eq!(value(1, 2, 1000), value(1, 2, 1000));
        assert_ne!(value(1, 2, 1000), value(2, 2, 1000));
        assert_ne!(value(1, 2, 1000), value(1, 3, 1000));
        // Neighbours must not be the same stream shifted by a step.
        assert_ne!(value(1, 2, 1000)[10..110], value(1, 3, 1000)[..100]);
        for size in [0, 1, 9, 10, 11, 4097] {
            let value = value(7, 7, size);
            assert_eq!(value.len(), size);
            assert!(value.iter().all(u8::is_ascii_graphic));
        }
    }
}
