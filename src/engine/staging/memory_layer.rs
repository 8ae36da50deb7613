//! The newest layer of a staged batch: its last changes, sorted, in memory. One thread.
//!
//! Invariant: no change is of a key in a deleted range unless it came after the range. So, as in every layer, the changes come
//! after the deleted ranges.

use crate::engine::ingest::deleted_ranges::DeletedRanges;
use crate::engine::types::key_change::KeyChange;
use crate::merge::{Cursor, EntryRef};
use crate::util::{Kind, Result, SequenceNumber, limits};
use std::collections::BTreeMap;
use std::ops::Bound;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct MemoryLayer {
    /// The last change of each encoded key.
    changes: BTreeMap<Vec<u8>, KeyChange<Vec<u8>>>,
    deleted: DeletedRanges,
    bytes: usize,
}

/// What a layer says about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Own {
    /// A put, a delete, an operand or a reference to a value, with the bytes of that.
    Entry(Kind, Vec<u8>),
    /// Nothing.
    Nothing,
}

impl MemoryLayer {
    /// Adds a change, in place of an earlier one of the key.
    pub(super) fn change(&mut self, key: &[u8], change: KeyChange<Vec<u8>>) {
        let bytes = change.bytes();
        if let Some(known) = self.changes.get_mut(key) {
            self.bytes = self.bytes - known.bytes() + bytes;
            *known = change;
        } else {
            self.bytes += limits::OPERATION_MEMORY_BYTES + key.len() + bytes;
            self.changes.insert(key.to_vec(), change);
        }
    }

    /// Deletes the keys from `start` to below `end`, which comes after it.
    pub(super) fn delete_range(&mut self, start: Vec<u8>, end: Vec<u8>) {
        let hidden = self.changes.range::<Vec<u8>, _>(&start..&end).map(|(key, _)| key.clone());
        for key in hidden.collect::<Vec<_>>() {
            let bytes = self.changes.remove(&key).map_or(0, |change| change.bytes());
            self.bytes -= limits::OPERATION_MEMORY_BYTES + key.len() + bytes;
        }
        self.bytes += limits::OPERATION_MEMORY_BYTES + self.deleted.add(start, end);
    }

    pub(super) fn get(&self, key: &[u8]) -> Own {
        match self.changes.get(key) {
            Some(change) => {
                let (kind, value) = parts(change);
                Own::Entry(kind, value.to_vec())
            }
            None if self.deleted.at(key).is_some() => Own::Entry(Kind::Delete, Vec::new()),
            None => Own::Nothing,
        }
    }

    /// What it takes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.deleted.is_empty()
    }

    pub(super) fn deleted(&self) -> &DeletedRanges {
        &self.deleted
    }

    /// The changes in the order of their encoded keys.
    pub(super) fn changes(&self) -> impl Iterator<Item = (&Vec<u8>, &KeyChange<Vec<u8>>)> {
        self.changes.iter()
    }

    pub(super) fn into_changes(self) -> BTreeMap<Vec<u8>, KeyChange<Vec<u8>>> {
        self.changes
    }

    /// A cursor that shows the changes with a number.
    pub(super) fn cursor(&self, number: SequenceNumber) -> MemoryCursor<'_> {
        MemoryCursor { layer: self, number, at: None }
    }
}

/// The kind and the bytes of a change.
pub(super) fn parts(change: &KeyChange<Vec<u8>>) -> (Kind, &[u8]) {
    match change {
        KeyChange::Put(value) => (Kind::Put, value),
        KeyChange::Delete => (Kind::Delete, &[]),
        KeyChange::Merge(operand) => (Kind::Merge, operand),
    }
}

/// A cursor over the changes, with the deleted ranges as its range tombstones.
pub(super) struct MemoryCursor<'a> {
    layer: &'a MemoryLayer,
    number: SequenceNumber,
    at: Option<(&'a [u8], &'a KeyChange<Vec<u8>>)>,
}

impl MemoryCursor<'_> {
    fn go(&mut self, from: Bound<&[u8]>, to: Bound<&[u8]>, backward: bool) {
        let mut range = self.layer.changes.range::<[u8], _>((from, to));
        let found = if backward { range.next_back() } else { range.next() };
        self.at = found.map(|(key, change)| (&key[..], change));
    }
}

impl Cursor for MemoryCursor<'_> {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        let from = if self.number <= number { Bound::Included(key) } else { Bound::Excluded(key) };
        self.go(from, Bound::Unbounded, false);
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        let to = if self.number >= number { Bound::Included(key) } else { Bound::Excluded(key) };
        self.go(Bound::Unbounded, to, true);
        Ok(())
    }

    fn seek_first(&mut self) -> Result<()> {
        self.go(Bound::Unbounded, Bound::Unbounded, false);
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.go(Bound::Unbounded, Bound::Unbounded, true);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if let Some((key, _)) = self.at {
            self.go(Bound::Excluded(key), Bound::Unbounded, false);
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if let Some((key, _)) = self.at {
            self.go(Bound::Unbounded, Bound::Excluded(key), true);
        }
        Ok(())
    }

    fn rest(&mut self) {
        self.at = None;
    }

    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn entry(&self) -> EntryRef<'_> {
        // The trait's contract: `entry` requires `valid()`.
        let Some((key, change)) = self.at else { unreachable!("an invalid cursor has no entry") };
        let (kind, value) = parts(change);
        EntryRef { key, number: self.number, kind, value }
    }

    fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        let is_covered = self.number <= at && self.layer.deleted.at(key).is_some();
        if is_covered { self.number } else { SequenceNumber::ZERO }
    }

    fn deleted_until(&self, key: &[u8], at: SequenceNumber) -> Option<Vec<u8>> {
        let (_, end) = self.layer.deleted.at(key).filter(|_| self.number <= at)?;
        Some(end.clone())
    }

    fn next_deleted(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.layer.deleted.next_deleted(key).map(<[u8]>::to_vec)
    }
}
