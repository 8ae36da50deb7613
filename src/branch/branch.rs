//! An immutable branch file, open for reading. Any thread.
//!
//! Invariants:
//! 1. Making one reads nothing; the footer is read at first use and kept. (Many branches of a large store are never
//!    touched between two openings.)
//! 2. A get reads one filter page, one index page a level and one leaf, never a second leaf: see `Separator::between`.

use super::context::{BranchContext, file_name};
use super::cursor::BranchCursor;
use super::page_read::Wanted;
use super::pages::Pages;
use crate::cache::PageTable;
use crate::filter::quotient;
use crate::format::branch_footer::BranchFooter;
use crate::format::branch_properties;
use crate::format::manifest_edit::BranchMeta;
use crate::format::page::{self, PAGE_BYTES, PAGE_HEADER_BYTES, PAYLOAD_BYTES_MAX, PageKind, PageOwner, stored_bytes};
use crate::format::sorted_page::{ChildLocation, SortedPage, tag_kind, tag_number};
use crate::io::{AlignedBuffer, StorageFile};
use crate::merge::RangeTombstones;
use crate::util::hash::fingerprint;
use crate::util::key::wide_head;
use crate::util::sync::{Arc, AtomicBool, OnceLock, Ordering};
use crate::util::{Error, FileNumber, Kind, Result, SequenceNumber};
use crossbeam_epoch::Guard;
use std::path::{Path, PathBuf};

/// What a cursor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reads of the store's users: through the cache.
    Read,
    /// A long sequential pass: reads large extents, leaves the cache alone.
    Compaction,
}

/// Lines of a leaf that a search begins with: header, prefix, heads and offsets of some forty entries lie together.
pub(super) const LEAF_LINES: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
/// Those of an index page: its heads fill about the first half, and a search halves that.
pub(super) const INDEX_LINES: [usize; 8] = [0, 4, 8, 12, 16, 20, 24, 28];

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

    /// The newest version `<= at` of `key`, whose hash is `hash` (`base::hash`): its number and kind. Its value, or the
    /// reference to it, is appended to `out`. Where a range tombstone `<= at` over the key is newer, the answer is that:
    /// `Kind::RangeDelete` and its number. Requires `spans(key)`, or at least that nobody minds the cost.
    pub fn get<'t, P: Pages<'t>>(
        &'t self,
        key: &[u8],
        hash: u64,
        at: SequenceNumber,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        pages.begin(self)?;
        if self.meta.range_tombstones == 0 {
            return self.find(key, hash, at, pages, out);
        }
        let covering = self.range_tombstones()?.covering(key, at);
        let length = out.len();
        let found = self.find(key, hash, at, pages, out)?;
        if covering == SequenceNumber::ZERO || found.is_some_and(|(number, _)| number >= covering) {
            return Ok(found);
        }
        out.truncate(length);
        Ok(Some((covering, Kind::RangeDelete)))
    }

    /// As `get`, range tombstones left aside.
    #[inline]
    fn find<'t, P: Pages<'t>>(
        &'t self,
        key: &[u8],
        hash: u64,
        at: SequenceNumber,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        if at < self.meta.number_min {
            return Ok(None);
        }
        let footer = self.footer()?;
        if footer.entries == 0 || !self.may_contain(footer, fingerprint(hash), pages)? {
            return Ok(None);
        }
        self.get_unsifted(key, at, pages, out)
    }

    /// The same without a look at the filter: a maplet said that the key may be here.
    pub fn get_unsifted<'t, P: Pages<'t>>(
        &'t self,
        key: &[u8],
        at: SequenceNumber,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        pages.begin(self)?;
        if at < self.meta.number_min {
            return Ok(None);
        }
        let leaf = self.leaf_of(key, at, pages)?;
        let leaf = pages.page(self, Wanted::child(leaf, 0))?;
        leaf.look_ahead(LEAF_LINES);
        let Some(page) = SortedPage::new(leaf.payload()) else { return Ok(None) };
        let Some(parts) = page.find(key, at) else { return Ok(None) };
        let kind = tag_kind(parts.tag);
        if P::HOLDS && kind == Kind::Put {
            pages.hold(parts.value, out);
        } else {
            out.extend_from_slice(page.value(&parts));
        }
        Ok(Some((tag_number(parts.tag), kind)))
    }

    /// Asks the processor for what `get` will read of the filter, so that the misses of many branches overlap.
    #[inline]
    pub fn look_ahead(&self, hash: u64, guard: &Guard) {
        let Some(footer) = self.footer.get().filter(|footer| footer.filter_pages > 0) else { return };
        let fingerprint = fingerprint(hash);
        let page = quotient::page_of(fingerprint, footer.filter_pages);
        if let Some(page) = self.table.peek(page_number(footer.filter_at) + page, guard) {
            page.prefetch(0);
            page.prefetch(PAGE_HEADER_BYTES + quotient::slot_at(fingerprint, footer.filter_pages));
        }
    }

    /// Whether a key with this fingerprint may be here. Reads one page of the filter.
    fn may_contain<'t, P: Pages<'t>>(
        &'t self,
        footer: &BranchFooter,
        fingerprint: u32,
        pages: &mut P,
    ) -> Result<bool, P::Stop> {
        if footer.filter_pages == 0 {
            return Ok(true);
        }
        let page = quotient::page_of(fingerprint, footer.filter_pages);
        let offset = footer.filter_at + u64::from(page) * PAGE_BYTES as u64;
        let page = pages.page(self, Wanted { offset, bytes: PAGE_BYTES, kind: PageKind::Filter, level: 0 })?;
        Ok(quotient::may_contain(page.payload(), fingerprint, footer.filter_pages))
    }

    /// The leaf that (`key`, `number`) belongs to. Requires that there are entries.
    pub(super) fn leaf_of<'t, P: Pages<'t>>(
        &'t self,
        key: &[u8],
        number: SequenceNumber,
        pages: &mut P,
    ) -> Result<ChildLocation, P::Stop> {
        let footer = self.footer()?;
        let mut location = footer.root;
        for level in (1..=footer.height).rev() {
            let page = pages.page(self, Wanted::child(location, level as u8))?;
            page.look_ahead(INDEX_LINES);
            location = self.child(page.payload(), location, child_of(page.payload(), key, number))?;
        }
        Ok(location)
    }

    /// Child `at` of the index page that stands at `parent` and has this payload.
    pub(super) fn child(&self, payload: &[u8], parent: ChildLocation, at: usize) -> Result<ChildLocation> {
        SortedPage::new(payload)
            .filter(|page| at < page.count())
            .and_then(|page| ChildLocation::decode(page.packed(at)))
            .ok_or_else(|| self.corruption(parent.offset(), "index entry", "a child", "something else"))
    }

    /// A cursor over the entries.
    pub fn cursor(self: &Arc<Self>, purpose: Purpose) -> BranchCursor {
        BranchCursor::new(Arc::clone(self), purpose)
    }

    /// Says that no tree refers to the branch any more. When the last `Arc` goes, so do its pages, and its file is handed
    /// out by `BranchContext::take_trash`.
    pub fn mark_obsolete(&self) {
        // Release: whoever drops the last `Arc` synchronizes with every earlier drop through the count anyway.
        self.obsolete.store(true, Ordering::Release);
    }

    /// Whether what is kept outside of the page cache is in memory.
    #[cfg(feature = "async")]
    pub(super) fn is_begun(&self) -> bool {
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

    pub(super) fn kept_range_tombstones(&self) -> &OnceLock<RangeTombstones> {
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

    /// What the file with this number says of itself. For repair, when no manifest knows it.
    pub fn read_meta(context: &Arc<BranchContext>, file: FileNumber) -> Result<BranchMeta> {
        let bytes = context.files.get(file, || file_name(file))?.length()?;
        let meta = BranchMeta { file, bytes, ..BranchMeta::default() };
        Ok(Branch::new(context, meta).stored_meta()?.0)
    }

    /// What the file says of itself, and the name of its comparator.
    pub fn stored_meta(&self) -> Result<(BranchMeta, String)> {
        let footer = self.footer()?;
        let file = self.file()?;
        let mut properties = Vec::new();
        let mut offset = footer.properties_at;
        let end = footer.file_bytes - PAGE_BYTES as u64;
        while offset < end {
            let left = footer.properties_bytes.saturating_sub(properties.len() as u64);
            let bytes = stored_bytes(left.min(PAYLOAD_BYTES_MAX as u64) as usize);
            let wanted = Wanted { offset, bytes, kind: PageKind::Properties, level: 0 };
            self.check_bounds(wanted, footer)?;
            let mut buffer = AlignedBuffer::new(bytes);
            file.read_exact_at(&mut buffer, offset)?;
            self.check_page(&buffer, wanted)?;
            properties.extend_from_slice(page::payload(&buffer));
            offset += bytes as u64;
        }
        let whole = properties.len() as u64 == footer.properties_bytes;
        whole
            .then(|| branch_properties::decode(&properties, self.meta.file, footer.file_bytes))
            .flatten()
            .ok_or_else(|| self.corruption(footer.properties_at, "properties", "properties of this version", "others"))
    }
}

/// The number of the page at this offset.
pub fn page_number(offset: u64) -> u32 {
    (offset / PAGE_BYTES as u64) as u32
}

/// Which child of the index page with this payload (`key`, `number`) belongs to: the last whose separator is not behind it.
pub fn child_of(payload: &[u8], key: &[u8], number: SequenceNumber) -> usize {
    SortedPage::new(payload).map_or(0, |page| page.rank(key, number, true).saturating_sub(1))
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
            self.context.trash(self.meta.file);
        }
    }
}
