//! Who still needs which value file. A write holds the file it makes, then its generation does, then every branch file that
//! lists it; when the last hold goes, nobody can reach a reference to it any more, and the file may be removed.

use crate::util::FileNumber;
use crate::util::sync::Mutex;
use std::collections::HashMap;

/// All holds of a store. Any thread.
#[derive(Debug, Default)]
pub(crate) struct ValueFileRefs {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: HashMap<FileNumber, u32>,
    dead: Vec<FileNumber>,
}

impl ValueFileRefs {
    /// One more holder.
    pub(crate) fn hold(&self, file: FileNumber) {
        *self.state.lock().counts.entry(file).or_default() += 1;
    }

    /// One holder less; the last one leaves the file to `take_dead`.
    pub(crate) fn release(&self, file: FileNumber) {
        let mut state = self.state.lock();
        let Some(count) = state.counts.get_mut(&file) else {
            debug_assert!(false, "value file {file} released more often than held");
            return;
        };
        *count -= 1;
        if *count == 0 {
            state.counts.remove(&file);
            state.dead.push(file);
        }
    }

    /// The files that nobody holds any more; the caller removes them.
    pub(crate) fn take_dead(&self) -> Vec<FileNumber> {
        std::mem::take(&mut self.state.lock().dead)
    }

    /// Whether `take_dead` would give anything.
    pub(crate) fn has_dead(&self) -> bool {
        !self.state.lock().dead.is_empty()
    }

    /// Files held.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().counts.len()
    }

    /// Whether a file is held.
    pub(crate) fn holds(&self, file: FileNumber) -> bool {
        self.state.lock().counts.contains_key(&file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_release_frees() {
        let (holds, file) = (ValueFileRefs::default(), FileNumber(3));
        holds.hold(file);
        holds.hold(file);
        holds.release(file);
        assert!(holds.take_dead().is_empty());
        assert!(holds.holds(file));
        holds.release(file);
        assert_eq!((holds.take_dead(), holds.count()), (vec![file], 0));
    }
}
