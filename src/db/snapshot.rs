//! A moment of the store, kept as long as the value lives.

use super::Iter;
use crate::base::{Error, Result};
use std::ops::RangeBounds;

/// The store as it was at one moment. Owned: it may move to other threads and outlive the borrow of `Db`.
#[derive(Debug)]
pub struct Snapshot {}

impl Snapshot {
    /// The value of a key.
    pub fn get(&self, _key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        Err(Error::Closed)
    }
    /// All pairs.
    pub fn iter(&self) -> Result<Iter> {
        Err(Error::Closed)
    }
    /// The pairs of a key range.
    pub fn range<K: AsRef<[u8]>>(&self, _range: impl RangeBounds<K>) -> Result<Iter> {
        Err(Error::Closed)
    }
    /// The pairs whose keys begin with a prefix.
    pub fn prefix(&self, _prefix: impl AsRef<[u8]>) -> Result<Iter> {
        Err(Error::Closed)
    }
}
