//! Entries and limits of cursors. Plain data.
//!
//! Order of entries: encoded key ascending, then sequence number *descending* (newest version first).

use crate::util::{Kind, SequenceNumber, key};
use std::cmp::Ordering;

/// One entry, borrowed from the cursor until it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// Encoded key (`util::key`).
    pub key: &'a [u8],
    /// The version's number.
    pub number: SequenceNumber,
    /// The kind of the entry.
    pub kind: Kind,
    /// The value. Empty for a tombstone; the encoded reference for `Kind::ValueReference`.
    pub value: &'a [u8],
}

impl EntryRef<'_> {
    /// Order of entries: key ascending, number descending.
    pub fn order(&self, key: &[u8], number: SequenceNumber) -> Ordering {
        self.key.cmp(key).then(number.cmp(&self.number))
    }
}

/// A key at which a cursor stops (`Cursor::pass`).
#[derive(Clone, Copy, Debug)]
pub struct Limit<'a> {
    head: u128,
    key: Option<&'a [u8]>,
}

impl<'a> Limit<'a> {
    /// No limit.
    pub const NONE: Self = Self { head: u128::MAX, key: None };

    /// At `key`.
    #[inline]
    pub fn at(key: &'a [u8]) -> Self {
        Self { head: key::wide_head(key), key: Some(key) }
    }

    /// The key, if there is a limit.
    #[inline]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.key
    }

    /// The lower one of two.
    #[inline]
    pub fn min(self, other: Self) -> Self {
        match (self.key, other.key) {
            (Some(own), Some(others)) if (self.head, own) > (other.head, others) => other,
            (None, Some(_)) => other,
            _ => self,
        }
    }

    /// Whether `key` is not before the limit.
    #[inline]
    pub fn is_reached(&self, key: &[u8]) -> bool {
        let head = key::wide_head(key);
        if head == self.head { self.key.is_some_and(|limit| key >= limit) } else { head > self.head }
    }
}
