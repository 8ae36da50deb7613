//! Writes a sorted sequence of entries as part files. One thread.
//!
//! Parts are cut at the pivots of the node that they are for, so that a part which no live range uses can be deleted whole
//! (`design.md`, Branch files), where close keys end (`density.rs`), around files that stay where they are (`kept.rs`), and at a size.
//!
//! Invariants:
//! 1. All versions of a key are in one part.
//! 2. Range tombstones are cut where parts are: what of them lies in front of the bound between two parts is in the part in
//!    front of it, the rest behind. So a part's range, its range tombstones' included, ends where the next one's begins, or
//!    before, and whoever is led to a part by a key finds in it all that the run has of the key.

use super::density::Density;
use super::node::Key;
use super::slot::Load;
use crate::branch::{Branch, BranchBuilder, BranchContext};
use crate::merge::{EntryRef, RangeTombstones};
use crate::util::Result;
use crate::util::sync::Arc;
use std::collections::VecDeque;

/// Branch files that no tree refers to yet; made obsolete when dropped.
#[derive(Debug, Default)]
pub struct NewParts(Vec<Arc<Branch>>);

impl NewParts {
    /// The branches; from here on whoever took them decides their fate.
    pub fn take(mut self) -> Vec<Arc<Branch>> {
        std::mem::take(&mut self.0)
    }

    /// What is in them.
    pub fn load(&self) -> Load {
        let mut load = Load::default();
        for part in &self.0 {
            load += Load::of(part);
        }
        load
    }

    /// The branches, which stay here.
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
    /// Where to cut, ascending, those already passed left out.
    cuts: &'a [Key],
    bytes_min: u64,
    bytes_max: u64,
    /// Where parts end whatever their size, ascending, those already passed left out: the smallest keys of files that lie between.
    stops: VecDeque<Key>,
    density: Density,
    /// From this size on a part ends where close keys do.
    dense_min: u64,
    builder: Option<BranchBuilder>,
    /// Once the part is large enough: its last key so far, behind which it may end.
    last_key: Option<Vec<u8>>,
    /// Range tombstones that no part has yet.
    tombstones: RangeTombstones,
    parts: NewParts,
    /// Bytes of the parts that were ended.
    ended: u64,
}

impl<'a> OutputWriter<'a> {
    /// Cuts at `cuts` once a part has `bytes_min`, and anywhere once it has `bytes_max`.
    pub fn new(context: &'a Arc<BranchContext>, cuts: &'a [Key], bytes_min: u64, bytes_max: u64) -> Self {
        Self {
            context,
            cuts,
            bytes_min,
            bytes_max,
            stops: VecDeque::new(),
            density: Density::default(),
            dense_min: u64::MAX,
            builder: None,
            last_key: None,
            tombstones: RangeTombstones::default(),
            parts: NewParts::default(),
            ended: 0,
        }
    }

    /// Cuts as well where keys that lie close together end, once a part has `bytes`.
    pub fn with_edges_from(mut self, bytes: u64) -> Self {
        self.dense_min = bytes;
        self
    }

    /// There is a file from `key` on, behind all that was added and all stops before, which is no part of this sequence, and no
    /// entry and no range tombstone meets its range.
    pub fn add_stop(&mut self, key: Key) {
        self.stops.push_back(key);
    }

    /// Adds range tombstones, which lie behind all that were added before, ahead of the entries among which they stand.
    pub fn add_range_tombstones(&mut self, tombstones: RangeTombstones) {
        self.tombstones.append(tombstones);
    }

    /// Adds the next entry in entry order.
    pub fn add(&mut self, entry: EntryRef<'_>) -> Result<()> {
        if self.stops.front().is_some_and(|stop| **stop <= *entry.key) {
            self.pass_stops(Some(entry.key))?;
        }
        if self.dense_min == u64::MAX {
            return self.write(entry);
        }
        if self.density.is_holding() && self.density.is_likelier(entry.key) {
            self.release(false)?;
        }
        if self.density.is_holding() {
            return if self.density.hold(entry) { self.release(self.density.is_edge(false)) } else { Ok(()) };
        }
        if self.density.note(entry.key) && self.builder.as_ref().is_some_and(|part| part.bytes() >= self.dense_min) {
            self.density.hold(entry);
            return Ok(());
        }
        self.write(entry)
    }

    /// Writes what was held back, into another part if the step in front of it is an edge.
    fn release(&mut self, is_edge: bool) -> Result<()> {
        let held = self.density.release();
        if is_edge && let Some(first) = held.iter().next() {
            self.end_part(Some(first.key))?;
        }
        held.iter().try_for_each(|entry| self.write(entry))?;
        self.density.recycle(held);
        Ok(())
    }

    /// Ends parts at the stops in front of `key`, or at all.
    fn pass_stops(&mut self, key: Option<&[u8]>) -> Result<()> {
        if self.density.is_holding() {
            self.release(self.density.is_edge(true))?;
        }
        while let Some(stop) = self.stops.pop_front_if(|stop| key.is_none_or(|key| **stop <= *key)) {
            self.end_part(Some(&stop))?;
        }
        Ok(())
    }

    fn write(&mut self, entry: EntryRef<'_>) -> Result<()> {
        if let Some(bound) = self.ends_before(entry.key) {
            self.end_part(Some(&bound))?;
        }
        let builder = match &mut self.builder {
            Some(builder) => builder,
            empty => empty.insert(BranchBuilder::create(self.context)?),
        };
        builder.add(entry)?;
        if builder.bytes() >= self.bytes_max {
            let last = self.last_key.get_or_insert_default();
            last.clear();
            last.extend_from_slice(entry.key);
        }
        Ok(())
    }

    /// Where the part ends, if it does before `key`.
    fn ends_before(&mut self, key: &[u8]) -> Option<Key> {
        let mut crossed = None;
        while let Some((cut, rest)) = self.cuts.split_first()
            && *key >= **cut
        {
            crossed = crossed.or(Some(cut));
            self.cuts = rest;
        }
        let builder = self.builder.as_ref()?;
        if crossed.is_some() && builder.bytes() >= self.bytes_min {
            return crossed.cloned();
        }
        self.last_key.as_ref().filter(|last| ***last != *key).map(|_| key.into())
    }

    /// Ends the part at `bound`, or with everything.
    fn end_part(&mut self, bound: Option<&[u8]>) -> Result<()> {
        self.last_key = None;
        self.density.restart();
        let tombstones = match bound {
            Some(bound) => self.tombstones.split_off_front(bound),
            None => std::mem::take(&mut self.tombstones),
        };
        // Range tombstones without an entry have a part as well.
        if self.builder.is_none() && !tombstones.is_empty() {
            self.builder = Some(BranchBuilder::create(self.context)?);
        }
        if let Some(mut builder) = self.builder.take() {
            builder.set_range_tombstones(tombstones);
            let meta = builder.finish()?;
            self.ended += meta.bytes;
            self.parts.0.push(Branch::new(self.context, meta));
        }
        Ok(())
    }

    /// Bytes of all parts so far.
    pub fn bytes(&self) -> u64 {
        self.ended + self.builder.as_ref().map_or(0, BranchBuilder::bytes)
    }

    /// Ends the last part. Whoever makes the parts part of the store syncs their directory first.
    pub fn finish(mut self) -> Result<NewParts> {
        self.pass_stops(None)?;
        self.end_part(None)?;
        Ok(self.parts)
    }
}
