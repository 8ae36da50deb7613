//! Reads a whole branch file and checks that all its parts agree. Any thread.

use super::page_scan::{PageScan, Scanned};
use crate::branch::branch::Branch;
use crate::branch::context::file_name;
use crate::branch::read::blocking_pages::BlockingPages;
use crate::branch::read::page_read::WantedPage;
use crate::branch::scan::extent_reader::Purpose;
use crate::filter::quotient;
use crate::format::branch_footer::BranchFooter;
use crate::format::manifest_edit::BranchMeta;
use crate::format::page::{self, PAGE_BYTES, PageKind};
use crate::format::sorted_page::{ChildLocation, SortedPage, tag_number};
use crate::format::value_file::ValueReference;
use crate::io::AlignedBuffer;
use crate::merge::{Cursor, RangeTombstone};
use crate::util::hash::{encoded_key_hash, fingerprint};
use crate::util::sync::Arc;
use crate::util::{Error, Kind, Result, SequenceNumber};

/// What `verify` has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchReport {
    /// Pages of every kind, the footer included.
    pub pages: u64,
    /// Leaf pages.
    pub leaves: u64,
    /// Index pages.
    pub index_pages: u64,
    /// Entries.
    pub entries: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The values of its entries of kind `Kind::ValueReference`.
    pub value_references: Vec<Vec<u8>>,
}

impl Branch {
    /// Checks the checksum of every page, the order of entries, that index, fingerprints, filter, properties and footer
    /// agree with the entries, and that the properties agree with the manifest. Returns the first error.
    pub fn verify(self: &Arc<Self>) -> Result<BranchReport> {
        let footer = *self.footer()?;
        let (stored, _) = self.stored_meta()?;
        self.equal(footer.properties_at, "properties", &stored, self.meta())?;
        let mut report = self.check_index(&footer)?;
        let mut fingerprints = Vec::new();
        let mut counted = self.check_entries(&footer, &mut fingerprints, &mut report.value_references)?;
        counted.value_files.sort_unstable();
        counted.value_files.dedup();
        self.count_range_tombstones(&mut counted)?;
        self.equal(footer.properties_at, "properties against entries", &counted, &stored)?;
        let mut listed = Vec::new();
        self.fingerprints(0..footer.fingerprints, &mut listed)?;
        if footer.fingerprints > 0 && listed != fingerprints {
            return Err(self.corruption(
                footer.fingerprints_at,
                "fingerprints",
                "those of the keys",
                "other fingerprints",
            ));
        }
        self.verify_filter(&footer, &fingerprints)?;
        report.entries = counted.entries;
        report.bytes = footer.file_bytes;
        report.pages += (footer.file_bytes - footer.fingerprints_at) / PAGE_BYTES as u64;
        Ok(report)
    }

    /// Lists damage and does not stop at the first. Checks length, footer and properties, and with `deep` everything
    /// that `verify` reads, down to each damaged page. Returns what was read. Fails only for errors that are not damage
    /// of the file.
    pub fn examine(self: &Arc<Self>, deep: bool, damage: &mut dyn FnMut(Error)) -> Result<BranchReport> {
        if deep {
            let error = match self.verify() {
                Ok(report) => return Ok(report),
                Err(error) => error.of_missing_file(),
            };
            let mut listed = Vec::new();
            if error.is_damage() && self.context().storage.list()?.contains(&file_name(self.meta().file)) {
                let mut scan = PageScan::open(self.context(), self.meta().file)?;
                while let Some(scanned) = scan.advance()? {
                    if let Scanned::Bad(_, error) = scanned {
                        listed.push(error);
                    }
                }
            }
            if !listed.iter().any(|listed| listed.offset() == error.offset()) {
                damage_or_error(error, damage)?;
            }
            listed.into_iter().for_each(damage);
            return Ok(BranchReport { bytes: self.meta().bytes, ..BranchReport::default() });
        }
        let read = self.footer().and_then(|footer| {
            let (stored, _) = self.stored_meta()?;
            self.equal(footer.properties_at, "properties", &stored, self.meta())
        });
        if let Err(error) = read {
            damage_or_error(error.of_missing_file(), damage)?;
        }
        Ok(BranchReport { bytes: self.meta().bytes, ..BranchReport::default() })
    }

    fn equal<T: PartialEq + std::fmt::Debug>(
        &self,
        at: u64,
        what: &'static str,
        found: &T,
        expected: &T,
    ) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(self.corruption(at, what, format!("{expected:?}"), format!("{found:?}")))
    }

    /// Visits the index in key order. Checks that its pages and the leaves fill the first part of the file, that
    /// separators ascend, and that levels and counts agree. Memory: the locations on one path.
    fn check_index(&self, footer: &BranchFooter) -> Result<BranchReport> {
        let mut report = BranchReport::default();
        let mut bytes = 0;
        let mut last = None;
        let mut pending = Vec::new();
        if footer.entries > 0 {
            pending.push((footer.root, footer.height as u8));
        }
        while let Some((location, level)) = pending.pop() {
            bytes += location.bytes() as u64;
            report.pages += 1;
            if level == 0 {
                report.leaves += 1;
                if last.is_some_and(|last| location.offset() < last) {
                    return Err(self.corruption(
                        location.offset(),
                        "leaf",
                        "leaves in key order",
                        "a leaf out of order",
                    ));
                }
                last = Some(location.end());
                continue;
            }
            report.index_pages += 1;
            let mut buffer = AlignedBuffer::new(location.bytes());
            let wanted = WantedPage::child(location, level);
            self.check_bounds(wanted, footer)?;
            self.direct_file()?.read_exact_at(&mut buffer, location.offset())?;
            self.check_page(&buffer, wanted)?;
            self.check_structure(page::payload(&buffer), wanted, footer)?;
            let Some(page) = SortedPage::new(page::payload(&buffer)) else { continue };
            self.check_separators(&page, location)?;
            let children = (0..page.count()).rev().filter_map(|at| ChildLocation::decode(page.packed(at)));
            pending.extend(children.map(|child| (child, level - 1)));
        }
        self.equal(footer.fingerprints_at, "bytes of leaves and index", &bytes, &footer.fingerprints_at)?;
        self.equal(footer.fingerprints_at, "leaves", &report.leaves, &footer.leaves)?;
        self.equal(footer.fingerprints_at, "index pages", &report.index_pages, &footer.index_pages)?;
        Ok(report)
    }

    fn check_separators(&self, page: &SortedPage<'_>, location: ChildLocation) -> Result<()> {
        let mut key = page.prefix().to_vec();
        for at in 0..page.count() {
            let parts = page.parts(at);
            page.complete_key(at, &parts, &mut key);
            if page.rank(&key, tag_number(parts.tag), false) != at {
                return Err(self.corruption(location.offset(), "separators", "ascending order", format!("entry {at}")));
            }
        }
        Ok(())
    }

    /// Visits all entries and collects what properties and fingerprints should contain. Checks that a search for the
    /// first entry of each leaf leads to that leaf, and that the number of its first key is the one in the index.
    fn check_entries(
        self: &Arc<Self>,
        footer: &BranchFooter,
        fingerprints: &mut Vec<u32>,
        value_references: &mut Vec<Vec<u8>>,
    ) -> Result<BranchMeta> {
        let mut counted = BranchMeta {
            file: self.meta().file,
            bytes: footer.file_bytes,
            number_min: SequenceNumber::MAX,
            ..BranchMeta::default()
        };
        let mut cursor = self.cursor(Purpose::Compaction);
        let mut leaf = None;
        let mut last_number = SequenceNumber::ZERO;
        cursor.seek_first()?;
        while cursor.valid() {
            let location = cursor.leaf_location();
            let entry = cursor.entry();
            let offset = location.map_or(0, |location| location.offset());
            if counted.entries > 0 && entry.order(&counted.key_max, last_number).is_le() {
                return Err(self.corruption(offset, "order of entries", "ascending", "descending"));
            }
            if counted.entries == 0 {
                counted.key_min = entry.key.to_vec();
            }
            if counted.entries == 0 || entry.key != counted.key_max {
                fingerprints.push(fingerprint(encoded_key_hash(entry.key)));
                counted.key_max.clear();
                counted.key_max.extend_from_slice(entry.key);
            }
            if location != leaf {
                leaf = location;
                let first_key = location.map_or(0, |location| u64::from(location.first_key));
                self.equal(offset, "number of a leaf's first key", &first_key, &(fingerprints.len() as u64 - 1))?;
                self.equal(
                    offset,
                    "search",
                    &Some(self.leaf_of(entry.key, entry.number, &mut BlockingPages::new())?),
                    &location,
                )?;
            }
            last_number = entry.number;
            count(&mut counted, entry.number, entry.kind, entry.value);
            if entry.kind == Kind::ValueReference {
                value_references.push(entry.value.to_vec());
            }
            cursor.next()?;
        }
        counted.distinct_keys = fingerprints.len() as u64;
        self.equal(footer.file_bytes, "entries", &counted.entries, &footer.entries)?;
        Ok(counted)
    }

    /// Reads the range tombstones, which checks them, and adds them to what the properties should contain.
    pub(in crate::branch) fn count_range_tombstones(&self, counted: &mut BranchMeta) -> Result<()> {
        let footer = self.footer()?;
        let has_pages = footer.range_tombstones_at < footer.properties_at;
        // A read relies on the manifest for whether there are any, and does not look at the file.
        self.equal(footer.range_tombstones_at, "range tombstones", &has_pages, &(self.meta().range_tombstones > 0))?;
        let tombstones = self.range_tombstones()?;
        for RangeTombstone { start, end, number } in tombstones.deletions() {
            if counted.entries + counted.range_tombstones == 0 || start < counted.key_min {
                counted.key_min = start;
            }
            if end > counted.key_max {
                (counted.key_max, counted.open_ended) = (end, true);
            }
            counted.number_min = counted.number_min.min(number);
            counted.number_max = counted.number_max.max(number);
            counted.range_tombstones += 1;
        }
        Ok(())
    }

    fn verify_filter(&self, footer: &BranchFooter, fingerprints: &[u32]) -> Result<()> {
        let pages = footer.filter_pages;
        let mut filter = Vec::with_capacity(pages as usize);
        let mut buffer = AlignedBuffer::new(PAGE_BYTES);
        let file = self.direct_file()?;
        for number in 0..u64::from(pages) {
            let offset = footer.filter_at + number * PAGE_BYTES as u64;
            let wanted = WantedPage { offset, bytes: PAGE_BYTES, kind: PageKind::Filter, level: 0 };
            file.read_exact_at(&mut buffer, offset)?;
            self.check_page(&buffer, wanted)?;
            filter.push(page::payload(&buffer).to_vec());
        }
        let lacks = |fingerprint: &&u32| {
            let page = filter.get(quotient::page_of(**fingerprint, pages) as usize);
            !page.is_some_and(|page| quotient::may_contain(page, **fingerprint, pages))
        };
        match fingerprints.iter().find(lacks) {
            Some(lost) if pages > 0 => {
                Err(self.corruption(footer.filter_at, "filter", "every key", format!("none of {lost:#010x}")))
            }
            _ => Ok(()),
        }
    }
}

/// Reports damage of the file through `damage`; returns any other error.
fn damage_or_error(error: Error, damage: &mut dyn FnMut(Error)) -> Result<()> {
    if error.is_damage() || matches!(error, Error::NewerFormat { .. }) {
        damage(error);
        return Ok(());
    }
    Err(error)
}

fn count(counted: &mut BranchMeta, number: SequenceNumber, kind: Kind, value: &[u8]) {
    counted.entries += 1;
    counted.tombstones += u64::from(kind == Kind::Delete);
    counted.number_min = counted.number_min.min(number);
    counted.number_max = counted.number_max.max(number);
    if kind == Kind::ValueReference {
        counted.value_files.extend(ValueReference::decode(value).map(|reference| reference.file));
    }
}
