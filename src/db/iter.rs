//! Iteration over pairs in key order, in both directions, at one snapshot.

use crate::engine::read::cached_cursors::ViewCursor;
use crate::engine::read::position::{Position, Scope, State};

use crate::engine::read::read_path::ReadPath;
use crate::engine::state::snapshot_registry::SnapshotPin;
pub(crate) use crate::engine::types::bounds::Bounds;
use crate::merge::Values;
use crate::util::Result;
use crate::util::key::with_encoded;
use crate::util::sync::Arc;
use std::iter::FusedIterator;
use std::ops::ControlFlow;

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A cursor over the pairs of a key range at a snapshot, and a double-ended `Iterator`. An `Iter` owns its snapshot: it
/// may move to another thread and outlive the borrow of `Db`. An idle one costs little, but its snapshot retains old
/// versions.
///
/// As a cursor: a new `Iter` is unpositioned. `seek` and the other seeks move it to a pair, and `step` and `step_back`
/// to the neighbouring pairs. A step off either end leaves it unpositioned until the next seek. Keys outside of the
/// range are ignored: `seek` with a key before the range moves to its first pair, and `seek_for_prev` with a key after
/// the range moves to its last pair.
///
/// As an `Iterator`: `next` returns the pair at the cursor unless it was returned already, otherwise it steps first. A
/// new `Iter` starts with the first pair. `next_back` has a position of its own. It starts with the last pair of the
/// range and moves back towards the cursor. The iteration ends where both positions meet.
///
/// Both combined: a seek resets the back position. `step` and `step_back` move only the front position. It may move
/// past the back position, where `next` returns nothing, and back over pairs, which `next` then returns again. After a
/// step off an end and after an error the iteration is over.
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
/// assert_eq!(iter.key(), Some(&b"ash"[..]));
/// iter.seek("b")?;
/// let (last, _) = iter.next_back().expect("a pair")?;
/// assert_eq!((&last[..], iter.key()), (&b"birch"[..], Some(&b"beech"[..])));
/// assert_eq!(iter.count(), 1);
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct Iter {
    scope: Scope,
    front: Position,
    /// Created by the first `next_back`.
    back: Option<Box<Position>>,
}

impl Iter {
    pub(crate) fn new(read: Arc<ReadPath>, pin: Arc<SnapshotPin>, bounds: Bounds) -> Result<Self> {
        read.check_open()?;
        let front = Position::new(&read);
        Ok(Self { scope: Scope { read, pin, bounds, values: Values::Borrowed }, front, back: None })
    }

    /// Moves to the first pair. The iterator is unpositioned if there is none.
    ///
    /// # Errors
    /// As for all moves: `Corruption`, `Io`, `SnapshotExpired`; `Closed` after the store was closed.
    pub fn seek_first(&mut self) -> Result<()> {
        self.seek_by(ViewCursor::seek_first)
    }

    /// Moves to the last pair.
    pub fn seek_last(&mut self) -> Result<()> {
        self.seek_by(ViewCursor::seek_last)
    }

    /// Moves to the first pair with a key greater than or equal to `key`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("ash", "1")?;
    /// db.put("beech", "2")?;
    /// let mut iter = db.iter()?;
    /// iter.seek("b")?;
    /// assert_eq!(iter.key(), Some(&b"beech"[..]));
    /// iter.seek("c")?; // no key follows
    /// assert!(!iter.valid());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        with_encoded(self.scope.bounds.keyspace, key.as_ref(), |key| self.seek_by(|cursor| cursor.seek(key)))
    }

    /// Moves to the last pair with a key less than or equal to `key`.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        with_encoded(self.scope.bounds.keyspace, key.as_ref(), |key| self.seek_by(|cursor| cursor.seek_for_prev(key)))
    }

    fn seek_by(&mut self, movement: impl FnOnce(&mut ViewCursor) -> Result<()>) -> Result<()> {
        self.back = None;
        self.front.move_cursor(&self.scope, false, movement)
    }

    /// Moves to the next pair. After the last pair the iterator becomes unpositioned, and further steps do nothing.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// for name in ["ash", "beech", "birch"] {
    ///     db.put(name, "tree")?;
    /// }
    /// let mut iter = db.range("b"..)?;
    /// let mut trees = 0;
    /// iter.seek_first()?;
    /// while iter.valid() {
    ///     trees += 1;
    ///     iter.step()?;
    /// }
    /// assert_eq!(trees, 2);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[inline]
    pub fn step(&mut self) -> Result<()> {
        if self.valid() { self.front.step(&self.scope) } else { Ok(()) }
    }

    /// Moves to the previous pair. Before the first pair the iterator becomes unpositioned.
    pub fn step_back(&mut self) -> Result<()> {
        if self.valid() { self.front.move_cursor(&self.scope, true, ViewCursor::prev) } else { Ok(()) }
    }

    /// Whether the iterator is positioned on a pair.
    #[inline]
    pub fn valid(&self) -> bool {
        self.front.valid()
    }

    /// The key at the cursor; `None` if the iterator is unpositioned.
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.valid().then(|| self.front.user_key())
    }

    /// The encoded key at the cursor.
    pub(crate) fn encoded_key(&self) -> Option<&[u8]> {
        self.valid().then(|| self.front.key())
    }

    /// The value at the cursor; `None` if the iterator is unpositioned.
    #[inline]
    pub fn value(&self) -> Option<&[u8]> {
        self.valid().then(|| self.front.value())
    }

    /// The key and the value at the cursor; `None` if the iterator is unpositioned.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("elbe", "North Sea")?;
    /// db.put("oder", "Baltic Sea")?;
    /// let mut iter = db.iter()?;
    /// assert_eq!(iter.pair(), None);
    /// iter.seek_last()?;
    /// while let Some((river, sea)) = iter.pair() {
    ///     println!("{} flows to the {}", String::from_utf8_lossy(river), String::from_utf8_lossy(sea));
    ///     iter.step_back()?;
    /// }
    /// assert_eq!((iter.key(), iter.value()), (None, None));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[inline]
    pub fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.front.user_key(), self.front.value()))
    }

    /// Calls `visit` for each remaining pair until it breaks.
    pub(crate) fn visit(&mut self, mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()> {
        while self.advance()? {
            if visit(self.front.user_key(), self.front.value()).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Takes a new snapshot and keeps the bounds; the iterator becomes unpositioned, as if it were new. The old
    /// snapshot is released unless others share it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let mut iter = db.prefix("tree/")?;
    /// db.put("tree/ash", "grows")?;
    /// assert!(iter.next().is_none());
    /// iter.refresh()?;
    /// assert_eq!(iter.next().expect("a pair")?.0, b"tree/ash");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn refresh(&mut self) -> Result<()> {
        let Scope { read, pin, .. } = &mut self.scope;
        read.check_open()?;
        // Cursors at the old number must not outlive its pin.
        self.front.leave_cursor();
        self.front.state = State::New;
        self.back = None;
        *pin = Arc::new(read.snapshots.take(&read.sequencer));
        Ok(())
    }

    /// Selects what later moves read of the values.
    pub(crate) fn with_values(mut self, values: Values) -> Self {
        self.set_values(values);
        self
    }

    /// Selects what later moves read of the values.
    pub(crate) fn set_values(&mut self, values: Values) {
        self.scope.values = values;
        self.front.leave_cursor();
        self.back.iter_mut().for_each(|back| back.leave_cursor());
    }

    /// Moves the front to the next pair that was not returned yet, and marks it as returned. False if none is left.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if self.back.as_ref().is_some_and(|back| back.state == State::Exhausted) {
            return Ok(false);
        }
        match self.front.state {
            State::New => self.front.move_cursor(&self.scope, false, ViewCursor::seek_first)?,
            State::Returned => self.front.step(&self.scope)?,
            State::Current | State::Exhausted => {}
        }
        let is_left = self.front.valid()
            && self.back.as_ref().is_none_or(|back| match back.state {
                State::New => true,
                State::Current => self.front.key() <= back.key(),
                State::Returned => self.front.key() < back.key(),
                State::Exhausted => false,
            });
        if is_left {
            self.front.state = State::Returned;
        }
        Ok(is_left)
    }

    /// Like `advance`, for the back. Returns the back position, or `None` if no pair is left.
    pub(crate) fn advance_back(&mut self) -> Result<Option<&mut Position>> {
        if self.front.state == State::Exhausted {
            return Ok(None);
        }
        let back = self.back.get_or_insert_with(|| Box::new(Position::new(&self.scope.read)));
        match back.state {
            State::New => back.move_cursor(&self.scope, false, ViewCursor::seek_last)?,
            State::Returned => back.move_cursor(&self.scope, true, ViewCursor::prev)?,
            State::Current | State::Exhausted => {}
        }
        let is_left = back.valid()
            && match self.front.state {
                State::New => true,
                State::Current => back.key() >= self.front.key(),
                State::Returned => back.key() > self.front.key(),
                State::Exhausted => false,
            };
        if is_left {
            back.state = State::Returned;
        }
        Ok(is_left.then_some(back))
    }

    /// The front position, for the adapters.
    pub(crate) fn front(&mut self) -> &mut Position {
        &mut self.front
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        self.front.close(&self.scope.read);
        if let Some(mut back) = self.back.take() {
            back.close(&self.scope.read);
        }
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let given = self.advance();
        given.map(|given| given.then(|| (self.front.user_key().to_vec(), self.front.value().to_vec()))).transpose()
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        let given = self.advance_back();
        given.map(|given| given.map(|back| (back.user_key().to_vec(), back.value().to_vec()))).transpose()
    }
}

/// An iteration that is over stays over.
impl FusedIterator for Iter {}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (at, state) = (self.scope.pin.number(), self.front.state);
        f.debug_struct("Iter").field("at", &at).field("state", &state).finish_non_exhaustive()
    }
}
