//! The keys that an ingest concerns: one range for each keyspace, from its first key to its last. Plain data.

use crate::engine::types::bounds::{EncodedRange, UserRange};
use crate::util::{KeyspaceId, key};
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct KeySpans(BTreeMap<KeyspaceId, (Vec<u8>, Vec<u8>)>);

impl KeySpans {
    /// Adds encoded keys of a keyspace, from the first to the last; empty ones are none.
    pub(super) fn add_keys(&mut self, first: &[u8], last: &[u8]) {
        if !first.is_empty() {
            self.add(key::keyspace(first), first.to_vec(), [last, &[0]].concat());
        }
    }

    /// Adds a range of a keyspace.
    pub(super) fn add_range(&mut self, range: &UserRange) {
        let (start, end) = key::encoded_range(range.keyspace, &range.start, range.end.as_deref());
        self.add(range.keyspace, start, end);
    }

    fn add(&mut self, keyspace: KeyspaceId, start: Vec<u8>, end: Vec<u8>) {
        match self.0.get_mut(&keyspace) {
            Some((first, behind)) => {
                *first = start.min(std::mem::take(first));
                *behind = end.max(std::mem::take(behind));
            }
            None => {
                self.0.insert(keyspace, (start, end));
            }
        }
    }

    /// The ranges, ascending and disjoint.
    pub(super) fn ranges(&self) -> Vec<EncodedRange> {
        self.0.values().map(|(start, end)| (start.clone(), Some(end.clone()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_keyspace_has_one_range() {
        let mut spans = KeySpans::default();
        let encoded = |keyspace, key: &str| key::encoded(KeyspaceId(keyspace), key.as_bytes());
        let range = |keyspace, start: &str, end: Option<&str>| UserRange {
            keyspace: KeyspaceId(keyspace),
            start: start.into(),
            end: end.map(Into::into),
        };
        spans.add_keys(&[], &[]);
        spans.add_range(&range(7, "m", Some("p")));
        spans.add_keys(&encoded(7, "c"), &encoded(7, "d"));
        spans.add_keys(&encoded(8, "x"), &encoded(8, "x"));
        spans.add_range(&range(9, "a", None));
        let expected = [
            (encoded(7, "c"), Some(encoded(7, "p"))),
            (encoded(8, "x"), Some(encoded(8, "x\0"))),
            (encoded(9, "a"), Some(encoded(10, ""))),
        ];
        assert_eq!(spans.ranges(), expected);
    }
}
