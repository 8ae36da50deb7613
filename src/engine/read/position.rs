//! The position of one end of an iterator: its cached cursor and its current pair. One thread at a time.
//!
//! A cursor reads one view. If the view has changed by the next step, the position opens a cursor in the newest view at
//! (snapshot, key). If the view changes while the iterator is idle, the cursor is dropped, so an idle iterator pins the
//! versions of its snapshot, but neither memory nor files (`docs/concurrency.md`, T3).
//!
//! Steps forward read ahead: as many rows at once as the scan is likely to take. These are copies, so they need neither
//! cursor nor view. The cursor is then behind them (`is_ahead`), and every move but the next step forward seeks first.

use super::cached_cursors::{CachedCursor, CursorSlot, Shell, ViewCursor};
use super::pinned_value::Pinned;
use super::read_path::ReadPath;
use crate::engine::state::snapshot_registry::SnapshotPin;
use crate::engine::state::view::View;
use crate::engine::types::bounds::Bounds;
use crate::engine::types::user_key::UserKey;
use crate::memory::Memtable;
use crate::merge::{Cursor, MergeCursor, PinnedValue, Rows, ScanLength, Values, VisibleCursor};
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Kind, Result, SequenceNumber, key};

/// Most rows that a step reads ahead.
const AHEAD_MAX: usize = 64;
/// A few rows at once cost more than one after the other.
const AHEAD_MIN: u64 = 8;

/// The pairs that both ends of an iterator move over, and the form in which they return values.
pub(crate) struct Scope {
    pub(crate) read: Arc<ReadPath>,
    pub(crate) pin: Arc<SnapshotPin>,
    pub(crate) bounds: Bounds,
    pub(crate) values: Values,
}

impl Scope {
    /// Up to which number versions have expired for the snapshot.
    fn expired(&self) -> SequenceNumber {
        self.read.expiry.through(self.bounds.keyspace, self.pin.number())
    }
}

/// Whether a position is on a pair, and whether that pair was returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not positioned yet.
    New,
    /// On a pair that this end has not returned.
    Current,
    /// On a pair that this end has returned.
    Returned,
    /// Past an end, or after an error.
    Exhausted,
}

/// Where a movement of the cursor begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Anywhere: the movement seeks.
    Anywhere,
    /// At the current pair.
    Pair,
    /// At the current pair, or behind the rows, of which the current pair is the last.
    PairOrRows,
}

/// See the module.
pub(crate) struct Position {
    slot: Arc<CursorSlot>,
    pub(crate) state: State,
    /// The encoded key of the current pair, unless it is a row.
    key: Vec<u8>,
    /// The value of the current pair, if the scope has values copied, unless it is a row.
    value: Vec<u8>,
    /// The value of the current pair, if it is held in its page.
    held: Option<PinnedValue>,
    /// Rows behind the current pair, or with the current pair as the row that it is on.
    rows: Rows,
    /// Steps forward since the last other move.
    steps: u64,
    /// Whether the last other move was a seek, which began a scan.
    is_scan: bool,
    /// Whether the cursor is behind the rows and not on the current pair.
    is_ahead: bool,
    /// Whether the cursor in the slot, if there is one, reads for the scope. Otherwise it rests.
    is_renewed: bool,
}

impl Position {
    pub(crate) fn new(read: &ReadPath) -> Self {
        let Shell { slot, key, value, rows } = read.cached_cursors.take();
        let (state, held, steps, is_scan) = (State::New, None, 0, false);
        Self { slot, state, key, value, held, rows, steps, is_scan, is_ahead: false, is_renewed: false }
    }

    /// Whether the position is on a pair.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        matches!(self.state, State::Current | State::Returned)
    }

    /// The encoded key of the current pair, or of the last one.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        if self.rows.is_on_row() { self.rows.key() } else { &self.key }
    }

    /// The current key. Requires `valid()`.
    #[inline]
    pub(crate) fn user_key(&self) -> &[u8] {
        &self.key()[KeyspaceId::BYTES..]
    }

    /// The current value, if values are copied.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        if self.rows.is_on_row() { self.rows.value() } else { &self.value }
    }

    /// Takes the current value.
    pub(crate) fn take_value(&mut self) -> Pinned {
        Pinned::new(self.held.take(), std::mem::take(&mut self.value))
    }

    /// The scope changes: gives up the rows behind the current pair, and what the cursor holds. The position stays on its
    /// pair.
    pub(crate) fn leave_cursor(&mut self) {
        if self.rows.is_on_row() {
            self.value.clear();
            self.value.extend_from_slice(self.rows.value());
        }
        let untaken = self.leave_rows();
        (self.is_ahead, self.is_renewed) = (false, false);
        if let Some(cached) = self.slot.cached.lock().as_mut() {
            cached.cursor.note_untaken(untaken);
            cached.cursor.rest();
        }
    }

    /// Drops the rows, and returns how many were not taken. The key of the current pair stays.
    fn leave_rows(&mut self) -> u64 {
        if self.rows.is_on_row() {
            self.key.clear();
            self.key.extend_from_slice(self.rows.key());
        }
        let untaken = self.rows.left() as u64;
        self.rows.clear();
        untaken
    }

    /// The iterator is dropped: its scan ends, and the next iterator gets its memory. In a forked child, and while a new
    /// view is published, another thread may hold the cursor. Then it is dropped, and the statistics do without the rows
    /// that were not taken.
    pub(crate) fn close(&mut self, read: &ReadPath) {
        self.end_scan(read);
        let untaken = self.rows.left() as u64;
        let Some(mut guard) = self.slot.cached.try_lock() else { return };
        if let Some(cached) = guard.as_mut() {
            cached.cursor.note_untaken(untaken);
            cached.cursor.rest();
        }
        let version = guard.as_ref().map(|cached| cached.view.version);
        drop(guard);
        // After the lock was released: `revoke_idle` may have come before, and skipped the slot.
        if read.check_open().is_err() || version.is_some_and(|version| version < read.view.version()) {
            return;
        }
        self.rows.clear();
        let (key, value, rows) =
            (std::mem::take(&mut self.key), std::mem::take(&mut self.value), std::mem::take(&mut self.rows));
        read.cached_cursors.give(Shell { slot: Arc::clone(&self.slot), key, value, rows });
    }

    /// A scan has ended: the next one is likely to be as long.
    fn end_scan(&mut self, read: &ReadPath) {
        if std::mem::take(&mut self.is_scan) {
            read.scan_length.ended(self.steps);
        }
    }

    /// Moves as `movement` does, from the current key if `from_current`, and stores the pair that it reaches. After an
    /// error the position is `Exhausted`.
    pub(crate) fn move_cursor(
        &mut self,
        scope: &Scope,
        from_current: bool,
        movement: impl FnOnce(&mut ViewCursor) -> Result<()>,
    ) -> Result<()> {
        // A seek followed by a step back is no scan.
        self.is_scan &= !from_current || self.steps > 0;
        self.end_scan(&scope.read);
        (self.steps, self.is_scan) = (0, !from_current);
        let start = if from_current { Start::Pair } else { Start::Anywhere };
        let result = self.try_move_cursor(scope, start, movement);
        if result.is_err() {
            self.state = State::Exhausted;
        }
        result
    }

    /// Moves to the next pair. Requires `valid()`.
    #[inline]
    pub(crate) fn step(&mut self, scope: &Scope) -> Result<()> {
        let result = self.try_step(scope);
        if result.is_err() {
            self.state = State::Exhausted;
        }
        result
    }

    #[inline]
    fn try_step(&mut self, scope: &Scope) -> Result<()> {
        self.steps += 1;
        if self.rows.step() {
            scope.read.check_open()?;
            drop(scope.pin.begin_read()?);
            self.state = State::Current;
            return Ok(());
        }
        self.step_cursor(scope)
    }

    /// A step behind the last row.
    fn step_cursor(&mut self, scope: &Scope) -> Result<()> {
        self.try_move_cursor(scope, Start::PairOrRows, ViewCursor::next)?;
        // After a step back the user may turn again.
        let of_scan = || scope.read.scan_length.ahead(self.steps);
        let count = if self.is_scan { of_scan() } else { ScanLength::ahead_of_long(self.steps) };
        if count >= AHEAD_MIN && self.valid() {
            self.read_ahead(scope, AHEAD_MAX.min(count as usize));
        }
        Ok(())
    }

    /// Reads rows behind the current pair. The step that reaches what failed here meets the failure itself.
    fn read_ahead(&mut self, scope: &Scope, count: usize) {
        let Ok(_inside) = scope.pin.begin_read() else { return };
        let mut guard = self.slot.cached.lock();
        // Without a cursor the view has just changed.
        let Some(cached) = guard.as_mut() else { return };
        match cached.cursor.read_ahead(count, &mut self.rows) {
            Ok(()) => {
                self.is_ahead = !cached.cursor.valid();
                scope.read.branches.reads.note_rows_ahead(self.rows.len());
            }
            Err(_) => *guard = None,
        }
    }

    /// Opens a cursor in the newest view if needed, moves it, and stores the pair that it reaches.
    fn try_move_cursor(
        &mut self,
        scope: &Scope,
        start: Start,
        movement: impl FnOnce(&mut ViewCursor) -> Result<()>,
    ) -> Result<()> {
        let untaken = self.leave_rows();
        let was_ahead = std::mem::take(&mut self.is_ahead);
        let read = &scope.read;
        read.check_open()?;
        let _inside = scope.pin.begin_read()?;
        let mut guard = self.slot.cached.lock();
        let newest = read.view.version();
        let is_outdated = guard.as_ref().is_none_or(|cached| cached.view.version < newest);
        if let Some(cached) = guard.as_mut().filter(|_| untaken > 0) {
            cached.cursor.note_untaken(untaken);
        }
        let is_renewed = std::mem::replace(&mut self.is_renewed, true);
        if is_outdated || guard.as_mut().is_some_and(|cached| !is_renewed && !renew(cached, scope)) {
            // The old cursor is dropped before the new one is opened.
            *guard = None;
        }
        let cached = guard.get_or_insert_with(|| open_cursor(scope));
        let is_at_start = match start {
            Start::Anywhere => true,
            Start::Pair => is_renewed && !is_outdated && !was_ahead,
            Start::PairOrRows => is_renewed && !is_outdated,
        };
        if !is_at_start {
            cached.cursor.seek(&self.key)?;
            debug_assert!(cached.cursor.valid() && cached.cursor.entry().key == self.key);
        }
        movement(&mut cached.cursor)?;
        self.value.clear();
        self.held = None;
        if !cached.cursor.valid() {
            self.state = State::Exhausted;
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
                debug_assert!(live, "the visible cursor skips tombstones");
            } else {
                let key = UserKey::new(key::keyspace(&self.key), &self.key[KeyspaceId::BYTES..]);
                read.fold(key, live, operands, &mut self.value)?;
            }
        }
        if cached.view.version < read.view.version() {
            // `revoke_idle` skipped this slot while it was in use, and is not called again before the next change.
            *guard = None;
        }
        self.state = State::Current;
        Ok(())
    }
}

/// Opens a cursor over the newest view, newest source first.
fn open_cursor(scope: &Scope) -> CachedCursor {
    let Scope { read, pin, bounds, values } = scope;
    let at = pin.number();
    let view = read.view.load_full();
    let mut sources: Vec<Box<dyn Cursor>> = Vec::with_capacity(view.generations.len() + 1);
    for memtable in memtables(&view) {
        sources.push(Box::new(memtable.cursor_at(at)));
    }
    let (memtables, tree) = (sources.len(), view.disk.cursor());
    let all: Box<dyn Cursor> = if sources.is_empty() {
        tree
    } else {
        sources.push(tree);
        Box::new(MergeCursor::new(sources))
    };
    let cursor = VisibleCursor::new(all, at, bounds.lower.clone(), bounds.upper.clone());
    let cursor = cursor.masked(is_masked(&view)).expiring(scope.expired()).wanting(*values);
    CachedCursor { cursor, view, memtables }
}

/// Makes a resting cursor over the newest view one for the scope. False if it does not read all that it should.
fn renew(cached: &mut CachedCursor, scope: &Scope) -> bool {
    let Scope { pin, bounds, values, .. } = scope;
    let masked = is_masked(&cached.view);
    cached.cursor.renew((pin.number(), scope.expired()), (&bounds.lower, bounds.upper.as_deref()), masked, *values);
    // A Memtable that has entries does not become empty again.
    memtables(&cached.view).count() == cached.memtables
}

/// The Memtables with entries, newest first.
fn memtables(view: &View) -> impl Iterator<Item = &Arc<Memtable>> {
    view.generations.iter().map(|generation| &generation.memtable).filter(|memtable| !memtable.is_empty())
}

/// Whether any source has range tombstones. A Memtable without any may get some later, but with numbers above the
/// snapshot's.
fn is_masked(view: &View) -> bool {
    view.disk.has_range_tombstones()
        || view.generations.iter().any(|generation| generation.memtable.has_range_tombstones())
}
