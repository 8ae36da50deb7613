//! Reference counts of value files. A write adds a reference to the file that it makes; its generation takes the
//! reference over; every branch file that lists the file adds one. A file without references cannot be reached any more
//! and may be removed.

use crate::util::FileNumber;
use crate::util::sync::Mutex;
use std::collections::HashMap;

/// All reference counts of a store. Any thread.
#[derive(Debug, Default)]
pub(crate) struct ValueFileRefs {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: HashMap<FileNumber, u32>,
    unreferenced: Vec<FileNumber>,
}

impl ValueFileRefs {
    /// Adds a reference.
    pub(crate) fn add(&self, file: FileNumber) {
        *self.state.lock().counts.entry(file).or_default() += 1;
    }

    /// Releases a reference. After the last one `take_unreferenced` returns the file.
    pub(crate) fn release(&self, file: FileNumber) {
        let mut state = self.state.lock();
        let Some(count) = state.counts.get_mut(&file) else {
            debug_assert!(false, "value file {file} is released more often than it was referenced");
            return;
        };
        *count -= 1;
        if *count == 0 {
            state.counts.remove(&file);
            state.unreferenced.push(file);
        }
    }

    /// Takes the files without references; the caller removes them.
    pub(crate) fn take_unreferenced(&self) -> Vec<FileNumber> {
        std::mem::take(&mut self.state.lock().unreferenced)
    }

    /// Whether there are files for `take_unreferenced`.
    pub(crate) fn has_unreferenced(&self) -> bool {
        !self.state.lock().unreferenced.is_empty()
    }

    /// The number of referenced files.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().counts.len()
    }

    /// Whether a file is referenced.
    pub(crate) fn contains(&self, file: FileNumber) -> bool {
        self.state.lock().counts.contains_key(&file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_unreferenced_after_its_last_release() {
        let (references, file) = (ValueFileRefs::default(), FileNumber(3));
        references.add(file);
        references.add(file);
        references.release(file);
        assert!(references.take_unreferenced().is_empty());
        assert!(references.contains(file));
        references.release(file);
        assert_eq!((references.take_unreferenced(), references.count()), (vec![file], 0));
    }
}
