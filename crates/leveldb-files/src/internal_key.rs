//! Internal keys, which tables contain.
//!
//! | bytes | meaning |
//! | --- | --- |
//! | all but the last 8 | the user's key |
//! | 8 | little-endian: the sequence number in the upper 56 bits, 1 for a value or 0 for a deletion in the lower 8 |
//!
//! They are sorted by ascending user key, then by descending sequence number, so the newest version of a key comes
//! first.

use std::cmp::Ordering;

const TAIL: usize = 8;

/// Returns the user key; `None` if the internal key is too short or has an unknown kind.
pub fn user_key(key: &[u8]) -> Option<&[u8]> {
    let (user_key, tail) = key.split_last_chunk::<TAIL>()?;
    (tail[0] <= 1).then_some(user_key)
}

/// Whether it is a value and not a deletion.
pub fn is_value(key: &[u8]) -> bool {
    key.last_chunk::<TAIL>().is_some_and(|tail| tail[0] == 1)
}

/// Creates an internal key.
pub fn make(user_key: &[u8], sequence: u64, is_value: bool) -> Vec<u8> {
    [user_key, &(sequence << 8 | u64::from(is_value)).to_le_bytes()].concat()
}

/// Compares two internal keys.
pub fn compare(one: &[u8], other: &[u8]) -> Ordering {
    let parts =
        |key: &[u8]| key.split_last_chunk::<TAIL>().map(|(user_key, tail)| (user_key.len(), u64::from_le_bytes(*tail)));
    let ((one_end, one_tail), (other_end, other_tail)) =
        (parts(one).unwrap_or_default(), parts(other).unwrap_or_default());
    one[..one_end].cmp(&other[..other_end]).then(other_tail.cmp(&one_tail))
}
