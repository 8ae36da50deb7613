//! The interface of every sorted source of entries.

use super::entry::{EntryRef, Limit};
use super::pinned_value::PinnedValue;
use super::visitor::Visitor;
use crate::util::{Result, SequenceNumber};
use std::ops::ControlFlow;

/// A position in a sorted source. A new cursor is unpositioned (`valid()` is false).
///
/// An error, or a step beyond either end, leaves the cursor unpositioned. `next` and `prev` require `valid()`.
/// Implementations own what they read from (`Arc`s), so a cursor is `Send`.
pub trait Cursor: Send {
    /// Moves to the first entry at or after (`key`, `number`): the newest version `<= number` of `key`, or else the
    /// first entry of the next key.
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()>;
    /// Moves to the last entry at or before (`key`, `number`) in entry order.
    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()>;
    /// Moves to the first entry.
    fn seek_first(&mut self) -> Result<()>;
    /// Moves to the last entry.
    fn seek_last(&mut self) -> Result<()>;
    /// Moves to the next entry.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous entry.
    fn prev(&mut self) -> Result<()>;
    /// Shows the current entry to the visitor, and the following ones with keys before `limit`, until it refuses one.
    /// The cursor is then on the first entry that was refused or that is not before the limit, or unpositioned at the
    /// end. Requires `valid()`; the limit does not concern the current entry. Many entries cost less so than by `next`.
    fn pass(&mut self, limit: Limit<'_>, visitor: &mut dyn Visitor) -> Result<ControlFlow<()>> {
        loop {
            if visitor.visit(self.entry()).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.next()?;
            if !self.valid() || limit.is_reached(self.key()) {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }
    /// Leaves its position, and gives up pages and buffers of files. The next movement begins anew.
    fn rest(&mut self) {}
    /// Rests, and then belongs to a reader at another snapshot.
    fn renew(&mut self, at: SequenceNumber) {
        let _ = at;
        self.rest();
    }
    /// Whether the cursor is on an entry.
    fn valid(&self) -> bool;
    /// The current entry. Requires `valid()`.
    fn entry(&self) -> EntryRef<'_>;
    /// The key of the current entry. Requires `valid()`. Merges compare it far more often than they need the entry.
    fn key(&self) -> &[u8] {
        self.entry().key
    }
    /// The newest number `<= at` of this source's range tombstones over `key`; `ZERO` if there is none. Called for the
    /// key that this cursor or a newer source is on. In the latter case a source may return `ZERO`, because its range
    /// tombstones cannot cover what is newer.
    fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        let _ = (key, at);
        SequenceNumber::ZERO
    }
    /// The end, exclusive, of a range that begins at or before `key`, contains it, and in which a range tombstone `<= at` of
    /// this source hides everything in older sources. `None` if there is none, or if the source does not know.
    fn deleted_until(&self, key: &[u8], at: SequenceNumber) -> Option<Vec<u8>> {
        let _ = (key, at);
        None
    }
    /// A key, at or after `key`, before which this source's range tombstones cover no key from `key` on; `None` if they
    /// cover none at all. Called for the same keys as `covering`.
    fn next_deleted(&self, key: &[u8]) -> Option<Vec<u8>> {
        let _ = key;
        None
    }
    /// Moves forward from an entry that a range tombstone `<= at` hides. May pass further entries that range tombstones
    /// `<= at` hide. Requires `valid()` going forward.
    fn leave_deleted(&mut self, at: SequenceNumber) -> Result<()> {
        let _ = at;
        self.next()
    }
    /// Of the entries that `pass` has shown, the user did not want so many: statistics of scans do not count them.
    fn note_untaken(&mut self, entries: u64) {
        let _ = entries;
    }
    /// The value of the current entry, pinned so that it outlives the cursor's position. `None` if only a copy is
    /// possible. Requires `valid()`.
    fn pin_value(&self) -> Option<PinnedValue> {
        None
    }
}

impl<C: Cursor + ?Sized> Cursor for Box<C> {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        (**self).seek(key, number)
    }
    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        (**self).seek_for_prev(key, number)
    }
    fn seek_first(&mut self) -> Result<()> {
        (**self).seek_first()
    }
    fn seek_last(&mut self) -> Result<()> {
        (**self).seek_last()
    }
    fn next(&mut self) -> Result<()> {
        (**self).next()
    }
    fn prev(&mut self) -> Result<()> {
        (**self).prev()
    }
    fn pass(&mut self, limit: Limit<'_>, visitor: &mut dyn Visitor) -> Result<ControlFlow<()>> {
        (**self).pass(limit, visitor)
    }
    fn rest(&mut self) {
        (**self).rest();
    }
    fn renew(&mut self, at: SequenceNumber) {
        (**self).renew(at);
    }
    fn valid(&self) -> bool {
        (**self).valid()
    }
    fn entry(&self) -> EntryRef<'_> {
        (**self).entry()
    }
    fn key(&self) -> &[u8] {
        (**self).key()
    }
    fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        (**self).covering(key, at)
    }
    fn deleted_until(&self, key: &[u8], at: SequenceNumber) -> Option<Vec<u8>> {
        (**self).deleted_until(key, at)
    }
    fn next_deleted(&self, key: &[u8]) -> Option<Vec<u8>> {
        (**self).next_deleted(key)
    }
    fn leave_deleted(&mut self, at: SequenceNumber) -> Result<()> {
        (**self).leave_deleted(at)
    }
    fn note_untaken(&mut self, entries: u64) {
        (**self).note_untaken(entries);
    }
    fn pin_value(&self) -> Option<PinnedValue> {
        (**self).pin_value()
    }
}
