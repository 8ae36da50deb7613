//! Estimates how many bytes of a Memtable are in a key range. Any thread.
//!
//! The estimate takes every key for equally large. Keys with many retained versions therefore count for too little.

use crate::memory::table::memtable::Memtable;

/// A Memtable with at most this many entries is drained, and its keys are counted. So is one whose index is too small
/// for a batch: the index then has the batch's first keys only, and a sample of them once gave a half as large as the
/// whole.
const COUNTED_MAX: u64 = 4096;
/// The size of the sample of keys if there are more entries.
const SAMPLE_KEYS: u64 = 512;

impl Memtable {
    /// The approximate size of the entries with encoded keys from `lower` to below `upper` (`None`: to the end), in
    /// bytes. A small Memtable is drained, and its keys are counted. In a large one, where most nodes are possibly not
    /// linked yet, a sample of the hash index is counted. The result can then be 0 for a range with less than a
    /// hundredth of the keys. O(`COUNTED_MAX`).
    pub fn approximate_bytes(&self, lower: &[u8], upper: Option<&[u8]>) -> u64 {
        let entries = self.entries();
        let (in_range, counted) = if entries <= COUNTED_MAX || !self.index_holds(entries) {
            self.drain_all();
            (self.linked_between(Some(lower), upper).len() as u64, entries)
        } else {
            let (mut in_range, mut counted) = (0, 0);
            for node in self.sample(entries, SAMPLE_KEYS) {
                let key = self.node(node).encoded_key();
                counted += 1;
                in_range += u64::from(lower <= key && upper.is_none_or(|upper| key < upper));
            }
            (in_range, counted)
        };
        let bytes = u128::from(in_range) * self.live_bytes() as u128 / u128::from(counted.max(1));
        u64::try_from(bytes).unwrap_or(u64::MAX).min(self.live_bytes() as u64)
    }
}
