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

    /// The keyspaces with keys from `first` to `last` of which at least half has expired, as far as the numbers from `number_min`
    /// to `number_max` tell. `before`: what had expired when these keys were written, and is not among them.
    pub fn halves<'a>(
        &'a self,
        (first, last): (&[u8], &[u8]),
        (number_min, number_max): (SequenceNumber, SequenceNumber),
        before: Option<&'a Self>,
    ) -> impl Iterator<Item = KeyspaceId> + 'a {
        let (first, last) = (key::keyspace(first), key::keyspace(last));
        let from = self.through.partition_point(|(keyspace, _)| *keyspace < first);
        let inside = self.through[from..].iter().take_while(move |(keyspace, _)| *keyspace <= last);
        let has_half = move |(keyspace, through): &&(KeyspaceId, SequenceNumber)| {
            let gone = before.map_or(SequenceNumber::ZERO, |before| before.through(*keyspace));
            let oldest = number_min.0.max(gone.0 + 1);
            // The middle, rounded up.
            oldest <= number_max.0 && through.0 >= oldest + (number_max.0 - oldest).div_ceil(2)
        };
        inside.filter(has_half).map(|(keyspace, _)| *keyspace)
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
        let halves = |first: &[u8], last: &[u8], from, to, before: Option<&Expired>| {
            let numbers = (number(from), number(to));
            Vec::from_iter(expired.halves((first, last), numbers, before).map(|keyspace| keyspace.0))
        };
        let (three, four, seven) = (b"\0\0\0\x03a", b"\0\0\0\x04a", b"\0\0\0\x07a");
        assert_eq!(halves(three, three, 20, 40, None), [3]);
        assert_eq!(halves(three, three, 21, 40, None), [0; 0]);
        assert_eq!(halves(three, seven, 20, 40, None), [3, 7]);
        assert_eq!(halves(four, seven, 1, 100, None), [7]);
        // What was gone before does not count again.
        assert_eq!(halves(three, seven, 1, 40, Some(&expired)), [0; 0]);
        let before = Expired::new([(KeyspaceId(3), number(20))]);
        assert_eq!(halves(three, three, 1, 39, Some(&before)), [3]);
        assert_eq!(halves(three, three, 1, 40, Some(&before)), [0; 0]);
    }
}
