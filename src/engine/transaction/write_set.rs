//! What a transaction has written so far, and what it had written when an iterator or a savepoint was made.
//!
//! One thread at a time. Each write has a tick; of a key's writes the older ones stay as long as a savepoint or an iterator may ask for
//! them.
//!
//! Invariants:
//! 1. A key's writes are in the order of their ticks, and there is at least one.
//! 2. Savepoints are in the order in which they were made, so their ticks never fall.

use crate::engine::types::batch::Operation;
use crate::util::sync::{AtomicU64, Ordering};
use crate::util::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Bound;

/// A moment of a transaction's writes; of transactions that have not begun to write it is 0.
pub(crate) type Tick = u64;

/// A moment within a transaction, to which `Transaction::rollback_to` goes back.
#[derive(Debug)]
pub struct Savepoint {
    id: u64,
}

/// So that a savepoint of one transaction is not one of another.
static NEXT_SAVEPOINT: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
struct Written {
    tick: Tick,
    /// `None` deletes.
    value: Option<Vec<u8>>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    keys: BTreeMap<Vec<u8>, Vec<Written>>,
    now: Tick,
    /// Id and tick.
    savepoints: Vec<(u64, Tick)>,
    /// What was written since the first savepoint, so that going back costs only what is taken back.
    journal: Vec<(Tick, Vec<u8>)>,
    iterators: usize,
    /// Of the newest iterator, while there are any.
    iterator_tick: Tick,
}

impl WriteSet {
    pub(crate) fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        let savepoint = self.savepoints.last().map(|(_, tick)| *tick);
        let iterator = (self.iterators > 0).then_some(self.iterator_tick);
        self.now += 1;
        if savepoint.is_some() {
            self.journal.push((self.now, key.to_vec()));
        }
        let written = Written { tick: self.now, value: value.map(<[u8]>::to_vec) };
        let Some(writes) = self.keys.get_mut(key) else {
            self.keys.insert(key.to_vec(), vec![written]);
            return;
        };
        match writes.last_mut() {
            Some(last) if savepoint.max(iterator).is_none_or(|needed| last.tick > needed) => *last = written,
            _ => writes.push(written),
        }
    }

    /// What was last written to a key, if anything: a value, or `None` for a delete.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.keys.get(key)?.last().map(|written| written.value.as_deref())
    }

    pub(crate) fn savepoint(&mut self) -> Savepoint {
        let id = NEXT_SAVEPOINT.fetch_add(1, Ordering::Relaxed);
        self.savepoints.push((id, self.now));
        Savepoint { id }
    }

    /// Forgets all that was written since a savepoint, and the savepoints made since.
    pub(crate) fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        let at = self.position_of(savepoint)?;
        self.savepoints.truncate(at + 1);
        let (_, tick) = self.savepoints[at];
        while let Some((_, key)) = self.journal.pop_if(|(written, _)| *written > tick) {
            if let Some(writes) = self.keys.get_mut(&key) {
                writes.retain(|written| written.tick <= tick);
                if writes.is_empty() {
                    self.keys.remove(&key);
                }
            }
        }
        Ok(())
    }

    /// Forgets a savepoint and those made since, and keeps what was written.
    pub(crate) fn release(&mut self, savepoint: &Savepoint) -> Result<()> {
        let at = self.position_of(savepoint)?;
        self.savepoints.truncate(at);
        if at == 0 {
            self.journal.clear();
        }
        Ok(())
    }

    fn position_of(&self, savepoint: &Savepoint) -> Result<usize> {
        self.savepoints.iter().position(|(id, _)| *id == savepoint.id).ok_or_else(|| {
            Error::InvalidArgument(
                "the savepoint is another transaction's, or was made after one that this transaction has gone back to or released"
                    .into(),
            )
        })
    }

    /// The moment for an iterator that begins now; `iterator_ends` must follow.
    pub(crate) fn iterator_begins(&mut self) -> Tick {
        self.iterators += 1;
        self.iterator_tick = self.now;
        self.now
    }

    pub(crate) fn iterator_ends(&mut self) {
        self.iterators -= 1;
    }

    /// What a key was at a tick, if it had been written by then.
    pub(crate) fn get_at(&self, key: &[u8], tick: Tick) -> Option<Option<&[u8]>> {
        at(self.keys.get(key)?, tick)
    }

    /// The first key in a range that had been written at a tick. Passes over all that were written since.
    pub(crate) fn first(&self, range: (Bound<&[u8]>, Bound<&[u8]>), tick: Tick) -> Option<&[u8]> {
        if is_empty(range) {
            return None;
        }
        let mut keys = self.keys.range::<[u8], _>(range);
        keys.find(|(_, writes)| at(writes, tick).is_some()).map(|(key, _)| &key[..])
    }

    /// The last one.
    pub(crate) fn last(&self, range: (Bound<&[u8]>, Bound<&[u8]>), tick: Tick) -> Option<&[u8]> {
        if is_empty(range) {
            return None;
        }
        let mut keys = self.keys.range::<[u8], _>(range).rev();
        keys.find(|(_, writes)| at(writes, tick).is_some()).map(|(key, _)| &key[..])
    }

    /// What a commit writes: each key once, in key order.
    pub(crate) fn into_operations(self) -> Vec<Operation> {
        let last = |mut writes: Vec<Written>| writes.pop().and_then(|written| written.value);
        self.keys.into_iter().map(|(key, writes)| Operation { key, value: last(writes) }).collect()
    }
}

/// What a key was at a tick, if it had been written.
fn at(writes: &[Written], tick: Tick) -> Option<Option<&[u8]>> {
    let written = writes.iter().rev().find(|written| written.tick <= tick)?;
    Some(written.value.as_deref())
}

/// Ranges that a map refuses, and the empty one between a key and itself.
fn is_empty((start, end): (Bound<&[u8]>, Bound<&[u8]>)) -> bool {
    match (start, end) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => start >= end,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

    #[test]
    fn savepoints_nest_and_stale_ones_are_refused() {
        let mut writes = WriteSet::default();
        writes.write(b"a", Some(b"1"));
        let outer = writes.savepoint();
        writes.write(b"a", Some(b"2"));
        writes.write(b"b", None);
        let inner = writes.savepoint();
        writes.write(b"a", Some(b"3"));
        writes.write(b"c", Some(b"3"));
        writes.rollback_to(&inner).unwrap();
        assert_eq!((writes.get(b"a"), writes.get(b"b"), writes.get(b"c")), (Some(Some(&b"2"[..])), Some(None), None));
        writes.rollback_to(&outer).unwrap();
        assert_eq!((writes.get(b"a"), writes.get(b"b")), (Some(Some(&b"1"[..])), None));
        assert!(writes.rollback_to(&inner).is_err());
        writes.write(b"a", None);
        writes.rollback_to(&outer).unwrap();
        let again = writes.savepoint();
        writes.release(&outer).unwrap();
        assert!(writes.release(&again).is_err() && writes.rollback_to(&outer).is_err());
        // Nobody may go back any more.
        writes.write(b"a", Some(b"4"));
        writes.write(b"a", Some(b"1"));
        assert!(writes.journal.is_empty() && writes.keys[&b"a"[..]].len() == 1);
        assert_eq!(writes.into_operations(), [Operation { key: b"a".to_vec(), value: Some(b"1".to_vec()) }]);
    }

    #[test]
    fn iterators_see_what_was_there_when_they_began() {
        let mut writes = WriteSet::default();
        writes.write(b"a", Some(b"1"));
        let tick = writes.iterator_begins();
        writes.write(b"a", Some(b"2"));
        writes.write(b"a", Some(b"3"));
        writes.write(b"b", Some(b"3"));
        assert_eq!((writes.first(ALL, tick), writes.last(ALL, tick)), (Some(&b"a"[..]), Some(&b"a"[..])));
        assert_eq!((writes.get_at(b"a", tick), writes.get_at(b"b", tick)), (Some(Some(&b"1"[..])), None));
        assert_eq!(writes.last(ALL, writes.now), Some(&b"b"[..]));
        // Overwritten for nobody: only what somebody may ask for is kept.
        assert_eq!(writes.keys[&b"a"[..]].len(), 2);
        writes.iterator_ends();
        writes.write(b"b", None);
        assert_eq!(writes.keys[&b"b"[..]].len(), 1);
    }

    #[test]
    fn ranges_of_nothing_are_empty() {
        let mut writes = WriteSet::default();
        writes.write(b"a", Some(b"1"));
        for range in [
            (Bound::Included(&b"b"[..]), Bound::Excluded(&b"a"[..])),
            (Bound::Excluded(&b"a"[..]), Bound::Excluded(&b"a"[..])),
            (Bound::Excluded(&b"a"[..]), Bound::Included(&b"a"[..])),
        ] {
            assert_eq!((writes.first(range, 9), writes.last(range, 9)), (None, None));
        }
    }
}
