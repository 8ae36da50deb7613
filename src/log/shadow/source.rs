//! A shadow as recovery sees it. Any thread; changes nothing.
//!
//! A segment's file has what was written back, its shadow what was stored. Each may lack what the other has: the file
//! lacks the newest records, and after a power loss, in a copy, or after a failed writeback, any page of the shadow may
//! be old. So both are read, and each record is taken from the file if it is valid there, otherwise from the shadow
//! (`recovery/chunk.rs`). A record's checksum is salted with segment and position, so nothing else passes for it.
//!
//! Invariant: a shadow is read *before* the file. It goes to another segment only when the file has everything, so
//! whatever the shadow no longer has is found in the file.

use crate::format::log_segment::{PAGE_BYTES, SECTOR_BYTES, SegmentHeader};
use crate::io::{OpenMode, Storage, StorageFile};
use crate::log::basics::names::{Role, file_name};
use crate::util::sync::Arc;
use crate::util::{Error, Result, SequenceNumber};
use std::path::Path;

/// The offset of the shadow's number in a segment's header.
const SHADOW_OFFSET: u64 = 88;

/// The shadow that a header names, open for reading; `None` if the header names none, or if there is no file of this
/// name and length.
pub fn find(storage: &dyn Storage, header: &SegmentHeader) -> Result<Option<Arc<dyn StorageFile>>> {
    let Some(number) = header.shadow else { return Ok(None) };
    let shadow = match storage.open(&file_name(number, Role::Shadow), OpenMode::Read) {
        Err(error) if error.is_not_found() => return Ok(None),
        opened => opened?,
    };
    Ok((shadow.length()? >= header.segment_bytes).then_some(shadow))
}

/// The shadow's header page, if the shadow belongs to the segment whose header page is `page`: their sectors 0 are
/// equal.
pub fn page_of(shadow: &dyn StorageFile, page: &[u8; PAGE_BYTES]) -> Result<Option<Box<[u8; PAGE_BYTES]>>> {
    let mut found = Box::new([0; PAGE_BYTES]);
    shadow.read_exact_at(&mut found[..], 0)?;
    Ok((found[..SECTOR_BYTES] == page[..SECTOR_BYTES]).then_some(found))
}

/// The error for a segment whose shadow must exist and does not. `synced` is the last number that its marks call
/// durable.
#[cold]
pub fn missing(storage: &dyn Storage, path: &Path, header: &SegmentHeader, synced: SequenceNumber) -> Error {
    let name = header.shadow.map(|number| file_name(number, Role::Shadow)).unwrap_or_default();
    let at_risk = header.segment_bytes - PAGE_BYTES as u64;
    let expected = format!("{}, the newest part of this segment", storage.path_of(&name).display());
    let found = format!(
        "no such file, or one of another length or store. At most the writes after number {synced} are at risk, and at most {at_risk} bytes \
         of them. Put the file back if it was left out of a copy; Options::force_cut (--force-cut) opens without what only it had"
    );
    Error::corruption(path, SHADOW_OFFSET, "shadow of a log segment", expected, found)
}
