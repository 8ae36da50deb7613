//! Iteration over the pairs that a transaction sees: its snapshot with its own writes on top. The ranges that an
//! iterator passes count as read. One thread at a time.

use super::Transaction;
use crate::db::iter::Iter;
use crate::engine::transaction::read_set::{ReadSet, ScanId};
use crate::engine::transaction::write_set::{Tick, WriteSet};
use crate::engine::types::bounds::{Bounds, UserRange};
use crate::engine::types::key_change::KeyChange;
use crate::engine::types::user_key::UserKey;
use crate::merge::Values;
use crate::util::{Result, key};
use std::iter::FusedIterator;
use std::ops::{Bound, ControlFlow};

/// A cursor over the pairs of a key range as a transaction sees them, and a double-ended `Iterator`; it moves like an
/// `Iter`. It shows the snapshot with the writes that the transaction had made when the iterator was created. Later
/// writes do not show, and neither do writes that `rollback_to` has undone.
///
/// The range that the iterator passes counts as read, including absent keys: if another write changes it before the
/// commit, the commit fails (no phantoms). The rest of the range does not count.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// db.put("a", "1")?;
/// let transaction = db.transaction()?;
/// transaction.put("b", "2")?;
/// let keys: Vec<_> = transaction.iter()?.rev().map(|pair| pair.map(|(key, _)| key)).collect::<Result<_, _>>()?;
/// assert_eq!(keys, [b"b".to_vec(), b"a".to_vec()]);
///
/// let mut iter = transaction.iter()?;
/// iter.seek("aa")?;
/// assert_eq!(iter.pair(), Some((&b"b"[..], &b"2"[..])));
/// iter.step_back()?;
/// assert_eq!(iter.key(), Some(&b"a"[..]));
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct TransactionIter<'t> {
    front: TransactionCursor<'t>,
    /// Created by the first `next_back`.
    back: Option<TransactionCursor<'t>>,
}

/// A double-ended iterator over keys: the result of `TransactionIter::keys`.
#[derive(Debug)]
pub struct TransactionKeys<'t>(TransactionIter<'t>);

/// A position: a merge of the snapshot and the transaction's own writes.
struct TransactionCursor<'t> {
    transaction: &'t Transaction,
    /// Iterator over the snapshot. Forward, it is on its first key greater than or equal to `key`; backward, on its
    /// last key less than or equal to `key`.
    base: Iter,
    forward: bool,
    bounds: Bounds,
    keys_only: bool,
    /// The range, in user keys.
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    tick: Tick,
    /// The next key in the current direction that the transaction had written at the tick, or `Some(None)` if there is
    /// none. `None`: not searched yet. Cached so that later writes are skipped once and not at every step.
    own: Option<Option<Vec<u8>>>,
    scan: Option<ScanId>,
    state: State,
    key: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    /// On a pair that `Iterator` has not returned yet.
    On,
    /// On a pair that `Iterator` has returned.
    Given,
    /// Unpositioned: off an end, or after an error.
    Nowhere,
}

impl<'t> TransactionIter<'t> {
    pub(crate) fn new(transaction: &'t Transaction, bounds: Bounds) -> Result<Self> {
        let tick = transaction.state.lock().writes.iterator_begins();
        Ok(Self { front: TransactionCursor::new(transaction, bounds, tick)?, back: None })
    }

    /// Converts to an iterator over the remaining keys, which neither reads nor copies values. The keys still count as
    /// read.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("sea/north", "large")?;
    /// let transaction = db.transaction()?;
    /// transaction.put("sea/south", "larger")?;
    /// assert_eq!(transaction.prefix("sea/")?.keys().count(), 2);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn keys(mut self) -> TransactionKeys<'t> {
        self.front.omit_values();
        self.back.iter_mut().for_each(TransactionCursor::omit_values);
        TransactionKeys(self)
    }

    /// Moves to the first pair. The iterator is unpositioned if there is none.
    pub fn seek_first(&mut self) -> Result<()> {
        self.back = None;
        self.front.seek_first()
    }

    /// Moves to the last pair.
    pub fn seek_last(&mut self) -> Result<()> {
        self.back = None;
        self.front.seek_last()
    }

    /// Moves to the first pair with a key greater than or equal to `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.back = None;
        self.front.seek(key.as_ref())
    }

    /// Moves to the last pair with a key less than or equal to `key`.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.back = None;
        self.front.seek_for_prev(key.as_ref())
    }

    /// Moves to the next pair. After the last pair the iterator becomes unpositioned, and further steps do nothing.
    pub fn step(&mut self) -> Result<()> {
        self.front.step()
    }

    /// Moves to the previous pair. Before the first pair the iterator becomes unpositioned.
    pub fn step_back(&mut self) -> Result<()> {
        self.front.step_back()
    }

    /// Whether the iterator is positioned on a pair.
    pub fn valid(&self) -> bool {
        self.front.valid()
    }

    /// The key at the cursor; `None` if the iterator is unpositioned.
    pub fn key(&self) -> Option<&[u8]> {
        self.valid().then_some(&self.front.key)
    }

    /// The value at the cursor; `None` if the iterator is unpositioned.
    pub fn value(&self) -> Option<&[u8]> {
        self.valid().then_some(&self.front.value)
    }

    /// The key and the value at the cursor; `None` if the iterator is unpositioned.
    pub fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then_some((&self.front.key, &self.front.value))
    }
}

impl Drop for TransactionIter<'_> {
    fn drop(&mut self) {
        self.front.transaction.state.lock().writes.iterator_ends();
    }
}

impl<'t> TransactionIter<'t> {
    /// Calls `visit` for each remaining pair until it breaks.
    pub(super) fn visit(&mut self, mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()> {
        while let Some(front) = self.advance()? {
            if visit(&front.key, &front.value).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Moves the front to the next pair that was not returned yet, and marks it as returned; `None` if none is left.
    fn advance(&mut self) -> Result<Option<&TransactionCursor<'t>>> {
        if self.back.as_ref().is_some_and(|back| back.state == State::Nowhere) {
            return Ok(None);
        }
        let front = &mut self.front;
        match front.state {
            State::New => front.seek_first()?,
            State::Given => front.step()?,
            State::On | State::Nowhere => {}
        }
        let is_left = self.back.as_ref().is_none_or(|back| match back.state {
            State::New => true,
            State::On => front.key <= back.key,
            State::Given => front.key < back.key,
            State::Nowhere => false,
        });
        Ok(if is_left { front.give() } else { None })
    }

    /// Like `advance`, for the back.
    fn advance_back(&mut self) -> Result<Option<&TransactionCursor<'t>>> {
        let front = &self.front;
        if front.state == State::Nowhere {
            return Ok(None);
        }
        let back = match &mut self.back {
            Some(back) => back,
            none => {
                let back = none.insert(TransactionCursor::new(front.transaction, front.bounds.clone(), front.tick)?);
                if front.keys_only {
                    back.omit_values();
                }
                back
            }
        };
        match back.state {
            State::New => back.seek_last()?,
            State::Given => back.step_back()?,
            State::On | State::Nowhere => {}
        }
        let is_left = match front.state {
            State::New => true,
            State::On => back.key >= front.key,
            State::Given => back.key > front.key,
            State::Nowhere => false,
        };
        Ok(if is_left { back.give() } else { None })
    }
}

impl Iterator for TransactionIter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().map(|given| given.map(TransactionCursor::pair)).transpose()
    }
}

impl DoubleEndedIterator for TransactionIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.advance_back().map(|given| given.map(TransactionCursor::pair)).transpose()
    }
}

/// An iteration that is over stays over.
impl FusedIterator for TransactionIter<'_> {}

impl Iterator for TransactionKeys<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.advance().map(|given| given.map(|cursor| cursor.key.clone())).transpose()
    }
}

impl DoubleEndedIterator for TransactionKeys<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.advance_back().map(|given| given.map(|cursor| cursor.key.clone())).transpose()
    }
}

impl FusedIterator for TransactionKeys<'_> {}

impl<'t> TransactionCursor<'t> {
    fn new(transaction: &'t Transaction, bounds: Bounds, tick: Tick) -> Result<Self> {
        let base = transaction.snapshot.iterate(bounds.clone())?;
        let lower = key::split(&bounds.lower).map_or(Vec::new(), |(_, user_key)| user_key.to_vec());
        // A bound in the next keyspace is no bound in this one.
        let upper = match bounds.upper.as_deref().and_then(key::split) {
            Some((keyspace, user_key)) if keyspace == bounds.keyspace => Some(user_key.to_vec()),
            _ => None,
        };
        Ok(Self {
            transaction,
            base,
            forward: true,
            bounds,
            keys_only: false,
            lower,
            upper,
            tick,
            own: None,
            scan: None,
            state: State::New,
            key: Vec::new(),
            value: Vec::new(),
        })
    }

    /// Later moves read only keys.
    fn omit_values(&mut self) {
        self.keys_only = true;
        self.base.set_values(Values::Skipped);
    }

    /// A key of the cursor's keyspace.
    fn user_key<'k>(&self, key: &'k [u8]) -> UserKey<&'k [u8]> {
        UserKey::new(self.bounds.keyspace, key)
    }

    fn valid(&self) -> bool {
        matches!(self.state, State::On | State::Given)
    }

    fn give(&mut self) -> Option<&Self> {
        if !self.valid() {
            return None;
        }
        self.state = State::Given;
        Some(self)
    }

    fn pair(&self) -> (Vec<u8>, Vec<u8>) {
        (self.key.clone(), self.value.clone())
    }

    fn seek_first(&mut self) -> Result<()> {
        let lower = self.lower.clone();
        self.seek(&lower)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.state = State::Nowhere;
        let upper = self.bounds.upper.clone();
        self.begin_scan(upper.clone().unwrap_or_default(), upper);
        self.set_direction(false);
        self.base.seek_last()?;
        self.find(None)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.state = State::Nowhere;
        let from = key.max(&self.lower).to_vec();
        let start = key::encoded(self.bounds.keyspace, &from);
        self.begin_scan(start.clone(), Some(start));
        self.set_direction(true);
        self.base.seek(&from)?;
        self.find(Some(Bound::Included(from)))
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        if self.upper.as_deref().is_some_and(|upper| key >= upper) {
            return self.seek_last();
        }
        self.state = State::Nowhere;
        if key < &self.lower[..] {
            // No part of the range was read.
            self.scan = None;
            return Ok(());
        }
        let start = key::encoded(self.bounds.keyspace, key);
        let mut end = start.clone();
        end.push(0);
        self.begin_scan(start, Some(end));
        self.set_direction(false);
        self.base.seek_for_prev(key)?;
        self.find(Some(Bound::Included(key.to_vec())))
    }

    fn step(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        self.state = State::Nowhere;
        if !self.forward {
            self.set_direction(true);
            self.base.seek(&self.key)?;
        }
        if self.base.key() == Some(&self.key) {
            self.base.step()?;
        }
        self.find(Some(Bound::Excluded(self.key.clone())))
    }

    fn step_back(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        self.state = State::Nowhere;
        if self.forward {
            self.set_direction(false);
            self.base.seek_for_prev(&self.key)?;
        }
        if self.base.key() == Some(&self.key) {
            self.base.step_back()?;
        }
        self.find(Some(Bound::Excluded(self.key.clone())))
    }

    /// Sets the direction, from a new place.
    fn set_direction(&mut self, forward: bool) {
        (self.forward, self.own) = (forward, None);
    }

    /// Finds the first pair at or after `from`; backward, the last pair at or before it. `None` stands for the end of
    /// the range. Requires that the base is in that place.
    fn find(&mut self, mut from: Option<Bound<Vec<u8>>>) -> Result<()> {
        let transaction = self.transaction;
        loop {
            let mut state = transaction.state.lock();
            if self.own.is_none() {
                self.own = Some(self.next_own(&state.writes, from.as_ref()));
            }
            let base = self.base.key();
            let forward = self.forward;
            let is_next =
                |own: &mut Vec<u8>| base.is_none_or(|base| if forward { &own[..] <= base } else { &own[..] >= base });
            let Some(own) = self.own.as_mut().and_then(|own| own.take_if(is_next)) else {
                let Some(base) = base else {
                    self.extend_read_to_end(&mut state.reads);
                    return Ok(());
                };
                if let Some((_, range)) = state.writes.deleted_at(self.user_key(base), self.tick) {
                    let range = range.clone();
                    drop(state);
                    self.leave_deleted(range)?;
                    continue;
                }
                self.key.clear();
                self.key.extend_from_slice(base);
                self.value.clear();
                if !self.keys_only {
                    self.value.extend_from_slice(self.base.value().unwrap_or_default());
                }
                break;
            };
            self.own = None;
            match state.writes.get_at(self.user_key(&own), self.tick) {
                Some(KeyChange::Put(value)) => {
                    self.value.clear();
                    if !self.keys_only {
                        self.value.extend_from_slice(value);
                    }
                    self.key = own;
                    break;
                }
                Some(KeyChange::Merge(operand)) => {
                    let operand = [operand.to_vec()];
                    drop(state);
                    self.value.clear();
                    if !self.keys_only {
                        let has_base = self.base.key() == Some(&own);
                        if has_base {
                            self.value.extend_from_slice(self.base.value().unwrap_or_default());
                        }
                        let key = UserKey::new(self.bounds.keyspace, &own);
                        transaction.write.read.fold(key, has_base, &operand, &mut self.value)?;
                    }
                    self.key = own;
                    break;
                }
                Some(KeyChange::Delete) => {
                    drop(state);
                    if self.base.key() == Some(&own) {
                        if self.forward { self.base.step()? } else { self.base.step_back()? }
                    }
                    from = Some(Bound::Excluded(own));
                }
                // A rollback has undone the write since it was found.
                None => {}
            }
        }
        self.arrive();
        Ok(())
    }

    /// Moves the base off a range that the transaction has deleted, but not past the transaction's next own key: a rollback
    /// may undo the deletion once the iterator is there.
    fn leave_deleted(&mut self, range: UserRange) -> Result<()> {
        let own = self.own.iter().flatten().cloned();
        if self.forward {
            return match own.chain(range.end).min() {
                Some(end) => self.base.seek(end),
                None => {
                    self.base.seek_last()?;
                    self.base.step()
                }
            };
        }
        let start = own.chain([range.start]).max().unwrap_or_default();
        self.base.seek_for_prev(&start)?;
        let is_inside =
            self.base.key() == Some(&start) && self.own.as_ref().is_none_or(|own| own.as_ref() != Some(&start));
        if is_inside { self.base.step_back() } else { Ok(()) }
    }

    /// The next key that the transaction has written, starting at `from` or at the end of the range.
    fn next_own(&self, writes: &WriteSet, from: Option<&Bound<Vec<u8>>>) -> Option<Vec<u8>> {
        let from = from.map(|from| from.as_ref().map(|key| &key[..]));
        let lower = Bound::Included(&self.lower[..]);
        let upper = self.upper.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let own = if self.forward {
            writes.first(self.bounds.keyspace, (from.unwrap_or(lower), upper), self.tick)
        } else {
            writes.last(self.bounds.keyspace, (lower, from.unwrap_or(upper)), self.tick)
        };
        own.map(<[u8]>::to_vec)
    }

    /// Positions on `key`, and records the range up to it, or down to it, as read.
    fn arrive(&mut self) {
        self.state = State::On;
        if let Some(scan) = self.scan {
            let key = key::encoded(self.bounds.keyspace, &self.key);
            let reads = &mut self.transaction.state.lock().reads;
            if self.forward { reads.extend_through(scan, &key) } else { reads.extend_down_to(scan, &key) }
        }
    }

    /// Records the rest of the range, in the current direction, as read.
    fn extend_read_to_end(&self, reads: &mut ReadSet) {
        let Some(scan) = self.scan else { return };
        if self.forward {
            reads.extend_to(scan, self.bounds.upper.as_deref());
        } else {
            reads.extend_down_to(scan, &self.bounds.lower);
        }
    }

    fn begin_scan(&mut self, start: Vec<u8>, end: Option<Vec<u8>>) {
        self.scan = Some(self.transaction.state.lock().reads.begin_scan((start, end)));
    }
}

impl std::fmt::Debug for TransactionIter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionIter").field("state", &self.front.state).finish_non_exhaustive()
    }
}
