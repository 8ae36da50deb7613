//! Builds a branch file in one streaming pass (SplinterDB §2.3). One thread.
//!
//! Each entry is copied into the open leaf and from there into the write buffer, and is not touched again. Scratch
//! memory is reused, so a warm builder allocates nothing per entry. Only the fingerprints (4 bytes a key) grow with the
//! file.
//!
//! Invariants:
//! 1. Entries are added in strictly ascending entry order. The caller ensures it; debug builds assert it.
//! 2. The file is not part of the store until `finish` returns `Ok`. Dropping the builder removes it.

use super::index_builder::{IndexBuilder, Separator};
use super::leaf_size::LeafSize;
use super::packer::Packer;
use super::page_writer::{NewPage, PageWriter};
use super::range_tombstones;
use super::write_behind::WriteBehind;
use crate::branch::context::{BranchContext, file_name};
use crate::branch::read::fences::{self, FencesBuilder};
use crate::cache::PageBuffer;
use crate::filter::quotient;
use crate::format::branch_footer::{BranchFooter, FINGERPRINTS_PER_PAGE};
use crate::format::branch_properties::{self, BYTEWISE};
use crate::format::manifest_edit::BranchMeta;
use crate::format::page::{PAGE_BYTES, PAGE_HEADER_BYTES, PAYLOAD_BYTES_MAX, PageKind, stored_bytes};
use crate::format::sorted_page::{ChildLocation, SortedPageBuilder, tag};
use crate::format::value_file::ValueReference;
use crate::io::BufferFile;
use crate::merge::{EntryRef, RangeTombstones};
use crate::util::hash::{encoded_key_hash, fingerprint};
use crate::util::limits::KEY_BYTES_MAX;
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, KeyspaceId, Kind, Result, SequenceNumber, key};

/// A branch file being written.
pub struct BranchBuilder {
    context: Arc<BranchContext>,
    writer: PageWriter,
    index: IndexBuilder,
    fences: FencesBuilder,
    leaf: SortedPageBuilder,
    leaf_size: LeafSize,
    /// Whether the file is for the deepest level.
    is_deep: bool,
    /// The keyspace of the last entry.
    keyspace: KeyspaceId,
    /// The separator before the open leaf.
    separator: Separator,
    /// Index of the fingerprint of the open leaf's first key.
    leaf_first_key: u32,
    leaves: u64,
    fingerprints: Vec<u32>,
    /// Of a remainder in the filter.
    filter_bits: u32,
    range_tombstones: RangeTombstones,
    /// Key and number of the newest entry.
    last_key: Vec<u8>,
    last_number: SequenceNumber,
    packer: Packer,
    meta: BranchMeta,
    /// If the file is in memory only.
    buffer: Option<Arc<BufferFile>>,
    /// Whether the file gets the number of its entries later.
    is_numbered_later: bool,
    finished: bool,
}

impl BranchBuilder {
    /// Takes a file number and creates the file.
    pub fn create(context: &Arc<BranchContext>) -> Result<Self> {
        let file = context.numbers.take();
        let writer = PageWriter::create(context, file, &file_name(file))?;
        Ok(Self::with_writer(context, file, writer))
    }

    /// For a file of this number that is in memory only. `finish_buffered` ends it.
    pub fn buffered(context: &Arc<BranchContext>, file: FileNumber) -> Self {
        let buffer = Arc::new(BufferFile::new(context.storage.path_of(&file_name(file))));
        let to: Arc<BufferFile> = Arc::clone(&buffer);
        let mut builder = Self::with_writer(context, file, PageWriter::to(context, file, to));
        builder.buffer = Some(buffer);
        builder
    }

    fn with_writer(context: &Arc<BranchContext>, file: FileNumber, writer: PageWriter) -> Self {
        Self {
            writer,
            index: IndexBuilder::default(),
            fences: FencesBuilder::default(),
            leaf: SortedPageBuilder::default(),
            leaf_size: LeafSize::new(context.compression_of(KeyspaceId::DEFAULT, false)),
            is_deep: false,
            keyspace: KeyspaceId::DEFAULT,
            separator: Separator::default(),
            leaf_first_key: 0,
            leaves: 0,
            fingerprints: Vec::new(),
            filter_bits: quotient::REMAINDER_BITS,
            range_tombstones: RangeTombstones::default(),
            last_key: Vec::new(),
            last_number: SequenceNumber::ZERO,
            packer: Packer::default(),
            meta: BranchMeta { file, number_min: SequenceNumber::MAX, ..BranchMeta::default() },
            buffer: None,
            is_numbered_later: false,
            finished: false,
            context: Arc::clone(context),
        }
    }

    /// The filter will have remainders of these bits, from 1 to 16, instead of 9: one more halves its false positives.
    pub fn with_filter_bits(mut self, bits: u32) -> Self {
        self.filter_bits = bits;
        self
    }

    /// The file is for the deepest level, whose compression may be another one. To be called before entries are added.
    pub fn for_deepest_level(mut self) -> Self {
        self.is_deep = true;
        self.leaf_size = LeafSize::new(self.context.compression_of(self.keyspace, true));
        self
    }

    /// Has another thread write the file. It is durable only after `WriteBehind::wait`.
    pub fn write_behind(mut self, behind: &Arc<WriteBehind>) -> Self {
        self.writer.write_behind(Arc::clone(behind));
        self
    }

    /// All entries will have one number, which is not known yet (`common_number`). They are added with the number 0.
    pub fn numbered_later(mut self) -> Self {
        self.is_numbered_later = true;
        self
    }

    /// The file's number.
    #[cfg(test)]
    pub fn file(&self) -> FileNumber {
        self.meta.file
    }

    /// Bytes of the file so far, including the open leaf.
    pub fn bytes(&self) -> u64 {
        self.writer.offset() + if self.leaf.is_empty() { 0 } else { self.leaf.size() as u64 }
    }

    /// Entries so far.
    #[cfg(test)]
    pub fn entries(&self) -> u64 {
        self.meta.entries
    }

    /// Adds an entry, which must be after all others in entry order.
    pub fn add(&mut self, entry: EntryRef<'_>) -> Result<()> {
        let is_first = self.meta.entries == 0;
        let is_new_key = is_first || self.last_key != entry.key;
        debug_assert!(is_first || entry.order(&self.last_key, self.last_number).is_gt(), "entries out of order");
        debug_assert!(
            !self.is_numbered_later || entry.number == SequenceNumber::ZERO,
            "an entry with a number of its own"
        );
        if entry.key.len() > KEY_BYTES_MAX + KeyspaceId::BYTES || entry.number > SequenceNumber::MAX {
            return Err(Error::InvalidArgument(format!(
                "a key of {} bytes at {} in a branch file",
                entry.key.len(),
                entry.number
            )));
        }
        if key::keyspace(entry.key) != self.keyspace {
            self.enter_keyspace(entry.key)?;
        }
        let tag = tag(entry.number, entry.kind);
        let mut fit = self.leaf.fit(entry.key, tag, entry.value.len());
        if !self.leaf.is_empty() && self.leaf_size.is_full(self.leaf.size(), fit.size) {
            self.end_leaf(entry.key)?;
            fit = self.leaf.fit(entry.key, tag, entry.value.len());
        }
        if fit.size > PAYLOAD_BYTES_MAX {
            return Err(Error::InvalidArgument(format!("a value of {} bytes in a branch file", entry.value.len())));
        }
        if is_first {
            self.separator = Separator { key: entry.key.to_vec(), number: SequenceNumber::MAX };
            self.meta.key_min = entry.key.to_vec();
        }
        if self.leaf.is_empty() {
            self.leaf_first_key = self.fingerprints.len() as u32 - u32::from(!is_new_key);
        }
        self.leaf.push(entry.key, tag, entry.value, fit);
        if is_new_key {
            self.note_key(entry.key)?;
        }
        self.note_entry(&entry)
    }

    /// Begins to store leaves as the keyspace of a key has them.
    fn enter_keyspace(&mut self, key: &[u8]) -> Result<()> {
        self.keyspace = key::keyspace(key);
        let compression = self.context.compression_of(self.keyspace, self.is_deep);
        if compression != self.leaf_size.compression() {
            if !self.leaf.is_empty() {
                self.end_leaf(key)?;
            }
            self.leaf_size = LeafSize::new(compression);
        }
        Ok(())
    }

    /// Writes the open leaf; the next one begins with a key.
    fn end_leaf(&mut self, next_key: &[u8]) -> Result<()> {
        self.close_leaf()?;
        self.separator.between((&self.last_key, self.last_number), next_key);
        Ok(())
    }

    /// Sets the range tombstones of the branch and replaces those set before. Call it at any time before `finish`.
    pub fn set_range_tombstones(&mut self, range_tombstones: RangeTombstones) {
        self.range_tombstones = range_tombstones;
    }

    fn note_key(&mut self, key: &[u8]) -> Result<()> {
        if self.fingerprints.len() >= u32::MAX as usize {
            return Err(Error::InvalidArgument("more than 2^32 keys in a branch file".into()));
        }
        self.fingerprints.push(fingerprint(encoded_key_hash(key)));
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    fn note_entry(&mut self, entry: &EntryRef<'_>) -> Result<()> {
        self.last_number = entry.number;
        self.meta.entries += 1;
        self.meta.number_min = self.meta.number_min.min(entry.number);
        self.meta.number_max = self.meta.number_max.max(entry.number);
        match entry.kind {
            Kind::Delete => self.meta.tombstones += 1,
            Kind::ValueReference => {
                let Some(reference) = ValueReference::decode(entry.value) else {
                    return Err(Error::InvalidArgument("a malformed value reference".into()));
                };
                self.meta.value_files.push(reference.file);
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes the open leaf and adds it to the index.
    fn close_leaf(&mut self) -> Result<()> {
        let raw_len = self.leaf.size();
        let compression = self.leaf_size.compression();
        let packed_len = self.packer.pack(compression, &self.leaf)?;
        let new = NewPage::plain(PageKind::Leaf, 0, raw_len);
        let mut location = match packed_len {
            Some(stored_len) => {
                let packed = self.packer.packed(stored_len);
                let new = NewPage { compression, stored_len, ..new };
                self.writer.append(new, |payload| payload.copy_from_slice(packed))?
            }
            None => self.writer.append(new, |payload| self.leaf.encode(payload))?,
        };
        location.first_key = self.leaf_first_key;
        // The cache has leaves with their numbers.
        if self.buffer.is_none() && !self.is_numbered_later && self.context.cache.has_space() {
            self.insert_leaf(location, packed_len.is_some());
        }
        self.leaf.clear();
        self.leaf_size.close_leaf(raw_len, packed_len.unwrap_or(raw_len));
        self.leaves += 1;
        self.fences.add(&self.separator.key, location);
        self.index.add(&mut self.writer, &self.separator, location)
    }

    /// Inserts the leaf that was written last into the cache.
    fn insert_leaf(&self, location: ChildLocation, is_packed: bool) {
        if !is_packed {
            return self.writer.cache_last(location, PageKind::Leaf);
        }
        let raw = self.packer.raw(self.leaf.size());
        let page = PageBuffer::copied(&[&self.writer.last_page()[..PAGE_HEADER_BYTES], raw]);
        self.writer.cache_page(location, PageKind::Leaf, Arc::new(page));
    }

    /// Writes fingerprints, filter, properties and footer, and syncs the file. The caller syncs the directory. Requires
    /// that an entry was added or that there are range tombstones.
    pub fn finish(mut self) -> Result<BranchMeta> {
        debug_assert!(self.buffer.is_none(), "a buffered file would be lost");
        self.end()
    }

    /// As `finish`, for a file that is in memory only.
    pub fn finish_buffered(mut self) -> Result<(BranchMeta, Arc<BufferFile>)> {
        let meta = self.end()?;
        let Some(file) = self.buffer.take() else { unreachable!("`buffered` has made the builder") };
        Ok((meta, file))
    }

    fn end(&mut self) -> Result<BranchMeta> {
        let (root, height, index_pages) = if !self.leaf.is_empty() {
            self.close_leaf()?;
            self.index.finish(&mut self.writer)?
        } else if !self.range_tombstones.is_empty() {
            (ChildLocation::default(), 0, 0)
        } else {
            return Err(Error::InvalidArgument("a branch file without entries".into()));
        };
        let fingerprints_at = self.writer.offset();
        let listed = if self.context.form.fingerprints { self.fingerprints.len() } else { 0 };
        self.write_fingerprints(listed)?;
        let filter_at = self.writer.offset();
        let filter_pages = self.write_filter()?;
        let range_tombstones_at = self.writer.offset();
        range_tombstones::write(&mut self.writer, &self.range_tombstones)?;
        let properties_at = self.writer.offset();
        let properties_bytes = self.write_properties()?;
        self.meta.bytes = self.writer.offset() + PAGE_BYTES as u64;
        let footer = BranchFooter {
            file_bytes: self.meta.bytes,
            root,
            height,
            leaves: self.leaves,
            index_pages,
            entries: self.meta.entries,
            fingerprints: listed as u64,
            fingerprints_at,
            filter_at,
            filter_pages,
            range_tombstones_at,
            properties_at,
            properties_bytes,
            common_number: self.is_numbered_later.then_some(SequenceNumber::ZERO),
        };
        let owner = self.context.owner(self.meta.file);
        self.writer.append_whole(|page| footer.encode(owner, page))?;
        let length = self.writer.finish()?;
        assert_eq!(length, self.meta.bytes);
        if fences::are_worthwhile(height) {
            self.writer.cache_fences(fences::page_of(&self.fences, owner, length));
        }
        self.finished = true;
        Ok(std::mem::take(&mut self.meta))
    }

    fn write_fingerprints(&mut self, listed: usize) -> Result<()> {
        for chunk in self.fingerprints[..listed].chunks(FINGERPRINTS_PER_PAGE as usize) {
            self.writer.append(NewPage::plain(PageKind::Fingerprints, 0, chunk.len() * 4), |payload| {
                for (four, value) in payload.as_chunks_mut::<4>().0.iter_mut().zip(chunk) {
                    *four = value.to_le_bytes();
                }
            })?;
        }
        Ok(())
    }

    fn write_filter(&mut self) -> Result<u32> {
        let mut filter = quotient::FilterBuilder::new(self.filter_bits);
        for fingerprint in &self.fingerprints {
            filter.add(*fingerprint);
        }
        let pages = filter.finish();
        for page in &pages {
            assert!(stored_bytes(page.len()) == PAGE_BYTES, "a filter page takes one page");
            let new = NewPage::plain(PageKind::Filter, 0, page.len());
            let location = self.writer.append(new, |payload| payload.copy_from_slice(page))?;
            self.writer.cache_last(location, PageKind::Filter);
        }
        Ok(pages.len() as u32)
    }

    /// Includes the range tombstones in the metadata of the branch.
    fn note_range_tombstones(&mut self) {
        let (meta, tombstones) = (&mut self.meta, &self.range_tombstones);
        let (Some(first), Some(last)) = (tombstones.fragments().first(), tombstones.fragments().last()) else { return };
        if meta.entries == 0 || first.start < meta.key_min {
            meta.key_min.clone_from(&first.start);
        }
        if last.end > meta.key_max {
            meta.key_max.clone_from(&last.end);
            meta.open_ended = true;
        }
        for number in tombstones.numbers() {
            meta.number_min = meta.number_min.min(number);
            meta.number_max = meta.number_max.max(number);
        }
        meta.range_tombstones = tombstones.count();
    }

    fn write_properties(&mut self) -> Result<u64> {
        self.meta.key_max.clone_from(&self.last_key);
        self.note_range_tombstones();
        self.meta.distinct_keys = self.fingerprints.len() as u64;
        self.meta.value_files.sort_unstable();
        self.meta.value_files.dedup();
        let mut properties = Vec::new();
        branch_properties::encode(&self.meta, BYTEWISE, &mut properties);
        for chunk in properties.chunks(PAYLOAD_BYTES_MAX) {
            let new = NewPage::plain(PageKind::Properties, 0, chunk.len());
            self.writer.append(new, |payload| payload.copy_from_slice(chunk))?;
        }
        Ok(properties.len() as u64)
    }
}

impl Drop for BranchBuilder {
    fn drop(&mut self) {
        if !self.finished {
            if self.buffer.is_some() {
                self.context.cache.remove_file(self.meta.file);
            } else {
                self.context.discard(self.meta.file);
            }
        }
    }
}
