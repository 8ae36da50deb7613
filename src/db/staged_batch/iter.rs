//! Iteration over what the owner of a staged batch sees. One thread at a time.

use super::StagedBatch;
use crate::engine::staging::cursor::StagedCursor;
use crate::engine::types::bounds::Bounds;
use crate::engine::types::user_key::UserKey;
use crate::merge::Values;
use crate::util::Result;
use std::iter::FusedIterator;

/// A cursor over the pairs of a key range as the owner of a staged batch sees them, and a double-ended `Iterator`; it moves like
/// an [`Iter`](crate::Iter). The batch cannot be changed while it lives.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// db.put("a", "1")?;
/// let mut batch = db.staged_batch()?;
/// batch.put("b", "2")?;
/// let keys: Vec<_> = batch.iter()?.rev().map(|pair| pair.map(|(key, _)| key)).collect::<Result<_, _>>()?;
/// assert_eq!(keys, [b"b".to_vec(), b"a".to_vec()]);
///
/// let mut iter = batch.iter()?;
/// iter.seek("aa")?;
/// assert_eq!(iter.pair(), Some((&b"b"[..], &b"2"[..])));
/// iter.step_back()?;
/// assert_eq!(iter.key(), Some(&b"a"[..]));
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct StagedIter<'b> {
    batch: &'b StagedBatch,
    bounds: Bounds,
    values: Values,
    front: End<'b>,
    /// Created by the first `next_back`.
    back: Option<End<'b>>,
}

/// A double-ended iterator over keys: the result of `StagedIter::keys`.
#[derive(Debug)]
pub struct StagedKeys<'b>(StagedIter<'b>);

/// One end of an iterator.
struct End<'b> {
    cursor: StagedCursor<'b>,
    state: State,
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

impl<'b> End<'b> {
    fn new(batch: &'b StagedBatch, bounds: &Bounds, values: Values) -> Result<Self> {
        let scope = batch.snapshot.scope(bounds.clone(), values)?;
        Ok(Self { cursor: StagedCursor::new(&batch.writes, scope), state: State::New })
    }

    fn go(&mut self, movement: impl FnOnce(&mut StagedCursor<'b>) -> Result<()>) -> Result<()> {
        self.state = State::Nowhere;
        movement(&mut self.cursor)?;
        if self.cursor.pair().is_some() {
            self.state = State::On;
        }
        Ok(())
    }

    fn valid(&self) -> bool {
        matches!(self.state, State::On | State::Given)
    }

    fn key(&self) -> Option<&[u8]> {
        self.cursor.pair().filter(|_| self.valid()).map(|(key, _)| key)
    }

    fn give(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let (key, value) = self.cursor.pair().filter(|_| matches!(self.state, State::On | State::Given))?;
        let pair = (key.to_vec(), value.to_vec());
        self.state = State::Given;
        Some(pair)
    }
}

impl<'b> StagedIter<'b> {
    pub(super) fn new(batch: &'b StagedBatch, bounds: Bounds, values: Values) -> Result<Self> {
        let front = End::new(batch, &bounds, values)?;
        Ok(Self { batch, bounds, values, front, back: None })
    }

    /// Converts to an iterator over the keys, which neither reads nor copies values. It begins anew.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("sea/north", "large")?;
    /// let mut batch = db.staged_batch()?;
    /// batch.put("sea/south", "larger")?;
    /// assert_eq!(batch.prefix("sea/")?.keys()?.count(), 2);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn keys(self) -> Result<StagedKeys<'b>> {
        Self::new(self.batch, self.bounds, Values::Skipped).map(StagedKeys)
    }

    /// Moves to the first pair. The iterator is unpositioned if there is none.
    pub fn seek_first(&mut self) -> Result<()> {
        self.back = None;
        self.front.go(StagedCursor::seek_first)
    }

    /// Moves to the last pair.
    pub fn seek_last(&mut self) -> Result<()> {
        self.back = None;
        self.front.go(StagedCursor::seek_last)
    }

    /// Moves to the first pair with a key greater than or equal to `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.back = None;
        let key = UserKey::new(self.bounds.keyspace, &key);
        self.front.go(|cursor| cursor.seek(key))
    }

    /// Moves to the last pair with a key less than or equal to `key`.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.back = None;
        let key = UserKey::new(self.bounds.keyspace, &key);
        self.front.go(|cursor| cursor.seek_for_prev(key))
    }

    /// Moves to the next pair. After the last pair the iterator becomes unpositioned, and further steps do nothing.
    pub fn step(&mut self) -> Result<()> {
        if self.valid() { self.front.go(StagedCursor::next) } else { Ok(()) }
    }

    /// Moves to the previous pair. Before the first pair the iterator becomes unpositioned.
    pub fn step_back(&mut self) -> Result<()> {
        if self.valid() { self.front.go(StagedCursor::prev) } else { Ok(()) }
    }

    /// Whether the iterator is positioned on a pair.
    pub fn valid(&self) -> bool {
        self.front.valid()
    }

    /// The key at the cursor; `None` if the iterator is unpositioned.
    pub fn key(&self) -> Option<&[u8]> {
        self.front.key()
    }

    /// The value at the cursor; `None` if the iterator is unpositioned.
    pub fn value(&self) -> Option<&[u8]> {
        self.pair().map(|(_, value)| value)
    }

    /// The key and the value at the cursor; `None` if the iterator is unpositioned.
    pub fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.front.cursor.pair().filter(|_| self.valid())
    }

    /// The next pair that was not returned yet; `None` if none is left.
    fn advance(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if self.back.as_ref().is_some_and(|back| back.state == State::Nowhere) {
            return Ok(None);
        }
        match self.front.state {
            State::New => self.front.go(StagedCursor::seek_first)?,
            State::Given => self.front.go(StagedCursor::next)?,
            State::On | State::Nowhere => {}
        }
        let is_left = self.back.as_ref().is_none_or(|back| match back.state {
            State::New => true,
            State::On => self.front.key() <= back.key(),
            State::Given => self.front.key() < back.key(),
            State::Nowhere => false,
        });
        Ok(if is_left { self.front.give() } else { None })
    }

    /// Like `advance`, from the back.
    fn advance_back(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if self.front.state == State::Nowhere {
            return Ok(None);
        }
        let back = match &mut self.back {
            Some(back) => back,
            none => none.insert(End::new(self.batch, &self.bounds, self.values)?),
        };
        match back.state {
            State::New => back.go(StagedCursor::seek_last)?,
            State::Given => back.go(StagedCursor::prev)?,
            State::On | State::Nowhere => {}
        }
        let is_left = match self.front.state {
            State::New => true,
            State::On => back.key() >= self.front.key(),
            State::Given => back.key() > self.front.key(),
            State::Nowhere => false,
        };
        Ok(if is_left { back.give() } else { None })
    }
}

impl Iterator for StagedIter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

impl DoubleEndedIterator for StagedIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.advance_back().transpose()
    }
}

/// An iteration that is over stays over.
impl FusedIterator for StagedIter<'_> {}

impl Iterator for StagedKeys<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|pair| pair.map(|(key, _)| key))
    }
}

impl DoubleEndedIterator for StagedKeys<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|pair| pair.map(|(key, _)| key))
    }
}

impl FusedIterator for StagedKeys<'_> {}

impl std::fmt::Debug for StagedIter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StagedIter").field("key", &self.key()).finish_non_exhaustive()
    }
}
