//! Ranges of encoded keys that are deleted together: disjoint, so that a key is looked up in one step. One thread.

use crate::engine::types::bounds::UserRange;
use crate::merge::{RangeTombstone, RangeTombstones};
use crate::util::{SequenceNumber, key};
use std::collections::BTreeMap;
use std::ops::Bound;

/// See the module. Ranges that meet are one.
#[derive(Debug, Default)]
pub(crate) struct DeletedRanges {
    /// The end of each range, exclusive, by its start.
    ends: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl DeletedRanges {
    /// Adds a range of encoded keys, which is not empty. Returns by how many bytes the bounds have grown.
    pub(crate) fn add(&mut self, mut start: Vec<u8>, mut end: Vec<u8>) -> usize {
        debug_assert!(start < end);
        let before = self.ends.range(..=start.clone()).next_back().filter(|(_, end)| **end >= start);
        if let Some((before, _)) = before {
            start.clone_from(before);
        }
        let mut freed = 0;
        // Those that begin within the new range, or where it ends, join it.
        while let Some((other, _)) = self.ends.range(start.clone()..=end.clone()).next() {
            let other = other.clone();
            let Some(other_end) = self.ends.remove(&other) else { break };
            freed += other.len() + other_end.len();
            end = end.max(other_end);
        }
        let taken = start.len() + end.len();
        self.ends.insert(start, end);
        taken.saturating_sub(freed)
    }

    /// The range that contains a key.
    pub(crate) fn at(&self, key: &[u8]) -> Option<(&Vec<u8>, &Vec<u8>)> {
        let last = self.ends.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        Some(last).filter(|(_, end)| key < &end[..])
    }

    /// The first deleted key at or after a key.
    pub(crate) fn next_deleted<'a>(&'a self, key: &'a [u8]) -> Option<&'a [u8]> {
        if self.at(key).is_some() {
            return Some(key);
        }
        self.ends.range::<[u8], _>((Bound::Included(key), Bound::Unbounded)).next().map(|(start, _)| &start[..])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The same ranges with a number.
    pub(crate) fn tombstones(&self, number: SequenceNumber) -> RangeTombstones {
        let tombstone =
            |(start, end): (&Vec<u8>, &Vec<u8>)| RangeTombstone { start: start.clone(), end: end.clone(), number };
        RangeTombstones::new(self.ends.iter().map(tombstone))
    }

    /// The same ranges, ascending, each within one keyspace.
    pub(crate) fn user_ranges(&self) -> Vec<UserRange> {
        let mut ranges = Vec::new();
        for (start, end) in &self.ends {
            let mut start = start.clone();
            // Ends: a keyspace has a greater id each time.
            while let Some((keyspace, first)) = key::split(&start).filter(|_| start < *end) {
                let after = key::after_all(keyspace);
                let last = if end[..] < after[..] { key::split(end).map(|(_, end)| end.to_vec()) } else { None };
                ranges.push(UserRange { keyspace, start: first.to_vec(), end: last });
                if end[..] <= after[..] {
                    break;
                }
                start = after.to_vec();
            }
        }
        ranges
    }

    /// Start and end of each, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Vec<u8>, &Vec<u8>)> {
        self.ends.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_that_meet_are_one() {
        let mut ranges = DeletedRanges::default();
        let mut add = |start: &str, end: &str| ranges.add(start.into(), end.into());
        assert_eq!(add("b", "d"), 2);
        assert_eq!(add("f", "h"), 2);
        assert_eq!(add("h", "k"), 0); // at the end of one
        assert_eq!(add("a", "b"), 0); // at the start of one
        assert_eq!(add("c", "d"), 0); // inside
        assert_eq!(add("p", "q"), 2);
        let all = |ranges: &DeletedRanges| {
            let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
            ranges.iter().map(|(start, end)| text(start) + &text(end)).collect::<Vec<_>>()
        };
        assert_eq!(all(&ranges), ["ad", "fk", "pq"]);
        assert!(ranges.at(b"a").is_some() && ranges.at(b"d").is_none() && ranges.at(b"e").is_none());
        assert_eq!(ranges.next_deleted(b"e"), Some(&b"f"[..]));
        assert_eq!(ranges.next_deleted(b"g"), Some(&b"g"[..]));
        assert_eq!(ranges.next_deleted(b"q"), None);
        ranges.add(b"c".to_vec(), b"m".to_vec());
        assert_eq!(all(&ranges), ["am", "pq"]);
        ranges.add(b"0".to_vec(), b"z".to_vec());
        assert_eq!(all(&ranges), ["0z"]);
    }

    proptest! {
        #[test]
        fn ranges_cover_what_a_list_covers(added in prop::collection::vec((0..250_u8, 1..20_u8), 1..60)) {
            let (mut ranges, mut covered) = (DeletedRanges::default(), [false; 256]);
            let mut bytes = 0;
            for (start, length) in added {
                let end = start.saturating_add(length);
                bytes += ranges.add(vec![start], vec![end]);
                covered[usize::from(start)..usize::from(end)].fill(true);
                for key in 0..=255_u8 {
                    prop_assert_eq!(ranges.at(&[key]).is_some(), covered[usize::from(key)]);
                    let next = (key..=255).find(|key| covered[usize::from(*key)]);
                    prop_assert_eq!(ranges.next_deleted(&[key]).map(|next| next[0]), next);
                }
                let bounds: Vec<_> = ranges.iter().collect();
                prop_assert!(bounds.windows(2).all(|pair| pair[0].1 < pair[1].0));
                prop_assert!(bytes >= 2 * bounds.len());
            }
        }
    }
}
