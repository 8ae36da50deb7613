//! Key ranges: of an iterator or a compaction, encoded; of a range delete, in the user's keys.

use super::key_range::KeyRange;
use super::user_key::UserKey;
use crate::util::{KeyspaceId, key, limits};
use std::collections::BTreeMap;
use std::ops::Bound;

/// A range of encoded keys: its start, and its exclusive end or `None` for the end of the last keyspace.
pub(crate) type EncodedRange = (Vec<u8>, Option<Vec<u8>>);

/// A range of the keys of one keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserRange {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) start: Vec<u8>,
    /// Exclusive; `None` for the end of the keyspace.
    pub(crate) end: Option<Vec<u8>>,
}

impl UserRange {
    pub(crate) fn of_range(keyspace: KeyspaceId, range: impl KeyRange) -> Self {
        let start = match range.lower() {
            Bound::Included(start) => Some(start.to_vec()),
            Bound::Excluded(start) => next_key(start),
            Bound::Unbounded => Some(Vec::new()),
        };
        let end = match range.upper() {
            Bound::Included(end) => next_key(end),
            Bound::Excluded(end) => Some(end.to_vec()),
            Bound::Unbounded => None,
        };
        // No key follows the start.
        let Some(start) = start else {
            return Self { keyspace, start: Vec::new(), end: Some(Vec::new()) };
        };
        Self { keyspace, start, end }
    }

    /// All keys of a keyspace.
    pub(crate) fn all(keyspace: KeyspaceId) -> Self {
        Self { keyspace, start: Vec::new(), end: None }
    }

    /// All keys with a prefix.
    pub(crate) fn of_prefix(keyspace: KeyspaceId, prefix: &[u8]) -> Self {
        Self { keyspace, start: prefix.to_vec(), end: after_prefix(prefix.to_vec()) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    pub(crate) fn contains(&self, key: UserKey<&[u8]>) -> bool {
        key.keyspace == self.keyspace
            && *key.bytes >= *self.start
            && self.end.as_deref().is_none_or(|end| key.bytes < end)
    }

    /// Its first key.
    pub(crate) fn first_key(&self) -> UserKey<&[u8]> {
        UserKey::new(self.keyspace, &self.start)
    }

    /// Its encoded keys.
    pub(crate) fn encoded(&self) -> EncodedRange {
        let (start, end) = key::encoded_range(self.keyspace, &self.start, self.end.as_deref());
        (start, Some(end))
    }

    /// Bytes of its bounds.
    pub(crate) fn bytes(&self) -> usize {
        self.start.len() + self.end.as_ref().map_or(0, Vec::len)
    }

    /// Sorts ranges, and joins those of a keyspace that overlap or touch. Drops empty ones.
    pub(crate) fn merged(ranges: Vec<Self>) -> Vec<Self> {
        let mut of_keyspaces = BTreeMap::<KeyspaceId, Vec<_>>::new();
        for Self { keyspace, start, end } in ranges {
            of_keyspaces.entry(keyspace).or_default().push((start, end));
        }
        let of_keyspace =
            |(keyspace, ranges)| merged(ranges).into_iter().map(move |(start, end)| Self { keyspace, start, end });
        of_keyspaces.into_iter().flat_map(of_keyspace).collect()
    }
}

/// Sorts ranges of encoded keys, or of the keys of one keyspace, and joins those that overlap or touch. Drops empty ones.
pub(crate) fn merged(mut ranges: Vec<EncodedRange>) -> Vec<EncodedRange> {
    ranges.retain(|(start, end)| end.as_ref().is_none_or(|end| start < end));
    ranges.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    ranges.dedup_by(|next, last| {
        let meets = last.1.as_ref().is_none_or(|end| next.0 <= *end);
        let reaches_further = || last.1.as_ref().is_some_and(|last| next.1.as_ref().is_none_or(|next| last < next));
        if meets && reaches_further() {
            last.1 = next.1.take();
        }
        meets
    });
    ranges
}

/// The first key that a store can have after a key; `None` if there is none.
fn next_key(key: &[u8]) -> Option<Vec<u8>> {
    if key.len() == limits::KEY_BYTES_MAX { after_prefix(key.to_vec()) } else { Some(after(key)) }
}

/// The first string of bytes after a key.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The first key after all keys with a prefix: the last byte that is not 0xff is incremented. `None` if there is none.
fn after_prefix(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while prefix.last() == Some(&0xff) {
        prefix.pop();
    }
    *prefix.last_mut()? += 1;
    Some(prefix)
}

/// A range of the keys of one keyspace, encoded.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) lower: Vec<u8>,
    /// Exclusive; `None` for the end of the last keyspace.
    pub(crate) upper: Option<Vec<u8>>,
}

impl Bounds {
    /// All keys of a keyspace.
    pub(crate) fn all(keyspace: KeyspaceId) -> Self {
        Self::of_prefix(keyspace, &[])
    }

    /// All keys of all keyspaces below one.
    pub(crate) fn below(keyspace: KeyspaceId) -> Self {
        Self { keyspace: KeyspaceId::DEFAULT, lower: Vec::new(), upper: Some(key::encoded(keyspace, &[])) }
    }

    pub(crate) fn of_prefix(keyspace: KeyspaceId, prefix: &[u8]) -> Self {
        let lower = key::encoded(keyspace, prefix);
        // After a prefix of nothing but 0xff follows the next keyspace.
        let upper = after_prefix(lower.clone());
        Self { keyspace, lower, upper }
    }

    /// The lower bound (included) and the upper bound (excluded; `None` for the end of the last keyspace).
    pub(crate) fn into_keys(self) -> (Vec<u8>, Option<Vec<u8>>) {
        (self.lower, self.upper)
    }

    pub(crate) fn of_range(keyspace: KeyspaceId, range: impl KeyRange) -> Self {
        let encoded = |user_key: &[u8]| key::encoded(keyspace, user_key);
        let after = |user_key: &[u8]| after(&encoded(user_key));
        let all = Self::all(keyspace);
        let lower = match range.lower() {
            Bound::Included(start) => encoded(start),
            Bound::Excluded(start) => after(start),
            Bound::Unbounded => all.lower,
        };
        let upper = match range.upper() {
            Bound::Included(end) => Some(after(end)),
            Bound::Excluded(end) => Some(encoded(end)),
            Bound::Unbounded => all.upper,
        };
        Self { keyspace, lower, upper }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_prefixes_and_ranges() {
        let prefix = Bounds::of_prefix(KeyspaceId::DEFAULT, b"a\xff");
        assert_eq!((&prefix.lower[..], prefix.upper.as_deref()), (&b"\0\0\0\0a\xff"[..], Some(&b"\0\0\0\0b"[..])));
        // A prefix of only 0xff bytes ends with its keyspace.
        assert_eq!(Bounds::of_prefix(KeyspaceId::DEFAULT, b"\xff").upper.as_deref(), Some(&b"\0\0\0\x01"[..]));
        assert_eq!(Bounds::all(KeyspaceId::DEFAULT).upper.as_deref(), Some(&b"\0\0\0\x01"[..]));
        let range = Bounds::of_range(KeyspaceId::DEFAULT, (Bound::Excluded("a"), Bound::Included("b")));
        assert_eq!((&range.lower[..], range.upper.as_deref()), (&b"\0\0\0\0a\0"[..], Some(&b"\0\0\0\0b\0"[..])));
    }

    fn user(start: &str, end: Option<&str>) -> UserRange {
        UserRange { keyspace: KeyspaceId::DEFAULT, start: start.into(), end: end.map(Into::into) }
    }

    #[test]
    fn user_ranges_of_prefixes_and_ranges() {
        assert_eq!(UserRange::of_prefix(KeyspaceId::DEFAULT, b"a"), user("a", Some("b")));
        assert_eq!(
            UserRange::of_prefix(KeyspaceId::DEFAULT, b"\xff\xff"),
            UserRange { keyspace: KeyspaceId::DEFAULT, start: vec![0xff, 0xff], end: None }
        );
        assert_eq!(UserRange::of_range(KeyspaceId::DEFAULT, ..), user("", None));
        assert_eq!(
            UserRange::of_range(KeyspaceId::DEFAULT, (Bound::Excluded("a"), Bound::Included("b"))),
            user("a\0", Some("b\0"))
        );
        // Nothing follows the longest keys but the next key of that length.
        let longest = vec![b'k'; limits::KEY_BYTES_MAX];
        let through = UserRange::of_range(KeyspaceId::DEFAULT, (Bound::Unbounded, Bound::Included(longest.clone())));
        assert_eq!(through.end.as_ref().map(Vec::len), Some(limits::KEY_BYTES_MAX));
        assert!(through.contains(UserKey::of_default(&longest)) && !through.contains(UserKey::of_default("l")));
        let last = vec![0xff; limits::KEY_BYTES_MAX];
        assert!(UserRange::of_range(KeyspaceId::DEFAULT, (Bound::Excluded(last), Bound::Unbounded)).is_empty());
        let range = user("b", Some("d"));
        assert_eq!(
            ["a", "b", "c", "d"].map(|key| range.contains(UserKey::of_default(key))),
            [false, true, true, false]
        );
        assert!(user("b", Some("b")).is_empty() && user("c", Some("b")).is_empty() && !user("b", None).is_empty());
    }

    #[test]
    fn overlapping_user_ranges_are_joined() {
        let ranges = vec![
            user("d", Some("e")),
            user("x", Some("x")),
            user("a", Some("c")),
            user("b", Some("b\0")),
            user("c", Some("d")),
            user("g", Some("h")),
            user("g", None),
            user("k", Some("l")),
        ];
        assert_eq!(UserRange::merged(ranges), [user("a", Some("e")), user("g", None)]);
        // Ranges of different keyspaces never meet.
        let other = |range: UserRange| UserRange { keyspace: KeyspaceId(7), ..range };
        let ranges = vec![other(user("a", None)), user("b", None), other(user("", Some("b"))), user("a", Some("b"))];
        assert_eq!(UserRange::merged(ranges), [user("a", None), other(user("", None))]);
    }
}
