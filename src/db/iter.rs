//! Walking over pairs in key order, both ways, at one snapshot.
//!
//! An iterator's cursors read one view. When the view has changed by the next step, the iterator seats itself anew in the
//! newest one at (snapshot, key); when the view changes while the iterator is idle, its cursors are taken away, so that an
//! iterator left lying for an hour pins its snapshot's versions, but neither memory nor files (`docs/concurrency.md`, T3).

use super::pins::Pin;
use super::read_side::ReadSide;
use super::view::View;
use crate::base::sync::{Arc, Mutex};
use crate::base::{KeyspaceId, Result, SequenceNumber, key};
use crate::merge::{Cursor, MergeCursor, VisibleCursor};
use std::ops::{Bound, RangeBounds};
use std::sync::Weak;

/// Encoded keys between which an iterator stays.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    lower: Vec<u8>,
    /// Exclusive; `None` at the end of the last keyspace.
    upper: Option<Vec<u8>>,
}

impl Bounds {
    pub(super) fn all() -> Self {
        Self::of_prefix(&[])
    }

    pub(super) fn of_prefix(prefix: &[u8]) -> Self {
        let lower = key::encoded(KeyspaceId::DEFAULT, prefix);
        // The first key behind all that begin with the prefix: its last byte that is not 0xff goes up by one.
        let mut upper = lower.clone();
        while upper.last() == Some(&0xff) {
            upper.pop();
        }
        if let Some(last) = upper.last_mut() {
            *last += 1;
        }
        Self { lower, upper: (!upper.is_empty()).then_some(upper) }
    }

    /// The first key, and the first behind; `None` at the end of the last keyspace.
    pub(super) fn into_keys(self) -> (Vec<u8>, Option<Vec<u8>>) {
        (self.lower, self.upper)
    }

    pub(super) fn of_range<K: AsRef<[u8]>>(range: impl RangeBounds<K>) -> Self {
        let encoded = |user_key: &K| key::encoded(KeyspaceId::DEFAULT, user_key.as_ref());
        // The first key behind `k` is `k` with a zero byte.
        let behind = |user_key: &K| {
            let mut encoded = encoded(user_key);
            encoded.push(0);
            encoded
        };
        let all = Self::all();
        let lower = match range.start_bound() {
            Bound::Included(start) => encoded(start),
            Bound::Excluded(start) => behind(start),
            Bound::Unbounded => all.lower,
        };
        let upper = match range.end_bound() {
            Bound::Included(end) => Some(behind(end)),
            Bound::Excluded(end) => Some(encoded(end)),
            Bound::Unbounded => all.upper,
        };
        Self { lower, upper }
    }
}

type Sources = VisibleCursor<Box<dyn Cursor>>;

/// Cursors over one view.
struct Seated {
    cursor: Sources,
    /// Keeps generations and value files while the cursor may refer to them.
    view: Arc<View>,
}

/// Where an iterator sits; shared with the sweep that takes idle cursors away.
#[derive(Default)]
struct Seat {
    seated: Mutex<Option<Seated>>,
}

/// The seats of all iterators of a store.
#[derive(Default)]
pub(super) struct Seats {
    all: Mutex<Vec<Weak<Seat>>>,
}

impl Seats {
    fn add(&self, seat: &Arc<Seat>) {
        let mut all = self.all.lock();
        // Forgetting dead seats whenever the list would grow keeps it within twice the iterators alive.
        if all.len() == all.capacity() {
            all.retain(|seat| seat.strong_count() > 0);
        }
        all.push(Arc::downgrade(seat));
    }

    /// Takes the cursors of every idle iterator that sits in a view older than `version`.
    pub(super) fn revoke_idle(&self, version: u64) {
        let seats: Vec<Arc<Seat>> = self.all.lock().iter().filter_map(Weak::upgrade).collect();
        for seat in seats {
            // A seat that is locked is in use; its iterator looks at the version at its next step.
            if let Some(mut seated) = seat.seated.try_lock()
                && seated.as_ref().is_some_and(|seated| seated.view.version < version)
            {
                let revoked = seated.take();
                drop(seated);
                drop(revoked);
            }
        }
    }
}

/// A position in the pairs of a range at a snapshot. Owned: it may move to another thread and outlive the borrow of `Db`,
/// and it is cheap to leave idle. New: it stands nowhere; seek, or use it as an `Iterator`, which starts at the first pair.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// for name in ["ash", "birch", "beech"] {
///     db.put(name, "tree")?;
/// }
/// let keys: Vec<_> = db.prefix("b")?.map(|pair| pair.map(|(key, _)| key)).collect::<Result<_, _>>()?;
/// assert_eq!(keys, [b"beech".to_vec(), b"birch".to_vec()]);
/// let mut iter = db.iter()?;
/// iter.seek_for_prev("b")?;
/// assert_eq!(iter.key(), b"ash");
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct Iter {
    read: Arc<ReadSide>,
    pin: Arc<Pin>,
    bounds: Bounds,
    seat: Arc<Seat>,
    state: State,
    /// The pair it stands on: encoded key, and value.
    key: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was sought yet.
    New,
    /// On a pair that `Iterator::next` has not given out yet.
    On,
    /// On a pair that `Iterator::next` has given out.
    Given,
    /// Off an end.
    Nowhere,
}

impl Iter {
    pub(super) fn new(read: Arc<ReadSide>, pin: Arc<Pin>, bounds: Bounds) -> Result<Self> {
        read.check_open()?;
        let seat = Arc::new(Seat::default());
        read.seats.add(&seat);
        Ok(Self { read, pin, bounds, seat, state: State::New, key: Vec::new(), value: Vec::new() })
    }

    /// Moves to the first pair.
    pub fn seek_first(&mut self) -> Result<()> {
        self.go(false, Sources::seek_first)
    }

    /// Moves to the last pair.
    pub fn seek_last(&mut self) -> Result<()> {
        self.go(false, Sources::seek_last)
    }

    /// Moves to the first pair whose key is `key` or behind it.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key::encoded(KeyspaceId::DEFAULT, key.as_ref());
        self.go(false, |cursor| cursor.seek(&key))
    }

    /// Moves to the last pair whose key is `key` or before it.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key::encoded(KeyspaceId::DEFAULT, key.as_ref());
        self.go(false, |cursor| cursor.seek_for_prev(&key))
    }

    /// Moves one pair on; off the end the iterator stands nowhere, and there it stays.
    pub fn step(&mut self) -> Result<()> {
        if self.valid() { self.go(true, Sources::next) } else { Ok(()) }
    }

    /// Moves one pair back.
    pub fn step_back(&mut self) -> Result<()> {
        if self.valid() { self.go(true, Sources::prev) } else { Ok(()) }
    }

    /// Whether it stands on a pair.
    pub fn valid(&self) -> bool {
        matches!(self.state, State::On | State::Given)
    }

    /// The key it stands on; empty where it stands nowhere.
    pub fn key(&self) -> &[u8] {
        if self.valid() { &self.key[KeyspaceId::BYTES..] } else { &[] }
    }

    /// The value it stands on; empty where it stands nowhere.
    pub fn value(&self) -> &[u8] {
        if self.valid() { &self.value } else { &[] }
    }

    /// The same pairs from last to first, as an `Iterator`. Starts where this one stands, or else at the last pair.
    pub fn reversed(self) -> Reversed {
        Reversed { iter: self }
    }

    /// Takes a seat in the newest view where that is needed, moves, and copies out the pair arrived at. After an error the
    /// iterator stands nowhere.
    fn go(&mut self, from_here: bool, movement: impl FnOnce(&mut Sources) -> Result<()>) -> Result<()> {
        let result = self.try_go(from_here, movement);
        if result.is_err() {
            self.state = State::Nowhere;
        }
        result
    }

    fn try_go(&mut self, from_here: bool, movement: impl FnOnce(&mut Sources) -> Result<()>) -> Result<()> {
        self.read.check_open()?;
        let _inside = self.pin.enter()?;
        let mut guard = self.seat.seated.lock();
        let newest = self.read.view.version();
        let is_outdated = guard.as_ref().is_none_or(|seated| seated.view.version < newest);
        if is_outdated {
            // The old cursors go before there are new ones.
            *guard = None;
        }
        let seated = guard.get_or_insert_with(|| sit(&self.read, self.pin.number(), &self.bounds));
        if is_outdated && from_here {
            seated.cursor.seek(&self.key)?;
            debug_assert!(seated.cursor.valid() && seated.cursor.entry().key == self.key);
        }
        movement(&mut seated.cursor)?;
        if !seated.cursor.valid() {
            self.state = State::Nowhere;
            return Ok(());
        }
        let entry = seated.cursor.entry();
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.value.clear();
        self.value.extend_from_slice(entry.value);
        let live = self.read.resolve(entry.kind, &mut self.value)?;
        let operands = seated.cursor.operands();
        if operands.is_empty() {
            debug_assert!(live, "the visible cursor passes over tombstones");
        } else {
            self.read.fold(&self.key[KeyspaceId::BYTES..], live, operands, &mut self.value)?;
        }
        if seated.view.version < self.read.view.version() {
            // The sweep came by while this seat was in use, and will not come again before the next change.
            *guard = None;
        }
        self.state = State::On;
        Ok(())
    }

    fn give(&mut self) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        if !self.valid() {
            return None;
        }
        self.state = State::Given;
        Some(Ok((self.key().to_vec(), self.value.clone())))
    }
}

/// Opens cursors over everything in the newest view, newest source first.
fn sit(read: &ReadSide, at: SequenceNumber, bounds: &Bounds) -> Seated {
    let view = read.view.load_full();
    let mut sources: Vec<Box<dyn Cursor>> = Vec::with_capacity(view.generations.len() + 1);
    for generation in &view.generations {
        if !generation.memtable.is_empty() {
            sources.push(Box::new(generation.memtable.cursor_at(at)));
        }
    }
    let tree = Box::new(view.tree.cursor());
    let all: Box<dyn Cursor> = if sources.is_empty() {
        tree
    } else {
        sources.push(tree);
        Box::new(MergeCursor::new(sources))
    };
    // A Memtable that gets its first one later gets it with a number that the snapshot does not have.
    let masked = view.tree.has_range_tombstones()
        || view.generations.iter().any(|generation| generation.memtable.has_range_tombstones());
    let cursor = VisibleCursor::new(all, at, bounds.lower.clone(), bounds.upper.clone()).masked(masked);
    Seated { cursor, view }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let moved = match self.state {
            State::New => self.seek_first(),
            State::Given => self.step(),
            State::On | State::Nowhere => Ok(()),
        };
        if let Err(error) = moved { Some(Err(error)) } else { self.give() }
    }
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("at", &self.pin.number()).field("state", &self.state).finish_non_exhaustive()
    }
}

/// An `Iter` walked from its end.
#[derive(Debug)]
pub struct Reversed {
    iter: Iter,
}

impl Iterator for Reversed {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let moved = match self.iter.state {
            State::New => self.iter.seek_last(),
            State::Given => self.iter.step_back(),
            State::On | State::Nowhere => Ok(()),
        };
        if let Err(error) = moved { Some(Err(error)) } else { self.iter.give() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_prefixes_and_ranges() {
        let prefix = Bounds::of_prefix(b"a\xff");
        assert_eq!((&prefix.lower[..], prefix.upper.as_deref()), (&b"\0\0\0\0a\xff"[..], Some(&b"\0\0\0\0b"[..])));
        // Nothing behind a prefix of only 0xff in its keyspace: the next keyspace bounds it.
        assert_eq!(Bounds::of_prefix(b"\xff").upper.as_deref(), Some(&b"\0\0\0\x01"[..]));
        assert_eq!(Bounds::all().upper.as_deref(), Some(&b"\0\0\0\x01"[..]));
        let range = Bounds::of_range::<&str>((Bound::Excluded("a"), Bound::Included("b")));
        assert_eq!((&range.lower[..], range.upper.as_deref()), (&b"\0\0\0\0a\0"[..], Some(&b"\0\0\0\0b\0"[..])));
    }
}
