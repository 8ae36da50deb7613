//! The cursors that iterators keep between calls, and those that dropped iterators leave to new ones
//! (`docs/concurrency.md`, T3). Any thread.
//!
//! A cursor reads one view. When a new view is published, `revoke_idle` drops the cursors of idle and of dropped
//! iterators, so they pin neither memory nor files.

use crate::engine::state::view::View;
use crate::merge::{Cursor, Rows, VisibleCursor};
use crate::util::sync::{Arc, Mutex, thread_number};
use crossbeam_utils::CachePadded;
use std::sync::Weak;

/// A cursor over everything in one view, as a snapshot sees it.
pub(crate) type ViewCursor = VisibleCursor<Box<dyn Cursor>>;

/// A cursor with the view that it reads.
pub(super) struct CachedCursor {
    pub(super) cursor: ViewCursor,
    /// Keeps generations and value files alive while the cursor refers to them.
    pub(super) view: Arc<View>,
    /// The number of Memtables that it reads. The view may have more, which were empty.
    pub(super) memtables: usize,
}

/// Holds the cursor of a position between calls; shared with `revoke_idle`.
#[derive(Default)]
pub(super) struct CursorSlot {
    pub(super) cached: Mutex<Option<CachedCursor>>,
}

/// What a dropped position leaves to a new one, so that a seek allocates nothing. A cursor in the slot rests.
#[derive(Default)]
pub(super) struct Shell {
    pub(super) slot: Arc<CursorSlot>,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) rows: Rows,
}

/// Threads share this many lists of shells.
const STRIPES: usize = 16;
/// A thread rarely has more iterators at a time.
const SHELLS_MAX: usize = 2;
/// Larger buffers are not left.
const BUFFER_BYTES_MAX: usize = 16 << 10;

/// The cursor slots of all iterators of a store, and the shells.
#[derive(Default)]
pub(crate) struct CachedCursors {
    all: Mutex<Vec<Weak<CursorSlot>>>,
    shells: [CachePadded<Mutex<Vec<Shell>>>; STRIPES],
}

impl CachedCursors {
    /// A shell for a new position.
    pub(super) fn take(&self) -> Shell {
        let left = self.shells_of_thread().try_lock().and_then(|mut shells| shells.pop());
        left.unwrap_or_else(|| {
            let shell = Shell::default();
            self.add(&shell.slot);
            shell
        })
    }

    /// Leaves the shell of a dropped position. Waits for no lock: in a forked child another thread may hold it.
    pub(super) fn give(&self, mut shell: Shell) {
        if shell.key.capacity() + shell.value.capacity() + shell.rows.capacity() > BUFFER_BYTES_MAX {
            (shell.key, shell.value, shell.rows) = Default::default();
        }
        if let Some(mut shells) = self.shells_of_thread().try_lock()
            && shells.len() < SHELLS_MAX
        {
            shells.push(shell);
        }
    }

    fn shells_of_thread(&self) -> &Mutex<Vec<Shell>> {
        &self.shells[thread_number() % STRIPES]
    }

    fn add(&self, slot: &Arc<CursorSlot>) {
        let mut all = self.all.lock();
        // Slots of dropped iterators are removed whenever the list would grow, so it has at most twice as many slots as
        // there are iterators.
        if all.len() == all.capacity() {
            all.retain(|slot| slot.strong_count() > 0);
        }
        all.push(Arc::downgrade(slot));
    }

    /// Drops the cursors of idle and dropped iterators in views older than `version`.
    pub(crate) fn revoke_idle(&self, version: u64) {
        let slots: Vec<Arc<CursorSlot>> = self.all.lock().iter().filter_map(Weak::upgrade).collect();
        for slot in slots {
            // A locked slot is in use; its iterator checks the version at the end of this step or at the next one, and
            // once more when it is dropped.
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
