//! How a store with a comparator is stored in one that is sorted by bytes.
//!
//! | bytes of the key | meaning | value |
//! | --- | --- | --- |
//! | 0, bucket (8, big-endian) | the fence below a bucket; the first bucket, number 0, has none | the fence: a user key |
//! | 1, bucket (8, big-endian), user key | a pair | the value |

use std::ops::RangeInclusive;

const FENCE: u8 = 0;
const DATA: u8 = 1;
/// Bytes before the user key.
const HEAD: usize = 9;

fn key(tag: u8, bucket: u64, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(HEAD + rest.len());
    key.push(tag);
    key.extend_from_slice(&bucket.to_be_bytes());
    key.extend_from_slice(rest);
    key
}

/// Returns the store's key of a user key.
pub fn data_key(bucket: u64, user_key: &[u8]) -> Vec<u8> {
    key(DATA, bucket, user_key)
}

/// Returns the store's key of a bucket's fence.
pub fn fence_key(bucket: u64) -> Vec<u8> {
    key(FENCE, bucket, &[])
}

/// The prefix of all fences.
pub fn fences() -> [u8; 1] {
    [FENCE]
}

/// The range of all pairs.
pub fn all_data() -> RangeInclusive<[u8; 1]> {
    [DATA]..=[DATA + 1]
}

/// Returns the user key in a store's key of a pair; empty if the key is too short.
pub fn user_key(key: &[u8]) -> &[u8] {
    key.get(HEAD..).unwrap_or_default()
}

/// Returns the bucket of a fence's key.
pub fn bucket_of_fence(key: &[u8]) -> Option<u64> {
    let (tag, bucket) = key.split_first()?;
    (*tag == FENCE).then(|| bucket.try_into().ok().map(u64::from_be_bytes))?
}
