//! What a transaction has written so far, and what it had written at each savepoint and when each iterator was created.
//!
//! One thread at a time. Each write has a tick. Older writes of a key are kept as long as a savepoint or an iterator
//! may need them.
//!
//! Invariants:
//! 1. The writes of a key are in the order of their ticks, and there is at least one.
//! 2. Savepoints are in the order of their creation, so their ticks never decrease.

use crate::engine::types::bounds::UserRange;
use crate::engine::types::effects::{Effects, KeyWrite};
use crate::engine::types::key_change::KeyChange;
use crate::engine::types::user_key::UserKey;
use crate::util::sync::{AtomicU64, Ordering};
use crate::util::{Error, KeyspaceId, Result};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The number of writes that a transaction has made so far: its logical time.
pub(crate) type Tick = u64;

/// A state of a transaction's writes, to which `Transaction::rollback_to` returns.
#[derive(Debug)]
pub struct Savepoint {
    id: u64,
}

/// Savepoint ids are unique across transactions, so that a savepoint of another transaction is detected.
static NEXT_SAVEPOINT: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
struct Written {
    tick: Tick,
    change: KeyChange<Vec<u8>>,
}

/// The writes of a transaction.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    /// In the order (keyspace, key), as a commit needs them. A map of a keyspace may be empty.
    keys: BTreeMap<KeyspaceId, BTreeMap<Vec<u8>, Vec<Written>>>,
    /// Deleted ranges, in the order of their ticks. Each hides older writes, and what the snapshot has.
    deleted: Vec<(Tick, UserRange)>,
    now: Tick,
    /// Id and tick.
    savepoints: Vec<(u64, Tick)>,
    /// The writes since the first savepoint. With it, the cost of a rollback is proportional to the undone writes.
    journal: Vec<(Tick, UserKey<Vec<u8>>)>,
    iterators: usize,
    /// The tick of the newest iterator, while there are iterators.
    iterator_tick: Tick,
}

impl WriteSet {
    pub(crate) fn write(&mut self, key: UserKey<&[u8]>, change: KeyChange<Vec<u8>>) {
        let savepoint = self.savepoints.last().map(|(_, tick)| *tick);
        let iterator = (self.iterators > 0).then_some(self.iterator_tick);
        self.now += 1;
        if savepoint.is_some() {
            self.journal.push((self.now, key.to_owned()));
        }
        let written = Written { tick: self.now, change };
        let keys = self.keys.entry(key.keyspace).or_default();
        let Some(writes) = keys.get_mut(key.bytes) else {
            keys.insert(key.bytes.to_vec(), vec![written]);
            return;
        };
        match writes.last_mut() {
            Some(last) if savepoint.max(iterator).is_none_or(|needed| last.tick > needed) => *last = written,
            _ => writes.push(written),
        }
    }

    pub(crate) fn delete_range(&mut self, range: UserRange) {
        self.now += 1;
        self.deleted.push((self.now, range));
    }

    /// The last write to a key, if any. A range delete counts as a delete.
    pub(crate) fn get(&self, key: UserKey<&[u8]>) -> Option<KeyChange<&[u8]>> {
        self.get_at(key, self.now)
    }

    /// The newest range at a tick that covers a key.
    pub(crate) fn deleted_at(&self, key: UserKey<&[u8]>, tick: Tick) -> Option<&(Tick, UserRange)> {
        self.deleted.iter().rev().find(|(deleted, range)| *deleted <= tick && range.contains(key))
    }

    pub(crate) fn savepoint(&mut self) -> Savepoint {
        let id = NEXT_SAVEPOINT.fetch_add(1, Ordering::Relaxed);
        self.savepoints.push((id, self.now));
        Savepoint { id }
    }

    /// Undoes all writes since a savepoint, and removes the savepoints made after it.
    pub(crate) fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        let at = self.position_of(savepoint)?;
        self.savepoints.truncate(at + 1);
        let (_, tick) = self.savepoints[at];
        self.deleted.retain(|(deleted, _)| *deleted <= tick);
        while let Some((_, key)) = self.journal.pop_if(|(written, _)| *written > tick) {
            let Some(keys) = self.keys.get_mut(&key.keyspace) else { continue };
            if let Some(writes) = keys.get_mut(&key.bytes) {
                writes.retain(|written| written.tick <= tick);
                if writes.is_empty() {
                    keys.remove(&key.bytes);
                }
            }
        }
        Ok(())
    }

    /// Removes a savepoint and those made after it, and keeps the writes.
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
                "the savepoint belongs to another transaction, or was made after a savepoint that was rolled back to or released"
                    .into(),
            )
        })
    }

    /// The tick for a new iterator. `iterator_ends` must be called when it is dropped.
    pub(crate) fn iterator_begins(&mut self) -> Tick {
        self.iterators += 1;
        self.iterator_tick = self.now;
        self.now
    }

    pub(crate) fn iterator_ends(&mut self) {
        self.iterators -= 1;
    }

    /// The last write to a key at a tick, if any.
    pub(crate) fn get_at(&self, key: UserKey<&[u8]>, tick: Tick) -> Option<KeyChange<&[u8]>> {
        let written =
            self.keys.get(&key.keyspace).and_then(|keys| keys.get(key.bytes)).and_then(|writes| at(writes, tick));
        match self.deleted_at(key, tick) {
            Some((deleted, _)) if written.is_none_or(|written| written.tick < *deleted) => Some(KeyChange::Delete),
            _ => written.map(|written| written.change.as_bytes()),
        }
    }

    /// The first key in a range of a keyspace that was written at or before a tick. Skips keys that were only written
    /// later.
    pub(crate) fn first(&self, keyspace: KeyspaceId, range: (Bound<&[u8]>, Bound<&[u8]>), tick: Tick) -> Option<&[u8]> {
        if is_empty(range) {
            return None;
        }
        let mut keys = self.keys.get(&keyspace)?.range::<[u8], _>(range);
        keys.find(|(_, writes)| at(writes, tick).is_some()).map(|(key, _)| &key[..])
    }

    /// Like `first`, for the last key.
    pub(crate) fn last(&self, keyspace: KeyspaceId, range: (Bound<&[u8]>, Bound<&[u8]>), tick: Tick) -> Option<&[u8]> {
        if is_empty(range) {
            return None;
        }
        let mut keys = self.keys.get(&keyspace)?.range::<[u8], _>(range).rev();
        keys.find(|(_, writes)| at(writes, tick).is_some()).map(|(key, _)| &key[..])
    }

    /// The effects of the commit.
    pub(crate) fn into_effects(self) -> Effects {
        let Self { keys, deleted, .. } = self;
        let is_hidden = |key: UserKey<&[u8]>, written: &Written| {
            deleted.iter().any(|(tick, range)| written.tick < *tick && range.contains(key))
        };
        let mut writes = Vec::new();
        for (keyspace, keys) in keys {
            writes.extend(keys.into_iter().filter_map(|(bytes, mut written)| {
                let key = UserKey { keyspace, bytes };
                let last = written.pop().filter(|last| !is_hidden(key.as_bytes(), last))?;
                Some(KeyWrite { key, change: last.change })
            }));
        }
        Effects { writes, deleted: UserRange::merged(deleted.into_iter().map(|(_, range)| range).collect()) }
    }
}

/// The last write at a tick, if any.
fn at(writes: &[Written], tick: Tick) -> Option<&Written> {
    writes.iter().rev().find(|written| written.tick <= tick)
}

/// Whether a range is empty. `BTreeMap::range` panics for some of these ranges.
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

    fn put(value: &[u8]) -> KeyChange<Vec<u8>> {
        KeyChange::Put(value.to_vec())
    }

    const KEYSPACE: KeyspaceId = KeyspaceId::DEFAULT;

    fn key(key: &str) -> UserKey<&[u8]> {
        UserKey::new(KEYSPACE, key)
    }

    const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

    #[test]
    fn savepoints_nest_and_stale_ones_are_rejected() {
        let mut writes = WriteSet::default();
        writes.write(key("a"), put(b"1"));
        let outer = writes.savepoint();
        writes.write(key("a"), put(b"2"));
        writes.write(key("b"), KeyChange::Delete);
        let inner = writes.savepoint();
        writes.write(key("a"), put(b"3"));
        writes.write(key("c"), put(b"3"));
        writes.rollback_to(&inner).unwrap();
        assert_eq!(
            (writes.get(key("a")), writes.get(key("b")), writes.get(key("c"))),
            (Some(KeyChange::Put(&b"2"[..])), Some(KeyChange::Delete), None)
        );
        writes.rollback_to(&outer).unwrap();
        assert_eq!((writes.get(key("a")), writes.get(key("b"))), (Some(KeyChange::Put(&b"1"[..])), None));
        assert!(writes.rollback_to(&inner).is_err());
        writes.write(key("a"), KeyChange::Delete);
        writes.rollback_to(&outer).unwrap();
        let again = writes.savepoint();
        writes.release(&outer).unwrap();
        assert!(writes.release(&again).is_err() && writes.rollback_to(&outer).is_err());
        // Without savepoints, only the last write is kept.
        writes.write(key("a"), put(b"4"));
        writes.write(key("a"), put(b"1"));
        assert!(writes.journal.is_empty() && writes.keys[&KEYSPACE][&b"a"[..]].len() == 1);
        let effects = writes.into_effects();
        assert_eq!(effects.writes, [KeyWrite { key: key("a").to_owned(), change: put(b"1") }]);
        assert!(effects.deleted.is_empty());
    }

    #[test]
    fn iterators_see_the_writes_at_their_creation() {
        let mut writes = WriteSet::default();
        writes.write(key("a"), put(b"1"));
        let tick = writes.iterator_begins();
        writes.write(key("a"), put(b"2"));
        writes.write(key("a"), put(b"3"));
        writes.write(key("b"), put(b"3"));
        assert_eq!(
            (writes.first(KEYSPACE, ALL, tick), writes.last(KEYSPACE, ALL, tick)),
            (Some(&b"a"[..]), Some(&b"a"[..]))
        );
        assert_eq!(
            (writes.get_at(key("a"), tick), writes.get_at(key("b"), tick)),
            (Some(KeyChange::Put(&b"1"[..])), None)
        );
        assert_eq!(writes.last(KEYSPACE, ALL, writes.now), Some(&b"b"[..]));
        // Only the writes that the iterator may need are kept.
        assert_eq!(writes.keys[&KEYSPACE][&b"a"[..]].len(), 2);
        writes.iterator_ends();
        writes.write(key("b"), KeyChange::Delete);
        assert_eq!(writes.keys[&KEYSPACE][&b"b"[..]].len(), 1);
    }

    #[test]
    fn deleted_ranges_hide_older_writes() {
        let range =
            |start: &[u8], end: &[u8]| UserRange { keyspace: KEYSPACE, start: start.to_vec(), end: Some(end.to_vec()) };
        let mut writes = WriteSet::default();
        writes.write(key("a"), put(b"1"));
        writes.write(key("b"), put(b"1"));
        let before = writes.iterator_begins();
        writes.delete_range(range(b"a", b"d"));
        writes.write(key("b"), put(b"2"));
        let savepoint = writes.savepoint();
        writes.delete_range(range(b"b", b"f"));
        let get = |writes: &WriteSet, key: &str| writes.get(UserKey::of_default(key)).map(KeyChange::to_owned);
        let value = |value: &str| Some(put(value.as_bytes()));
        let deleted = || Some(KeyChange::Delete);
        assert_eq!(
            ["a", "b", "c", "e", "f"].map(|key| get(&writes, key)),
            [deleted(), deleted(), deleted(), deleted(), None]
        );
        assert_eq!(
            (writes.get_at(key("b"), before), writes.get_at(key("c"), before)),
            (Some(KeyChange::Put(&b"1"[..])), None)
        );
        assert!(writes.deleted_at(key("a"), before).is_none() && writes.deleted_at(key("e"), writes.now).is_some());
        writes.rollback_to(&savepoint).unwrap();
        assert_eq!(["a", "b", "c", "e"].map(|key| get(&writes, key)), [deleted(), value("2"), deleted(), None]);
        writes.delete_range(range(b"d", b"e"));
        let effects = writes.into_effects();
        assert_eq!(effects.writes, [KeyWrite { key: key("b").to_owned(), change: put(b"2") }]);
        assert_eq!(effects.deleted, [range(b"a", b"e")]);
    }

    #[test]
    fn inverted_ranges_are_empty() {
        let mut writes = WriteSet::default();
        writes.write(key("a"), put(b"1"));
        for range in [
            (Bound::Included(&b"b"[..]), Bound::Excluded(&b"a"[..])),
            (Bound::Excluded(&b"a"[..]), Bound::Excluded(&b"a"[..])),
            (Bound::Excluded(&b"a"[..]), Bound::Included(&b"a"[..])),
        ] {
            assert_eq!((writes.first(KEYSPACE, range, 9), writes.last(KEYSPACE, range, 9)), (None, None));
        }
    }
}
