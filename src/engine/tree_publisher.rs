//! Makes the results of background work part of the store (`docs/recovery.md`, D1 and D2, for the order on disk).
//!
//! Any thread. Edits are serialized by the edit mutex; a view with the new tree is published under it.

use super::directory::locks::LockCheck;
use super::durable_log::DurableLog;
use super::filtering::filter_counters::FilterCounters;
use super::filtering::filter_gate::ClosedGate;
use super::read::read_path::ReadPath;
use super::shared_components::SharedComponents;
use super::state::generation::Generation;
use super::state::view::{Publication, View};
use super::types::bounds::EncodedRange;
use crate::disk::{Component, Outcome, Version};
use crate::format::manifest_edit::ManifestEdit;
use crate::log::NameSegment;
use crate::manifest::Manifest;
use crate::merge::Filtered;
use crate::util::planted::planted;
use crate::util::sync::{Arc, Mutex, Ordering};
use crate::util::{FileNumber, FileNumbers, Result, SequenceNumber};
use std::collections::HashMap;

/// What the edit mutex protects.
pub(crate) struct Edits {
    pub(crate) manifest: Manifest,
    /// The value files that each live branch file lists, for branch files that list any.
    pub(super) branch_values: HashMap<FileNumber, Vec<FileNumber>>,
    lock: Arc<LockCheck>,
}

impl Edits {
    /// The manifest of a store that is being opened.
    pub(crate) fn new(manifest: Manifest, lock: Arc<LockCheck>) -> Self {
        let branches = manifest.state().branches.values().filter(|meta| !meta.value_files.is_empty());
        let branch_values = branches.map(|meta| (meta.file, meta.value_files.clone())).collect();
        Self { manifest, branch_values, lock }
    }

    /// The function that the log calls for each new segment.
    pub(crate) fn name_segment(edits: &Arc<Mutex<Self>>) -> NameSegment {
        let edits = Arc::clone(edits);
        Box::new(move |segment, synced| {
            let log_segments_added = vec![segment];
            let edit = ManifestEdit { log_segments_added, log_synced: Some(synced), ..ManifestEdit::default() };
            let mut edits = edits.lock();
            edits.lock.check()?;
            edits.manifest.append(&edit)
        })
    }
}

/// An incorporation, as its edit sees it.
#[derive(Clone, Copy)]
pub(crate) struct Incorporated<'a> {
    pub(crate) generation: &'a Arc<Generation>,
    pub(crate) end: SequenceNumber,
    /// Segments of which nothing is needed once the edit is durable.
    pub(crate) segments: &'a [FileNumber],
}

/// See the module.
pub(crate) struct TreePublisher {
    pub(crate) edits: Arc<Mutex<Edits>>,
    disk: Arc<Component>,
    read: Arc<ReadPath>,
    log: Arc<DurableLog>,
    numbers: Arc<FileNumbers>,
    pub(crate) filter_counters: FilterCounters,
}

impl TreePublisher {
    pub(crate) fn new(
        shared: &SharedComponents,
        edits: Arc<Mutex<Edits>>,
        log: &Arc<DurableLog>,
        numbers: &Arc<FileNumbers>,
    ) -> Arc<Self> {
        Arc::new(Self {
            edits,
            disk: Arc::clone(&shared.disk),
            read: Arc::clone(&shared.read),
            log: Arc::clone(log),
            numbers: Arc::clone(numbers),
            filter_counters: FilterCounters::default(),
        })
    }

    /// Makes an outcome part of the store: first the names of its files become durable, then the edit, then the view is
    /// published (rule D1).
    pub(crate) fn publish(&self, outcome: Outcome, incorporated: Option<Incorporated<'_>>) -> Result<()> {
        self.publish_filtered(outcome, incorporated, &Filtered::default()).map(drop)
    }

    /// The same for an outcome in which compaction filters have changed pairs. If a snapshot can read one of them, the outcome
    /// is dropped (`docs/concurrency.md`, F4). Returns whether it was published.
    pub(crate) fn publish_filtered(
        &self,
        outcome: Outcome,
        incorporated: Option<Incorporated<'_>>,
        filtered: &Filtered,
    ) -> Result<bool> {
        self.check_lock()?;
        let view = &self.read.view;
        let mut edits = self.edits.lock();
        let gate = filtered.least.map(|least| (self.read.snapshots.close_filter_gate(), least));
        if let Some((_, least)) = gate
            && planted!(self.read.snapshots.is_any_from(least), Bug::SnapshotsDuringFilter => false)
        {
            return Ok(false);
        }
        let is_merge = outcome.is_merge();
        let mut applied = self.disk.apply(outcome, &view.load().disk);
        if applied.is_empty() {
            applied.finish();
            return Ok(true);
        }
        self.append(&mut edits, applied.edit(), incorporated)?;
        let change = |current: &View| {
            let mut generations = current.generations.clone();
            if let Some(Incorporated { generation, .. }) = incorporated {
                generations.retain(|other| !Arc::ptr_eq(other, generation));
            }
            (generations, applied.version())
        };
        match &gate {
            None => view.update(change),
            Some((gate, _)) => self.update_filtered(gate, filtered, change),
        }
        drop(gate);
        // Only now, when the edit is durable, may the last reader of a file remove it (rule D2).
        applied.finish();
        if is_merge {
            // The space that it frees may be enough for others. *Otherwise,* if this came before the edit: on a disk too
            // full for an edit, two merges that write nothing were tried in turn for ever, each after the other.
            self.disk.clear_failures();
        }
        drop(edits);
        self.note_new_view();
        Ok(true)
    }

    /// Makes the files of an ingest, which have this number and lie in these ranges, part of the store (rules I4 and I5). No key
    /// of the ranges is written meanwhile, memory has none, and no snapshot has this number or a greater one.
    pub(crate) fn publish_ingest(
        &self,
        outcome: Outcome,
        number: SequenceNumber,
        ranges: &[EncodedRange],
    ) -> Result<()> {
        self.check_lock()?;
        let (view, items) = (&self.read.view, self.read.cache.items());
        let mut edits = self.edits.lock();
        let mut applied = self.disk.apply(outcome, &view.load().disk);
        applied.edit().ingested = Some(number);
        self.append(&mut edits, applied.edit(), None)?;
        items.begin_filtered();
        let is_inside =
            |key: &[u8], (start, end): &EncodedRange| key >= &start[..] && end.as_deref().is_none_or(|end| key < end);
        items.invalidate_where(|key| ranges.iter().any(|range| is_inside(key, range)));
        view.publish(Publication::Ingest(number), |current| (current.generations.clone(), applied.version()));
        // Rule D4.
        self.read.range_deletes.note_placed();
        items.end_filtered();
        applied.finish();
        drop(edits);
        self.note_new_view();
        Ok(())
    }

    fn note_new_view(&self) {
        let view = &self.read.view;
        self.read.storage.set_store_bytes(view.load().disk.bytes());
        self.read.cached_cursors.revoke_idle(view.version());
    }

    /// Publishes a view with pairs that compaction filters have changed (rules F5 and F6).
    fn update_filtered(
        &self,
        gate: &ClosedGate<'_>,
        filtered: &Filtered,
        change: impl FnOnce(&View) -> (Vec<Arc<Generation>>, Version),
    ) {
        let items = self.read.cache.items();
        items.begin_filtered();
        match &filtered.hashes {
            Some(hashes) => hashes.iter().for_each(|hash| items.invalidate(*hash)),
            None => items.invalidate_where(|_| true),
        }
        let swap = gate.begin_swap();
        self.read.sequencer.wait_for_announced();
        self.read.view.publish(Publication::Filtered, change);
        self.read.range_deletes.note_placed();
        drop(swap);
        items.end_filtered();
        self.filter_counters.note_published(filtered);
    }

    /// Closes the manifest's file until the next edit, unless an edit is being made now.
    pub(crate) fn release_manifest_file(&self) {
        if let Some(mut edits) = self.edits.try_lock() {
            edits.manifest.release_file();
        }
    }

    /// See `DurableLog::check_lock`.
    pub(crate) fn check_lock(&self) -> Result<()> {
        self.log.check_lock()
    }

    /// Completes an edit and makes it durable, with the names of the files that it adds.
    fn append(&self, edits: &mut Edits, edit: &mut ManifestEdit, incorporated: Option<Incorporated<'_>>) -> Result<()> {
        edit.next_file = Some(self.numbers.next());
        edit.log_synced = Some(self.log.log.synced());
        if let Some(Incorporated { end, segments, .. }) = incorporated {
            if end.next() >= self.log.start {
                edit.log_epochs_from = Some(self.log.epoch);
            }
            // Some may have been dropped before, while a read-only opener kept them from being recycled.
            let named = &edits.manifest.state().log_segments;
            edit.log_segments_dropped = segments.iter().copied().filter(|segment| named.contains(segment)).collect();
        }
        for meta in edit.branches_added.iter().filter(|meta| !meta.value_files.is_empty()) {
            meta.value_files.iter().for_each(|file| self.read.value_file_refs.add(*file));
            edits.branch_values.insert(meta.file, meta.value_files.clone());
        }
        if !edit.branches_added.is_empty() || !edit.maplets_added.is_empty() {
            self.read.storage.sync_directory().inspect_err(|error| self.log.poison_disk(error))?;
        }
        match edits.manifest.append(edit) {
            Ok(number) => {
                self.log.log.note_manifest_edit(number);
                Ok(())
            }
            Err(error) => {
                if error.is_disk_full() {
                    // The edit is certainly not in the manifest, so the work is undone, and done again once there is
                    // space.
                    self.undo(edits, edit);
                } else {
                    self.log.poison_disk(&error);
                }
                Err(error)
            }
        }
    }

    /// Removes the new files of an edit that was not written.
    fn undo(&self, edits: &mut Edits, edit: &ManifestEdit) {
        for meta in &edit.branches_added {
            edits.branch_values.remove(&meta.file);
            meta.value_files.iter().for_each(|file| self.read.value_file_refs.release(*file));
            // The next opening finds and removes a file that cannot be removed now.
            let _ = self.read.storage.remove(&crate::branch::file_name(meta.file));
        }
        for meta in &edit.maplets_added {
            let _ = self.read.storage.remove(&crate::branch::maplet_name(meta.file));
        }
    }

    /// Records in the manifest how far the log is synced, if anything in it is needed, and that these segments are not.
    /// Without it an older copy of the newest segment would look like that of a process that died earlier. Returns
    /// whether the segments may be removed.
    pub(crate) fn note_log_end(&self, unneeded: &[FileNumber]) -> Result<bool> {
        let (synced, mut edits) = (self.log.log.synced(), self.edits.lock());
        let state = edits.manifest.state();
        let named = |segment: &FileNumber| state.log_segments.contains(segment);
        let log_segments_dropped: Vec<_> = unneeded.iter().copied().filter(named).collect();
        if synced <= state.log_synced.max(state.incorporated) && log_segments_dropped.is_empty() {
            return Ok(true);
        }
        self.check_lock()?;
        let edit = ManifestEdit { log_synced: Some(synced), log_segments_dropped, ..ManifestEdit::default() };
        match edits.manifest.append(&edit) {
            Ok(number) => {
                let log = &self.log.log;
                if self.read.closed.load(Ordering::Acquire) {
                    log.note_closing_edit(number)?;
                } else {
                    log.note_manifest_edit(number);
                }
                Ok(true)
            }
            // Nothing is lost with this edit, so closing succeeds on a full disk.
            Err(error) if error.is_disk_full() => Ok(false),
            Err(error) => Err(error),
        }
    }
}
