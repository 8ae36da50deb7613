//! Removing the files that no tree and no reader can reach any more (`docs/recovery.md`, D2). Workers, and whoever closes.

use crate::engine::directory::locks;
use crate::engine::engine::Engine;
use crate::util::Result;
use std::time::Duration;

/// How long to leave dead files that read-only openers may read, or that a full disk does not remove.
const REMOVAL_RETRY: Duration = Duration::from_secs(1);

impl Engine {
    /// Whether `remove_dead_files` might find something.
    pub(crate) fn has_dead_files(&self) -> bool {
        self.branches.has_obsolete_files() || self.value_file_refs.has_dead()
    }

    /// Removes the files that no tree and no reader can reach any more.
    pub(crate) fn remove_dead_files(&self) -> Result<()> {
        if !self.has_dead_files() {
            return Ok(());
        }
        // *Else:* a worker took the lock of another, who was at it, for a read-only opener's, and left its files for a second, in which
        // the store passed for quiet, and a full disk for full.
        let _removing = self.work.removing.lock();
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
        for file in self.branches.take_obsolete_branches() {
            self.storage.remove(&crate::branch::file_name(file))?;
            let values = self.edits.lock().branch_values.remove(&file);
            values.into_iter().flatten().for_each(|value| self.value_file_refs.release(value));
        }
        for file in self.branches.take_obsolete_maplets() {
            self.storage.remove(&crate::branch::maplet_name(file))?;
        }
        for file in self.value_file_refs.take_dead() {
            self.values.remove(file)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::DeterministicDb;
    use crate::engine::types::options::Options;
    use crate::io::Storage;
    use crate::io::simulated::SimulatedStorage;
    use crate::util::sync::Arc;

    /// Once, of two workers that removed files at a time the second took the first for a read-only opener: `settle` returned with dead
    /// files on the disk. (Found by `tests/metamorphic.rs`.)
    #[test]
    fn who_removes_beside_another_removes_all_the_same() {
        let disk = SimulatedStorage::new(1);
        let options = Options { memory_budget: Some(1 << 20), background_threads: Some(1), ..Options::default() };
        let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
        for round in 0..2u8 {
            db.put("key", [round]).unwrap();
            db.flush().unwrap();
        }
        let inner = &db.inner;
        // A reader keeps the files over the merge.
        let view = inner.view.load_full();
        db.compact().unwrap();
        drop(view);
        assert!(inner.has_dead_files());
        let first = (inner.work.removing.lock(), locks::to_remove(&disk).unwrap());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| inner.remove_dead_files());
            std::thread::sleep(Duration::from_millis(20));
            drop(first.1);
            drop(first.0);
            second.join().unwrap().unwrap();
        });
        assert!(!inner.has_dead_files() && inner.work.state.lock().no_removal_until.is_none());
        assert_eq!(disk.list().unwrap().iter().filter(|name| name.ends_with(".branch")).count(), 1);
    }

    /// Once, a store that was closed right behind a merge left the files that the merge had replaced until the next opening, where
    /// `verify` noted them.
    #[test]
    fn closing_removes_what_a_merge_has_left() {
        let disk = SimulatedStorage::new(1);
        let options = Options { memory_budget: Some(1 << 20), background_threads: Some(1), ..Options::default() };
        let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
        for round in 0..2u8 {
            db.put("key", [round]).unwrap();
            db.flush().unwrap();
        }
        // Whatever holds the files until there is no worker any more.
        let view = db.inner.view.load_full();
        db.compact().unwrap();
        drop(view);
        assert!(db.inner.has_dead_files());
        db.close().unwrap();
        assert_eq!(disk.list().unwrap().iter().filter(|name| name.ends_with(".branch")).count(), 1);
    }

    /// Once, the file of each large value that was overwritten in place stayed until its generation was full of small ones: 12,000
    /// puts of 256 KiB to one key were 3 GiB on the disk.
    #[test]
    fn values_overwritten_in_place_do_not_pile_up_on_the_disk() {
        let disk = SimulatedStorage::new(1);
        let options = Options { memory_budget: Some(1 << 20), background_threads: Some(1), ..Options::default() };
        let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
        let limit = db.inner.budget.value_files;
        let files = || disk.list().unwrap().iter().filter(|name| name.ends_with(".value")).count();
        let value = vec![7; 1 << 20];
        let mut files_max = 0;
        for _ in 0..100 {
            db.put("key", &value).unwrap();
            files_max = files_max.max(files());
            while db.step() {}
        }
        let of_a_generation = limit.div_ceil(value.len() as u64) as usize;
        assert!(
            (2..=2 * of_a_generation).contains(&files_max),
            "{files_max} files, of one generation {of_a_generation}"
        );
    }
}
