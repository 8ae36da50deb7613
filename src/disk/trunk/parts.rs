//! Writes a sorted sequence of entries as part files. One thread.
//!
//! Parts are cut at the pivots of the node that they are for, so that a part which no live range uses can be deleted whole
//! (`design.md`, Branch files), and at a size. Invariant: all versions of a key are in one part.

use super::node::Key;
use super::slot::Load;
use crate::base::Result;
use crate::base::sync::Arc;
use crate::branch::{Branch, BranchBuilder, BranchContext};
use crate::merge::EntryRef;

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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
pub struct PartWriter<'a> {
    context: &'a Arc<BranchContext>,
    /// Where to cut, ascending, those already passed left out.
    cuts: &'a [Key],
    bytes_min: u64,
    bytes_max: u64,
    builder: Option<BranchBuilder>,
    /// Once the part is large enough: its last key so far, behind which it may end.
    last_key: Option<Vec<u8>>,
    parts: NewParts,
}

impl<'a> PartWriter<'a> {
    /// Cuts at `cuts` once a part has `bytes_min`, and anywhere once it has `bytes_max`.
    pub fn new(context: &'a Arc<BranchContext>, cuts: &'a [Key], bytes_min: u64, bytes_max: u64) -> Self {
        Self { context, cuts, bytes_min, bytes_max, builder: None, last_key: None, parts: NewParts::default() }
    }

    /// Adds the next entry in entry order.
    pub fn add(&mut self, entry: EntryRef<'_>) -> Result<()> {
        if self.ends_before(entry.key) {
            self.end_part()?;
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

    fn ends_before(&mut self, key: &[u8]) -> bool {
        let mut crosses = false;
        while let Some((cut, rest)) = self.cuts.split_first()
            && *key >= **cut
        {
            crosses = true;
            self.cuts = rest;
        }
        let Some(builder) = &self.builder else { return false };
        (crosses && builder.bytes() >= self.bytes_min) || self.last_key.as_ref().is_some_and(|last| **last != *key)
    }

    fn end_part(&mut self) -> Result<()> {
        self.last_key = None;
        if let Some(builder) = self.builder.take() {
            let meta = builder.finish()?;
            self.parts.0.push(Branch::new(self.context, meta));
        }
        Ok(())
    }

    /// Ends the last part and makes the files' names durable.
    pub fn finish(mut self) -> Result<NewParts> {
        self.end_part()?;
        if !self.parts.is_empty() {
            self.context.storage.sync_directory()?;
        }
        Ok(self.parts)
    }
}
