//! Rows of whole pages, against the same entries one by one.

use crate::format::sorted_page::{SortedPage, SortedPageBuilder, tag};
use crate::merge::row_reader::RowReader;
use crate::merge::visitor::entry_of;
use crate::merge::{Rows, Visitor};
use crate::util::{Kind, SequenceNumber};
use proptest::prelude::*;

/// A key, its number, whether it is a put, and its value.
type Entry = (Vec<u8>, u64, bool, Vec<u8>);

fn page(entries: &[Entry]) -> Vec<u8> {
    let mut builder = SortedPageBuilder::default();
    for (key, number, is_put, value) in entries {
        let tag = tag(SequenceNumber(*number), if *is_put { Kind::Put } else { Kind::Delete });
        let fit = builder.fit(key, tag, value.len());
        builder.push(key, tag, value, fit);
    }
    let mut out = vec![0; builder.size()];
    builder.encode(&mut out);
    out
}

/// Entries in order. Most pages have keys and values of one length, and puts only.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let key = proptest::collection::vec(prop_oneof![0u8..3, any::<u8>()], 0..14);
    let value = proptest::collection::vec(any::<u8>(), 0..200);
    let number = prop_oneof![1u64..20, 1u64..1 << 40];
    let list = proptest::collection::vec((key, number, proptest::bool::weighted(0.8), value), 1..60);
    let uniform = proptest::option::weighted(0.7, (1usize..14, 0usize..200));
    let prefix = prop_oneof![Just(0usize), 1usize..8, Just(8), 9usize..30];
    (list, uniform, prefix).prop_map(|(mut all, uniform, prefix)| {
        for (key, _, is_put, value) in &mut all {
            if let Some((key_len, value_len)) = uniform {
                key.resize(key_len, 0);
                value.resize(value_len, 0xee);
                *is_put = true;
            }
            key.splice(0..0, std::iter::repeat_n(7, prefix));
        }
        all.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
        all.dedup_by(|one, other| (&one.0, one.1) == (&other.0, other.1));
        all
    })
}

fn at() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..22, 0u64..1 << 40, Just(1 << 50)]
}

/// The pairs of the rows, how many entries were taken, and the key that was passed last.
type Read = (Vec<(Vec<u8>, Vec<u8>)>, usize, Vec<u8>);

fn read(
    (count, (at, expired), with_values): (usize, (u64, u64), bool),
    before: &[u8],
    take: impl FnOnce(&mut RowReader<'_>) -> usize,
) -> Read {
    let (mut rows, mut key, mut scratch) = (Rows::default(), before.to_vec(), Vec::new());
    let numbers = (SequenceNumber(at), SequenceNumber(expired));
    let mut reader = RowReader::new((&mut rows, count), numbers, with_values, &mut key, &mut scratch);
    let taken = take(&mut reader);
    reader.end();
    let mut pairs = Vec::new();
    while rows.step() {
        pairs.push((rows.key().to_vec(), rows.value().to_vec()));
    }
    (pairs, taken, key)
}

proptest! {
    #[test]
    fn a_page_gives_the_rows_of_its_entries(
        entries in entries(),
        how in (1usize..70, (at(), prop_oneof![Just(0u64), at()]), any::<bool>()),
        (from, before) in (any::<proptest::sample::Index>(), any::<bool>()),
    ) {
        let payload = page(&entries);
        let page = SortedPage::new(&payload).unwrap();
        let range = from.index(entries.len())..entries.len();
        // The last key before the rows may be that of the first entry.
        let before = if before { &entries[range.start].0[..] } else { b"before" };
        let whole = read(how, before, |reader| reader.visit_page(&page, range.clone()));
        let mut key = Vec::new();
        let one_by_one = read(how, before, |reader| {
            let is_taken = |at: &usize| reader.visit(entry_of(&page, *at, &mut key)).is_continue();
            range.clone().take_while(is_taken).count()
        });
        prop_assert_eq!(whole, one_by_one);
    }
}
