//! Which branch files may hold data that no reader needs, to the extent that this is known without reading them. Any
//! thread.
//!
//! The counts of a file say whether it has several versions of a key, or tombstones, range tombstones included. A merge
//! that includes the oldest bundle of a leaf writes such versions only for the snapshots of that time
//! (`merge/retention.rs`). So they become garbage once one of these snapshots is gone. The snapshots are remembered
//! while the store is open; after the next opening there are none.
//!
//! Of what has expired, only the numbers of a file tell: it counts from a half on, so that little is rewritten for it.

use crate::branch::Branch;
use crate::merge::{Expired, Retention};
use crate::util::sync::Mutex;
use crate::util::{FileNumber, KeyspaceId, SequenceNumber};
use std::collections::{BTreeSet, HashMap};

/// See the module.
#[derive(Debug, Default)]
pub struct Garbage {
    /// Files that such a merge has written, with the pins of that time.
    written_under: Mutex<HashMap<FileNumber, Retention>>,
}

impl Garbage {
    /// A merge under which no older data lies has written the branch.
    pub fn note_written(&self, branch: &Branch, retention: &Retention) {
        if has_hidden(branch) || !retention.expired().is_empty() {
            self.written_under.lock().insert(branch.meta().file, retention.clone().with_filtering(None));
        }
    }

    /// Whether a merge under `retention`, with no older data below, may drop data of the branch that is not newer than
    /// `through`.
    pub fn may_be_in(&self, branch: &Branch, retention: &Retention, through: SequenceNumber) -> bool {
        self.is_released_in(branch, retention, through) || !self.half_expired(branch, retention.expired()).is_empty()
    }

    /// The keyspaces in a branch of which at least half has expired. A file that a merge at the bottom has written has nothing
    /// that had expired by then, so what it has of other keyspaces does not make it be written again.
    pub fn half_expired(&self, branch: &Branch, expired: &Expired) -> Vec<KeyspaceId> {
        if expired.is_empty() {
            return Vec::new();
        }
        let meta = branch.meta();
        let written_under = self.written_under.lock();
        let before = written_under.get(&meta.file).map(|retention| &**retention.expired());
        let (keys, numbers) = ((&meta.key_min[..], &meta.key_max[..]), (meta.number_min, meta.number_max));
        expired.halves(keys, numbers, before).collect()
    }

    /// The same, as far as snapshots decide it.
    pub fn is_released_in(&self, branch: &Branch, retention: &Retention, through: SequenceNumber) -> bool {
        // Snapshots of newer data do not matter to the caller.
        let end = branch.meta().number_max.min(through);
        has_hidden(branch)
            && self.written_under.lock().get(&branch.meta().file).is_none_or(|before| before.has_lost(retention, end))
    }

    /// Whether a merge under which no older data lies has written the file, since the store was opened.
    pub fn is_noted(&self, branch: &Branch) -> bool {
        self.written_under.lock().contains_key(&branch.meta().file)
    }

    /// Removes the records of files that are not among these.
    pub fn retain_files(&self, files: &BTreeSet<FileNumber>) {
        self.written_under.lock().retain(|file, _| files.contains(file));
    }
}

/// Whether a merge with no older data below may drop data of the branch: there is some that newer data hides, or half of it has
/// expired.
pub fn may_have_garbage(branch: &Branch) -> bool {
    has_hidden(branch) || branch.has_half_expired()
}

/// Whether the branch has more than one live version of each key: older versions, tombstones or range tombstones.
fn has_hidden(branch: &Branch) -> bool {
    let meta = branch.meta();
    meta.entries > meta.distinct_keys || meta.tombstones > 0 || meta.range_tombstones > 0
}
