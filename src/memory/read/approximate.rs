//! How much of a Memtable lies in a key range. Any thread.

use crate::memory::table::memtable::Memtable;

/// Up to so many entries are put into order and counted.
const COUNTED_MAX: u64 = 4096;
/// How many keys a sample of more of them should have.
const SAMPLE_KEYS: u64 = 512;

impl Memtable {
    /// About how many bytes the entries of the encoded keys from `lower` to below `upper` (`None`: to the end) take. Where there are many,
    /// most may not be in order yet, and a sample of the hash index answers for them: of a range of less than a hundredth of the keys it
    /// may know nothing. O(1).
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
