//! Random numbers from a seed, for tests, the simulated disk and pauses of random length. The owner of the state draws,
//! on any thread.
//!
//! Invariant: the numbers are a pure function of the state, the same everywhere and for ever. So the seed that a failed
//! test printed reproduces the failure, and goldens stay valid.

/// SplitMix64; every seed is good. Advances `state` and returns 64 random bits.
pub fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::splitmix64;

    /// The first numbers of the reference generator from state 0.
    #[test]
    fn the_numbers_are_those_of_the_reference_generator() {
        let mut state = 0;
        let drawn = [(); 3].map(|()| splitmix64(&mut state));
        assert_eq!(drawn, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }
}
