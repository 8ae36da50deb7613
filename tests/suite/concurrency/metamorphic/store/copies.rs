//! Copies of a store: checkpoints, and one that follows the change stream.

use super::{Disk, Store};
use crate::concurrency::metamorphic::operation::Answer;
use crate::support::expect_sound;
use alluvium::storage::{MemoryStorage, PosixStorage, Storage};
use alluvium::{Db, Options, ReadOnlyDb, WriteBatch};
use std::sync::Arc;

/// A copy that follows the change stream.
pub struct Follower {
    db: Db,
    /// It has everything up to this number.
    through: u64,
}

impl Store {
    /// Every other pair of stores keeps its changes.
    pub(super) fn keeps_changes(&self) -> bool {
        (self.seed / 2).is_multiple_of(2)
    }

    /// Makes a checkpoint and scans it.
    pub(super) fn scan_of_checkpoint(&mut self, id: u64) -> Answer {
        // A checkpoint may wait for an incorporation.
        self.pause = None;
        let folder = tempfile::tempdir().unwrap();
        let path = match &self.disk {
            Disk::Simulated(..) => format!("/checkpoint{id}").into(),
            Disk::Real(_) => folder.path().join("checkpoint"),
            Disk::Memory(_) => return self.scan_of_home(),
        };
        self.db().checkpoint(&path).unwrap();
        let storage: Arc<dyn Storage> = match &self.disk {
            Disk::Simulated(disk, _) => Arc::new(disk.at(&path)),
            _ => Arc::new(PosixStorage::new(&path)),
        };
        let copy = ReadOnlyDb::open_with(storage, self.options_of_copy()).unwrap();
        let copy = copy.keyspace(self.home_name, self.home_options()).unwrap().unwrap();
        Answer::Pairs(copy.iter().unwrap().map(Result::unwrap).collect())
    }

    /// Lets the copy follow, and scans it.
    pub(super) fn scan_of_follower(&mut self) -> Answer {
        if !self.keeps_changes() {
            return self.scan_of_home();
        }
        let mut follower = self.follower.take().unwrap_or_else(|| {
            let db = Db::open_with(Arc::new(MemoryStorage::new()), self.options_of_copy()).unwrap();
            Follower { db, through: 0 }
        });
        let mut changes = self.db().changes(follower.through).unwrap();
        for write in &mut changes {
            let (write, mut batch) = (write.unwrap(), WriteBatch::new());
            write.apply_to(&follower.db, &mut batch).unwrap();
            follower.db.write(batch).unwrap();
        }
        follower.through = changes.through();
        let home = follower.db.keyspace(self.home_name, self.home_options()).unwrap();
        let pairs = home.iter().unwrap().map(Result::unwrap).collect();
        expect_sound(&follower.db);
        self.follower = Some(follower);
        Answer::Pairs(pairs)
    }

    fn options_of_copy(&self) -> Options {
        let mut options = Options::new().memory_budget(4 << 20);
        options.merge_operator = Some(self.operator.clone());
        options
    }

    fn scan_of_home(&self) -> Answer {
        Answer::Pairs(self.home().iter().unwrap().map(Result::unwrap).collect())
    }
}
