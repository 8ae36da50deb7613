//! The output writer: writes a sorted sequence of entries as the part files of a run. One thread.
//!
//! A part file ends at a cut, which is a pivot of the node that the run is for, so that a file that no live range uses
//! can be deleted whole. (Hole punching is no alternative: hard-linked copies and other readers share the file.) It
//! ends as well where close keys end (`output/key_gaps.rs`), before a file that is reused (`reuse.rs`), and at its largest
//! size.
//!
//! Invariants:
//! 1. All versions of a key are in one part file.
//! 2. Range tombstones are cut at the bound between two part files: the piece before the bound is in the file before
//!    it, the rest in the files after it. So the range of a part file, its range tombstones included, ends no later
//!    than the next one begins, and the part file to which a key leads holds everything that the run has of the key.

use super::load::Load;
use super::run::Key;
use super::sink::Sink;
use crate::branch::{Branch, BranchBuilder, BranchContext, Buffered, Origin, Origins, file_name, write_out};
use crate::filter::quotient;
use crate::merge::{EntryRef, RangeTombstones};
use crate::util::Result;
use crate::util::sync::Arc;
use key_gaps::KeyGapSplitter;
use std::collections::VecDeque;

mod key_gaps;

/// Branch files to which nothing refers yet. They become obsolete when dropped.
#[derive(Debug, Default)]
pub struct NewParts(Vec<Arc<Branch>>);

impl NewParts {
    /// Of these branches.
    pub fn new(branches: Vec<Arc<Branch>>) -> Self {
        Self(branches)
    }

    /// The branches. From here on the caller is responsible for them.
    pub fn take(mut self) -> Vec<Arc<Branch>> {
        std::mem::take(&mut self.0)
    }

    /// The data in them.
    pub fn load(&self) -> Load {
        let mut load = Load::default();
        for part in &self.0 {
            load += Load::of(part);
        }
        load
    }

    /// The data in those of them that are files.
    pub fn written(&self) -> Load {
        let mut load = Load::default();
        for part in self.0.iter().filter(|part| part.in_buffer().is_none()) {
            load += Load::of(part);
        }
        load
    }

    /// The branches, by reference.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Branch>> {
        self.0.iter()
    }
}

impl Drop for NewParts {
    fn drop(&mut self) {
        for part in &self.0 {
            part.mark_obsolete();
        }
    }
}

/// See the module.
pub struct OutputWriter<'a> {
    context: &'a Arc<BranchContext>,
    /// Keys to cut at, ascending, without those already passed.
    cuts: &'a [Key],
    bytes_min: u64,
    bytes_max: u64,
    /// The smallest keys of reused files, ascending, without those already passed. A part file ends before each,
    /// whatever its size.
    reused: VecDeque<Key>,
    gaps: KeyGapSplitter,
    /// From this size on a part file ends where close keys end.
    gap_bytes_min: u64,
    /// Of the remainders in the filters of part files.
    filter_bits: u32,
    is_deep: bool,
    builder: Option<BranchBuilder>,
    /// Once the part file has its largest size: its last key so far, after which it may end.
    last_key: Option<Vec<u8>>,
    /// Range tombstones that no part file has yet.
    tombstones: RangeTombstones,
    parts: NewParts,
    /// Bytes of finished part files.
    finished_bytes: u64,
    /// A new part stays in memory if the store has fewer bytes there.
    buffered_until: u64,
    /// Such a part ends at a cut once it has this size.
    buffered_min: u64,
    /// If the open part is to stay in memory: the origins of its entries.
    origins: Option<Origins>,
}

impl<'a> OutputWriter<'a> {
    /// Ends a part file at a key of `cuts` once the file has `bytes_min`, and after any key once it has `bytes_max`.
    pub fn new(context: &'a Arc<BranchContext>, cuts: &'a [Key], bytes_min: u64, bytes_max: u64) -> Self {
        Self {
            context,
            cuts,
            bytes_min,
            bytes_max,
            reused: VecDeque::new(),
            gaps: KeyGapSplitter::default(),
            gap_bytes_min: u64::MAX,
            filter_bits: quotient::REMAINDER_BITS,
            is_deep: false,
            builder: None,
            last_key: None,
            tombstones: RangeTombstones::default(),
            parts: NewParts::default(),
            finished_bytes: 0,
            buffered_until: 0,
            buffered_min: 0,
            origins: None,
        }
    }

    /// A part stays in memory if the branches in memory of the whole store have fewer than `until` bytes when it begins.
    /// A part is written to a file if one of its entries has no origin, from which it could be made again. Parts in memory
    /// end at a cut once they have `bytes_min`.
    pub fn buffered(self, until: u64, bytes_min: u64) -> Self {
        Self { buffered_until: until, buffered_min: bytes_min, ..self }
    }

    /// Also ends a part file where close keys end, once the file has `bytes`.
    pub fn split_at_gaps_from(mut self, bytes: u64) -> Self {
        self.gap_bytes_min = bytes;
        self
    }

    /// Filters have remainders of these bits (`BranchBuilder::with_filter_bits`).
    pub fn with_filter_bits(mut self, bits: u32) -> Self {
        self.filter_bits = bits;
        self
    }

    /// Whether the files are for the deepest level (`BranchBuilder::for_deepest_level`).
    pub fn deepest(mut self, is_deep: bool) -> Self {
        self.is_deep = is_deep;
        self
    }

    /// A reused file begins at `key`, after everything that was added and after all reused files before. No entry and
    /// no range tombstone of this sequence meets its range.
    pub fn add_reused(&mut self, key: Key) {
        self.reused.push_back(key);
    }

    /// Adds range tombstones, which lie after all that were added before. Call it before adding the entries among them.
    pub fn add_range_tombstones(&mut self, tombstones: RangeTombstones) {
        self.tombstones.append(tombstones);
    }

    /// Adds the next entry in entry order.
    pub fn add(&mut self, entry: EntryRef<'_>) -> Result<()> {
        self.add_from(entry, None)
    }

    /// As `add`, for an entry that is at `origin` on the disk.
    fn add_from(&mut self, entry: EntryRef<'_>, origin: Option<Origin>) -> Result<()> {
        if self.reused.front().is_some_and(|first| **first <= *entry.key) {
            self.pass_reused(Some(entry.key))?;
        }
        if self.gap_bytes_min == u64::MAX {
            return self.write(entry, origin);
        }
        if self.gaps.is_holding() && self.gaps.is_likelier(entry.key) {
            self.release(false)?;
        }
        if self.gaps.is_holding() {
            return if self.gaps.hold(entry) { self.release(self.gaps.is_boundary(false)) } else { Ok(()) };
        }
        if self.gaps.note(entry.key) && self.builder.as_ref().is_some_and(|part| part.bytes() >= self.gap_bytes_min) {
            self.gaps.hold(entry);
            return Ok(());
        }
        self.write(entry, origin)
    }

    /// Writes the held entries, into another part file if the gap before them is a boundary.
    fn release(&mut self, is_boundary: bool) -> Result<()> {
        let held = self.gaps.release();
        if is_boundary && let Some(first) = held.iter().next() {
            self.end_part(Some(first.key))?;
        }
        held.iter().try_for_each(|entry| self.write(entry, None))?;
        self.gaps.recycle(held);
        Ok(())
    }

    /// Ends part files at the reused files before `key`; `None`: at all that are left.
    fn pass_reused(&mut self, key: Option<&[u8]>) -> Result<()> {
        if self.gaps.is_holding() {
            self.release(self.gaps.is_boundary(true))?;
        }
        while let Some(first) = self.reused.pop_front_if(|first| key.is_none_or(|key| **first <= *key)) {
            self.end_part(Some(&first))?;
        }
        Ok(())
    }

    fn write(&mut self, entry: EntryRef<'_>, origin: Option<Origin>) -> Result<()> {
        if let Some(bound) = self.ends_before(entry.key) {
            self.end_part(Some(&bound))?;
        }
        let builder = match &mut self.builder {
            Some(builder) => builder,
            empty => {
                self.origins = (self.context.buffered_bytes() < self.buffered_until).then(Origins::default);
                empty.insert(new_part(self.context, self.filter_bits, self.is_deep, self.origins.is_some())?)
            }
        };
        builder.add(entry)?;
        if let (Some(origins), Some(origin)) = (&mut self.origins, origin) {
            origins.push(origin);
        }
        if builder.bytes() >= self.bytes_max {
            let last = self.last_key.get_or_insert_default();
            last.clear();
            last.extend_from_slice(entry.key);
        }
        Ok(())
    }

    /// The bound at which the part file ends, if it ends before `key`.
    fn ends_before(&mut self, key: &[u8]) -> Option<Key> {
        let mut crossed = None;
        while let Some((cut, rest)) = self.cuts.split_first()
            && *key >= **cut
        {
            crossed = crossed.or(Some(cut));
            self.cuts = rest;
        }
        let builder = self.builder.as_ref()?;
        let least = if self.origins.is_some() { self.buffered_min } else { self.bytes_min };
        if crossed.is_some() && builder.bytes() >= least {
            return crossed.cloned();
        }
        self.last_key.as_ref().filter(|last| ***last != *key).map(|_| key.into())
    }

    /// Ends the part file at `bound`; `None`: with everything.
    fn end_part(&mut self, bound: Option<&[u8]>) -> Result<()> {
        self.last_key = None;
        self.gaps.restart();
        let tombstones = match bound {
            Some(bound) => self.tombstones.split_off_front(bound),
            None => std::mem::take(&mut self.tombstones),
        };
        // Range tombstones without an entry get a part file as well.
        if self.builder.is_none() && !tombstones.is_empty() {
            self.builder = Some(new_part(self.context, self.filter_bits, self.is_deep, false)?);
        }
        if let Some(mut builder) = self.builder.take() {
            builder.set_range_tombstones(tombstones);
            let part = match self.origins.take() {
                None => Branch::new(self.context, builder.finish()?),
                Some(origins) => end_buffered(self.context, builder, origins)?,
            };
            if part.in_buffer().is_none() {
                self.finished_bytes += part.meta().bytes;
            }
            self.parts.0.push(part);
        }
        Ok(())
    }

    /// Bytes of all part files so far.
    pub fn bytes(&self) -> u64 {
        let open = self.builder.as_ref().filter(|_| self.origins.is_none());
        self.finished_bytes + open.map_or(0, BranchBuilder::bytes)
    }

    /// Ends the last part file. The caller syncs the directory before it makes the files part of the store.
    pub fn finish(mut self) -> Result<NewParts> {
        self.pass_reused(None)?;
        self.end_part(None)?;
        Ok(self.parts)
    }
}

impl Sink for OutputWriter<'_> {
    type Parts = NewParts;

    fn add(&mut self, entry: EntryRef<'_>, origin: Option<Origin>) -> Result<()> {
        self.add_from(entry, origin)
    }

    fn add_range_tombstones(&mut self, tombstones: RangeTombstones) {
        self.add_range_tombstones(tombstones);
    }

    fn add_reused(&mut self, key: Key) {
        self.add_reused(key);
    }

    fn bytes(&self) -> u64 {
        self.bytes()
    }

    fn finish(self) -> Result<(NewParts, u64)> {
        let parts = self.finish()?;
        let bytes = parts.written().bytes;
        Ok((parts, bytes))
    }
}

fn new_part(context: &Arc<BranchContext>, filter_bits: u32, is_deep: bool, is_buffered: bool) -> Result<BranchBuilder> {
    let builder = match is_buffered {
        false => BranchBuilder::create(context)?,
        true => BranchBuilder::buffered(context, context.numbers.take()),
    };
    let builder = builder.with_filter_bits(filter_bits);
    Ok(if is_deep { builder.for_deepest_level() } else { builder })
}

/// Ends a part that is in memory. If it could not be made again from what is on the disk, it is written to a file.
fn end_buffered(context: &Arc<BranchContext>, builder: BranchBuilder, origins: Origins) -> Result<Arc<Branch>> {
    let (meta, file) = builder.finish_buffered()?;
    if origins.count() as u64 == meta.entries && meta.range_tombstones == 0 {
        return Ok(Branch::buffered(context, meta, Buffered::new(file, origins)));
    }
    if let Err(error) = write_out(context, &meta, &file) {
        context.cache.remove_file(meta.file);
        // Nothing refers to the file. If it cannot be removed now, the next opening removes it.
        let _ = context.storage.remove(&file_name(meta.file));
        return Err(error);
    }
    Ok(Branch::new(context, meta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::runs::testing::{disk, number_key};
    use crate::util::{FileNumber, Kind, SequenceNumber};

    /// Each merge once took all the space that was free when it began, so that two filled it twice.
    #[test]
    fn writers_beside_each_other_share_the_space_in_memory() {
        const PART: u64 = 32 << 10;
        const UNTIL: u64 = 4 * PART;
        let (_disk, context) = disk();
        let writer = || OutputWriter::new(&context, &[], PART, PART).buffered(UNTIL, PART);
        let mut writers = [writer(), writer()];
        for at in 0..4_000 {
            let (key, number, value) = (number_key(at), SequenceNumber(at + 1), &[7; 100][..]);
            let origin = Origin { parent: FileNumber(1), at };
            for writer in &mut writers {
                Sink::add(writer, EntryRef { key: &key, number, kind: Kind::Put, value }, Some(origin)).unwrap();
            }
        }
        let parts = writers.map(|writer| writer.finish().unwrap());
        let in_memory = context.buffered_bytes();
        // Beyond the space goes at most what the two had begun, whose last pages make them a little larger than planned.
        assert!((UNTIL..UNTIL + 4 * PART).contains(&in_memory), "{in_memory}");
        assert!(parts.iter().all(|parts| parts.written().bytes > UNTIL), "the rest is in files");
        drop(parts);
        assert_eq!(context.buffered_bytes(), 0);
    }
}
