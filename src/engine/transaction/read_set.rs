//! What a transaction has read so far: keys, and stretches of keys that its iterators walked over, absent ones included.
//!
//! One thread at a time.

use crate::engine::write::range_conflicts::EncodedRange;
use crate::util::{KeyspaceId, key};
use std::collections::HashSet;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ReadSet {
    pub(crate) keys: HashSet<Vec<u8>>,
    /// In the order in which they were begun; of encoded keys.
    stretches: Vec<EncodedRange>,
}

/// Which stretch an iterator walks over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StretchId(usize);

impl ReadSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.stretches.is_empty()
    }

    pub(crate) fn add_key(&mut self, user_key: &[u8]) {
        if !self.keys.contains(user_key) {
            self.keys.insert(user_key.to_vec());
        }
    }

    pub(crate) fn has_stretches(&self) -> bool {
        !self.stretches.is_empty()
    }

    /// Adds a stretch.
    pub(crate) fn begin(&mut self, stretch: EncodedRange) -> StretchId {
        self.stretches.push(stretch);
        StretchId(self.stretches.len() - 1)
    }

    /// A stretch ends right behind a key.
    pub(crate) fn extend_through(&mut self, stretch: StretchId, key: &[u8]) {
        let (_, end) = &mut self.stretches[stretch.0];
        if let Some(end) = end.as_mut().filter(|end| &end[..] <= key) {
            end.clear();
            end.extend_from_slice(key);
            end.push(0);
        }
    }

    /// A stretch ends where nothing follows that the iterator could meet.
    pub(crate) fn extend_to(&mut self, stretch: StretchId, bound: Option<&[u8]>) {
        let (_, end) = &mut self.stretches[stretch.0];
        match bound {
            None => *end = None,
            Some(bound) if end.as_deref().is_some_and(|end| end < bound) => *end = Some(bound.to_vec()),
            Some(_) => {}
        }
    }

    /// A stretch begins with a key.
    pub(crate) fn extend_down_to(&mut self, stretch: StretchId, key: &[u8]) {
        let (start, _) = &mut self.stretches[stretch.0];
        if key < &start[..] {
            start.clear();
            start.extend_from_slice(key);
        }
    }

    /// What was walked over, as ranges that ascend and are apart.
    pub(crate) fn walked(&self) -> Vec<EncodedRange> {
        merged(self.stretches.clone())
    }

    /// All of it, in the same form.
    pub(crate) fn ranges(&self) -> Vec<EncodedRange> {
        let points = self.keys.iter().map(|user_key| {
            let start = key::encoded(KeyspaceId::DEFAULT, user_key);
            let mut end = start.clone();
            end.push(0);
            (start, Some(end))
        });
        merged(self.stretches.iter().cloned().chain(points).collect())
    }
}

/// The same keys, as ranges that ascend and are apart.
fn merged(mut ranges: Vec<EncodedRange>) -> Vec<EncodedRange> {
    ranges.retain(|(start, end)| end.as_ref().is_none_or(|end| start < end));
    ranges.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    ranges.dedup_by(|next, last| {
        let meets = last.1.as_ref().is_none_or(|end| next.0 <= *end);
        let reaches_further = match (&last.1, &next.1) {
            (Some(last), Some(next)) => last < next,
            (last, next) => last.is_some() && next.is_none(),
        };
        if meets && reaches_further {
            last.1 = next.1.take();
        }
        meets
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &str, end: Option<&str>) -> EncodedRange {
        (start.as_bytes().to_vec(), end.map(|end| end.as_bytes().to_vec()))
    }

    #[test]
    fn ranges_that_meet_become_one() {
        let mut reads = ReadSet::default();
        for stretch in [
            range("d", Some("e")),
            range("a", Some("c")),
            range("b", Some("b\0")),
            range("c", Some("d")),
            range("x", Some("x")),
        ] {
            reads.begin(stretch);
        }
        assert_eq!(reads.walked(), [range("a", Some("e"))]);
        reads.begin(range("f", None));
        reads.begin(range("g", Some("h")));
        assert_eq!(reads.ranges(), [range("a", Some("e")), range("f", None)]);
    }

    #[test]
    fn a_stretch_grows_both_ways() {
        let mut reads = ReadSet::default();
        let stretch = reads.begin(range("m", Some("m")));
        reads.extend_through(stretch, b"p");
        reads.extend_through(stretch, b"n");
        reads.extend_down_to(stretch, b"k");
        reads.extend_down_to(stretch, b"l");
        assert_eq!(reads.ranges(), [range("k", Some("p\0"))]);
        reads.extend_to(stretch, Some(b"q"));
        assert_eq!(reads.ranges(), [range("k", Some("q"))]);
        reads.extend_to(stretch, None);
        assert_eq!(reads.ranges(), [range("k", None)]);
        reads.add_key(b"\x01");
        assert_eq!(reads.ranges().first(), Some(&(b"\0\0\0\0\x01".to_vec(), Some(b"\0\0\0\0\x01\0".to_vec()))));
    }
}
