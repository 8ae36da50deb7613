//! Salvages the range tombstones of a damaged branch file. For repair. One thread.

use super::page_scan::{PageScan, Scanned};
use crate::branch::branch::Branch;
use crate::branch::context::BranchContext;
use crate::branch::read::range_tombstones::decode;
use crate::format::page::{self, PageKind};
use crate::merge::RangeTombstones;
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, Result};

/// The range tombstones in the intact pages of a file, whatever else of it is damaged.
pub fn salvage_range_tombstones(context: &Arc<BranchContext>, file: FileNumber) -> Result<RangeTombstones> {
    match Branch::read_meta(context, file).and_then(|meta| Branch::new(context, meta).range_tombstones().cloned()) {
        Err(Error::NewerFormat { .. }) => {}
        Err(error) if !error.is_damage() => return Err(error),
        Err(_) => {}
        whole => return whole,
    }
    let mut scan = PageScan::open(context, file)?;
    let mut deletions = Vec::new();
    while let Some(scanned) = scan.advance()? {
        if let Scanned::Page(header, bytes) = scanned
            && header.kind == PageKind::RangeTombstones
        {
            let before = deletions.len();
            if decode(page::payload(bytes), &mut deletions).is_err() {
                deletions.truncate(before);
            }
        }
    }
    Ok(RangeTombstones::new(deletions))
}
