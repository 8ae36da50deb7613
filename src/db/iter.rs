//! Walking over pairs in key order, both ways, at one snapshot.

use crate::engine::read::cached_cursors::ViewCursor;
use crate::engine::read::position::{Position, Scope, State};

use crate::engine::read::read_path::ReadPath;
use crate::engine::state::snapshot_registry::SnapshotPin;
pub(crate) use crate::engine::types::bounds::Bounds;
use crate::merge::Values;
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Result, key};
use std::iter::FusedIterator;

/// A position in the pairs of a range at a snapshot, and an `Iterator` over them from both ends. Owned: it may move to another
/// thread and outlive the borrow of `Db`, and it is cheap to leave idle.
///
/// As a cursor: new, it stands nowhere; `seek` and its like bring it to a pair, `step` and `step_back` to those beside it, and off the
/// first or the last it stands nowhere until the next seek. Keys outside of the range are no pairs to it: `seek` before the range comes
/// to its first pair, `seek_for_prev` behind it to its last.
///
/// As an `Iterator`: `next` gives the pair that it stands on, if it did not give it before, or else steps and gives the next one; new, it
/// begins with the first. `next_back`, and so `rev`, begins with the last pair of the range, at a position of its own, and goes back to
/// where the cursor stands, whose pair it gives if `next` did not. The ends stop where they meet.
///
/// Both together: a seek begins anew, also at the back. Steps move the front alone, past the back end too (`next` gives nothing there),
/// and back over pairs that `next` then gives again. Where the cursor stands nowhere, but new, and behind an error, nothing is left to give.
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
/// iter.seek("b")?;
/// let (last, _) = iter.next_back().expect("a pair")?;
/// assert_eq!((&last[..], iter.key()), (&b"birch"[..], &b"beech"[..]));
/// assert_eq!(iter.count(), 1);
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct Iter {
    scope: Scope,
    front: Position,
    /// Made by the first `next_back`.
    back: Option<Box<Position>>,
}

impl Iter {
    pub(crate) fn new(read: Arc<ReadPath>, pin: Arc<SnapshotPin>, bounds: Bounds) -> Result<Self> {
        read.check_open()?;
        let front = Position::new(&read);
        Ok(Self { scope: Scope { read, pin, bounds, values: Values::Shown }, front, back: None })
    }

    /// Moves to the first pair.
    pub fn seek_first(&mut self) -> Result<()> {
        self.seek_by(ViewCursor::seek_first)
    }

    /// Moves to the last pair.
    pub fn seek_last(&mut self) -> Result<()> {
        self.seek_by(ViewCursor::seek_last)
    }

    /// Moves to the first pair whose key is `key` or behind it.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key::encoded(KeyspaceId::DEFAULT, key.as_ref());
        self.seek_by(|cursor| cursor.seek(&key))
    }

    /// Moves to the last pair whose key is `key` or before it.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key::encoded(KeyspaceId::DEFAULT, key.as_ref());
        self.seek_by(|cursor| cursor.seek_for_prev(&key))
    }

    fn seek_by(&mut self, movement: impl FnOnce(&mut ViewCursor) -> Result<()>) -> Result<()> {
        self.back = None;
        self.front.move_cursor(&self.scope, false, movement)
    }

    /// Moves one pair on; off the end the iterator stands nowhere, and there it stays.
    pub fn step(&mut self) -> Result<()> {
        if self.valid() { self.front.move_cursor(&self.scope, true, ViewCursor::next) } else { Ok(()) }
    }

    /// Moves one pair back.
    pub fn step_back(&mut self) -> Result<()> {
        if self.valid() { self.front.move_cursor(&self.scope, true, ViewCursor::prev) } else { Ok(()) }
    }

    /// Whether it stands on a pair.
    pub fn valid(&self) -> bool {
        self.front.valid()
    }

    /// The key it stands on; empty where it stands nowhere.
    pub fn key(&self) -> &[u8] {
        if self.valid() { self.front.user_key() } else { &[] }
    }

    /// The value it stands on; empty where it stands nowhere.
    pub fn value(&self) -> &[u8] {
        if self.valid() { self.front.value() } else { &[] }
    }

    /// Goes on at a snapshot of this moment, within the same bounds: as if new, it stands nowhere, and both ends begin anew. It no longer
    /// keeps what only its old snapshot needed, unless others share that.
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
        self.front.drop_cursor();
        self.front.state = State::New;
        self.back = None;
        *pin = Arc::new(read.snapshots.take(&read.sequencer));
        Ok(())
    }

    /// The same pairs, by cursors that want this of the values.
    pub(crate) fn wanting(mut self, values: Values) -> Self {
        self.want(values);
        self
    }

    /// Wants this of the values from its next move on.
    pub(crate) fn want(&mut self, values: Values) {
        self.scope.values = values;
        self.front.drop_cursor();
        self.back.iter().for_each(|back| back.drop_cursor());
    }

    /// Takes the front to the next pair that is left and gives that out; false where none is.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if self.back.as_ref().is_some_and(|back| back.state == State::Exhausted) {
            return Ok(false);
        }
        match self.front.state {
            State::New => self.front.move_cursor(&self.scope, false, ViewCursor::seek_first)?,
            State::Returned => self.front.move_cursor(&self.scope, true, ViewCursor::next)?,
            State::Current | State::Exhausted => {}
        }
        let is_left = self.front.valid()
            && self.back.as_ref().is_none_or(|back| match back.state {
                State::New => true,
                State::Current => self.front.key <= back.key,
                State::Returned => self.front.key < back.key,
                State::Exhausted => false,
            });
        if is_left {
            self.front.state = State::Returned;
        }
        Ok(is_left)
    }

    /// The same at the back: the position, on a pair given out; `None` where none is left.
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
                State::Current => back.key >= self.front.key,
                State::Returned => back.key > self.front.key,
                State::Exhausted => false,
            };
        if is_left {
            back.state = State::Returned;
        }
        Ok(is_left.then_some(back))
    }

    /// The pair at the front, for walks that want other things of the values.
    pub(crate) fn front(&mut self) -> &mut Position {
        &mut self.front
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let given = self.advance();
        given.map(|given| given.then(|| (self.key().to_vec(), self.value().to_vec()))).transpose()
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        let given = self.advance_back();
        given.map(|given| given.map(|back| (back.user_key().to_vec(), back.value().to_vec()))).transpose()
    }
}

/// Off an end it stays there, and where its ends have met.
impl FusedIterator for Iter {}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (at, state) = (self.scope.pin.number(), self.front.state);
        f.debug_struct("Iter").field("at", &at).field("state", &state).finish_non_exhaustive()
    }
}
