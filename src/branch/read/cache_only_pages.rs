//! Where a get takes pages from that must not wait for the disk. One thread at a time.

use super::page_read::{FoundPage, WantedPage};
use super::pages::{Pages, Stopped};
use crate::branch::branch::Branch;
use crossbeam_epoch::Guard;

/// Gives what is in memory; a get stops (`Stopped::Missing`) at the first thing that is not.
pub struct CacheOnlyPages {
    guard: Guard,
}

impl CacheOnlyPages {
    /// For one operation: the epoch is pinned as long as the value lives.
    pub fn new() -> Self {
        Self { guard: crossbeam_epoch::pin() }
    }
}

impl<'t> Pages<'t> for CacheOnlyPages {
    type Stop = Stopped;

    fn page<'a>(&'a mut self, branch: &'t Branch, wanted: WantedPage) -> Result<FoundPage<'a>, Stopped>
    where
        't: 'a,
    {
        branch.cached(wanted, &self.guard)?.map(FoundPage::Cached).ok_or(Stopped::Missing)
    }

    fn begin(&self, branch: &'t Branch) -> Result<(), Stopped> {
        if branch.is_loaded() { Ok(()) } else { Err(Stopped::Missing) }
    }

    fn guard(&self) -> &Guard {
        &self.guard
    }

    fn small_leaves_read(&self) -> u64 {
        0
    }
}
