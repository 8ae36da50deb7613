//! Whether anything in a key range is newer than a number, for a transaction that has read the range as of that number
//! (`docs/concurrency.md`, P2). Any thread. Every file knows its greatest number, so only files with newer entries are
//! read.

use crate::disk::levels::state::version::LevelsVersion;
use crate::disk::runs::run;
use crate::disk::runs::run_cursor::newer_key;
use crate::util::{Result, SequenceNumber};

impl LevelsVersion {
    /// A key from `lower` to below `upper` of which some version, or a range tombstone over it, has a number above
    /// `since`. Versions that were dropped after `since` may not be found, so the caller holds a pin at `since`.
    pub fn written_since(&self, since: SequenceNumber, lower: &[u8], upper: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let parts = self.runs().flat_map(|(_, level_run)| level_run.run.parts());
        let newer = parts.filter(|part| part.meta().number_max > since && run::overlaps(part, lower, upper));
        for part in newer {
            let found = newer_key(part, since, lower, upper)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}
