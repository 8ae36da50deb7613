//! Of each key the newest entry only: it says all that a staged batch does to the key (`staged_writes.rs`, invariant 1). One
//! thread at a time.

use crate::merge::{Cursor, EntryRef, MergeCursor};
use crate::util::{Result, SequenceNumber};

/// Entries of a key that are stepped over before a seek.
const STEPS_MAX: u32 = 4;

/// A cursor over layers, newest first.
pub(super) struct NewestCursor<'b> {
    layers: MergeCursor<Box<dyn Cursor + 'b>>,
    /// Buffer for a key that is left.
    key: Vec<u8>,
}

impl<'b> NewestCursor<'b> {
    pub(super) fn new(layers: Vec<Box<dyn Cursor + 'b>>) -> Self {
        Self { layers: MergeCursor::new(layers), key: Vec::new() }
    }

    fn is_on(&self, key: &[u8]) -> bool {
        self.layers.valid() && self.layers.key() == key
    }

    /// From the oldest entry of a key to its newest.
    fn go_to_newest(&mut self) -> Result<()> {
        if !self.layers.valid() || self.layers.sources().len() == 1 {
            return Ok(());
        }
        self.key.clear();
        self.key.extend_from_slice(self.layers.key());
        self.layers.seek(&self.key, SequenceNumber::MAX)
    }
}

impl Cursor for NewestCursor<'_> {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.layers.seek(key, SequenceNumber::MAX)?;
        if self.is_on(key) && self.entry().number > number { self.next() } else { Ok(()) }
    }

    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.layers.seek(key, SequenceNumber::MAX)?;
        if self.is_on(key) && self.entry().number >= number {
            return Ok(());
        }
        self.layers.seek_for_prev(key, SequenceNumber::MAX)?;
        self.go_to_newest()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.layers.seek_first()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.layers.seek_last()?;
        self.go_to_newest()
    }

    fn next(&mut self) -> Result<()> {
        self.key.clear();
        self.key.extend_from_slice(self.layers.key());
        for _ in 0..STEPS_MAX {
            self.layers.next()?;
            if !self.is_on(&self.key) {
                return Ok(());
            }
        }
        self.layers.seek(&self.key, SequenceNumber::ZERO)
    }

    fn prev(&mut self) -> Result<()> {
        self.layers.prev()?;
        self.go_to_newest()
    }

    fn rest(&mut self) {
        self.layers.rest();
    }

    fn valid(&self) -> bool {
        self.layers.valid()
    }

    fn entry(&self) -> EntryRef<'_> {
        self.layers.entry()
    }

    fn key(&self) -> &[u8] {
        self.layers.key()
    }

    /// An older entry of the key that comes up is hidden, too.
    fn leave_deleted(&mut self, at: SequenceNumber) -> Result<()> {
        self.layers.leave_deleted(at)
    }

    fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        self.layers.covering(key, at)
    }

    fn deleted_until(&self, key: &[u8], at: SequenceNumber) -> Option<Vec<u8>> {
        self.layers.deleted_until(key, at)
    }

    fn next_deleted(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.layers.next_deleted(key)
    }
}
