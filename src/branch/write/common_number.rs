//! The common number of an ingested file: all entries of the file have it, and only the footer says it, so that it can be
//! chosen when the file is complete. One thread.
//!
//! Readers take the number from the manifest. The footer has it for repair, which may have no manifest. It is written
//! before the edit that names the file, and is durable when the ingest returns (`docs/recovery.md`, I).

use crate::branch::context::{BranchContext, file_name};
use crate::format::branch_footer::BranchFooter;
use crate::format::manifest_edit::BranchMeta;
use crate::format::page::PAGE_BYTES;
use crate::io::{AlignedBuffer, OpenMode};
use crate::util::{Result, SequenceNumber};

/// Writes the number into the footer of a file that was built for it (`BranchBuilder::numbered_later`), and into its record.
/// The footer is not synced.
pub fn set_common_number(context: &BranchContext, meta: &mut BranchMeta, number: SequenceNumber) -> Result<()> {
    let (owner, at) = (context.owner(meta.file), meta.bytes - PAGE_BYTES as u64);
    let file = context.storage.open(&file_name(meta.file), OpenMode::WriteDirect)?;
    let mut page = AlignedBuffer::new(PAGE_BYTES);
    file.read_exact_at(&mut page, at)?;
    let footer = BranchFooter::decode(&page, meta.bytes, owner, file.path())?;
    BranchFooter { common_number: Some(number), ..footer }.encode(owner, &mut page);
    file.write_all_at(&page, at)?;
    (meta.number_min, meta.number_max) = (number, number);
    Ok(())
}

/// Makes the number in the footer durable.
pub fn sync_common_number(context: &BranchContext, meta: &BranchMeta) -> Result<()> {
    context.storage.open(&file_name(meta.file), OpenMode::WriteDirect)?.sync()
}
