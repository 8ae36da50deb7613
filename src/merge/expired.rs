//! Which versions have expired: of each keyspace with an expiry, those up to a number (`docs/concurrency.md`, E). Immutable;
//! any thread.
//!
//! An expired version is a tombstone for readers and merges. All older versions of its key have expired, too.

use super::entry::EntryRef;
use crate::util::{KeyspaceId, Kind, SequenceNumber, key};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// For each keyspace the last number that has expired, ascending by keyspace. No number is `ZERO`.
    through: Vec<(KeyspaceId, SequenceNumber)>,
}

impl Expired {
    /// From the last number of each keyspace that has expired, in any order, each keyspace once.
    pub fn new(through: impl IntoIterator<Item = (KeyspaceId, SequenceNumber)>) -> Self {
        let through = through.into_iter().filter(|(_, number)| *number > SequenceNumber::ZERO);
        let mut through: Vec<_> = through.collect();
        through.sort_unstable();
        Self { through }
    }

    /// Whether nothing has expired.
    pub fn is_empty(&self) -> bool {
        self.through.is_empty()
    }

    /// The keyspaces of which something has expired, with the last number that has.
    pub fn through_all(&self) -> &[(KeyspaceId, SequenceNumber)] {
        &self.through
    }

    /// The last number of a keyspace that has expired; `ZERO` if none has. O(log keyspaces).
    pub fn through(&self, keyspace: KeyspaceId) -> SequenceNumber {
        let at = self.through.binary_search_by_key(&keyspace, |(keyspace, _)| *keyspace);
        at.map_or(SequenceNumber::ZERO, |at| self.through[at].1)
    }

    /// Whether at least half of the numbers from `number_min` to `number_max` have expired, in the keyspace that has all of
    /// [`first`, `last`].
    pub fn has_half(
        &self,
        (first, last): (&[u8], &[u8]),
        (number_min, number_max): (SequenceNumber, SequenceNumber),
    ) -> bool {
        let keyspace = key::keyspace(first);
        let through = self.through(keyspace);
        // The middle, rounded up.
        let middle = number_min.0 + (number_max.0 - number_min.0).div_ceil(2);
        through.0 >= middle.max(1) && (key::keyspace(last) == keyspace || *last == key::after_all(keyspace))
    }
}

/// The entry, or a tombstone in its place if its number is at most `through`.
#[inline]
pub fn unless_expired(entry: EntryRef<'_>, through: SequenceNumber) -> EntryRef<'_> {
    let expires = matches!(entry.kind, Kind::Put | Kind::ValueReference | Kind::Merge);
    if entry.number <= through && expires { EntryRef { kind: Kind::Delete, value: &[], ..entry } } else { entry }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_keyspace_has_its_number() {
        let number = SequenceNumber;
        let expired =
            Expired::new([(KeyspaceId(7), number(70)), (KeyspaceId(3), number(30)), (KeyspaceId(5), number(0))]);
        assert_eq!(expired.through_all(), [(KeyspaceId(3), number(30)), (KeyspaceId(7), number(70))]);
        assert_eq!([2, 3, 4, 5, 7, 8].map(|id| expired.through(KeyspaceId(id)).0), [0, 30, 0, 0, 70, 0]);
        let half = |first: &[u8], last: &[u8], from, to| expired.has_half((first, last), (number(from), number(to)));
        assert!(half(b"\0\0\0\x03a", b"\0\0\0\x03b", 20, 40) && half(b"\0\0\0\x03a", b"\0\0\0\x04", 1, 30));
        assert!(!half(b"\0\0\0\x03a", b"\0\0\0\x03b", 21, 40) && !half(b"\0\0\0\x03a", b"\0\0\0\x04a", 1, 30));
        assert!(!half(b"\0\0\0\x02a", b"\0\0\0\x02b", 0, 0));
    }
}
