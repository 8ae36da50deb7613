//! Claims: what running jobs work on. Any thread; one mutex, held only for a lookup.
//!
//! Two jobs exclude each other if
//! 1. both read a file: it is replaced once; or
//! 2. both write to a level, in ranges that meet. *Otherwise:* in a tiered store the job that began later, with newer
//!    data, could add the older of two runs.
//!
//! In a leveled store a job reads every file of its output level that its range meets. So what others move there, or
//! away from there, while it runs, is outside its range, and it may assume to the end that no older data lies below if
//! that was so at the beginning.

use crate::disk::levels::plan::compaction::Compaction;
use crate::disk::levels::state::key_range::KeyRange;
use crate::util::FileNumber;
use crate::util::sync::{Arc, Mutex};
use std::collections::{BTreeMap, BTreeSet};

/// What a job works on, from its choice until its outcome is applied.
#[derive(Debug)]
struct Claim {
    files: BTreeSet<FileNumber>,
    range: KeyRange,
    output_level: usize,
}

impl Claim {
    fn conflicts(&self, other: &Self) -> bool {
        let writes_with = self.output_level == other.output_level && self.range.meets(&other.range);
        writes_with || !self.files.is_disjoint(&other.files)
    }
}

/// The claims of running jobs.
#[derive(Debug, Default)]
pub struct Claims(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    claims: BTreeMap<u64, Claim>,
}

impl Claims {
    /// Claims what a compaction works on; `None` if a running job excludes it.
    pub fn take(self: &Arc<Self>, compaction: &Compaction) -> Option<Arc<ClaimGuard>> {
        let claim = Claim {
            files: compaction.files(),
            range: compaction.range.clone(),
            output_level: compaction.output.level(),
        };
        let mut state = self.0.lock();
        if state.claims.values().any(|held| held.conflicts(&claim)) {
            return None;
        }
        let id = state.next;
        state.next += 1;
        state.claims.insert(id, claim);
        Some(Arc::new(ClaimGuard { claims: Arc::clone(self), id }))
    }

    /// The number of running jobs.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.0.lock().claims.len()
    }
}

/// Holds a claim until the last reference is dropped.
#[derive(Debug)]
pub struct ClaimGuard {
    claims: Arc<Claims>,
    id: u64,
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        self.claims.0.lock().claims.remove(&self.id);
    }
}
