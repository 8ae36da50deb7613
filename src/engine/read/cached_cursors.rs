//! The cursors that iterators keep between calls (`docs/concurrency.md`, T3). Any thread.
//!
//! A cursor reads one view. When a new view is published, `revoke_idle` drops the cursors of idle iterators, so that an iterator that
//! is left alone for an hour pins the versions of its snapshot, but neither memory nor files.

use crate::engine::state::view::View;
use crate::merge::{Cursor, VisibleCursor};
use crate::util::sync::{Arc, Mutex};
use std::sync::Weak;

pub(crate) type Sources = VisibleCursor<Box<dyn Cursor>>;

/// A cursor over everything in one view.
pub(super) struct CachedCursor {
    pub(super) cursor: Sources,
    /// Keeps generations and value files alive while the cursor may refer to them.
    pub(super) view: Arc<View>,
}

/// Where a position keeps its cursor between calls; shared with `revoke_idle`.
#[derive(Default)]
pub(super) struct CursorSlot {
    pub(super) cached: Mutex<Option<CachedCursor>>,
}

/// The seats of all iterators of a store.
#[derive(Default)]
pub(crate) struct CachedCursors {
    all: Mutex<Vec<Weak<CursorSlot>>>,
}

impl CachedCursors {
    pub(super) fn add(&self, slot: &Arc<CursorSlot>) {
        let mut all = self.all.lock();
        // Forgetting dead seats whenever the list would grow keeps it within twice the iterators alive.
        if all.len() == all.capacity() {
            all.retain(|slot| slot.strong_count() > 0);
        }
        all.push(Arc::downgrade(slot));
    }

    /// Takes the cursors of every idle iterator that sits in a view older than `version`.
    pub(crate) fn revoke_idle(&self, version: u64) {
        let cached_cursors: Vec<Arc<CursorSlot>> = self.all.lock().iter().filter_map(Weak::upgrade).collect();
        for slot in cached_cursors {
            // A seat that is locked is in use; its iterator looks at the version at its next step.
            if let Some(mut cached) = slot.cached.try_lock()
                && cached.as_ref().is_some_and(|cached| cached.view.version < version)
            {
                let revoked = cached.take();
                drop(cached);
                drop(revoked);
            }
        }
    }
}
