//! Walks over an iterator's pairs that want less than all of a copy.

use super::iter::Iter;
use crate::engine::read::pinned_value::Pinned;
use crate::merge::Values;
use crate::util::Result;
use std::iter::FusedIterator;

impl Iter {
    /// The keys alone, without reading or copying values: those that this iterator has left to give. A key counts whose value is made by
    /// merge operands, whatever they make.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("a", "large")?;
    /// db.put("b", "larger")?;
    /// let keys: Vec<_> = db.iter()?.keys().rev().collect::<Result<_, _>>()?;
    /// assert_eq!(keys, [b"b", b"a"]);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn keys(self) -> Keys {
        Keys { iter: self.wanting(Values::Skipped) }
    }

    /// The same pairs with values that hold the cached pages in which they lie, where they do (`Pinned`), in place of copies.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("a", "large")?;
    /// let (key, value) = db.iter()?.pinned().next().expect("a pair")?;
    /// assert_eq!((&key[..], &value[..]), (&b"a"[..], &b"large"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn pinned(self) -> PinnedPairs {
        PinnedPairs { iter: self.wanting(Values::Pinned) }
    }
}

/// The keys of a range in order, from both ends: `Iter::keys`.
#[derive(Debug)]
pub struct Keys {
    iter: Iter,
}

impl Iterator for Keys {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let given = self.iter.advance();
        given.map(|given| given.then(|| self.iter.key().to_vec())).transpose()
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        let given = self.iter.advance_back();
        given.map(|given| given.map(|back| back.user_key().to_vec())).transpose()
    }
}

impl FusedIterator for Keys {}

/// The pairs of a range in order, from both ends, with values that are not copied where they need not be: `Iter::pinned`.
#[derive(Debug)]
pub struct PinnedPairs {
    iter: Iter,
}

impl Iterator for PinnedPairs {
    type Item = Result<(Vec<u8>, Pinned)>;

    fn next(&mut self) -> Option<Self::Item> {
        let given = self.iter.advance();
        given.map(|given| given.then(|| (self.iter.key().to_vec(), self.iter.front().take_value()))).transpose()
    }
}

impl DoubleEndedIterator for PinnedPairs {
    fn next_back(&mut self) -> Option<Self::Item> {
        let given = self.iter.advance_back();
        given.map(|given| given.map(|back| (back.user_key().to_vec(), back.take_value()))).transpose()
    }
}

impl FusedIterator for PinnedPairs {}
