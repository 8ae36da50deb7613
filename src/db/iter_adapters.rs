//! Walks over an iterator's pairs that want less than all of a copy.

use super::iter::Iter;
use crate::engine::read::pinned_value::Pinned;
use crate::util::Result;
use std::iter::FusedIterator;

/// The keys of a range in order, from both ends: `Iter::keys`.
#[derive(Debug)]
pub struct Keys {
    iter: Iter,
}

impl Keys {
    /// Requires an iterator that leaves values.
    pub(crate) fn new(iter: Iter) -> Self {
        Self { iter }
    }
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

impl PinnedPairs {
    /// Requires an iterator that holds values.
    pub(crate) fn new(iter: Iter) -> Self {
        Self { iter }
    }
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
