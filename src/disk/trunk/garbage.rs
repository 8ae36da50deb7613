//! Which branch files may hold what no reader needs any more, as far as that is known without reading them. Any thread.
//!
//! A file's counts tell whether it has versions behind others, or tombstones, of ranges too. Those that a merge of a leaf's oldest
//! bundle has written it kept for the snapshots of that time (`merge/retention.rs`), so they are garbage only once one of these has
//! gone; that is remembered while the store is open, and afterwards there are no snapshots.

use crate::branch::Branch;
use crate::merge::Retention;
use crate::util::sync::Mutex;
use crate::util::{FileNumber, SequenceNumber};
use std::collections::{BTreeSet, HashMap};

/// See the module.
#[derive(Debug, Default)]
pub struct Garbage {
    /// Files of leaves, with the pins that they were written under.
    written_under: Mutex<HashMap<FileNumber, Retention>>,
}

impl Garbage {
    /// A merge that included a leaf's oldest bundle has written the branch.
    pub fn note_written(&self, branch: &Branch, retention: &Retention) {
        if has_kept(branch) {
            self.written_under.lock().insert(branch.meta().file, retention.clone());
        }
    }

    /// Whether a merge at a leaf under `retention` may drop something of the branch that is not newer than `through`.
    pub fn is_in(&self, branch: &Branch, retention: &Retention, through: SequenceNumber) -> bool {
        // Snapshots of newer data come and go, and whoever asks has no part in it.
        let end = branch.meta().number_max.min(through);
        has_kept(branch)
            && self.written_under.lock().get(&branch.meta().file).is_none_or(|before| before.has_lost(retention, end))
    }

    /// Forgets files that are not among these.
    pub fn forget_all_but(&self, files: &BTreeSet<FileNumber>) {
        self.written_under.lock().retain(|file, _| files.contains(file));
    }
}

/// Whether the branch has more than one live version a key.
pub fn has_kept(branch: &Branch) -> bool {
    let meta = branch.meta();
    meta.entries > meta.distinct_keys || meta.tombstones > 0 || meta.range_tombstones > 0
}
