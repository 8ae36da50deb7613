//! Counters: values of 8 bytes, little-endian, that wrap around. Pure.

/// Bytes of a counter.
pub const BYTES: usize = 8;

/// The count in a value; 0 for an absent value or one of another size.
#[inline]
pub fn of(value: Option<&[u8]>) -> u64 {
    value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The value for a count.
#[inline]
pub fn bytes(count: u64) -> [u8; BYTES] {
    count.to_le_bytes()
}

/// An update that adds.
#[inline]
pub fn add(old: Option<&[u8]>, new: &mut Vec<u8>, by: u64) -> bool {
    new.clear();
    new.extend_from_slice(&bytes(of(old).wrapping_add(by)));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_come_back_and_the_rest_is_nothing() {
        for count in [0, 1, 256, u64::MAX] {
            assert_eq!(of(Some(&bytes(count))), count);
        }
        assert_eq!((of(None), of(Some(b"")), of(Some(b"123456789"))), (0, 0, 0));
        assert_eq!(bytes(1), [1, 0, 0, 0, 0, 0, 0, 0]);
    }
}
