//! The encoded key range of an iterator or a compaction.

use crate::util::{KeyspaceId, key};
use std::ops::{Bound, RangeBounds};

/// A range of encoded keys.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) lower: Vec<u8>,
    /// Exclusive; `None` for the end of the last keyspace.
    pub(crate) upper: Option<Vec<u8>>,
}

impl Bounds {
    pub(crate) fn all() -> Self {
        Self::of_prefix(&[])
    }

    pub(crate) fn of_prefix(prefix: &[u8]) -> Self {
        let lower = key::encoded(KeyspaceId::DEFAULT, prefix);
        // The first key after all keys with the prefix: the last byte that is not 0xff is incremented.
        let mut upper = lower.clone();
        while upper.last() == Some(&0xff) {
            upper.pop();
        }
        if let Some(last) = upper.last_mut() {
            *last += 1;
        }
        Self { lower, upper: (!upper.is_empty()).then_some(upper) }
    }

    /// The lower bound (included) and the upper bound (excluded; `None` for the end of the last keyspace).
    pub(crate) fn into_keys(self) -> (Vec<u8>, Option<Vec<u8>>) {
        (self.lower, self.upper)
    }

    pub(crate) fn of_range<K: AsRef<[u8]>>(range: impl RangeBounds<K>) -> Self {
        let encoded = |user_key: &K| key::encoded(KeyspaceId::DEFAULT, user_key.as_ref());
        // The first key after `k` is `k` with a zero byte appended.
        let after = |user_key: &K| {
            let mut encoded = encoded(user_key);
            encoded.push(0);
            encoded
        };
        let all = Self::all();
        let lower = match range.start_bound() {
            Bound::Included(start) => encoded(start),
            Bound::Excluded(start) => after(start),
            Bound::Unbounded => all.lower,
        };
        let upper = match range.end_bound() {
            Bound::Included(end) => Some(after(end)),
            Bound::Excluded(end) => Some(encoded(end)),
            Bound::Unbounded => all.upper,
        };
        Self { lower, upper }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_prefixes_and_ranges() {
        let prefix = Bounds::of_prefix(b"a\xff");
        assert_eq!((&prefix.lower[..], prefix.upper.as_deref()), (&b"\0\0\0\0a\xff"[..], Some(&b"\0\0\0\0b"[..])));
        // A prefix of only 0xff bytes ends with its keyspace.
        assert_eq!(Bounds::of_prefix(b"\xff").upper.as_deref(), Some(&b"\0\0\0\x01"[..]));
        assert_eq!(Bounds::all().upper.as_deref(), Some(&b"\0\0\0\x01"[..]));
        let range = Bounds::of_range::<&str>((Bound::Excluded("a"), Bound::Included("b")));
        assert_eq!((&range.lower[..], range.upper.as_deref()), (&b"\0\0\0\0a\0"[..], Some(&b"\0\0\0\0b\0"[..])));
    }
}
