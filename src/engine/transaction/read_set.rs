//! What a transaction has read so far: keys that it looked up, and ranges that its iterators scanned, including absent
//! keys. One thread at a time.

use crate::engine::types::bounds::{EncodedRange, merged};
use crate::engine::types::user_key::UserKey;
use std::collections::HashSet;

/// The keys and ranges that a transaction has read.
#[derive(Debug, Default)]
pub(crate) struct ReadSet {
    /// Encoded, so that keys of different keyspaces differ and a lookup allocates nothing.
    keys: HashSet<Vec<u8>>,
    /// Scanned ranges of encoded keys, in the order in which the scans began.
    scans: Vec<EncodedRange>,
}

/// Identifies the scan of an iterator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanId(usize);

impl ReadSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.scans.is_empty()
    }

    pub(crate) fn add_key(&mut self, key: UserKey<&[u8]>) {
        key.with_encoded(|encoded| {
            if !self.keys.contains(encoded) {
                self.keys.insert(encoded.to_vec());
            }
        });
    }

    /// The keys that were looked up.
    pub(crate) fn keys(&self) -> impl Iterator<Item = UserKey<&[u8]>> {
        self.keys.iter().filter_map(|encoded| UserKey::of_encoded(encoded))
    }

    pub(crate) fn has_scans(&self) -> bool {
        !self.scans.is_empty()
    }

    /// Begins a scan of a range, which may be empty at first.
    pub(crate) fn begin_scan(&mut self, range: EncodedRange) -> ScanId {
        self.scans.push(range);
        ScanId(self.scans.len() - 1)
    }

    /// Extends a scan up to a key, included.
    pub(crate) fn extend_through(&mut self, scan: ScanId, key: &[u8]) {
        let (_, end) = &mut self.scans[scan.0];
        if let Some(end) = end.as_mut().filter(|end| &end[..] <= key) {
            end.clear();
            end.extend_from_slice(key);
            end.push(0);
        }
    }

    /// Extends a scan up to a bound, excluded; `None` for the end of all keys.
    pub(crate) fn extend_to(&mut self, scan: ScanId, bound: Option<&[u8]>) {
        let (_, end) = &mut self.scans[scan.0];
        match bound {
            None => *end = None,
            Some(bound) if end.as_deref().is_some_and(|end| end < bound) => *end = Some(bound.to_vec()),
            Some(_) => {}
        }
    }

    /// Extends a scan down to a key, included.
    pub(crate) fn extend_down_to(&mut self, scan: ScanId, key: &[u8]) {
        let (start, _) = &mut self.scans[scan.0];
        if key < &start[..] {
            start.clear();
            start.extend_from_slice(key);
        }
    }

    /// The scanned ranges, sorted and disjoint.
    pub(crate) fn scanned_ranges(&self) -> Vec<EncodedRange> {
        merged(self.scans.clone())
    }

    /// The scanned ranges and the keys, as sorted and disjoint ranges.
    pub(crate) fn all_ranges(&self) -> Vec<EncodedRange> {
        let points = self.keys.iter().map(|start| {
            let mut end = start.clone();
            end.push(0);
            (start.clone(), Some(end))
        });
        merged(self.scans.iter().cloned().chain(points).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &str, end: Option<&str>) -> EncodedRange {
        (start.as_bytes().to_vec(), end.map(|end| end.as_bytes().to_vec()))
    }

    #[test]
    fn touching_ranges_are_joined() {
        let mut reads = ReadSet::default();
        for scan in [
            range("d", Some("e")),
            range("a", Some("c")),
            range("b", Some("b\0")),
            range("c", Some("d")),
            range("x", Some("x")),
        ] {
            reads.begin_scan(scan);
        }
        assert_eq!(reads.scanned_ranges(), [range("a", Some("e"))]);
        reads.begin_scan(range("f", None));
        reads.begin_scan(range("g", Some("h")));
        assert_eq!(reads.all_ranges(), [range("a", Some("e")), range("f", None)]);
    }

    #[test]
    fn a_scan_extends_in_both_directions() {
        let mut reads = ReadSet::default();
        let scan = reads.begin_scan(range("m", Some("m")));
        reads.extend_through(scan, b"p");
        reads.extend_through(scan, b"n");
        reads.extend_down_to(scan, b"k");
        reads.extend_down_to(scan, b"l");
        assert_eq!(reads.all_ranges(), [range("k", Some("p\0"))]);
        reads.extend_to(scan, Some(b"q"));
        assert_eq!(reads.all_ranges(), [range("k", Some("q"))]);
        reads.extend_to(scan, None);
        assert_eq!(reads.all_ranges(), [range("k", None)]);
        reads.add_key(UserKey::of_default("\x01"));
        assert_eq!(reads.all_ranges().first(), Some(&(b"\0\0\0\0\x01".to_vec(), Some(b"\0\0\0\0\x01\0".to_vec()))));
    }
}
