//! Reads of a range by the owner of a staged batch: the pairs of its snapshot as the batch changes them. One thread at a time.
//!
//! What the snapshot shows is one more layer, the oldest, whose entries have a number below those of all others. Above it is the
//! newest entry of the batch for each key. So the rule of what a reader sees (`merge/visible.rs`) does the rest.

use super::newest_cursor::NewestCursor;
use super::spilled_layers::BASE;
use super::staged_writes::StagedWrites;
use crate::engine::read::cached_cursors::ViewCursor;
use crate::engine::read::position::{Position, Scope, State};
use crate::engine::types::user_key::UserKey;
use crate::merge::{Cursor, EntryRef, MergeCursor, RangeTombstones, Values, VisibleCursor};
use crate::util::{KeyspaceId, Kind, Result, SequenceNumber};

/// See the module.
pub(crate) struct StagedCursor<'b> {
    writes: &'b StagedWrites,
    visible: VisibleCursor<MergeCursor<Box<dyn Cursor + 'b>>>,
    values: Values,
    /// Whether it is on a pair: that of `key` and `value`.
    is_on: bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'b> StagedCursor<'b> {
    /// An unpositioned cursor over the pairs of a scope, which is below the batch.
    pub(crate) fn new(writes: &'b StagedWrites, scope: Scope) -> Self {
        let (memory, spilled) = (&writes.memory, &writes.spilled);
        let (lower, upper) = (scope.bounds.lower.clone(), scope.bounds.upper.clone());
        let values = scope.values;
        let is_masked = !memory.deleted().is_empty() || !spilled.deleted().is_empty();
        let mut layers: Vec<Box<dyn Cursor + 'b>> = vec![Box::new(memory.cursor(spilled.next_number()))];
        layers.extend(spilled.cursors().map(|cursor| cursor as Box<dyn Cursor + 'b>));
        let own: Box<dyn Cursor + 'b> = Box::new(NewestCursor::new(layers));
        let base: Box<dyn Cursor + 'b> = Box::new(BaseCursor::new(scope, spilled.deleted()));
        let both = MergeCursor::new(vec![own, base]);
        let visible = VisibleCursor::new(both, SequenceNumber::MAX, lower, upper);
        let visible = visible.masked(is_masked).wanting(values);
        Self { writes, visible, values, is_on: false, key: Vec::new(), value: Vec::new() }
    }

    /// Moves to the first pair.
    pub(crate) fn seek_first(&mut self) -> Result<()> {
        self.go(VisibleCursor::seek_first)
    }

    /// Moves to the last pair.
    pub(crate) fn seek_last(&mut self) -> Result<()> {
        self.go(VisibleCursor::seek_last)
    }

    /// Moves to the first pair at or after a key.
    pub(crate) fn seek(&mut self, key: UserKey<&[u8]>) -> Result<()> {
        key.with_encoded(|encoded| self.go(|visible| visible.seek(encoded)))
    }

    /// Moves to the last pair at or before a key.
    pub(crate) fn seek_for_prev(&mut self, key: UserKey<&[u8]>) -> Result<()> {
        key.with_encoded(|encoded| self.go(|visible| visible.seek_for_prev(encoded)))
    }

    /// Moves to the next pair; off an end it stays there.
    pub(crate) fn next(&mut self) -> Result<()> {
        if self.is_on { self.go(VisibleCursor::next) } else { Ok(()) }
    }

    /// Moves to the pair before.
    pub(crate) fn prev(&mut self) -> Result<()> {
        if self.is_on { self.go(VisibleCursor::prev) } else { Ok(()) }
    }

    /// The user's key and the value, if it is on a pair.
    pub(crate) fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.is_on.then(|| (self.key.get(KeyspaceId::BYTES..).unwrap_or_default(), &self.value[..]))
    }

    fn go(
        &mut self,
        movement: impl FnOnce(&mut VisibleCursor<MergeCursor<Box<dyn Cursor + 'b>>>) -> Result<()>,
    ) -> Result<()> {
        self.is_on = false;
        let read = &self.writes.engine.read;
        read.check_open()?;
        movement(&mut self.visible)?;
        if !self.visible.valid() {
            return Ok(());
        }
        let entry = self.visible.entry();
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.value.clear();
        if self.values != Values::Skipped {
            self.value.extend_from_slice(entry.value);
            let is_there = read.resolve(entry.kind, &mut self.value)?;
            let operands = self.visible.operands();
            if let Some(key) = UserKey::of_encoded(&self.key).filter(|_| !operands.is_empty()) {
                read.fold(key, is_there, operands, &mut self.value)?;
            }
        }
        self.is_on = true;
        Ok(())
    }
}

/// What a snapshot shows, as a layer.
struct BaseCursor<'b> {
    scope: Scope,
    position: Position,
    /// Ranges that the layers above delete; that in memory says so itself.
    deleted: &'b RangeTombstones,
}

impl<'b> BaseCursor<'b> {
    fn new(scope: Scope, deleted: &'b RangeTombstones) -> Self {
        let position = Position::new(&scope.read);
        Self { scope, position, deleted }
    }

    fn go(&mut self, from_current: bool, movement: impl FnOnce(&mut ViewCursor) -> Result<()>) -> Result<()> {
        self.position.move_cursor(&self.scope, from_current, movement)
    }
}

impl Drop for BaseCursor<'_> {
    fn drop(&mut self) {
        self.position.close(&self.scope.read);
    }
}

impl Cursor for BaseCursor<'_> {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.go(false, |cursor| cursor.seek(key))?;
        if number < BASE && self.valid() && self.key() == key { self.next() } else { Ok(()) }
    }

    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.go(false, |cursor| cursor.seek_for_prev(key))?;
        if number > BASE && self.valid() && self.key() == key { self.prev() } else { Ok(()) }
    }

    fn seek_first(&mut self) -> Result<()> {
        self.go(false, ViewCursor::seek_first)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.go(false, ViewCursor::seek_last)
    }

    fn next(&mut self) -> Result<()> {
        self.position.step(&self.scope)
    }

    fn prev(&mut self) -> Result<()> {
        self.go(true, ViewCursor::prev)
    }

    fn rest(&mut self) {
        self.position.leave_cursor();
        self.position.state = State::Exhausted;
    }

    fn valid(&self) -> bool {
        self.position.valid()
    }

    fn entry(&self) -> EntryRef<'_> {
        EntryRef { key: self.position.key(), number: BASE, kind: Kind::Put, value: self.position.value() }
    }

    fn key(&self) -> &[u8] {
        self.position.key()
    }

    fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        self.deleted.covering(key, at)
    }

    fn next_deleted(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.deleted.next_covered(key).map(<[u8]>::to_vec)
    }

    /// Whatever hides it is newer, so it passes the whole range at once.
    fn leave_deleted(&mut self, at: SequenceNumber) -> Result<()> {
        match self.deleted.covered_until(self.position.key(), at) {
            Some(end) => self.go(false, |cursor| cursor.seek(end)),
            None => self.next(),
        }
    }
}
