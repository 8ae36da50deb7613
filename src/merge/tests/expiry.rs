//! Expiry against its purpose: merges drop what has expired for all readers, and every reader misses what has expired for it,
//! whatever was merged.

use super::{Random, sorted};
use crate::merge::vec_cursor::{VecCursor, VecEntry};
use crate::merge::{EntryRef, Expired, Retention, VersionFilter, VisibleCursor};
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Kind, SequenceNumber, key};

/// Only the default keyspace has an expiry. From which number on readers miss which versions, oldest first.
struct Moments(Vec<(u64, u64)>);

impl Moments {
    fn through(&self, at: u64) -> SequenceNumber {
        let moment = self.0.iter().rev().find(|(since, _)| *since <= at);
        SequenceNumber(moment.map_or(0, |(_, through)| *through))
    }

    fn retention(&self, pins: &[u64]) -> Retention {
        let through = self.through(pins.iter().copied().min().unwrap_or(u64::MAX));
        let retention = Retention::new(pins.iter().copied().map(SequenceNumber).collect());
        retention.with_expired(Arc::new(Expired::new([(KeyspaceId::DEFAULT, through)])))
    }

    fn filtered(&self, entries: &[VecEntry], pins: &[u64], bottom: bool) -> Vec<VecEntry> {
        let retention = self.retention(pins);
        let mut filter = VersionFilter::new(&retention, bottom);
        let mut kept = Vec::new();
        let mut keep = |entry: EntryRef<'_>| {
            kept.push(VecEntry::from(entry));
            Ok(())
        };
        entries.iter().for_each(|entry| filter.push(entry.as_ref(), &mut keep).unwrap());
        filter.finish(&mut keep).unwrap();
        kept
    }

    /// What a reader at `at` sees of all keyspaces.
    fn seen(&self, entries: &[VecEntry], at: u64) -> Vec<VecEntry> {
        let end = key::after_all(KeyspaceId::DEFAULT).to_vec();
        let mut seen = Vec::new();
        for (lower, upper, expired) in
            [(Vec::new(), Some(end.clone()), self.through(at)), (end, None, SequenceNumber::ZERO)]
        {
            let inner = VecCursor::new(entries.to_vec());
            let mut cursor = VisibleCursor::new(inner, SequenceNumber(at), lower, upper).expiring(expired);
            cursor.seek_first().unwrap();
            while cursor.valid() {
                seen.push(cursor.entry().into());
                cursor.next().unwrap();
            }
        }
        seen
    }
}

/// The same by the rule, with plain loops.
fn model(entries: &[VecEntry], moments: &Moments, at: u64) -> Vec<VecEntry> {
    let (mut seen, mut decided): (_, Option<&[u8]>) = (Vec::new(), None);
    for entry in entries.iter().filter(|entry| entry.number.0 <= at) {
        let is_first = decided.replace(&entry.key) != Some(&entry.key[..]);
        let expires = key::keyspace(&entry.key) == KeyspaceId::DEFAULT;
        if is_first && entry.kind != Kind::Delete && !(expires && entry.number <= moments.through(at)) {
            seen.push(entry.clone());
        }
    }
    seen
}

#[test]
fn a_long_history_with_expiry_changes_no_answer() {
    for seed in 0..200 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut all: Vec<VecEntry> = Vec::new();
        let mut bundles: Vec<Vec<VecEntry>> = Vec::new();
        let (mut pins, mut moments, mut last) = (Vec::new(), Moments(Vec::new()), 0);
        for _ in 0..60 {
            match random.below(5) {
                0 => {
                    let mut memory = Vec::new();
                    for _ in 0..random.below(12) {
                        last += 1;
                        let kind = random.kind();
                        memory.push(VecEntry::new(random.key(12), last, kind, format!("{last}")));
                    }
                    all.extend(memory.iter().cloned());
                    bundles.push(moments.filtered(&sorted(memory), &pins, bundles.is_empty()));
                }
                1 => {
                    let through = moments.through(u64::MAX).0;
                    let through = through + random.below(last - through + 1);
                    last += 1;
                    moments.0.push((last, through));
                }
                2 if random.below(2) == 0 => pins.push(last),
                2 if !pins.is_empty() => {
                    pins.swap_remove(random.below(pins.len() as u64) as usize);
                }
                _ if !bundles.is_empty() => {
                    let from = random.below(bundles.len() as u64) as usize;
                    let to = from + 1 + random.below((bundles.len() - from) as u64) as usize;
                    let merged = sorted(bundles[from..to].concat());
                    bundles.splice(from..to, [moments.filtered(&merged, &pins, from == 0)]);
                }
                _ => {}
            }
            let (before, after) = (sorted(all.clone()), sorted(bundles.concat()));
            for at in pins.iter().copied().chain([u64::MAX]) {
                let expected = model(&before, &moments, at);
                assert_eq!(moments.seen(&before, at), expected, "at {at}");
                assert_eq!(moments.seen(&after, at), expected, "at {at} with pins {pins:?}, merged");
            }
        }
        let whole = moments.filtered(&sorted(bundles.concat()), &[], true);
        assert_eq!(whole, moments.seen(&sorted(all), u64::MAX), "what has expired stays");
    }
}

/// An expired version hides what is below it, even if time seems to go back later.
#[test]
fn an_expired_version_leaves_a_tombstone_over_older_data() {
    let moments = Moments(vec![(3, 2)]);
    let newer = [VecEntry::new("\0\0\0\0k", 2, Kind::Put, "new")];
    assert_eq!(moments.filtered(&newer, &[], false), [VecEntry::new("\0\0\0\0k", 2, Kind::Delete, "")]);
    assert_eq!(moments.filtered(&newer, &[], true), []);
    // A snapshot from before the moment, or one that is being taken, needs it.
    assert_eq!(moments.filtered(&newer, &[2], true), newer);
    assert_eq!(moments.filtered(&newer, &[0], true), newer);
}
