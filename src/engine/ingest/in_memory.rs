//! Whether memory has something of a key range. Any thread.

use crate::engine::read::read_path::ReadPath;
use crate::engine::types::bounds::EncodedRange;
use crate::merge::Cursor;
use crate::util::planted::planted;
use crate::util::{Result, SequenceNumber};

/// Whether a Memtable has an entry with a key of the range, or a range tombstone over one. Writes that begin meanwhile may be
/// missed.
pub(super) fn has_any(read: &ReadPath, range: &EncodedRange) -> Result<bool> {
    planted!(Bug::IngestOverMemory => { return Ok(false) });
    // Rule M7. *Otherwise:* the cursor reads a version whose block another writer reuses, of a key beside the range too.
    let pin = read.snapshots.take(&read.sequencer);
    let view = read.view.load_full();
    let (start, end) = (&range.0, range.1.as_deref());
    for memtable in view.generations.iter().map(|generation| &generation.memtable) {
        if !memtable.range_tombstones().clip(start, end).is_empty() {
            return Ok(true);
        }
        if memtable.is_empty() {
            continue;
        }
        let mut cursor = memtable.cursor_at(pin.number());
        cursor.seek(start, SequenceNumber::MAX)?;
        if cursor.valid() && end.is_none_or(|end| cursor.entry().key < end) {
            return Ok(true);
        }
    }
    Ok(false)
}
