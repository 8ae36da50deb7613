//! Estimates how much of a Memtable is in a key range. Any thread; may wait for a drain.

use crate::memory::table::memtable::Memtable;

/// Up to this many entries are drained and counted.
const COUNTED_MAX: u64 = 4096;
/// The size of the sample if there are more entries.
const SAMPLE_KEYS: u64 = 512;

impl Memtable {
    /// The approximate size of the entries with encoded keys from `lower` to below `upper` (`None`: to the end), in
    /// bytes. In a large Memtable most nodes may not be linked yet, so a sample of the hash index is counted instead.
    /// It may miss a range with less than a hundredth of the keys. O(1).
    pub fn approximate_bytes(&self, lower: &[u8], upper: Option<&[u8]>) -> u64 {
        let entries = self.entries();
        let (inside, of) = if entries <= COUNTED_MAX {
            self.drain_all();
            (self.linked_between(Some(lower), upper).len() as u64, entries)
        } else {
            let (mut inside, mut of) = (0, 0);
            for node in self.sample(entries, SAMPLE_KEYS) {
                let key = self.node(node).encoded_key();
                of += 1;
                inside += u64::from(lower <= key && upper.is_none_or(|upper| key < upper));
            }
            (inside, of)
        };
        let bytes = u128::from(inside) * self.live_bytes() as u128 / u128::from(of.max(1));
        u64::try_from(bytes).unwrap_or(u64::MAX).min(self.live_bytes() as u64)
    }
}
