//! The properties that a branch file stores about itself. Any thread.

use super::page_read::WantedPage;
use crate::branch::branch::Branch;
use crate::branch::context::{BranchContext, file_name};
use crate::format::branch_properties;
use crate::format::manifest_edit::BranchMeta;
use crate::format::page::{self, PAGE_BYTES, PAYLOAD_BYTES_MAX, PageKind, stored_bytes};
use crate::io::AlignedBuffer;
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result, SequenceNumber};

impl Branch {
    /// The properties stored in the file with this number. For repair, when no manifest lists the file. In an ingested file
    /// that never became part of the store the numbers are 0.
    pub fn read_meta(context: &Arc<BranchContext>, file: FileNumber) -> Result<BranchMeta> {
        let bytes = context.files.get(file, || file_name(file))?.length()?;
        let meta = BranchMeta { file, bytes, ..BranchMeta::default() };
        Ok(Branch::new(context, meta).stored_meta()?.0)
    }

    /// The stored properties of the file, and the name of its comparator.
    pub fn stored_meta(&self) -> Result<(BranchMeta, String)> {
        let footer = self.footer()?;
        let file = self.file()?;
        let mut properties = Vec::new();
        let mut offset = footer.properties_at;
        let end = footer.file_bytes - PAGE_BYTES as u64;
        while offset < end {
            let left = footer.properties_bytes.saturating_sub(properties.len() as u64);
            let bytes = stored_bytes(left.min(PAYLOAD_BYTES_MAX as u64) as usize);
            let wanted = WantedPage { offset, bytes, kind: PageKind::Properties, level: 0 };
            self.check_bounds(wanted, footer)?;
            let mut buffer = AlignedBuffer::new(bytes);
            file.read_exact_at(&mut buffer, offset)?;
            self.check_page(&buffer, wanted)?;
            properties.extend_from_slice(page::payload(&buffer));
            offset += bytes as u64;
        }
        let whole = properties.len() as u64 == footer.properties_bytes;
        let decoded =
            whole.then(|| branch_properties::decode(&properties, self.meta().file, footer.file_bytes)).flatten();
        let (mut meta, comparator) = decoded.ok_or_else(|| {
            self.corruption(footer.properties_at, "properties", "properties of this version", "invalid bytes")
        })?;
        if let Some(in_footer) = footer.common_number {
            let is_there = in_footer > SequenceNumber::ZERO;
            let number = if is_there { in_footer } else { self.meta().number_max };
            (meta.number_min, meta.number_max) = (number, number);
        }
        Ok((meta, comparator))
    }
}
