//! The approximate size of a key range. Any thread.

use crate::disk::levels::state::version::LevelsVersion;
use crate::disk::runs::run;
use crate::util::Result;

impl LevelsVersion {
    /// Bytes of branch files that the keys from `lower` to below `upper` (`None`: to the end) take, garbage included.
    /// Where a bound cuts a file, its index gives an estimate. O(files).
    pub fn approximate_bytes(&self, lower: &[u8], upper: Option<&[u8]>) -> Result<u64> {
        let mut bytes = 0;
        for (_, level_run) in self.runs() {
            for part in level_run.run.parts().iter().filter(|part| run::overlaps(part, lower, upper)) {
                let meta = part.meta();
                let is_inside = meta.key_min[..] >= *lower && upper.is_none_or(|upper| meta.ends_before(upper));
                let inside = if is_inside { meta.bytes } else { part.approximate_bytes(lower, upper)? };
                bytes += inside.min(meta.bytes);
            }
        }
        Ok(bytes)
    }
}
