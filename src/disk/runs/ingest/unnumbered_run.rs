//! Complete part files that are read before they have a number: a layer of a staged batch. Any thread.

use super::writer::CompleteParts;
use crate::branch::{BlockingPages, Branch, Purpose};
use crate::disk::runs::run::Run;
use crate::disk::runs::run_cursor::RunCursor;
use crate::merge::Cursor;
use crate::util::key::wide_head;
use crate::util::sync::Arc;
use crate::util::{FileNumber, Kind, Result, SequenceNumber};

/// See the module. If it is dropped, its files are removed.
pub struct UnnumberedRun {
    /// Dropped before the files.
    run: Arc<Run>,
    parts: CompleteParts,
}

impl UnnumberedRun {
    /// The parts, of which there is at least one. Readers see their entries with the number `shown`.
    pub fn new(parts: CompleteParts, shown: SequenceNumber) -> Self {
        let branches = parts.metas().iter().map(|meta| {
            let mut meta = meta.clone();
            (meta.number_min, meta.number_max) = (shown, shown);
            Branch::new(parts.context(), meta)
        });
        Self { run: Run::new(branches.collect()), parts }
    }

    /// Finds a key, whose hash is `hash`: returns the kind of its entry, and appends the value to `out`. Costs as much as in a
    /// branch of the store.
    pub fn get(&self, key: &[u8], hash: u64, out: &mut Vec<u8>) -> Result<Option<Kind>> {
        let head = wide_head(key);
        let part = self.run.part_of(key, head).filter(|part| part.spans(key, head));
        let Some(part) = part else { return Ok(None) };
        let found = part.get(key, hash, SequenceNumber::MAX, &mut BlockingPages::new(), out)?;
        Ok(found.map(|(_, kind)| kind))
    }

    /// A cursor for the owner's reads, or for a merge.
    pub fn cursor(&self, is_merge: bool) -> impl Cursor + use<> {
        let purpose = if is_merge { Purpose::Compaction } else { Purpose::Read };
        RunCursor::new(Arc::clone(&self.run), purpose)
    }

    /// The value files that it refers to.
    pub fn value_files(&self) -> impl Iterator<Item = FileNumber> {
        self.parts.metas().iter().flat_map(|meta| &meta.value_files).copied()
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.parts.bytes()
    }
}
