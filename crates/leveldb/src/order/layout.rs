//! How a store in a caller's order lies in one in the order of bytes.
//!
//! | bytes of the key | what | value |
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

/// The store's key of a user key.
pub fn data_key(bucket: u64, user_key: &[u8]) -> Vec<u8> {
    key(DATA, bucket, user_key)
}

/// The store's key of a bucket's fence.
pub fn fence_key(bucket: u64) -> Vec<u8> {
    key(FENCE, bucket, &[])
}

/// All fences begin with this.
pub fn fences() -> [u8; 1] {
    [FENCE]
}

/// All pairs lie between these.
pub fn all_data() -> RangeInclusive<[u8; 1]> {
    [DATA]..=[DATA + 1]
}

/// The user key in a store's key of a pair; empty for a key that is none.
pub fn user_key(key: &[u8]) -> &[u8] {
    key.get(HEAD..).unwrap_or_default()
}

/// The bucket of a fence's key.
pub fn bucket_of_fence(key: &[u8]) -> Option<u64> {
    let (tag, bucket) = key.split_first()?;
    (*tag == FENCE).then(|| bucket.try_into().ok().map(u64::from_be_bytes))?
}
