//! Removes the files that no tree and no reader can reach any more (`docs/recovery.md`, D2). Workers, and the thread
//! that closes.

use crate::engine::directory::locks;
use crate::engine::read::read_path::ReadPath;
use crate::engine::scheduler::Scheduler;
use crate::engine::tree_publisher::TreePublisher;
use crate::util::Result;
use crate::util::sync::{Arc, Mutex};
use std::time::Duration;

/// How long to keep obsolete files that read-only openers may read, or that a full disk does not remove.
const REMOVAL_RETRY: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct ObsoleteFiles {
    read: Arc<ReadPath>,
    publisher: Arc<TreePublisher>,
    scheduler: Arc<Scheduler>,
    /// One removal at a time.
    removing: Mutex<()>,
}

impl ObsoleteFiles {
    pub(crate) fn new(read: &Arc<ReadPath>, publisher: &Arc<TreePublisher>, scheduler: &Arc<Scheduler>) -> Arc<Self> {
        let (read, publisher, scheduler) = (Arc::clone(read), Arc::clone(publisher), Arc::clone(scheduler));
        Arc::new(Self { read, publisher, scheduler, removing: Mutex::default() })
    }

    /// Whether `remove` might find a file.
    pub(crate) fn are_any(&self) -> bool {
        self.read.branches.has_obsolete_files() || self.read.value_file_refs.has_unreferenced()
    }

    /// Removes the obsolete files, unless a read-only opener may need them.
    pub(crate) fn remove(&self) -> Result<()> {
        if !self.are_any() {
            return Ok(());
        }
        self.publisher.check_lock()?;
        // *Otherwise:* a worker took the lock of another worker for that of a read-only opener and left its files for a
        // second; meanwhile the store counted as idle, and a full disk as full.
        let _removing = self.removing.lock();
        let is_removed = match locks::to_remove(&*self.read.storage) {
            // Read-only openers may need them.
            Ok(None) => false,
            Ok(Some(_alone)) => match self.remove_all() {
                // Some file systems need space to remove a file.
                Err(error) if error.is_disk_full() => false,
                done => done.map(|()| true)?,
            },
            Err(error) if error.is_disk_full() => false,
            Err(error) => return Err(error),
        };
        if !is_removed {
            // An idle worker tries again later.
            let until = self.scheduler.clock.now().saturating_add(REMOVAL_RETRY);
            self.scheduler.postpone_removal(until);
        }
        Ok(())
    }

    fn remove_all(&self) -> Result<()> {
        let read = &self.read;
        for file in read.branches.take_obsolete_branches() {
            read.storage.remove(&crate::branch::file_name(file))?;
            let values = self.publisher.edits.lock().branch_values.remove(&file);
            values.into_iter().flatten().for_each(|value| read.value_file_refs.release(value));
        }
        for file in read.branches.take_obsolete_maplets() {
            read.storage.remove(&crate::branch::maplet_name(file))?;
        }
        for file in read.value_file_refs.take_unreferenced() {
            read.values.remove(file)?;
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

    /// Once, two workers removed files at the same time, and the second took the lock of the first for that of a
    /// read-only opener: `settle` returned while obsolete files were on the disk. (Found by the metamorphic tests.)
    #[test]
    fn a_removal_waits_for_the_removal_of_another_worker() {
        let disk = SimulatedStorage::new(1);
        let options = Options { memory_budget: Some(1 << 20), background_threads: Some(1), ..Options::default() };
        let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
        for round in 0..2u8 {
            db.put("key", [round]).unwrap();
            db.flush().unwrap();
        }
        let background = &db.engine.background;
        // A reader keeps the files while they are merged.
        let view = background.read.view.load_full();
        db.compact().unwrap();
        drop(view);
        assert!(background.obsolete_files.are_any());
        let first = (background.obsolete_files.removing.lock(), locks::to_remove(&disk).unwrap());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| background.obsolete_files.remove());
            std::thread::sleep(Duration::from_millis(20));
            drop(first.1);
            drop(first.0);
            second.join().unwrap().unwrap();
        });
        assert!(!background.obsolete_files.are_any() && background.scheduler.state.lock().no_removal_until.is_none());
        assert_eq!(disk.list().unwrap().iter().filter(|name| name.ends_with(".branch")).count(), 1);
    }

    /// Once, a store that was closed right after a merge left the files that the merge had replaced, and `verify`
    /// reported them.
    #[test]
    fn closing_removes_the_files_that_a_merge_replaced() {
        let disk = SimulatedStorage::new(1);
        let options = Options { memory_budget: Some(1 << 20), background_threads: Some(1), ..Options::default() };
        let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
        for round in 0..2u8 {
            db.put("key", [round]).unwrap();
            db.flush().unwrap();
        }
        // A reader keeps the files until no worker runs any more.
        let view = db.engine.background.read.view.load_full();
        db.compact().unwrap();
        drop(view);
        assert!(db.engine.background.obsolete_files.are_any());
        db.close().unwrap();
        assert_eq!(disk.list().unwrap().iter().filter(|name| name.ends_with(".branch")).count(), 1);
    }

    /// Once, the value files of values that were overwritten in place stayed until their generation was full of small
    /// values: 12,000 puts of 256 KiB to one key took 3 GiB on the disk.
    #[test]
    fn files_of_values_overwritten_in_place_are_bounded() {
        let disk = SimulatedStorage::new(1);
        let options = Options { memory_budget: Some(1 << 20), background_threads: Some(1), ..Options::default() };
        let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
        let limit = db.engine.background.budget.value_files;
        let files = || disk.list().unwrap().iter().filter(|name| name.ends_with(".value")).count();
        let value = vec![7; 1 << 20];
        let mut files_max = 0;
        for _ in 0..100 {
            db.put("key", &value).unwrap();
            files_max = files_max.max(files());
            while db.step() {}
        }
        let generation_files = limit.div_ceil(value.len() as u64) as usize;
        assert!(
            (2..=2 * generation_files).contains(&files_max),
            "{files_max} files, of one generation {generation_files}"
        );
    }
}
