//! Makes what recovery relies on durable: copies the records that only a shadow has to its segment, and syncs the
//! segment. One thread, after everything was checked and before the edit. May be repeated.

use super::chunk::ExtentBuffer;
use super::contents::SegmentContents;
use crate::io::{OpenMode, Storage};
use crate::log::poison::leave_poison;
use crate::util::Result;
use crate::util::planted::planted;

/// Afterwards the segment's file has all of its valid records, durably, and is read without the shadow. `covered`: an
/// edit covers its log epoch.
pub fn make_durable(storage: &dyn Storage, segment: &mut SegmentContents, covered: bool) -> Result<()> {
    let epoch = segment.file.header.epoch;
    let file = storage.open(&segment.file.name, OpenMode::ReadWrite)?;
    if segment.file.shadow.is_some() {
        let mut buffer = ExtentBuffer::new(segment.file.header.chunk_bytes);
        for extent in &segment.extents {
            buffer.load(&segment.file, *extent)?;
            for (position, records) in buffer.only_in_shadow() {
                planted!(file.write_all_at(records, position)?, Bug::ShadowNotCopied => ());
            }
        }
    }
    file.sync().inspect_err(|error| {
        // Otherwise the next opening would sync successfully, although this failure has dropped pages, and would trust
        // the page cache. A log epoch that an edit covers was synced before that edit, and nothing was written to it
        // since.
        if !covered {
            // If the disk permits it. The caller gets the error of the sync.
            let _ = leave_poison(storage, epoch, &error.to_string());
        }
    })?;
    segment.file.shadow = None;
    Ok(())
}
