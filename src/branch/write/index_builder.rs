//! Builds the index above the leaves bottom-up while the leaves are written. Each level has one open page; a full page
//! is written at once. So memory is one page per level, and offsets in index pages ascend with the keys. One thread.
//!
//! Invariants:
//! 1. Every page except the last of a level has at least two children, so each level has at most half as many pages as
//!    the one below.
//! 2. The separator before a page is the separator before its first child.

use super::page_writer::{NewPage, PageWriter};
use crate::format::page::{PAGE_BYTES, PAGE_HEADER_BYTES, PageKind};
use crate::format::sorted_page::{ChildLocation, SortedPageBuilder, build::common_prefix, tag};
use crate::util::{Kind, Result, SequenceNumber};

/// An index page is filled up to this payload size.
const INDEX_PAYLOAD_BYTES: usize = 2 * PAGE_BYTES - PAGE_HEADER_BYTES;

/// A place between two entries in entry order: after the left entry, at or before the right one.
#[derive(Clone, Debug, Default)]
pub struct Separator {
    /// An encoded key, or a prefix of one.
    pub key: Vec<u8>,
    /// A sequence number.
    pub number: SequenceNumber,
}

impl Separator {
    /// The shortest separator between an entry and the next one. Between two versions of one key it takes the number
    /// just below that of the left entry. So every number that the left side lacks leads to the right side, and a get
    /// never reads a second leaf.
    pub fn between(&mut self, left: (&[u8], SequenceNumber), right: &[u8]) {
        let common = common_prefix(left.0, right);
        self.key.clear();
        if common == right.len() {
            debug_assert_eq!(left.0, right);
            self.key.extend_from_slice(right);
            self.number = SequenceNumber(left.1.0.saturating_sub(1));
        } else {
            self.key.extend_from_slice(&right[..=common]);
            self.number = SequenceNumber::MAX;
        }
    }
}

struct Level {
    page: SortedPageBuilder,
    /// The separator before the open page.
    separator: Separator,
    first_key: u32,
    written: u64,
}

impl Level {
    fn new() -> Self {
        let page = SortedPageBuilder::packed(ChildLocation::BYTES as u8);
        Self { page, separator: Separator::default(), first_key: 0, written: 0 }
    }
}

/// The levels, lowest first.
#[derive(Default)]
pub struct IndexBuilder {
    levels: Vec<Level>,
}

impl IndexBuilder {
    /// Adds a child and the separator before it.
    pub fn add(&mut self, writer: &mut PageWriter, separator: &Separator, child: ChildLocation) -> Result<()> {
        self.add_at(0, writer, separator, child)
    }

    fn add_at(
        &mut self,
        height: usize,
        writer: &mut PageWriter,
        separator: &Separator,
        child: ChildLocation,
    ) -> Result<()> {
        if height == self.levels.len() {
            self.levels.push(Level::new());
        }
        let tag = tag(separator.number, Kind::Put);
        let level = &self.levels[height];
        let mut fit = level.page.fit(&separator.key, tag, ChildLocation::BYTES);
        if level.page.count() >= 2 && fit.size > INDEX_PAYLOAD_BYTES {
            self.close_page(height, writer)?;
            fit = self.levels[height].page.fit(&separator.key, tag, ChildLocation::BYTES);
        }
        let level = &mut self.levels[height];
        if level.page.is_empty() {
            level.separator.clone_from(separator);
            level.first_key = child.first_key;
        }
        level.page.push(&separator.key, tag, &child.encode(), fit);
        Ok(())
    }

    /// Writes the open page and adds it as a child to the level above.
    fn close_page(&mut self, height: usize, writer: &mut PageWriter) -> Result<()> {
        let location = self.write_page(height, writer)?;
        let separator = std::mem::take(&mut self.levels[height].separator);
        self.add_at(height + 1, writer, &separator, location)?;
        self.levels[height].separator = separator;
        Ok(())
    }

    fn write_page(&mut self, height: usize, writer: &mut PageWriter) -> Result<ChildLocation> {
        let level = &mut self.levels[height];
        let new = NewPage::plain(PageKind::Index, height as u8 + 1, level.page.size());
        let mut location = writer.append(new, |payload| level.page.encode(payload))?;
        location.first_key = level.first_key;
        level.page.clear();
        level.written += 1;
        writer.cache_last(location, PageKind::Index);
        Ok(location)
    }

    /// Writes the open pages, level by level. Returns the root, the height and the number of index pages. Requires that
    /// a child was added.
    pub fn finish(&mut self, writer: &mut PageWriter) -> Result<(ChildLocation, u32, u64)> {
        let mut height = 0;
        loop {
            let is_root = height + 1 == self.levels.len() && self.levels[height].written == 0;
            if is_root {
                let root = self.write_page(height, writer)?;
                let pages = self.levels.iter().map(|level| level.written).sum();
                return Ok((root, height as u32 + 1, pages));
            }
            self.close_page(height, writer)?;
            height += 1;
        }
    }
}
