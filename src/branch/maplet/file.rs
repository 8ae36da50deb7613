//! A maplet in a file of its own. For a key range it says which *columns* of branches may contain a key
//! (`filter::maplet`; byte layout in `docs/format/maplet.md`). Any thread.
//!
//! A maplet is derived data: all of it can be rebuilt from the branches. So a missing or damaged maplet does not fail a
//! read. It answers that every column may contain the key, remembers that it is broken, and is rebuilt in the
//! background.
//!
//! Invariants:
//! 1. Every key of a covered branch in the range [lower, upper) is found under the branch's column.
//! 2. The branches of a column have disjoint key ranges.
//! 3. The file never changes after it was built. As with a branch, its number is queued for removal exactly once.

use crate::branch::branch::Branch;
use crate::branch::context::{BranchContext, maplet_name};
use crate::cache::{CountedMetadata, Page, PageBuffer, PageTable};
use crate::filter::maplet::{self, Columns};
use crate::format::manifest_edit::{MapletColumn, MapletMeta};
use crate::format::maplet_page::MapletPage;
use crate::format::page::{self, Compression, PAGE_BYTES, PAGE_HEADER_BYTES, PageKind};
use crate::io::{AlignedBuffer, ReadRequest, StorageFile};
use crate::util::sync::{Arc, AtomicBool, Ordering};
use crate::util::{Error, FileNumber, Result};
use crossbeam_epoch::Guard;
use std::collections::HashMap;
use std::path::PathBuf;

/// See the module documentation.
#[derive(Debug)]
pub struct Maplet {
    context: Arc<BranchContext>,
    meta: MapletMeta,
    path: PathBuf,
    table: Arc<PageTable>,
    /// The column of each branch.
    columns: HashMap<FileNumber, usize>,
    /// Average bytes of entries in a page, for prefetching.
    page_bytes: usize,
    broken: AtomicBool,
    obsolete: AtomicBool,
    _counted: CountedMetadata,
}

/// Bytes of a branch in a column and in its map, here and in the manifest, about.
const BRANCH_BYTES: usize = 64;

impl Maplet {
    /// Opens a maplet that the manifest lists, or will list. No I/O.
    pub fn new(context: &Arc<BranchContext>, meta: MapletMeta) -> Arc<Self> {
        let entries = meta.columns.iter().fold(0, |sum: u64, column| sum.saturating_add(column.entries));
        let branches: usize = meta.columns.iter().map(|column| column.branches.len()).sum();
        let bytes = size_of::<Self>() + size_of::<PageTable>() + size_of::<MapletMeta>() + BRANCH_BYTES * branches;
        Arc::new(Self {
            _counted: context.cache.memory().count_metadata(bytes),
            path: context.storage.path_of(&maplet_name(meta.file)),
            table: context.cache.table(meta.file),
            page_bytes: maplet::page_bytes(entries, meta.pages, meta.columns.len()),
            columns: meta.columns.iter().enumerate().flat_map(columns_of).collect(),
            context: Arc::clone(context),
            meta,
            broken: AtomicBool::new(false),
            obsolete: AtomicBool::new(false),
        })
    }

    /// The manifest's record of the maplet.
    pub fn meta(&self) -> &MapletMeta {
        &self.meta
    }

    /// Whether the file was found missing or damaged. Then the maplet excludes no column.
    pub fn is_broken(&self) -> bool {
        // Relaxed: no other data depends on it.
        self.broken.load(Ordering::Relaxed)
    }

    /// Records that the file is missing or damaged.
    pub fn mark_broken(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Marks the maplet as obsolete: no tree refers to it any more (see `Branch::mark_obsolete`).
    pub fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// The column of a branch.
    pub fn column_of(&self, file: FileNumber) -> Option<usize> {
        self.columns.get(&file).copied()
    }

    /// Prefetches the lines that `columns` will read.
    #[inline]
    pub fn prefetch(&self, fingerprint: u32, guard: &Guard) {
        let page = maplet::page_of(fingerprint, self.meta.pages);
        if let Some(page) = self.table.peek(page, guard) {
            let [end, entries] = maplet::places(fingerprint, self.meta.pages, self.page_bytes);
            page.prefetch(0);
            page.prefetch(PAGE_HEADER_BYTES + end);
            page.prefetch(PAGE_HEADER_BYTES + entries);
        }
    }

    /// The columns that may contain a key with this fingerprint. Reads one page, from the cache or the disk. If that
    /// fails, returns every column.
    #[inline]
    pub fn columns(&self, fingerprint: u32, guard: &Guard) -> Columns {
        let number = maplet::page_of(fingerprint, self.meta.pages);
        let cached = self.context.cache.get(&self.table, number, PageKind::Maplet, guard);
        if let Ok(Some(page)) = cached {
            return maplet::columns_of(page.payload(), fingerprint, self.meta.pages);
        }
        self.columns_read(fingerprint, number)
    }

    #[cold]
    fn columns_read(&self, fingerprint: u32, number: u32) -> Columns {
        if self.is_broken() {
            return Columns::ALL;
        }
        match self.file().and_then(|file| self.read(file, number)) {
            Ok(page) => {
                self.context.cache.insert_missed(&self.table, number, Arc::clone(&page), PageKind::Maplet);
                maplet::columns_of(page.payload(), fingerprint, self.meta.pages)
            }
            Err(error) => {
                if error.is_damage() {
                    self.mark_broken();
                }
                Columns::ALL
            }
        }
    }

    /// Reads and checks a page for a get, which waits for it.
    fn read(&self, file: Arc<dyn StorageFile>, number: u32) -> Result<Page> {
        let (offset, buffer) = (u64::from(number) * PAGE_BYTES as u64, AlignedBuffer::new(PAGE_BYTES));
        let request = ReadRequest::new(file, offset, PAGE_BYTES, buffer);
        let done = self.context.reads.waiting(|| self.context.storage.read(request));
        done.result?;
        self.check_pages(number, &done.buffer)?;
        Ok(Arc::new(PageBuffer::from(done.buffer)))
    }

    fn file(&self) -> Result<Arc<dyn StorageFile>> {
        self.context.files.get(self.meta.file, || maplet_name(self.meta.file)).map_err(Error::of_missing_file)
    }

    /// The file, for merges and checks (`FileTable::get_direct`).
    pub(in crate::branch) fn direct_file(&self) -> Result<Arc<dyn StorageFile>> {
        self.context.files.get_direct(self.meta.file, || maplet_name(self.meta.file)).map_err(Error::of_missing_file)
    }

    /// Reads and checks as many pages of `file` as fit into `buffer`. Bypasses the cache.
    pub(in crate::branch) fn read_pages(&self, file: &dyn StorageFile, first: u32, buffer: &mut [u8]) -> Result<()> {
        file.read_exact_at(buffer, u64::from(first) * PAGE_BYTES as u64)?;
        self.check_pages(first, buffer)
    }

    fn check_pages(&self, first: u32, pages: &[u8]) -> Result<()> {
        for (number, page) in (u64::from(first)..).zip(pages.chunks(PAGE_BYTES)) {
            let offset = number * PAGE_BYTES as u64;
            let header = page::check(page, offset, self.context.owner(self.meta.file), &self.path)?;
            let is_whole = header.kind == PageKind::Maplet && header.compression == Compression::None;
            let parsed = MapletPage::parse(page::payload(page)).filter(|_| is_whole);
            if parsed.is_none_or(|parsed| parsed.pages() != self.meta.pages) {
                let (expected, found) = (format!("a page of a maplet of {} pages", self.meta.pages), "another page");
                return Err(Error::corruption(&self.path, offset, "page", expected, found));
            }
        }
        Ok(())
    }

    /// The length that the file should have.
    pub fn bytes(&self) -> u64 {
        u64::from(self.meta.pages) * PAGE_BYTES as u64
    }

    /// Checks that the file exists and has the right length.
    pub fn check_length(&self) -> Result<()> {
        let length = self.file()?.length()?;
        if length != self.bytes() {
            return Err(Error::corruption(&self.path, length, "file length", self.bytes(), length));
        }
        Ok(())
    }

    /// Checks that the file exists. With `deep` also checks that its pages are valid and that every key of `branches`
    /// is found under its branch's column. `branches` are the branches of the columns that still exist.
    pub fn verify(&self, branches: &[Arc<Branch>], deep: bool) -> Result<()> {
        self.check_length()?;
        if !deep {
            return Ok(());
        }
        let file = self.direct_file()?;
        let read = |number| {
            let mut buffer = AlignedBuffer::new(PAGE_BYTES);
            self.read_pages(&*file, number, &mut buffer)?;
            Ok(PageBuffer::from(buffer))
        };
        let pages: Vec<PageBuffer> = (0..self.meta.pages).map(read).collect::<Result<_>>()?;
        let mut fingerprints = Vec::new();
        for branch in branches {
            let Some(column) = self.column_of(branch.meta().file) else { continue };
            fingerprints.clear();
            branch.fingerprints_between(&self.meta.lower, self.meta.upper.as_deref(), &mut fingerprints)?;
            for fingerprint in &fingerprints {
                let number = maplet::page_of(*fingerprint, self.meta.pages);
                let Columns(found) =
                    maplet::columns_of(pages[number as usize].payload(), *fingerprint, self.meta.pages);
                if found >> column & 1 == 0 {
                    let offset = u64::from(number) * PAGE_BYTES as u64;
                    let (expected, found) = (format!("branch {} for a key", branch.meta().file), "other branches");
                    return Err(Error::corruption(&self.path, offset, "maplet against its branches", expected, found));
                }
            }
        }
        Ok(())
    }
}

fn columns_of((at, column): (usize, &MapletColumn)) -> impl Iterator<Item = (FileNumber, usize)> {
    column.branches.iter().map(move |file| (*file, at))
}

impl Drop for Maplet {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire) {
            self.context.maplet_is_obsolete(self.meta.file);
        }
    }
}
