//! What a branch has whose file is in memory only: the file, and where its entries are on the disk, so that it can be made
//! again after a crash. Any thread.

use super::context::{BranchContext, WRITE_BYTES, file_name};
use super::origins::Origins;
use crate::format::manifest_edit::{BranchMeta, BufferedMeta};
use crate::io::{BufferFile, OpenMode, StorageFile};
use crate::util::Result;
use crate::util::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct Buffered {
    pub(super) file: Arc<BufferFile>,
    origins: Origins,
}

impl Buffered {
    /// Of a finished file. `origins` has one for each entry.
    pub fn new(file: Arc<BufferFile>, origins: Origins) -> Self {
        Self { file, origins }
    }

    /// Where its entries are on the disk.
    pub fn origins(&self) -> &Origins {
        &self.origins
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self, meta: &BranchMeta) -> usize {
        usize::try_from(meta.bytes).unwrap_or(usize::MAX).saturating_add(self.origins.bytes())
    }

    /// The manifest's record of the branch.
    pub fn record(&self, meta: &BranchMeta) -> BufferedMeta {
        BufferedMeta { meta: meta.clone(), parents: self.origins.by_parent() }
    }
}

/// Writes a file that was built in memory to the disk, durably. The caller syncs the directory. After an error part of it
/// may be there.
pub fn write_out(context: &BranchContext, meta: &BranchMeta, built: &BufferFile) -> Result<()> {
    let file = context.storage.open(&file_name(meta.file), OpenMode::CreateDirect)?;
    let mut piece = context.write_buffers.take();
    let mut at = 0;
    let written = loop {
        // Whole pages, as direct writes need.
        let length = (meta.bytes - at).min(WRITE_BYTES as u64) as usize;
        if length == 0 {
            break file.sync();
        }
        let copied = built.read_exact_at(&mut piece[..length], at);
        if let Err(error) = copied.and_then(|()| file.write_all_at(&piece[..length], at)) {
            break Err(error);
        }
        at += length as u64;
    };
    context.write_buffers.give(piece);
    written
}
