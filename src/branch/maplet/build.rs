//! Builds the file of a maplet. Entries that older maplets contain are merged in one pass; the others come from the
//! fingerprints of the branches. Heavy I/O, no lock. Each build belongs to one thread.

use super::file::Maplet;
use crate::branch::branch::Branch;
use crate::branch::context::{BranchContext, maplet_name};
use crate::branch::write::page_writer::{NewPage, PageWriter};
use crate::filter::maplet::{COLUMNS_MAX, Shape};
use crate::filter::maplet_build::{
    BuildError, ColumnMap, MapletBuild, MapletEntries, Payloads, SortedFingerprints, Source,
};
use crate::format::manifest_edit::{MapletColumn, MapletMeta};
use crate::format::page::{self, PAGE_BYTES, PageKind};
use crate::io::{AlignedBuffer, StorageFile};
use crate::util::planted::planted;
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result};

/// Pages of an older maplet that are read with one request.
const PAGES_PER_READ: usize = 64;
/// Attempts with growing sizes before a maplet with too many saturated pages is accepted.
const ATTEMPTS_MAX: u32 = 4;

/// The description of a maplet to build.
pub struct MapletPlan<'a> {
    /// Smallest key of its range.
    pub lower: &'a [u8],
    /// First key after its range.
    pub upper: Option<&'a [u8]>,
    /// The branches of each column. Their key ranges are disjoint.
    pub columns: Vec<Vec<Arc<Branch>>>,
    /// Older maplets that may contain part of the entries.
    pub older: &'a [Arc<Maplet>],
}

impl MapletPlan<'_> {
    /// Builds the maplet durably, except for its directory entry. Requires at most `COLUMNS_MAX` columns. `progress` is
    /// called with the entries and bytes just written; it may wait, and returns whether to continue. Returns `None` if
    /// the build was cancelled.
    pub fn build(
        &self,
        context: &Arc<BranchContext>,
        progress: &dyn Fn(u64, u64) -> bool,
    ) -> Result<Option<Arc<Maplet>>> {
        let mut older: Vec<&Arc<Maplet>> = self.older.iter().filter(|maplet| self.is_usable(maplet)).collect();
        loop {
            match self.attempts(context, &older, progress) {
                Ok(built) => return Ok(built),
                Err(BuildError::Failed(error)) if older.is_empty() || !error.is_damage() => return Err(error),
                // An older maplet is damaged or lacks entries. The fingerprints have all entries.
                Err(_) => older.clear(),
            }
        }
    }

    /// Whether the plan can use the maplet. One of a wider range has keys that do not belong here.
    fn is_usable(&self, maplet: &Maplet) -> bool {
        let meta = maplet.meta();
        !maplet.is_broken() && meta.lower == self.lower && meta.upper.as_deref() == self.upper
    }

    fn attempts(
        &self,
        context: &Arc<BranchContext>,
        older: &[&Arc<Maplet>],
        progress: &dyn Fn(u64, u64) -> bool,
    ) -> Result<Option<Arc<Maplet>>, BuildError> {
        let mut shape = None;
        for attempt in 1..=ATTEMPTS_MAX {
            let (sources, entries) = self.sources(older)?;
            let tried = shape.unwrap_or_else(|| Shape::new(entries, self.columns.len()));
            let mut file = NewFile::create(context)?;
            let mut build = MapletBuild::new(tried, sources);
            while let Some(payload) = build.next_page()? {
                file.append(payload)?;
                if !progress(entries / u64::from(tried.pages()).max(1), PAGE_BYTES as u64) {
                    return Ok(None);
                }
            }
            if build.is_too_full() && attempt < ATTEMPTS_MAX {
                shape = Some(tried.wider());
                continue;
            }
            let files = |branches: &Vec<Arc<Branch>>| branches.iter().map(|branch| branch.meta().file).collect();
            let columns = self.columns.iter().zip(build.entries());
            let columns =
                columns.map(|(branches, entries)| MapletColumn { entries: *entries, branches: files(branches) });
            let meta = MapletMeta {
                file: file.number,
                pages: tried.pages(),
                lower: self.lower.to_vec(),
                upper: self.upper.map(<[u8]>::to_vec),
                columns: columns.collect(),
            };
            file.finish()?;
            return Ok(Some(Maplet::new(context, meta)));
        }
        Ok(None)
    }

    /// The sources of the entries, and the largest possible number of entries.
    fn sources<'s>(&self, older: &[&Arc<Maplet>]) -> Result<(Vec<Box<dyn Source + 's>>, u64)> {
        let mut sources: Vec<Box<dyn Source + 's>> = Vec::new();
        let mut entries = 0;
        let mut open: Vec<Vec<&Arc<Branch>>> = self.columns.iter().map(|branches| branches.iter().collect()).collect();
        for maplet in older {
            let mut renumbering: ColumnMap = [None; COLUMNS_MAX];
            for (column, to) in maplet.meta().columns.iter().zip(&mut renumbering) {
                let goes_to = |branches: &Vec<&Arc<Branch>>| {
                    let has = |file: &FileNumber| branches.iter().any(|branch| branch.meta().file == *file);
                    !column.branches.is_empty() && column.branches.iter().all(has)
                };
                // A column some of whose branches are gone still has their keys.
                if let Some(at) = open.iter().position(goes_to) {
                    open[at].retain(|branch| !column.branches.contains(&branch.meta().file));
                    *to = Some(at as u8);
                    entries += column.entries;
                }
            }
            if renumbering.iter().any(Option::is_some) {
                let pages = MapletPages::new(maplet);
                sources.push(Box::new(MapletEntries::new(pages, maplet.meta().pages, renumbering)));
            }
        }
        for (column, branches) in open.iter().enumerate().filter(|(_, branches)| !branches.is_empty()) {
            let mut fingerprints = Vec::new();
            for branch in branches {
                branch.fingerprints_between(self.lower, self.upper, &mut fingerprints)?;
            }
            fingerprints.sort_unstable();
            planted!(Bug::MapletLacksAKey => {
                fingerprints.pop();
            });
            entries += fingerprints.len() as u64;
            sources.push(Box::new(SortedFingerprints::new(fingerprints, column as u8)));
        }
        Ok((sources, entries))
    }
}

/// The pages of a maplet in order, read many at a time.
struct MapletPages {
    maplet: Arc<Maplet>,
    /// Opened at the first read.
    file: Option<Arc<dyn StorageFile>>,
    buffer: AlignedBuffer,
    read: std::ops::Range<u32>,
}

impl MapletPages {
    fn new(maplet: &Arc<Maplet>) -> Self {
        let pages = PAGES_PER_READ.min(maplet.meta().pages as usize);
        Self { maplet: Arc::clone(maplet), file: None, buffer: AlignedBuffer::new(pages * PAGE_BYTES), read: 0..0 }
    }
}

impl MapletPages {
    fn read_from(&mut self, page: u32, bytes: usize) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            file => file.insert(self.maplet.direct_file()?),
        };
        self.maplet.read_pages(&**file, page, &mut self.buffer[..bytes])
    }
}

impl Payloads for MapletPages {
    fn payload(&mut self, page: u32) -> Result<&[u8]> {
        if !self.read.contains(&page) {
            let end = (page + PAGES_PER_READ as u32).min(self.maplet.meta().pages);
            let result = self.read_from(page, (end - page) as usize * PAGE_BYTES);
            result.inspect_err(|error| {
                if error.is_damage() {
                    self.maplet.mark_broken();
                }
            })?;
            self.read = page..end;
        }
        let at = (page - self.read.start) as usize * PAGE_BYTES;
        Ok(page::payload(&self.buffer[at..at + PAGE_BYTES]))
    }
}

/// A file that is removed unless it is finished.
struct NewFile {
    context: Arc<BranchContext>,
    number: FileNumber,
    writer: PageWriter,
    finished: bool,
}

impl NewFile {
    fn create(context: &Arc<BranchContext>) -> Result<Self> {
        let number = context.numbers.take();
        let writer = PageWriter::create(context, number, &maplet_name(number))?;
        Ok(Self { context: Arc::clone(context), number, writer, finished: false })
    }

    fn append(&mut self, payload: &[u8]) -> Result<()> {
        let new = NewPage::plain(PageKind::Maplet, 0, payload.len());
        let location = self.writer.append(new, |page| page.copy_from_slice(payload))?;
        self.writer.cache_last(location, PageKind::Maplet);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.writer.finish()?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.finished {
            self.context.cache.remove_file(self.number);
            // Nothing refers to the file. If it cannot be removed now, the next opening removes it.
            let _ = self.context.storage.remove(&maplet_name(self.number));
        }
    }
}
