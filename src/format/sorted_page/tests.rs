//! Tests of sorted pages.

use super::layout::HEADER_BYTES;
use super::*;
use crate::format::page::PAYLOAD_BYTES_MAX;
use proptest::prelude::*;

type Entry = (Vec<u8>, u64, Vec<u8>);

/// Mostly puts, so that pages with one kind are as common as others.
fn kind_of(value: &[u8]) -> Kind {
    match value {
        [0..8, ..] => Kind::Delete,
        [8..12, ..] => Kind::Batch,
        _ => Kind::Put,
    }
}

fn build(entries: &[Entry]) -> Vec<u8> {
    build_with(SortedPageBuilder::default(), entries)
}

fn build_with(mut builder: SortedPageBuilder, entries: &[Entry]) -> Vec<u8> {
    for round in 0..2 {
        builder.clear();
        for (key, number, value) in entries {
            let tag = tag(SequenceNumber(*number), kind_of(value));
            let fit = builder.fit(key, tag, value.len());
            builder.push(key, tag, value, fit);
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
    let number = prop_oneof![1u64..5, (1 << 20)..(1u64 << 20) + 1000, 0..=SequenceNumber::MAX.0];
    let list = proptest::collection::vec((key, number, proptest::collection::vec(any::<u8>(), 0..40)), 1..60);
    // Half the pages have keys and values of one length each.
    let lengths = proptest::option::of((0usize..14, 0usize..40));
    (list, lengths).prop_map(|(mut all, lengths)| {
        if let Some((key_len, value_len)) = lengths {
            for (key, _, value) in &mut all {
                key.resize(key_len, 0);
                value.resize(value_len, 0xee);
            }
        }
        all.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
        all.dedup_by(|one, other| (&one.0, one.1) == (&other.0, other.1));
        all
    })
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
            prop_assert_eq!(tag_kind(parts.tag), kind_of(value));
            prop_assert_eq!(page.value(&parts), &value[..]);
            prop_assert_eq!(page.repeats_key(at), at > 0 && all[at - 1].0 == *expected);
        }
        for (key, number, _) in all.iter().chain(&probes) {
            let before = |entry: &Entry| entry.0.cmp(key).then(number.cmp(&entry.1));
            let strict = all.partition_point(|entry| before(entry).is_lt());
            let inclusive = all.partition_point(|entry| before(entry).is_le());
            prop_assert_eq!(page.rank(key, SequenceNumber(*number), false), strict);
            prop_assert_eq!(page.rank(key, SequenceNumber(*number), true), inclusive);
            let smaller = all.partition_point(|entry| entry.0 < *key);
            for at in 0..smaller {
                prop_assert_eq!(page.rank_after(at, key), smaller, "from {}", at);
            }
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
    fn garbage_is_rejected_or_read_without_a_panic(all in entries(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let payload = build(&all);
        let at = at.index(payload.len());
        read_all(&payload[..at]);
        // The first bytes determine where everything else is found, so each of them is tested.
        for at in (0..HEADER_BYTES).chain([at]) {
            let mut bad = payload.clone();
            bad[at] = byte;
            read_all(&bad);
        }
    }
}

/// Reads everything from a page that passes its checks.
fn read_all(payload: &[u8]) {
    let Some(page) = SortedPage::new(payload) else { return };
    if page.validate().is_err() {
        return;
    }
    let mut key = page.prefix().to_vec();
    for at in 0..page.count() {
        let parts = page.parts(at);
        page.complete_key(at, &parts, &mut key);
        page.packed(at);
        assert!(tag_number(parts.tag) <= SequenceNumber::MAX && Kind::from_byte(parts.tag as u8).is_some());
        page.repeats_key(at);
        page.rank(&key, tag_number(parts.tag), true);
        page.rank_after(at, &key);
        page.find(&key, tag_number(parts.tag));
        if let Some(uniform) = page.uniform() {
            let mut row = Vec::new();
            let key_len = uniform.append(at, uniform.head(at), true, &mut row);
            assert_eq!((&row[..key_len], &row[key_len..]), (&key[..], page.value(&parts)));
            assert_eq!((uniform.number(at), uniform.kind()), (tag_number(parts.tag), tag_kind(parts.tag)));
            assert_eq!(uniform.value_len(), parts.value.len());
        }
    }
}

#[test]
fn claimed_lengths_are_checked() {
    assert!(SortedPage::new(&[]).is_none());
    assert!(SortedPage::new(&[0xff; 100]).is_none());
    let empty = [0; HEADER_BYTES];
    assert_eq!(SortedPage::new(&empty).unwrap().validate(), Err("a page without entries"));
    // A page that claims millions of empty entries must not take long.
    let mut crowded = empty;
    crowded[..3].fill(0xff);
    crowded[8] = Kind::Put as u8;
    assert_eq!(SortedPage::new(&crowded).unwrap().validate(), Err("entries without any difference"));
}

/// `count` entries as a load creates them: keys and values of one length, numbers in any order.
fn usual(count: u64, spread: u64) -> Vec<Entry> {
    let key = |at: u64| [&[0, 0, 0, 1], &at.wrapping_mul(0x0102_0304_0506_0709).to_be_bytes()[..]].concat();
    let number = |at: u64| 1_000_000 + at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % spread;
    let mut all: Vec<Entry> = (0..count).map(|at| (key(at), number(at), vec![0xcc; 100])).collect();
    all.sort();
    all
}

#[test]
fn the_encoding_of_a_page_never_changes() {
    let entries = [(b"ab1".to_vec(), 0x0102, b"\xccx".to_vec()), (b"ab2".to_vec(), 0x0100, b"\xccy".to_vec())];
    let one_length: &[&[u8]] =
        &[&[2, 0, 0, 1, 2, 0, 0, 0], &[1, 0, 1, 0, 0, 0, 0, 0], &[1, 0, 0, 1, 3, 0, 0, 0], b"ab12\x02\xccx\x00\xccy"];
    assert_eq!(build(&entries), one_length.concat());
    // A delete among the puts, and lengths that differ.
    let entries = [(b"ab1".to_vec(), 0x0102, b"\xcc".to_vec()), (b"abc23".to_vec(), 0x0100, b"\x00yz".to_vec())];
    let mixed: &[&[u8]] = &[
        &[2, 0, 0, 3, 2, 0, 0, 0],
        &[0, 0, 1, 0, 0, 0, 0, 0],
        &[0xff, 0xff, 0xff, 1, 0, 0, 0, 1],
        b"ab",
        &[0, 0, b'1', b'3', b'2', b'c'],
        &[34, 37],
        &[2 << 3 | 1, 1, 0xcc],
        &[2, 3, 0, b'y', b'z'],
    ];
    assert_eq!(build(&entries), mixed.concat());
}

#[test]
fn entries_have_no_unneeded_bytes() {
    // Twelve bytes of key, of which some are the page's prefix: heads for the rest, no offsets, no lengths.
    for (spread, tag_bytes) in [(1, 0), (1 << 8, 1), (1 << 16, 2), (1 << 20, 3), (1 << 40, 5)] {
        let all = usual(33, spread);
        let payload = build(&all);
        let layout = SortedPage::new(&payload).unwrap().layout;
        assert_eq!((layout.prefix_len, layout.head_bytes), (4, 8));
        assert_eq!((layout.tag_bytes, layout.offset_bytes, layout.entry_bytes), (tag_bytes, 0, tag_bytes + 100));
        assert_eq!(payload.len(), HEADER_BYTES + 4 + 33 * (8 + tag_bytes + 100), "{spread}");
    }
    // Many versions of one key: no part of the key is repeated.
    let versions: Vec<Entry> = (0..20).map(|at| (b"one key".to_vec(), 100 - at, vec![0xcc; 10])).collect();
    assert_eq!(build(&versions).len(), HEADER_BYTES + 7 + 20 * (1 + 10));
}

/// Every header field, and every part of an entry, whose damage could lead outside the page or the entry.
#[test]
fn malformed_layouts_are_rejected() {
    let good = build(&usual(20, 1 << 20));
    let mut mixed = usual(20, 1 << 20);
    (mixed[3].0, mixed[5].2) = ([&mixed[3].0[..], b"longer"].concat(), vec![0; 7]);
    let mixed = build(&mixed);
    let verdict = |payload: &[u8], changes: &[(usize, u8)]| {
        let mut bad = payload.to_vec();
        changes.iter().for_each(|(at, byte)| bad[*at] = *byte);
        SortedPage::new(&bad).map(|page| page.validate())
    };
    let (layout, mixed_layout) = (Layout::read(&good).unwrap(), Layout::read(&mixed).unwrap());
    assert_eq!((layout.offset_bytes, mixed_layout.offset_bytes), (0, 2));
    assert_eq!((verdict(&good, &[]), verdict(&mixed, &[])), (Some(Ok(())), Some(Ok(()))));

    let past_the_page = [(3, 9), (3, 255), (19, 9), (23, 4), (1, 0x10), (2, 1), (5, 0x10), (7, 255)];
    for change in past_the_page {
        assert_eq!(verdict(&good, &[change]), None, "{change:?}");
    }
    let (entry, mixed_entry) = (layout.entries_at(), mixed_layout.entries_at());
    let offset = mixed_layout.offsets_at();
    type Changes<'c> = &'c [(usize, u8)];
    let refused: &[(&[u8], Changes, &str)] = &[
        (&good, &[(0, 0)], "a page without entries"),
        (&good, &[(0, 19)], "bytes after the last entry"),
        (&good, &[(3, 7)], "a key longer than its head"),
        (&good, &[(8, 8)], "an unknown kind"),
        (&good, &[(8, 0), (entry, 0xf8)], "an unknown kind"),
        (
            &good,
            &[(9, 0xff), (10, 0xff), (11, 0xff), (12, 0xff), (13, 0xff), (14, 0xff), (15, 0xff)],
            "a sequence number above the largest",
        ),
        (&good, &[(18, 1)], "a key that is too long"),
        (&good, &[(16, 200), (18, 0)], "a key that exceeds its entry"),
        (&good, &[(19, 8), (20, 7)], "an entry too short for its tag"),
        (&good, &[(20, layout.entry_bytes as u8 + 1)], "an entry outside its place"),
        (&good, &[(20, layout.entry_bytes as u8 - 1)], "bytes after the last entry"),
        (&mixed, &[(20, 1)], "offsets although all entries have one length"),
        (&mixed, &[(offset, 0xff)], "an entry outside its place"),
        (&mixed, &[(offset + 2, 0)], "a malformed key length"),
        (&mixed, &[(offset + 3, 0xff)], "an entry outside its place"),
        (
            &mixed,
            &[(mixed_entry + mixed_layout.tag_bytes, 0x80), (mixed_entry + mixed_layout.tag_bytes + 1, 0)],
            "a malformed key length",
        ),
        (&mixed, &[(mixed_entry + mixed_layout.tag_bytes, 0x7f)], "a key that exceeds its entry"),
    ];
    for (payload, changes, what) in refused {
        assert_eq!(verdict(payload, changes), Some(Err(*what)), "{changes:?}");
    }
}

#[test]
fn the_longest_entry_fits_a_page() {
    let mut builder = SortedPageBuilder::default();
    let key = vec![7; KEY_BYTES_MAX + KeyspaceId::BYTES];
    let tag = tag(SequenceNumber::MAX, Kind::Put);
    let fit = builder.fit(&key, tag, crate::util::limits::VALUE_FILE_BYTES_MIN);
    assert!(fit.size <= PAYLOAD_BYTES_MAX);
    builder.push(&key, tag, &[1; 10], builder.fit(&key, tag, 10));
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
