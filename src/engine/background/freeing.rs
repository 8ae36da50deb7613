//! The space of keyspaces that were dropped or emptied (`state/freeing.rs`).

use super::background::Background;
use crate::engine::state::freeing::FreedRange;
use crate::engine::types::bounds::Bounds;
use crate::merge::Retention;
use crate::util::key::encoded_range;
use crate::util::{KeyspaceId, Result, SequenceNumber};

impl Background {
    /// Frees the space of a keyspace whose keys were deleted with this number, once no snapshot needs it. Does not wait for
    /// that.
    pub(crate) fn free(&self, keyspace: KeyspaceId, number: SequenceNumber) -> Result<()> {
        let bytes = self.read.approximate_size(&Bounds::all(keyspace))?;
        if bytes == 0 {
            return Ok(());
        }
        let (lower, upper) = encoded_range(keyspace, &[], None);
        let range = FreedRange { lower, upper, number, bytes, is_worthwhile: false };
        let all = self.read.view.load().disk.figures().file_bytes;
        if self.freeing.add(range, all, self.disk.branch_bytes()) {
            // So that the tombstone is incorporated soon, even if nothing else is written.
            self.generations.switch_soon(number)?;
        }
        Ok(())
    }

    /// The deleted ranges whose compaction is due: their tombstones are on the disk, and no snapshot is older.
    pub(super) fn ranges_to_free(&self, retention: &Retention) -> Vec<FreedRange> {
        let incorporated = self.generations.incorporated();
        self.freeing.worthwhile(retention.oldest().map_or(incorporated, |oldest| oldest.min(incorporated)))
    }
}
