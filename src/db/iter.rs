//! Walking over pairs in key order, both ways, at one snapshot.

use crate::base::{Error, Result};

/// A position in the pairs of a range at a snapshot. New: before the first pair. Owned, and cheap to leave idle.
#[derive(Debug)]
pub struct Iter {}

impl Iter {
    /// Moves to the first pair.
    pub fn seek_first(&mut self) -> Result<()> {
        Err(Error::Closed)
    }
    /// Moves to the last pair.
    pub fn seek_last(&mut self) -> Result<()> {
        Err(Error::Closed)
    }
    /// Moves to the first pair whose key is `key` or behind it.
    pub fn seek(&mut self, _key: impl AsRef<[u8]>) -> Result<()> {
        Err(Error::Closed)
    }
    /// Moves to the last pair whose key is `key` or before it.
    pub fn seek_for_prev(&mut self, _key: impl AsRef<[u8]>) -> Result<()> {
        Err(Error::Closed)
    }
    /// Moves one pair on; off the end the iterator stands nowhere.
    pub fn step(&mut self) -> Result<()> {
        Err(Error::Closed)
    }
    /// Moves one pair back.
    pub fn step_back(&mut self) -> Result<()> {
        Err(Error::Closed)
    }
    /// Whether it stands on a pair.
    pub fn valid(&self) -> bool {
        false
    }
    /// The key it stands on; empty where it stands nowhere.
    pub fn key(&self) -> &[u8] {
        &[]
    }
    /// The value it stands on; empty where it stands nowhere.
    pub fn value(&self) -> &[u8] {
        &[]
    }
    /// The same pairs from last to first, as an `Iterator`.
    pub fn reversed(self) -> Reversed {
        Reversed { iter: self }
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    fn next(&mut self) -> Option<Self::Item> {
        None
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
        let _ = &self.iter;
        None
    }
}
