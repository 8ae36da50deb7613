//! A cursor over entries in a vector, for tests and benchmarks. It can fail on demand.

use super::cursor::Cursor;
use super::entry::EntryRef;
use super::pinned_value::PinnedValue;
use super::range_tombstones::RangeTombstones;
use crate::util::sync::Arc;
use crate::util::{Error, Kind, Result, SequenceNumber};
use std::path::Path;

/// An entry that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VecEntry {
    /// Encoded key.
    pub key: Vec<u8>,
    /// The version's number.
    pub number: SequenceNumber,
    /// The kind of the entry.
    pub kind: Kind,
    /// The value.
    pub value: Vec<u8>,
}

impl VecEntry {
    /// An entry.
    pub fn new(key: impl Into<Vec<u8>>, number: u64, kind: Kind, value: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into(), number: SequenceNumber(number), kind, value: value.into() }
    }

    /// The entry, borrowed.
    pub fn as_ref(&self) -> EntryRef<'_> {
        EntryRef { key: &self.key, number: self.number, kind: self.kind, value: &self.value }
    }
}

impl From<EntryRef<'_>> for VecEntry {
    fn from(entry: EntryRef<'_>) -> Self {
        Self { key: entry.key.to_vec(), number: entry.number, kind: entry.kind, value: entry.value.to_vec() }
    }
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct VecCursor {
    entries: Vec<VecEntry>,
    /// Index of the current entry; `None` if unpositioned.
    at: Option<usize>,
    /// Movements left until one fails.
    movements_left: Option<u32>,
    tombstones: RangeTombstones,
}

impl VecCursor {
    /// A cursor over `entries`, which it sorts.
    pub fn new(mut entries: Vec<VecEntry>) -> Self {
        entries.sort_by(|one, other| one.as_ref().order(&other.key, other.number));
        Self { entries, at: None, movements_left: None, tombstones: RangeTombstones::default() }
    }

    /// Adds range tombstones.
    #[cfg(test)]
    pub fn with_tombstones(mut self, tombstones: RangeTombstones) -> Self {
        self.tombstones = tombstones;
        self
    }

    /// Makes the movement after the next `movements` ones fail. Those after it succeed.
    #[cfg(test)]
    pub fn failing_after(mut self, movements: u32) -> Self {
        self.movements_left = Some(movements);
        self
    }

    fn move_to(&mut self, at: Option<usize>) -> Result<()> {
        self.at = at.filter(|at| *at < self.entries.len());
        match &mut self.movements_left {
            Some(0) => {
                self.at = None;
                self.movements_left = None;
                Err(Error::corruption(Path::new("(vector)"), 0, "movement", "success", "failure on demand"))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Cursor for VecCursor {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        let at = self.entries.partition_point(|entry| entry.as_ref().order(key, number).is_lt());
        self.move_to(Some(at))
    }

    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        let behind = self.entries.partition_point(|entry| entry.as_ref().order(key, number).is_le());
        self.move_to(behind.checked_sub(1))
    }

    fn seek_first(&mut self) -> Result<()> {
        self.move_to(Some(0))
    }

    fn seek_last(&mut self) -> Result<()> {
        self.move_to(self.entries.len().checked_sub(1))
    }

    fn next(&mut self) -> Result<()> {
        assert!(self.valid());
        self.move_to(self.at.map(|at| at + 1))
    }

    fn prev(&mut self) -> Result<()> {
        assert!(self.valid());
        self.move_to(self.at.and_then(|at| at.checked_sub(1)))
    }

    fn valid(&self) -> bool {
        self.at.is_some()
    }

    #[expect(clippy::expect_used, reason = "a caller that breaks the precondition is the bug that a test looks for")]
    fn entry(&self) -> EntryRef<'_> {
        self.entries[self.at.expect("the cursor is on an entry")].as_ref()
    }

    fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        self.tombstones.covering(key, at)
    }

    fn pin_value(&self) -> Option<PinnedValue> {
        let value = self.entry().value;
        PinnedValue::new(Arc::new(value.to_vec()), 0..value.len())
    }
}
