//! The ingest writer: writes sorted pairs, which never were in memory, as the part files of a run. All of them get one
//! number, once they are complete. One thread.
//!
//! A part file ends at a cut, which is a key at which files of the component end, or at its largest size. Range tombstones
//! are cut there.

use super::pairs::Pair;
use crate::branch::{Branch, BranchBuilder, BranchContext, WriteBehind, set_common_number, sync_common_number};
use crate::disk::runs::output::NewParts;
use crate::disk::runs::run::Key;
use crate::format::manifest_edit::BranchMeta;
use crate::merge::{EntryRef, RangeTombstones};
use crate::util::planted::planted;
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};
use std::collections::VecDeque;

/// Where part files end, and how they are stored.
#[derive(Debug)]
pub struct IngestForm {
    /// Keys, ascending.
    pub cuts: VecDeque<Key>,
    /// From this size on a file ends at a cut.
    pub bytes_min: u64,
    /// At this size it ends after any key.
    pub bytes_max: u64,
    /// Of the remainders in the filters.
    pub filter_bits: u32,
}

/// See the module. If it is dropped, its files are removed.
pub struct IngestWriter {
    context: Arc<BranchContext>,
    /// Without the cuts already passed.
    form: IngestForm,
    /// Makes each file.
    admit: Option<Box<Admit>>,
    behind: Option<Arc<WriteBehind>>,
    builder: Option<BranchBuilder>,
    /// Range tombstones that no part file has yet, without a number.
    tombstones: RangeTombstones,
    complete: CompleteParts,
}

/// Makes a file by a call of the function, unless there is no space for so many bytes, or the store is closed. It does not
/// close before the function returns.
pub type Admit = dyn Fn(u64, &mut dyn FnMut() -> Result<()>) -> Result<()> + Send;

/// Part files that are on the disk, durable except for their names and their number. If they are dropped, they are removed.
pub struct CompleteParts {
    context: Arc<BranchContext>,
    metas: Vec<BranchMeta>,
    /// Bytes of users' keys and values in them.
    user_bytes: u64,
}

impl IngestWriter {
    /// A writer without a file.
    pub fn new(context: &Arc<BranchContext>, form: IngestForm) -> Self {
        let complete = CompleteParts { context: Arc::clone(context), metas: Vec::new(), user_bytes: 0 };
        let (admit, behind, builder, tombstones) = (None, None, None, RangeTombstones::default());
        Self { context: Arc::clone(context), form, admit, behind, builder, tombstones, complete }
    }

    /// Also deletes these ranges, which have no number and hide older data, not the pairs. To be called before pairs are added.
    pub fn deleting(self, ranges: RangeTombstones) -> Self {
        Self { tombstones: ranges, ..self }
    }

    /// Makes each file as this says.
    pub fn admitted(self, admit: Box<Admit>) -> Self {
        Self { admit: Some(admit), ..self }
    }

    /// Has another thread write to the files, if there can be one.
    pub(super) fn write_behind(self) -> Self {
        Self { behind: WriteBehind::start(), ..self }
    }

    /// Adds a pair, whose encoded key is greater than all before.
    pub fn add(&mut self, pair: Pair<'_>) -> Result<()> {
        let Pair { key, kind, value, user_bytes } = pair;
        if let Some(bound) = self.ends_before(key) {
            self.end_part(Some(&bound))?;
        }
        if self.builder.is_none() {
            self.builder = Some(self.begin_part()?);
        }
        let Some(builder) = &mut self.builder else { unreachable!("a part has begun") };
        builder.add(EntryRef { key, number: SequenceNumber::ZERO, kind, value })?;
        self.complete.user_bytes += user_bytes;
        Ok(())
    }

    fn begin_part(&self) -> Result<BranchBuilder> {
        let mut made = None;
        let mut make = || {
            made = Some(BranchBuilder::create(&self.context)?);
            Ok(())
        };
        match &self.admit {
            Some(admit) => admit(self.form.bytes_max, &mut make)?,
            None => make()?,
        }
        let Some(builder) = made else { unreachable!("an admitted file is made") };
        let builder = builder.with_filter_bits(self.form.filter_bits).numbered_later();
        Ok(match &self.behind {
            Some(behind) => builder.write_behind(behind),
            None => builder,
        })
    }

    /// The bound at which the part file ends, if it ends before `key`.
    fn ends_before(&mut self, key: &[u8]) -> Option<Key> {
        let mut crossed = None;
        while let Some(cut) = self.form.cuts.pop_front_if(|cut| **cut <= *key) {
            crossed = crossed.or(Some(cut));
        }
        let bytes = self.builder.as_ref()?.bytes();
        if bytes >= self.form.bytes_min && crossed.is_some() {
            return crossed;
        }
        (bytes >= self.form.bytes_max).then(|| key.into())
    }

    /// Ends the part file at a bound; `None`: with everything.
    fn end_part(&mut self, bound: Option<&[u8]>) -> Result<()> {
        let tombstones = match bound {
            Some(bound) => self.tombstones.split_off_front(bound),
            None => std::mem::take(&mut self.tombstones),
        };
        // Range tombstones without a pair get a part file as well.
        if self.builder.is_none() && !tombstones.is_empty() {
            self.builder = Some(self.begin_part()?);
        }
        if let Some(mut builder) = self.builder.take() {
            builder.set_range_tombstones(planted!(tombstones, Bug::StagedRangesLost => RangeTombstones::default()));
            self.complete.metas.push(builder.finish()?);
        }
        Ok(())
    }

    /// Bytes of all files so far.
    pub fn bytes(&self) -> u64 {
        self.complete.bytes() + self.builder.as_ref().map_or(0, BranchBuilder::bytes)
    }

    /// Completes the last file.
    pub fn finish(mut self) -> Result<CompleteParts> {
        self.end_part(None)?;
        self.behind.as_ref().map_or(Ok(()), |behind| behind.wait())?;
        Ok(self.complete)
    }
}

impl CompleteParts {
    /// The records of the files, in key order.
    pub(super) fn metas(&self) -> &[BranchMeta] {
        &self.metas
    }

    pub(super) fn context(&self) -> &Arc<BranchContext> {
        &self.context
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.metas.is_empty()
    }

    /// The number of files.
    pub fn count(&self) -> usize {
        self.metas.len()
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.metas.iter().map(|meta| meta.bytes).sum()
    }

    /// Bytes of users' keys and values in them.
    pub fn user_bytes(&self) -> u64 {
        self.user_bytes
    }

    /// Gives all entries a number. Afterwards the files can become part of the store.
    pub fn give_number(mut self, number: SequenceNumber) -> Result<(NewParts, NumberedFooters)> {
        for meta in &mut self.metas {
            set_common_number(&self.context, meta, number)?;
        }
        let metas = std::mem::take(&mut self.metas);
        let parts = metas.iter().map(|meta| Branch::new(&self.context, meta.clone())).collect();
        Ok((NewParts::new(parts), NumberedFooters { context: Arc::clone(&self.context), metas }))
    }
}

impl Drop for CompleteParts {
    fn drop(&mut self) {
        for meta in &self.metas {
            self.context.discard(meta.file);
        }
    }
}

/// Footers with a number that is not durable yet.
pub struct NumberedFooters {
    context: Arc<BranchContext>,
    metas: Vec<BranchMeta>,
}

impl NumberedFooters {
    /// Makes them durable. For files that are part of the store, or were a moment ago.
    pub fn sync(self) -> Result<()> {
        for meta in &self.metas {
            match sync_common_number(&self.context, meta) {
                // A merge has rewritten it meanwhile.
                Err(error) if error.is_not_found() => {}
                done => done?,
            }
        }
        Ok(())
    }
}
