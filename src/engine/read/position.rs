//! The position of one end of an iterator: its cached cursor and its current pair. One thread at a time.
//!
//! A cursor reads one view. If the view has changed by the next step, the position opens a cursor in the newest view at
//! (snapshot, key). If the view changes while the iterator is idle, the cursor is dropped, so an idle iterator pins the
//! versions of its snapshot, but neither memory nor files (`docs/concurrency.md`, T3).
//!
//! Steps forward read ahead: as many rows at once as the scan is likely to take. These are copies, so they need neither
//! cursor nor view. The cursor is then behind them (`is_ahead`), and every move but the next step forward seeks first.

use super::cached_cursors::{CachedCursor, CursorSlot, ViewCursor};
use super::pinned_value::Pinned;
use super::read_path::ReadPath;
use crate::engine::state::snapshot_registry::SnapshotPin;
use crate::engine::types::bounds::Bounds;
use crate::merge::{Cursor, MergeCursor, PinnedValue, Rows, ScanLength, Values, VisibleCursor};
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Kind, Result};

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
}

impl Position {
    pub(crate) fn new(read: &ReadPath) -> Self {
        let slot = Arc::new(CursorSlot::default());
        read.cached_cursors.add(&slot);
        let (key, value, rows) = (Vec::new(), Vec::new(), Rows::default());
        let (state, held, steps, is_scan, is_ahead) = (State::New, None, 0, false, false);
        Self { slot, state, key, value, held, rows, steps, is_scan, is_ahead }
    }

    /// Whether the position is on a pair.
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
    pub(crate) fn value(&self) -> &[u8] {
        if self.rows.is_on_row() { self.rows.value() } else { &self.value }
    }

    /// Takes the current value.
    pub(crate) fn take_value(&mut self) -> Pinned {
        Pinned::new(self.held.take(), std::mem::take(&mut self.value))
    }

    /// Drops the cursor and the rows behind the current pair; the position stays on its pair.
    pub(crate) fn drop_cursor(&mut self) {
        if self.rows.is_on_row() {
            self.value.clear();
            self.value.extend_from_slice(self.rows.value());
        }
        let untaken = self.leave_rows();
        self.is_ahead = false;
        if let Some(mut cached) = self.slot.cached.lock().take() {
            cached.cursor.note_untaken(untaken);
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

    /// The iterator is dropped: its scan ends. In a forked child, and while a new view is published, another thread may hold
    /// the cursor. Then the statistics do without the rows that were not taken.
    pub(crate) fn close(&mut self, read: &ReadPath) {
        self.end_scan(read);
        let untaken = self.rows.left() as u64;
        if untaken > 0
            && let Some(mut cached) = self.slot.cached.try_lock()
            && let Some(cached) = cached.as_mut()
        {
            cached.cursor.note_untaken(untaken);
        }
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
            Ok(()) => self.is_ahead = !cached.cursor.valid(),
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
        if is_outdated {
            // The old cursor is dropped before the new one is opened.
            *guard = None;
        }
        let cached = guard.get_or_insert_with(|| open_cursor(scope));
        let is_at_start = match start {
            Start::Anywhere => true,
            Start::Pair => !is_outdated && !was_ahead,
            Start::PairOrRows => !is_outdated,
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
                read.fold(&self.key[KeyspaceId::BYTES..], live, operands, &mut self.value)?;
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
    // A Memtable without range tombstones may get some later, but with numbers above the snapshot's.
    let masked = view.disk.has_range_tombstones()
        || view.generations.iter().any(|generation| generation.memtable.has_range_tombstones());
    let cursor =
        VisibleCursor::new(all, at, bounds.lower.clone(), bounds.upper.clone()).masked(masked).wanting(*values);
    CachedCursor { cursor, view }
}
