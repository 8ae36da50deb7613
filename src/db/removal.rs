//! Removing the files that no tree and no reader can reach any more (`docs/recovery.md`, D2). Workers.

use super::inner::Inner;
use super::locks;
use crate::base::Result;
use std::time::Duration;

/// How long to leave dead files that read-only openers may read, or that a full disk does not remove.
const REMOVAL_RETRY: Duration = Duration::from_secs(1);

impl Inner {
    /// Whether `remove_dead_files` might find something.
    pub(super) fn has_dead_files(&self) -> bool {
        self.branches.has_trash() || self.value_holds.has_dead()
    }

    /// Removes the files that no tree and no reader can reach any more.
    pub(super) fn remove_dead_files(&self) -> Result<()> {
        if !self.has_dead_files() {
            return Ok(());
        }
        let removed = match locks::to_remove(&*self.storage) {
            // Read-only openers may need them.
            Ok(None) => false,
            Ok(Some(_alone)) => match self.remove_unreachable() {
                // There are file systems that need room to remove.
                Err(error) if error.is_disk_full() => false,
                done => done.map(|()| true)?,
            },
            Err(error) if error.is_disk_full() => false,
            Err(error) => return Err(error),
        };
        if !removed {
            // Whoever has nothing else to do asks again later; not at once, for ever.
            let until = self.clock.now().saturating_add(REMOVAL_RETRY);
            self.work.postpone_removal(until);
        }
        Ok(())
    }

    fn remove_unreachable(&self) -> Result<()> {
        for file in self.branches.take_trash() {
            self.storage.remove(&crate::branch::file_name(file))?;
            let values = self.edits.lock().branch_values.remove(&file);
            values.into_iter().flatten().for_each(|value| self.value_holds.release(value));
        }
        for file in self.branches.take_maplet_trash() {
            self.storage.remove(&crate::branch::maplet_name(file))?;
        }
        for file in self.value_holds.take_dead() {
            self.values.remove(file)?;
        }
        Ok(())
    }
}
