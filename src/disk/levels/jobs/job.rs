//! Jobs, from the choice to the outcome. A job may run on any thread.

use super::claim::Claim;
use crate::disk::levels::plan::compaction::Compaction;
use crate::disk::runs::jobs::claims::ClaimGuard;
use crate::disk::runs::jobs::job_scope::{JobKind, JobScope};
use crate::disk::runs::load::Load;
use crate::util::sync::Arc;
use std::fmt;

/// A compaction that has claimed what it works on.
#[derive(Debug)]
pub struct Job {
    pub compaction: Compaction,
    pub claim: Arc<ClaimGuard<Claim>>,
    /// The distance of the output level from the deepest one.
    pub height: u32,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.compaction.fmt(f)
    }
}

impl Job {
    /// What it works on.
    pub fn scope(&self) -> JobScope {
        let is_move = self.compaction.is_move();
        JobScope {
            kind: if is_move { JobKind::Flush } else { JobKind::Merge },
            node: None,
            height: self.height,
            lower: Arc::clone(&self.compaction.range.lower),
            upper: Some(Arc::clone(&self.compaction.range.upper)),
            load: if is_move { Load::default() } else { self.compaction.load() },
        }
    }
}
