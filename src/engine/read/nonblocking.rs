//! What can be done without waiting: the seam for callers whose threads must not (`aio`). Any thread.

use super::read_path::ReadPath;
use crate::branch::{CacheOnlyPages, Stopped};
use crate::db::Db;
use crate::db::snapshot::Snapshot;
use crate::engine::engine::Engine;
use crate::engine::state::budget::GENERATIONS_MAX;
use crate::engine::types::options::{Durability, WriteOptions};
use crate::util::{Kind, Result, SequenceNumber, limits};

impl ReadPath {
    /// The value of a key, where memory and cached pages have the answer; else `None`. Reads nothing from the disk, and calls no merge
    /// operator.
    fn get_at_once(&self, user_key: &[u8], at: SequenceNumber) -> Result<Option<Option<Vec<u8>>>> {
        let lookup = self.ask(user_key, at)?;
        let view = self.view.load();
        let mut out = Vec::new();
        match self.newest(&view, lookup, &mut CacheOnlyPages::new(), &mut out) {
            Ok(Some((_, Kind::Put))) => Ok(Some(Some(out))),
            Ok(None | Some((_, Kind::Delete | Kind::RangeDelete))) => Ok(Some(None)),
            Ok(Some(_)) | Err(Stopped::Missing) => Ok(None),
            Err(Stopped::Failed(error)) => Err(error),
        }
    }
}

impl Engine {
    /// Whether a write of so many bytes, the largest value of so many, would wait for nothing, as far as can be said beforehand: not for
    /// a sync, a value file, a delay, room in memory, or a segment of the log.
    fn writes_at_once(&self, bytes: usize, largest_value: usize, durability: Durability) -> bool {
        let view = self.view.load();
        let fullness = self.fullness();
        durability != Durability::Sync
            && largest_value < limits::VALUE_FILE_BYTES_MIN
            && bytes < limits::VALUE_FILE_BYTES_MIN
            && !self.health.is_full()
            // Also where memory runs full meanwhile, there is another generation to take it.
            && view.generations.len() < GENERATIONS_MAX
            && !self.is_full(view.newest())
            && (fullness.memory, fullness.tree, fullness.garbage) == (0, 0, 0)
            && !self.log.over_budget()
            && self.log.has_segment_ready()
    }
}

impl Db {
    /// As `get`; `None` where the disk would have to be read for the answer.
    pub(crate) fn get_at_once(&self, key: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
        self.inner.get_at_once(key, SequenceNumber::MAX)
    }

    /// Whether a write of keys and values of so many bytes, the largest value of so many, would wait for nothing.
    pub(crate) fn writes_at_once(&self, bytes: usize, largest_value: usize, options: WriteOptions) -> bool {
        self.inner.writes_at_once(bytes, largest_value, self.durability(options))
    }
}

impl Snapshot {
    /// As `get`; `None` where the disk would have to be read for the answer.
    pub(crate) fn get_at_once(&self, key: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
        let _inside = self.pin().enter()?;
        self.read_side().get_at_once(key, self.pin().number())
    }
}
