//! Adapters of `Iter`: keys without values, and values without copies.

use super::iter::Iter;
use crate::engine::read::pinned_value::Pinned;
use crate::merge::Values;
use crate::util::Result;
use std::iter::FusedIterator;

impl Iter {
    /// Converts to an iterator over the remaining keys, which neither reads nor copies values. A key whose value
    /// consists of merge operands is included, whatever the operands fold to.
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
        Keys { iter: self.with_values(Values::Skipped) }
    }

    /// Converts to an iterator over the remaining pairs whose values are not copied if they are in cached pages; see
    /// `Pinned`.
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
        PinnedPairs { iter: self.with_values(Values::Pinned) }
    }
}

/// A double-ended iterator over keys: the result of `Iter::keys`.
#[derive(Debug)]
pub struct Keys {
    iter: Iter,
}

impl Iterator for Keys {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let given = self.iter.advance();
        given.map(|given| given.then(|| self.iter.front().user_key().to_vec())).transpose()
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        let given = self.iter.advance_back();
        given.map(|given| given.map(|back| back.user_key().to_vec())).transpose()
    }
}

impl FusedIterator for Keys {}

/// A double-ended iterator over pairs with pinned values: the result of `Iter::pinned`.
#[derive(Debug)]
pub struct PinnedPairs {
    iter: Iter,
}

impl Iterator for PinnedPairs {
    type Item = Result<(Vec<u8>, Pinned)>;

    fn next(&mut self) -> Option<Self::Item> {
        let given = self.iter.advance();
        given
            .map(|given| given.then(|| (self.iter.front().user_key().to_vec(), self.iter.front().take_value())))
            .transpose()
    }
}

impl DoubleEndedIterator for PinnedPairs {
    fn next_back(&mut self) -> Option<Self::Item> {
        let given = self.iter.advance_back();
        given.map(|given| given.map(|back| (back.user_key().to_vec(), back.take_value()))).transpose()
    }
}

impl FusedIterator for PinnedPairs {}
