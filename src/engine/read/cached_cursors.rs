//! The cursors that iterators keep between calls (`docs/concurrency.md`, T3). Any thread.
//!
//! A cursor reads one view. When a new view is published, `revoke_idle` drops the cursors of idle iterators, so an idle
//! iterator pins the versions of its snapshot, but neither memory nor files.

use crate::engine::state::view::View;
use crate::merge::{Cursor, VisibleCursor};
use crate::util::sync::{Arc, Mutex};
use std::sync::Weak;

/// A cursor over everything in one view, as a snapshot sees it.
pub(crate) type ViewCursor = VisibleCursor<Box<dyn Cursor>>;

/// A cursor with the view that it reads.
pub(super) struct CachedCursor {
    pub(super) cursor: ViewCursor,
    /// Keeps generations and value files alive while the cursor refers to them.
    pub(super) view: Arc<View>,
}

/// Holds the cursor of a position between calls; shared with `revoke_idle`.
#[derive(Default)]
pub(super) struct CursorSlot {
    pub(super) cached: Mutex<Option<CachedCursor>>,
}

/// The cursor slots of all iterators of a store.
#[derive(Default)]
pub(crate) struct CachedCursors {
    all: Mutex<Vec<Weak<CursorSlot>>>,
}

impl CachedCursors {
    pub(super) fn add(&self, slot: &Arc<CursorSlot>) {
        let mut all = self.all.lock();
        // Slots of dropped iterators are removed whenever the list would grow, so it has at most twice as many slots as
        // there are iterators.
        if all.len() == all.capacity() {
            all.retain(|slot| slot.strong_count() > 0);
        }
        all.push(Arc::downgrade(slot));
    }

    /// Drops the cursors of idle iterators in views older than `version`.
    pub(crate) fn revoke_idle(&self, version: u64) {
        let slots: Vec<Arc<CursorSlot>> = self.all.lock().iter().filter_map(Weak::upgrade).collect();
        for slot in slots {
            // A locked slot is in use; its iterator checks the version at the end of this step or at the next one.
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
