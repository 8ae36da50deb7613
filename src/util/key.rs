//! Keys. Below the public interface a key is one byte string: the keyspace id, big-endian, then the user's key. The
//! byte order of that string is the order (keyspace, user key), so every layer below compares plain bytes. (The
//! big-endian id is the one exception to little-endian formats: it must sort.) Pure; any thread.

use std::fmt;

/// Which keyspace a key belongs to; 0 is the default one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyspaceId(pub u32);

impl fmt::Display for KeyspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl KeyspaceId {
    /// The keyspace that exists in every store.
    pub const DEFAULT: Self = Self(0);
    /// Has the names of the others as keys (`format/catalog.rs`).
    pub const CATALOG: Self = Self(u32::MAX - 1);
    /// Has no keys, so that every keyspace with keys has an end.
    pub const LAST: Self = Self(u32::MAX);
    /// Bytes of the id at the front of an encoded key.
    pub const BYTES: usize = 4;
}

/// Appends the encoded form of a key to `out`. O(length).
pub fn encode(keyspace: KeyspaceId, user_key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&keyspace.0.to_be_bytes());
    out.extend_from_slice(user_key);
}

/// The encoded form of a key in a new vector.
pub fn encoded(keyspace: KeyspaceId, user_key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(KeyspaceId::BYTES + user_key.len());
    encode(keyspace, user_key, &mut out);
    out
}

/// The encoded bounds of a range of keys; an `end` of `None` is the end of the keyspace, which must not be the last one.
pub fn encoded_range(keyspace: KeyspaceId, start: &[u8], end: Option<&[u8]>) -> (Vec<u8>, Vec<u8>) {
    debug_assert!(keyspace < KeyspaceId::LAST, "no key follows the last keyspace");
    let end = match end {
        Some(end) => encoded(keyspace, end),
        None => after_all(keyspace).to_vec(),
    };
    (encoded(keyspace, start), end)
}

/// The first encoded key after those of a keyspace, which must not be the last one.
pub fn after_all(keyspace: KeyspaceId) -> [u8; KeyspaceId::BYTES] {
    keyspace.0.saturating_add(1).to_be_bytes()
}

/// Keys up to this length are encoded on the stack.
const KEY_ON_STACK: usize = 128;

/// Calls `f` with the encoded form of a key, which is on the stack if it is short: a get allocates nothing.
pub fn with_encoded<T>(keyspace: KeyspaceId, user_key: &[u8], f: impl FnOnce(&[u8]) -> T) -> T {
    let length = KeyspaceId::BYTES + user_key.len();
    if length <= KEY_ON_STACK {
        let mut encoded_key = [0u8; KEY_ON_STACK];
        encoded_key[..KeyspaceId::BYTES].copy_from_slice(&keyspace.0.to_be_bytes());
        encoded_key[KeyspaceId::BYTES..length].copy_from_slice(user_key);
        f(&encoded_key[..length])
    } else {
        f(&encoded(keyspace, user_key))
    }
}

/// Splits an encoded key; `None` if it is too short.
pub fn split(encoded: &[u8]) -> Option<(KeyspaceId, &[u8])> {
    let (id, user_key) = encoded.split_first_chunk::<4>()?;
    Some((KeyspaceId(u32::from_be_bytes(*id)), user_key))
}

/// The first eight bytes of `bytes` as a number with the same order. Shorter keys are filled with zeroes, so equal
/// heads still need a comparison of the whole keys.
pub fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(first)
        }
    }
}

/// The keyspace of an encoded key.
pub fn keyspace(encoded: &[u8]) -> KeyspaceId {
    split(encoded).map_or(KeyspaceId::DEFAULT, |(keyspace, _)| keyspace)
}

/// The first sixteen bytes of an encoded key, the keyspace and twelve of the user's key, as a number with the same
/// order. Shorter keys are filled with zeroes, so equal heads still need a comparison of the whole keys.
#[inline]
pub fn wide_head(key: &[u8]) -> u128 {
    if let Some(first) = key.first_chunk::<16>() {
        return u128::from_be_bytes(*first);
    }
    let high = u128::from(head(key)) << 64;
    match key.last_chunk::<8>() {
        // The last eight bytes overlap the first eight by 16 - length; the shift removes those at the top.
        Some(last) => high | u128::from((u128::from(u64::from_be_bytes(*last)) << (8 * (16 - key.len()))) as u64),
        None => high,
    }
}

/// The number of leading bits that two keys have in common.
#[inline]
pub fn common_bits(one: &[u8], other: &[u8]) -> u64 {
    let (mut left, mut right) = (one, other);
    let mut bits = 0;
    while let (Some((a, rest_of_left)), Some((b, rest_of_right))) =
        (left.split_first_chunk::<8>(), right.split_first_chunk::<8>())
    {
        let differ = u64::from_be_bytes(*a) ^ u64::from_be_bytes(*b);
        if differ != 0 {
            return bits + u64::from(differ.leading_zeros());
        }
        bits += 64;
        (left, right) = (rest_of_left, rest_of_right);
    }
    let rest = (head(left) ^ head(right)).leading_zeros().min(8 * left.len().min(right.len()) as u32);
    bits + u64::from(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_bits_end_at_the_first_difference() {
        assert_eq!(common_bits(b"", b"a"), 0);
        assert_eq!(common_bits(b"a", b"a"), 8);
        assert_eq!(common_bits(b"a", b"ab"), 8);
        // The end of a key is no zero byte.
        assert_eq!(common_bits(b"a", b"a\0"), 8);
        assert_eq!(common_bits(b"a", b"c"), 6);
        assert_eq!(common_bits(b"0123456789", b"0123456799"), 64 + 7);
        assert_eq!(common_bits(b"0123456789abcdef", b"0123456789abcdef"), 128);
        assert_eq!(common_bits(b"0123456789abcdef", b"0123456789abcdefg"), 128);
        assert_eq!(common_bits(b"0123456x89abcdef", b"0123456y89abcdef"), 63);
    }

    #[test]
    fn encoding_keeps_order_and_round_trips() {
        let mut keys: Vec<(u32, &[u8])> = vec![(1, b""), (0, b"b"), (0, b"a\0"), (256, b"a"), (0, b""), (0, b"a")];
        let mut encodings: Vec<_> = keys.iter().map(|(id, key)| encoded(KeyspaceId(*id), key)).collect();
        keys.sort();
        encodings.sort();
        for ((id, key), encoding) in keys.iter().zip(&encodings) {
            assert_eq!(split(encoding), Some((KeyspaceId(*id), *key)));
        }
        assert_eq!(split(b"abc"), None);
    }

    #[test]
    fn heads_never_contradict_the_order_of_keys() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"abcdefgh", b"abcdefghi", b"b"];
        for pair in keys.windows(2) {
            assert!(head(pair[0]) <= head(pair[1]));
            assert!(wide_head(pair[0]) <= wide_head(pair[1]));
        }
    }
}
