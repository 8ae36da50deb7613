//! Where an end of an iterator stands: its cursors, and the pair that it came to.
//!
//! Cursors read one view. When the view has changed by the next step, the position takes a new seat in the newest one at
//! (snapshot, key); when the view changes while it is idle, its cursors are taken away, so that an iterator left lying for an
//! hour pins its snapshot's versions, but neither memory nor files (`docs/concurrency.md`, T3).

use super::bounds::Bounds;
use super::pinned::Pinned;
use super::pins::Pin;
use super::read_side::ReadSide;
use super::view::View;
use crate::base::sync::{Arc, Mutex};
use crate::base::{KeyspaceId, Kind, Result};
use crate::merge::{Cursor, HeldValue, MergeCursor, Values, VisibleCursor};
use std::sync::Weak;

/// What both ends of an iterator walk over.
pub(super) struct Scope {
    pub(super) read: Arc<ReadSide>,
    pub(super) pin: Arc<Pin>,
    pub(super) bounds: Bounds,
    pub(super) values: Values,
}

pub(super) type Sources = VisibleCursor<Box<dyn Cursor>>;

/// Cursors over one view.
struct Seated {
    cursor: Sources,
    /// Keeps generations and value files while the cursor may refer to them.
    view: Arc<View>,
}

/// Where a position sits; shared with the sweep that takes idle cursors away.
#[derive(Default)]
struct Seat {
    seated: Mutex<Option<Seated>>,
}

/// The seats of all iterators of a store.
#[derive(Default)]
pub(super) struct Seats {
    all: Mutex<Vec<Weak<Seat>>>,
}

impl Seats {
    fn add(&self, seat: &Arc<Seat>) {
        let mut all = self.all.lock();
        // Forgetting dead seats whenever the list would grow keeps it within twice the iterators alive.
        if all.len() == all.capacity() {
            all.retain(|seat| seat.strong_count() > 0);
        }
        all.push(Arc::downgrade(seat));
    }

    /// Takes the cursors of every idle iterator that sits in a view older than `version`.
    pub(super) fn revoke_idle(&self, version: u64) {
        let seats: Vec<Arc<Seat>> = self.all.lock().iter().filter_map(Weak::upgrade).collect();
        for seat in seats {
            // A seat that is locked is in use; its iterator looks at the version at its next step.
            if let Some(mut seated) = seat.seated.try_lock()
                && seated.as_ref().is_some_and(|seated| seated.view.version < version)
            {
                let revoked = seated.take();
                drop(seated);
                drop(revoked);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
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
pub(super) struct Position {
    seat: Arc<Seat>,
    pub(super) state: State,
    /// The pair that it stands on: encoded key, and value, the latter as the scope wants it: copied, held, or left.
    pub(super) key: Vec<u8>,
    value: Vec<u8>,
    held: Option<HeldValue>,
}

impl Position {
    pub(super) fn new(read: &ReadSide) -> Self {
        let seat = Arc::new(Seat::default());
        read.seats.add(&seat);
        Self { seat, state: State::New, key: Vec::new(), value: Vec::new(), held: None }
    }

    /// Whether it stands on a pair.
    pub(super) fn valid(&self) -> bool {
        matches!(self.state, State::On | State::Given)
    }

    /// The key it stands on. Requires `valid()`.
    pub(super) fn user_key(&self) -> &[u8] {
        &self.key[KeyspaceId::BYTES..]
    }

    /// The value it stands on, where values are copied.
    pub(super) fn value(&self) -> &[u8] {
        &self.value
    }

    /// The value it stands on, which it then has no more.
    pub(super) fn take_value(&mut self) -> Pinned {
        Pinned::new(self.held.take(), std::mem::take(&mut self.value))
    }

    /// Gives up its cursors; it stays where it is.
    pub(super) fn leave_seat(&self) {
        *self.seat.seated.lock() = None;
    }

    /// Takes a seat in the newest view where that is needed, moves, and copies out the pair arrived at. After an error it
    /// stands nowhere.
    pub(super) fn go(
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
        let mut guard = self.seat.seated.lock();
        let newest = read.view.version();
        let is_outdated = guard.as_ref().is_none_or(|seated| seated.view.version < newest);
        if is_outdated {
            // The old cursors go before there are new ones.
            *guard = None;
        }
        let seated = guard.get_or_insert_with(|| sit(scope));
        if is_outdated && from_here {
            seated.cursor.seek(&self.key)?;
            debug_assert!(seated.cursor.valid() && seated.cursor.entry().key == self.key);
        }
        movement(&mut seated.cursor)?;
        self.value.clear();
        self.held = None;
        if !seated.cursor.valid() {
            self.state = State::Nowhere;
            return Ok(());
        }
        let entry = seated.cursor.entry();
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        let operands = seated.cursor.operands();
        if scope.values == Values::Held && entry.kind == Kind::Put && operands.is_empty() {
            self.held = seated.cursor.hold();
        }
        if self.held.is_none() && scope.values != Values::Left {
            self.value.extend_from_slice(entry.value);
            let live = read.resolve(entry.kind, &mut self.value)?;
            if operands.is_empty() {
                debug_assert!(live, "the visible cursor passes over tombstones");
            } else {
                read.fold(&self.key[KeyspaceId::BYTES..], live, operands, &mut self.value)?;
            }
        }
        if seated.view.version < read.view.version() {
            // The sweep came by while this seat was in use, and will not come again before the next change.
            *guard = None;
        }
        self.state = State::On;
        Ok(())
    }
}

/// Opens cursors over everything in the newest view, newest source first.
fn sit(scope: &Scope) -> Seated {
    let Scope { read, pin, bounds, values } = scope;
    let at = pin.number();
    let view = read.view.load_full();
    let mut sources: Vec<Box<dyn Cursor>> = Vec::with_capacity(view.generations.len() + 1);
    for generation in &view.generations {
        if !generation.memtable.is_empty() {
            sources.push(Box::new(generation.memtable.cursor_at(at)));
        }
    }
    let tree = Box::new(view.tree.cursor());
    let all: Box<dyn Cursor> = if sources.is_empty() {
        tree
    } else {
        sources.push(tree);
        Box::new(MergeCursor::new(sources))
    };
    // A Memtable that gets its first one later gets it with a number that the snapshot does not have.
    let masked = view.tree.has_range_tombstones()
        || view.generations.iter().any(|generation| generation.memtable.has_range_tombstones());
    let cursor =
        VisibleCursor::new(all, at, bounds.lower.clone(), bounds.upper.clone()).masked(masked).wanting(*values);
    Seated { cursor, view }
}
