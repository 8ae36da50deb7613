//! An immutable branch file, open for reading. Any thread.
//!
//! Invariant: creating a `Branch` reads nothing. The footer is read at first use and then stays in memory. (Many
//! branches of a large store are never read between two openings.)

use super::buffered::Buffered;
use super::context::{BranchContext, file_name};
use crate::cache::{CountedBuffer, CountedMetadata, PageTable};
use crate::format::branch_footer::BranchFooter;
use crate::format::manifest_edit::BranchMeta;
use crate::format::page::{PAGE_BYTES, PageOwner};
use crate::io::{AlignedBuffer, BufferFile, StorageFile};
use crate::merge::RangeTombstones;
use crate::util::key::wide_head;
use crate::util::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, OnceLock, Ordering};
use crate::util::{Error, Result, SequenceNumber};
use std::path::{Path, PathBuf};

/// A branch file. See the module documentation.
#[derive(Debug)]
pub struct Branch {
    context: Arc<BranchContext>,
    meta: BranchMeta,
    path: PathBuf,
    table: Arc<PageTable>,
    /// Heads of the smallest and the largest key. For most gets they are enough to skip a branch.
    heads: (u128, u128),
    footer: OnceLock<BranchFooter>,
    /// Read at first use, then kept in memory.
    range_tombstones: OnceLock<RangeTombstones>,
    /// If the file is in memory only.
    buffered: Option<Buffered>,
    obsolete: AtomicBool,
    /// Pages that readers missed in the cache.
    misses: AtomicU64,
    searches_without_fences: AtomicU32,
    _counted: (CountedMetadata, Option<CountedBuffer>),
}

/// Bytes that other components have for each branch, about: slots of trunk nodes, the manifest's maps and images, an entry
/// of the cache's map.
const ELSEWHERE_BYTES: usize = 512;

impl Branch {
    /// Opens a branch that the manifest lists. No I/O.
    pub fn new(context: &Arc<BranchContext>, meta: BranchMeta) -> Arc<Branch> {
        Self::make(context, meta, None)
    }

    /// A branch whose file is in memory only. Its bytes count as memory of the store while it lives.
    pub fn buffered(context: &Arc<BranchContext>, meta: BranchMeta, buffered: Buffered) -> Arc<Branch> {
        Self::make(context, meta, Some(buffered))
    }

    fn make(context: &Arc<BranchContext>, meta: BranchMeta, buffered: Option<Buffered>) -> Arc<Branch> {
        let path = context.storage.path_of(&file_name(meta.file));
        let table = context.cache.table(meta.file);
        let heads = (wide_head(&meta.key_min), wide_head(&meta.key_max));
        let (footer, range_tombstones, obsolete) = (OnceLock::new(), OnceLock::new(), AtomicBool::new(false));
        // The manifest has the record, too.
        let record = size_of::<BranchMeta>() + meta.key_min.len() + meta.key_max.len() + 8 * meta.value_files.len();
        let bytes = size_of::<Self>() + size_of::<PageTable>() + 2 * record + path.as_os_str().len() + ELSEWHERE_BYTES;
        let memory = context.cache.memory();
        if buffered.is_some() {
            context.buffered_comes(meta.bytes);
        }
        let in_buffer = buffered.as_ref().map(|buffered| memory.count_buffer(buffered.bytes(&meta)));
        let _counted = (memory.count_metadata(bytes), in_buffer);
        let context = Arc::clone(context);
        let (misses, searches_without_fences) = (AtomicU64::new(0), AtomicU32::new(0));
        Arc::new(Self {
            context,
            meta,
            path,
            table,
            heads,
            footer,
            range_tombstones,
            buffered,
            obsolete,
            misses,
            searches_without_fences,
            _counted,
        })
    }

    /// What it has if its file is in memory only.
    pub fn in_buffer(&self) -> Option<&Buffered> {
        self.buffered.as_ref()
    }

    /// The pages that readers did not find in the cache since the store was opened.
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Searches since the fences were in memory (`read/fences.rs`).
    pub(super) fn searches_without_fences(&self) -> &AtomicU32 {
        &self.searches_without_fences
    }

    /// Counts a user's search in so many runs, one of which has this branch.
    pub fn note_search(&self, runs: usize) {
        self.context.reads.note_search(runs);
    }

    pub(super) fn note_miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// The manifest's record of the branch.
    pub fn meta(&self) -> &BranchMeta {
        &self.meta
    }

    /// Whether `key`, whose head is `head`, lies between the smallest and the largest key of the branch, including its
    /// range tombstones.
    #[inline]
    pub fn spans(&self, key: &[u8], head: u128) -> bool {
        let (min, max) = self.heads;
        (head > min || (head == min && *key >= self.meta.key_min[..]))
            && (head < max || (head == max && !self.meta.ends_before(key)))
    }

    /// Marks the branch as obsolete: no tree refers to it any more. When the last `Arc` is dropped, its pages leave the
    /// cache and `BranchContext::take_obsolete_branches` returns its file.
    pub fn mark_obsolete(&self) {
        // Release: the thread that drops the last `Arc` synchronizes with every earlier drop through the reference
        // count anyway.
        self.obsolete.store(true, Ordering::Release);
    }

    /// Whether the footer and the range tombstones, which are kept outside the page cache, are in memory.
    #[cfg(feature = "async")]
    pub(super) fn is_loaded(&self) -> bool {
        self.footer.get().is_some() && (self.meta.range_tombstones == 0 || self.range_tombstones.get().is_some())
    }

    /// The footer. It is read and checked at first use.
    pub(super) fn footer(&self) -> Result<&BranchFooter> {
        if let Some(footer) = self.footer.get() {
            return Ok(footer);
        }
        let footer = read_footer(&*self.file()?, self.owner(), self.meta.bytes)?;
        Ok(self.footer.get_or_init(|| footer))
    }

    /// Of an ingested file: the number of all its entries. The manifest says it; the footer may have it, for repair.
    #[inline]
    pub(super) fn common_number(&self, footer: &BranchFooter) -> Option<SequenceNumber> {
        footer.common_number.map(|_| self.meta.number_max)
    }

    /// The footer, if it was read already.
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

    /// Whether at least half of it has expired for readers without a snapshot, as far as its numbers tell.
    pub fn has_half_expired(&self) -> bool {
        self.context.has_half_expired(&self.meta)
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
        if let Some(buffered) = &self.buffered {
            let file: Arc<BufferFile> = Arc::clone(&buffered.file);
            return Ok(file);
        }
        self.context.files.get(self.meta.file, || file_name(self.meta.file))
    }

    /// The file, for merges and checks (`FileTable::get_direct`).
    pub(super) fn direct_file(&self) -> Result<Arc<dyn StorageFile>> {
        if self.buffered.is_some() {
            return self.file();
        }
        self.context.files.get_direct(self.meta.file, || file_name(self.meta.file))
    }

    /// The error of a file that ends before an entry that is said to be in it.
    pub fn lacks_entries(&self, expected: u64, found: u64) -> Error {
        self.corruption(0, "number of entries", format!("at least {expected}"), found)
    }

    /// A corruption error of this file.
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

/// The number of the page at `offset`.
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
        if self.buffered.is_some() {
            self.context.buffered_goes(self.meta.bytes);
            self.context.cache.remove_file(self.meta.file);
        } else if self.obsolete.load(Ordering::Acquire) {
            self.context.branch_is_obsolete(self.meta.file);
        }
    }
}
