//! Makes the segments of the log and adds their names to the manifest. Not on the write path; one thread at a time.

use super::files::{FreeFile, Plan, create_segment, name_segment, reuse_segment};
use super::log::Log;
use super::segment::Segment;
use crate::util::Result;
use crate::util::sync::Arc;

impl Log {
    /// Makes the next segment, from a free file if there is one.
    pub(super) fn make_segment(&self, chunks: usize, dedicated: bool) -> Result<Arc<Segment>> {
        // Files most of whose chunks idle writers own. Only their mapping is still needed.
        let mut used_up = Vec::new();
        let (free, mark) = {
            let mut state = self.state.lock();
            let mut free = None;
            while !dedicated && free.is_none() {
                let Some(file) = state.free.pop() else { break };
                if file.reuse.as_ref().is_none_or(|(_, owners)| owners.leave_enough()) {
                    free = Some(file);
                } else {
                    used_up.push(file);
                }
            }
            (free, state.next_mark(self.synced()))
        };
        for file in used_up {
            // A file that cannot be removed now is found again at the next opening.
            let _ = self.storage.remove(&file.name);
        }
        let chunk_bytes = self.options.chunk_bytes;
        // A file that was used before has the standard length.
        let chunks = if free.is_some() { self.chunks } else { chunks };
        let shadow = if dedicated || chunks != self.chunks { None } else { self.shadows.take(&*self.storage) };
        let plan = Plan {
            identity: &self.identity,
            chunks,
            chunk_bytes,
            dedicated,
            mark: Some(mark),
            shadow: shadow.as_ref(),
        };
        let made = self.make_named(free, plan);
        match (&made, shadow) {
            (Ok(segment), Some(shadow)) if !segment.has_shadow() => self.shadows.give_back(shadow),
            // A segment that the manifest does not name may lack its shadow. After a failure of unknown effect, the
            // manifest may name it.
            (Err(_), Some(shadow)) if self.check().is_ok() => self.shadows.give_back(shadow),
            _ => {}
        }
        made
    }

    fn make_named(&self, free: Option<FreeFile>, plan: Plan<'_>) -> Result<Arc<Segment>> {
        let number = self.numbers.take();
        let segment = match free {
            Some(file) => reuse_segment(&*self.storage, file, number, plan)?,
            None => create_segment(&*self.storage, number, plan)?,
        };
        match name_segment(&*self.storage, &segment, self.synced(), &self.namer.0) {
            Ok(edit) => self.note_manifest_edit(edit),
            Err(error) => {
                if !error.is_disk_full() {
                    self.poison(&error.to_string());
                }
                return Err(error);
            }
        }
        Ok(Arc::new(segment))
    }
}
