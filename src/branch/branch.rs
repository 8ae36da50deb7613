//! An immutable branch file, open for reading. Any thread.
//!
//! Invariants:
//! 1. Making one reads nothing; the footer is read at first use and kept. (Many branches of a large store are never
//!    touched between two openings.)
//! 2. A get reads one filter page, one index page a level and one leaf, never a second leaf: see `Separator::between`.

use super::context::{BranchContext, file_name};
use crate::cache::PageTable;
use crate::format::branch_footer::BranchFooter;
use crate::format::manifest_edit::BranchMeta;
use crate::format::page::{PAGE_BYTES, PageOwner};
use crate::io::{AlignedBuffer, StorageFile};
use crate::merge::RangeTombstones;
use crate::util::key::wide_head;
use crate::util::sync::{Arc, AtomicBool, OnceLock, Ordering};
use crate::util::{Error, Result};
use std::path::{Path, PathBuf};

/// A branch file. See the module.
#[derive(Debug)]
pub struct Branch {
    context: Arc<BranchContext>,
    meta: BranchMeta,
    path: PathBuf,
    table: Arc<PageTable>,
    /// Heads of the smallest and the largest key: most gets need no more to pass a branch by.
    heads: (u128, u128),
    footer: OnceLock<BranchFooter>,
    /// Read at first use and kept.
    range_tombstones: OnceLock<RangeTombstones>,
    obsolete: AtomicBool,
}

impl Branch {
    /// A branch that the manifest knows. No I/O.
    pub fn new(context: &Arc<BranchContext>, meta: BranchMeta) -> Arc<Branch> {
        let path = context.storage.path_of(&file_name(meta.file));
        let table = context.cache.table(meta.file);
        let heads = (wide_head(&meta.key_min), wide_head(&meta.key_max));
        let (footer, range_tombstones, obsolete) = (OnceLock::new(), OnceLock::new(), AtomicBool::new(false));
        Arc::new(Self { context: Arc::clone(context), meta, path, table, heads, footer, range_tombstones, obsolete })
    }

    /// What the manifest knows of it.
    pub fn meta(&self) -> &BranchMeta {
        &self.meta
    }

    /// Whether `key`, whose head is `head`, lies between the smallest and the largest key, range tombstones included.
    #[inline]
    pub fn spans(&self, key: &[u8], head: u128) -> bool {
        let (min, max) = self.heads;
        (head > min || (head == min && *key >= self.meta.key_min[..]))
            && (head < max || (head == max && !self.meta.ends_before(key)))
    }

    /// Says that no tree refers to the branch any more. When the last `Arc` goes, so do its pages, and its file is handed
    /// out by `BranchContext::take_obsolete_branches`.
    pub fn mark_obsolete(&self) {
        // Release: whoever drops the last `Arc` synchronizes with every earlier drop through the count anyway.
        self.obsolete.store(true, Ordering::Release);
    }

    /// Whether what is kept outside of the page cache is in memory.
    #[cfg(feature = "async")]
    pub(super) fn is_loaded(&self) -> bool {
        self.footer.get().is_some() && (self.meta.range_tombstones == 0 || self.range_tombstones.get().is_some())
    }

    /// The footer, read and checked at first use.
    pub(super) fn footer(&self) -> Result<&BranchFooter> {
        if let Some(footer) = self.footer.get() {
            return Ok(footer);
        }
        let footer = read_footer(&*self.file()?, self.owner(), self.meta.bytes)?;
        Ok(self.footer.get_or_init(|| footer))
    }

    /// The footer if it was read already.
    #[inline]
    pub(super) fn loaded_footer(&self) -> Option<&BranchFooter> {
        self.footer.get()
    }

    pub(super) fn range_tombstones_cell(&self) -> &OnceLock<RangeTombstones> {
        &self.range_tombstones
    }

    pub(super) fn table(&self) -> &Arc<PageTable> {
        &self.table
    }

    pub(super) fn context(&self) -> &Arc<BranchContext> {
        &self.context
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn owner(&self) -> PageOwner {
        self.context.owner(self.meta.file)
    }

    pub(super) fn file(&self) -> Result<Arc<dyn StorageFile>> {
        self.context.files.get(self.meta.file, || file_name(self.meta.file))
    }

    /// A corruption of this file.
    pub(super) fn corruption(
        &self,
        offset: u64,
        what: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> Error {
        Error::corruption(self.path(), offset, what, expected, found)
    }
}

/// The number of the page at this offset.
pub fn page_number(offset: u64) -> u32 {
    (offset / PAGE_BYTES as u64) as u32
}

fn read_footer(file: &dyn StorageFile, owner: PageOwner, bytes: u64) -> Result<BranchFooter> {
    let length = file.length()?;
    let is_whole = length >= PAGE_BYTES as u64 && length.is_multiple_of(PAGE_BYTES as u64);
    if bytes != length || !is_whole {
        return Err(Error::corruption(file.path(), length, "file length", bytes, length));
    }
    let mut page = AlignedBuffer::new(PAGE_BYTES);
    file.read_exact_at(&mut page, length - PAGE_BYTES as u64)?;
    BranchFooter::decode(&page, length, owner, file.path())
}

impl Drop for Branch {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire) {
            self.context.branch_is_obsolete(self.meta.file);
        }
    }
}
