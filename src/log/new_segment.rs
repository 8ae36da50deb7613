//! Makes the segments of the log and adds their names to the manifest. Not on the write path; one thread at a time.

use super::basics::segment_size::SegmentSize;
use super::files::{FreeFile, Plan, create_segment, name_segment, reuse_segment};
use super::log::Log;
use super::segment::Segment;
use crate::util::Result;
use crate::util::sync::{Arc, Ordering};

impl Log {
    /// Makes a segment, from a free file if there is one.
    pub(super) fn make_segment(&self, size: SegmentSize, dedicated: bool) -> Result<Arc<Segment>> {
        let (free, unfit, mark) = {
            let mut state = self.state.lock();
            let fits = |file: &mut FreeFile| file.bytes == size.bytes() as u64;
            let free = if dedicated { None } else { state.free.extract_if(.., fits).next() };
            // Segments are of another size now.
            let unfit = if dedicated || free.is_some() { Vec::new() } else { std::mem::take(&mut state.free) };
            (free, unfit, state.next_mark(self.synced()))
        };
        for file in unfit {
            // A file that cannot be removed now is found again at the next opening.
            let _ = self.storage.remove(&file.name);
        }
        // Where mappings are trusted, rare segments do without.
        let without = self.shadows.are_mapped() && (dedicated || self.scarce.load(Ordering::Relaxed));
        let shadow = if without { None } else { self.shadows.take(size) };
        let plan = Plan { identity: &self.identity, size, dedicated, mark: Some(mark), shadow: shadow.as_ref() };
        let made = self.make_named(free.as_ref(), plan);
        match (&made, shadow) {
            // A segment that the manifest does not name may lack its shadow. After a failure of unknown effect, the
            // manifest may name it.
            (Err(_), Some(shadow)) if self.check().is_ok() => self.shadows.give_back(shadow),
            _ => {}
        }
        made
    }

    fn make_named(&self, free: Option<&FreeFile>, plan: Plan<'_>) -> Result<Arc<Segment>> {
        let number = self.numbers.take();
        let segment = match free {
            Some(file) => reuse_segment(&*self.storage, file, number, plan)?,
            None => create_segment(&*self.storage, number, plan)?,
        };
        match name_segment(&*self.storage, &segment, self.synced(), &self.namer.0) {
            Ok(edit) => self.note_manifest_edit(edit),
            Err(error) => {
                if !error.is_disk_full() {
                    self.poison(&error);
                }
                return Err(error);
            }
        }
        Ok(Arc::new(segment))
    }
}
