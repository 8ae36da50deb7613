//! The page source of a get that must not wait for the disk. One thread at a time.

use super::page_read::{FoundPage, WantedPage};
use super::pages::{LeavesRead, Pages, Stopped};
use crate::branch::branch::Branch;
use crossbeam_epoch::Guard;

/// Returns only what is in memory. The get stops with `Stopped::Missing` at the first page that is not.
pub struct CacheOnlyPages {
    guard: Guard,
}

impl CacheOnlyPages {
    /// A source for one operation: the epoch stays pinned until the value is dropped.
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

    fn leaves_read(&self) -> LeavesRead {
        LeavesRead::default()
    }
}
