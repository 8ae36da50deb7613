//! The approximate size of a key range in a branch, from the index alone. Any thread.

use super::blocking_pages::BlockingPages;
use crate::branch::branch::Branch;
use crate::util::{Result, SequenceNumber};

impl Branch {
    /// Bytes of the file that the keys in [`lower`, `upper`) take, to about one leaf, including their share of
    /// fingerprints and filter. `None` as `upper` means the end. Returns 0 only if the range and the branch's key range
    /// do not overlap.
    pub fn approximate_bytes(&self, lower: &[u8], upper: Option<&[u8]>) -> Result<u64> {
        let meta = self.meta();
        if meta.ends_before(lower) || upper.is_some_and(|upper| upper <= &meta.key_min[..] || upper <= lower) {
            return Ok(0);
        }
        let footer = self.footer()?;
        if footer.entries == 0 {
            return Ok(meta.bytes);
        }
        let data = footer.fingerprints_at;
        let mut pages = BlockingPages::new();
        let (start, leaf) = if lower <= &meta.key_min[..] {
            (0, 0)
        } else {
            let leaf = self.leaf_of(lower, SequenceNumber::MAX, &mut pages)?;
            (leaf.offset(), leaf.bytes() as u64)
        };
        let end = match upper {
            Some(upper) if upper <= &meta.key_max[..] => self.leaf_of(upper, SequenceNumber::MAX, &mut pages)?.offset(),
            _ => data,
        };
        let bytes = end.saturating_sub(start).max(leaf).max(1);
        Ok((u128::from(bytes) * u128::from(meta.bytes) / u128::from(data.max(1))) as u64)
    }
}
