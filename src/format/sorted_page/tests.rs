//! Tests of sorted pages.

use super::*;
use crate::format::page::PAYLOAD_BYTES_MAX;
use proptest::prelude::*;

type Entry = (Vec<u8>, u64, Vec<u8>);

fn build(entries: &[Entry]) -> Vec<u8> {
    build_with(SortedPageBuilder::default(), entries)
}

fn build_with(mut builder: SortedPageBuilder, entries: &[Entry]) -> Vec<u8> {
    for round in 0..2 {
        builder.clear();
        for (key, number, value) in entries {
            let fit = builder.fit(key, value.len());
            builder.push(key, tag(SequenceNumber(*number), Kind::Put), value, fit);
        }
        assert_eq!(builder.count(), entries.len(), "round {round}");
    }
    let mut out = vec![0xaa; builder.size()];
    builder.encode(&mut out);
    out
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let key = prop_oneof![
        proptest::collection::vec(0u8..3, 0..12),
        proptest::collection::vec(any::<u8>(), 0..20),
        (0usize..40).prop_map(|zeroes| vec![0; zeroes]),
        (any::<u16>()).prop_map(|tail| [b"the same long prefix of them all ", &tail.to_be_bytes()[..]].concat()),
    ];
    proptest::collection::vec((key, 1u64..5, proptest::collection::vec(any::<u8>(), 0..40)), 1..60).prop_map(
        |mut all| {
            all.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
            all.dedup_by(|one, other| (&one.0, one.1) == (&other.0, other.1));
            all
        },
    )
}

proptest! {
    #[test]
    fn pages_answer_as_the_sorted_list_does(all in entries(), probes in entries()) {
        let payload = build(&all);
        let page = SortedPage::new(&payload).unwrap();
        prop_assert_eq!(page.validate(), Ok(()));
        prop_assert_eq!(page.count(), all.len());
        let mut key = page.prefix().to_vec();
        for (at, (expected, number, value)) in all.iter().enumerate() {
            let parts = page.parts(at);
            page.complete_key(at, &parts, &mut key);
            prop_assert_eq!(&key, expected);
            prop_assert_eq!(tag_number(parts.tag).0, *number);
            prop_assert_eq!(tag_kind(parts.tag), Kind::Put);
            prop_assert_eq!(page.value(&parts), &value[..]);
            prop_assert_eq!(page.repeats_key(at), at > 0 && all[at - 1].0 == *expected);
        }
        for (key, number, _) in all.iter().chain(&probes) {
            let before = |entry: &Entry| entry.0.cmp(key).then(number.cmp(&entry.1));
            let strict = all.partition_point(|entry| before(entry).is_lt());
            let inclusive = all.partition_point(|entry| before(entry).is_le());
            prop_assert_eq!(page.rank(key, SequenceNumber(*number), false), strict);
            prop_assert_eq!(page.rank(key, SequenceNumber(*number), true), inclusive);
            let found = page.find(key, SequenceNumber(*number)).map(|parts| tag_number(parts.tag).0);
            prop_assert_eq!(found, all.get(strict).filter(|entry| entry.0 == *key).map(|entry| entry.1));
        }
    }

    #[test]
    fn packed_values_come_back(mut all in entries(), probes in entries()) {
        for (number, (_, _, value)) in all.iter_mut().enumerate() {
            *value = (number as u32).to_le_bytes().to_vec();
        }
        let payload = build_with(SortedPageBuilder::packed(4), &all);
        let page = SortedPage::new(&payload).unwrap();
        prop_assert_eq!((page.validate(), page.width()), (Ok(()), 4));
        for (at, (_, number, value)) in all.iter().enumerate() {
            prop_assert_eq!(page.packed(at), &value[..]);
            prop_assert_eq!(tag_number(page.parts(at).tag).0, *number);
        }
        for (key, number, _) in all.iter().chain(&probes) {
            let strict = all.partition_point(|entry| entry.0.cmp(key).then(number.cmp(&entry.1)).is_lt());
            prop_assert_eq!(page.rank(key, SequenceNumber(*number), false), strict);
        }
    }

    #[test]
    fn garbage_is_refused_or_read_without_a_panic(all in entries(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut payload = build(&all);
        let at = at.index(payload.len());
        payload[at] = byte;
        read_all(&payload);
        read_all(&payload[..at]);
    }
}

/// Reads everything that a page which passes its checks offers.
fn read_all(payload: &[u8]) {
    let Some(page) = SortedPage::new(payload) else { return };
    if page.validate().is_err() {
        return;
    }
    let mut key = page.prefix().to_vec();
    for at in 0..page.count() {
        let parts = page.parts(at);
        page.complete_key(at, &parts, &mut key);
        page.value(&parts);
        page.packed(at);
        page.repeats_key(at);
        page.rank(&key, tag_number(parts.tag), true);
        page.find(&key, tag_number(parts.tag));
    }
}

#[test]
fn lengths_are_not_believed() {
    assert!(SortedPage::new(&[]).is_none());
    assert!(SortedPage::new(&[0xff; 100]).is_none());
    let empty = [0; 8];
    assert!(SortedPage::new(&empty).unwrap().validate().is_err());
}

#[test]
fn the_longest_entry_fits_a_page() {
    let mut builder = SortedPageBuilder::default();
    let key = vec![7; KEY_BYTES_MAX + KeyspaceId::BYTES];
    let fit = builder.fit(&key, crate::base::limits::VALUE_FILE_BYTES_MIN);
    assert!(fit.size <= PAYLOAD_BYTES_MAX);
    builder.push(&key, tag(SequenceNumber::MAX, Kind::Put), &[1; 10], builder.fit(&key, 10));
    let mut out = vec![0; builder.size()];
    builder.encode(&mut out);
    let page = SortedPage::new(&out).unwrap();
    page.validate().unwrap();
    assert!(page.find(&key, SequenceNumber::MAX).is_some());
}

#[test]
fn children_round_trip() {
    let child = ChildLocation { page: 0x0102_0304, pages: 256, first_key: u32::MAX };
    assert_eq!(ChildLocation::decode(&child.encode()), Some(child));
    assert_eq!(ChildLocation::decode(&child.encode()[..9]), None);
    assert_eq!(ChildLocation::decode(&[0; 10]), None);
    assert_eq!(ChildLocation::decode(&[0xff; 10]), None);
}
