//! Where an end of an iterator stands: its cursors, and the pair that it came to.
//!
//! Cursors read one view. When the view has changed by the next step, the position takes a new seat in the newest one at
//! (snapshot, key); when the view changes while it is idle, its cursors are taken away, so that an iterator left lying for an
//! hour pins its snapshot's versions, but neither memory nor files (`docs/concurrency.md`, T3).

use super::cached_cursors::{CachedCursor, CursorSlot, Sources};
use super::pinned_value::Pinned;
use super::read_path::ReadPath;
use crate::engine::state::snapshot_registry::SnapshotPin;
use crate::engine::types::bounds::Bounds;
use crate::merge::{Cursor, MergeCursor, PinnedValue, Values, VisibleCursor};
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Kind, Result};

/// What both ends of an iterator walk over.
pub(crate) struct Scope {
    pub(crate) read: Arc<ReadPath>,
    pub(crate) pin: Arc<SnapshotPin>,
    pub(crate) bounds: Bounds,
    pub(crate) values: Values,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing was sought yet.
    New,
    /// On a pair that was not given out from here.
    On,
    /// On a pair that was given out.
    Given,
    /// Off an end, or behind an error.
    Nowhere,
}

/// See the module.
pub(crate) struct Position {
    slot: Arc<CursorSlot>,
    pub(crate) state: State,
    /// The pair that it stands on: encoded key, and value, the latter as the scope wants it: copied, held, or left.
    pub(crate) key: Vec<u8>,
    value: Vec<u8>,
    held: Option<PinnedValue>,
}

impl Position {
    pub(crate) fn new(read: &ReadPath) -> Self {
        let slot = Arc::new(CursorSlot::default());
        read.cached_cursors.add(&slot);
        Self { slot, state: State::New, key: Vec::new(), value: Vec::new(), held: None }
    }

    /// Whether it stands on a pair.
    pub(crate) fn valid(&self) -> bool {
        matches!(self.state, State::On | State::Given)
    }

    /// The key it stands on. Requires `valid()`.
    pub(crate) fn user_key(&self) -> &[u8] {
        &self.key[KeyspaceId::BYTES..]
    }

    /// The value it stands on, where values are copied.
    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }

    /// The value it stands on, which it then has no more.
    pub(crate) fn take_value(&mut self) -> Pinned {
        Pinned::new(self.held.take(), std::mem::take(&mut self.value))
    }

    /// Gives up its cursors; it stays where it is.
    pub(crate) fn leave_seat(&self) {
        *self.slot.cached.lock() = None;
    }

    /// Takes a seat in the newest view where that is needed, moves, and copies out the pair arrived at. After an error it
    /// stands nowhere.
    pub(crate) fn go(
        &mut self,
        scope: &Scope,
        from_here: bool,
        movement: impl FnOnce(&mut Sources) -> Result<()>,
    ) -> Result<()> {
        let result = self.try_go(scope, from_here, movement);
        if result.is_err() {
            self.state = State::Nowhere;
        }
        result
    }

    fn try_go(
        &mut self,
        scope: &Scope,
        from_here: bool,
        movement: impl FnOnce(&mut Sources) -> Result<()>,
    ) -> Result<()> {
        let read = &scope.read;
        read.check_open()?;
        let _inside = scope.pin.enter()?;
        let mut guard = self.slot.cached.lock();
        let newest = read.view.version();
        let is_outdated = guard.as_ref().is_none_or(|cached| cached.view.version < newest);
        if is_outdated {
            // The old cursors go before there are new ones.
            *guard = None;
        }
        let cached = guard.get_or_insert_with(|| sit(scope));
        if is_outdated && from_here {
            cached.cursor.seek(&self.key)?;
            debug_assert!(cached.cursor.valid() && cached.cursor.entry().key == self.key);
        }
        movement(&mut cached.cursor)?;
        self.value.clear();
        self.held = None;
        if !cached.cursor.valid() {
            self.state = State::Nowhere;
            return Ok(());
        }
        let entry = cached.cursor.entry();
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        let operands = cached.cursor.operands();
        if scope.values == Values::Pinned && entry.kind == Kind::Put && operands.is_empty() {
            self.held = cached.cursor.pin_value();
        }
        if self.held.is_none() && scope.values != Values::Skipped {
            self.value.extend_from_slice(entry.value);
            let live = read.resolve(entry.kind, &mut self.value)?;
            if operands.is_empty() {
                debug_assert!(live, "the visible cursor passes over tombstones");
            } else {
                read.fold(&self.key[KeyspaceId::BYTES..], live, operands, &mut self.value)?;
            }
        }
        if cached.view.version < read.view.version() {
            // The sweep came by while this seat was in use, and will not come again before the next change.
            *guard = None;
        }
        self.state = State::On;
        Ok(())
    }
}

/// Opens cursors over everything in the newest view, newest source first.
fn sit(scope: &Scope) -> CachedCursor {
    let Scope { read, pin, bounds, values } = scope;
    let at = pin.number();
    let view = read.view.load_full();
    let mut sources: Vec<Box<dyn Cursor>> = Vec::with_capacity(view.generations.len() + 1);
    for generation in &view.generations {
        if !generation.memtable.is_empty() {
            sources.push(Box::new(generation.memtable.cursor_at(at)));
        }
    }
    let tree = view.disk.cursor();
    let all: Box<dyn Cursor> = if sources.is_empty() {
        tree
    } else {
        sources.push(tree);
        Box::new(MergeCursor::new(sources))
    };
    // A Memtable that gets its first one later gets it with a number that the snapshot does not have.
    let masked = view.disk.has_range_tombstones()
        || view.generations.iter().any(|generation| generation.memtable.has_range_tombstones());
    let cursor =
        VisibleCursor::new(all, at, bounds.lower.clone(), bounds.upper.clone()).masked(masked).wanting(*values);
    CachedCursor { cursor, view }
}
