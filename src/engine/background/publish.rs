//! Makes what background work has done part of the store (`docs/recovery.md`, D1 and D2, for the order on disk).

use crate::disk::Outcome;
use crate::engine::engine::{Edits, Engine};
use crate::engine::state::view::Generation;
use crate::format::manifest_edit::ManifestEdit;
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result, SequenceNumber};

/// What an incorporation makes of the log.
#[derive(Clone, Copy)]
pub(crate) struct Incorporated<'a> {
    pub(crate) generation: &'a Arc<Generation>,
    pub(crate) end: SequenceNumber,
    /// Segments that nothing is needed of once the edit is durable.
    pub(crate) segments: &'a [FileNumber],
}

impl Engine {
    /// Makes an outcome part of the store: files' names durable, edit durable, view published, in this order (rule D1).
    pub(crate) fn commit_outcome(&self, outcome: Outcome, incorporated: Option<Incorporated<'_>>) -> Result<()> {
        let mut edits = self.edits.lock();
        let mut applied = self.disk.apply(outcome, &self.view.load().disk);
        if applied.is_empty() {
            applied.finish();
            return Ok(());
        }
        self.log_edit(&mut edits, applied.edit(), incorporated)?;
        self.view.update(|current| {
            let mut generations = current.generations.clone();
            if let Some(Incorporated { generation, .. }) = incorporated {
                generations.retain(|kept| !Arc::ptr_eq(kept, generation));
            }
            (generations, applied.version())
        });
        // Only now, with the edit durable, may the last reader's leaving remove a file (rule D2).
        applied.finish();
        drop(edits);
        self.cached_cursors.revoke_idle(self.view.version());
        Ok(())
    }

    /// Completes an edit and makes it durable, with the names of the files that it adds.
    fn log_edit(
        &self,
        edits: &mut Edits,
        edit: &mut ManifestEdit,
        incorporated: Option<Incorporated<'_>>,
    ) -> Result<()> {
        edit.next_file = Some(self.numbers.next());
        edit.log_synced = Some(self.log.synced());
        if let Some(Incorporated { end, segments, .. }) = incorporated {
            if end.next() >= self.log_start {
                edit.log_epochs_from = Some(self.log_epoch);
            }
            // Some may have been dropped before, while a read-only opener kept them from being recycled.
            let named = &edits.manifest.state().log_segments;
            edit.log_segments_dropped = segments.iter().copied().filter(|segment| named.contains(segment)).collect();
        }
        for meta in edit.branches_added.iter().filter(|meta| !meta.value_files.is_empty()) {
            meta.value_files.iter().for_each(|file| self.value_file_refs.hold(*file));
            edits.branch_values.insert(meta.file, meta.value_files.clone());
        }
        if !edit.branches_added.is_empty() || !edit.maplets_added.is_empty() {
            self.storage.sync_directory().inspect_err(|error| self.poison_disk(error))?;
        }
        match edits.manifest.append(edit) {
            Ok(number) => {
                self.log.note_manifest_edit(number);
                Ok(())
            }
            Err(error) => {
                if error.is_disk_full() {
                    // Surely not in the manifest, so the work is undone and done again once there is room.
                    self.undo(edits, edit);
                } else {
                    self.poison_disk(&error);
                }
                Err(error)
            }
        }
    }

    /// Removes the new files of an edit that did not come to be.
    fn undo(&self, edits: &mut Edits, edit: &ManifestEdit) {
        for meta in &edit.branches_added {
            edits.branch_values.remove(&meta.file);
            meta.value_files.iter().for_each(|file| self.value_file_refs.release(*file));
            // What cannot be removed now is found as stray at the next opening.
            let _ = self.storage.remove(&crate::branch::file_name(meta.file));
        }
        for meta in &edit.maplets_added {
            let _ = self.storage.remove(&crate::branch::maplet_name(meta.file));
        }
    }
}
