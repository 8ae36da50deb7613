//! Keys and values that any engine gets: the same in each round.

/// Bytes of a key.
pub const KEY_BYTES: u64 = 8;

/// Keys in no order, all different.
pub fn key(number: u64) -> [u8; KEY_BYTES as usize] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Replaces `value` by bytes that do not compress.
pub fn fill_value(number: u64, value: &mut [u8]) {
    let mut state = number.wrapping_mul(0xd134_2543_de82_ef95);
    for part in value.chunks_mut(8) {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        part.copy_from_slice(&(bits ^ (bits >> 31)).to_le_bytes()[..part.len()]);
    }
}

/// The place of a step in an order that visits all of `0..count` once, and neighbours far from each other.
pub fn scattered(step: u64, count: u64) -> u64 {
    // A prime, so that it has no divisor in common with a smaller count.
    const STRIDE: u128 = 2_147_483_647;
    (u128::from(step) * STRIDE % u128::from(count.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_and_values_differ() {
        let keys: BTreeSet<_> = (0..5000).map(key).collect();
        assert_eq!(keys.len(), 5000);
        let value = |number| {
            let mut value = [0; 99];
            fill_value(number, &mut value);
            value
        };
        assert_ne!(value(1), value(2));
        assert_eq!(value(7), value(7));
        let distinct: BTreeSet<u8> = value(7).into_iter().collect();
        assert!(distinct.len() > 40, "{distinct:?}");
    }

    #[test]
    fn a_scattered_order_visits_each_place_once() {
        for count in [1, 2, 1000, 4096] {
            let places: BTreeSet<u64> = (0..count).map(|step| scattered(step, count)).collect();
            assert_eq!(places.len() as u64, count);
            assert!(places.iter().all(|place| *place < count));
        }
    }
}
