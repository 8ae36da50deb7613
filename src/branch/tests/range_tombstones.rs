//! Range tombstones in a branch file: gets below and above them, files with nothing else, and damage.

use super::harness::{Owned, Random, Store, get, in_order};
use crate::branch::salvage_range_tombstones;
use crate::branch::{BranchBuilder, Compression, Purpose, file_name};
use crate::format::manifest_edit::BranchMeta;
use crate::format::page::{self, PAGE_BYTES, PAGE_HEADER_BYTES, PageHeader, PageKind};
use crate::format::sorted_page::{SortedPageBuilder, tag};
use crate::io::{AlignedBuffer, OpenMode, Storage};
use crate::merge::{Cursor, RangeTombstone, RangeTombstones};
use crate::util::{Error, Kind, SequenceNumber};

fn key(at: u64) -> Vec<u8> {
    format!("\0\0\0\0{at:05}").into_bytes()
}

fn write(store: &Store, entries: &[Owned], tombstones: &RangeTombstones) -> BranchMeta {
    let mut builder = BranchBuilder::create(&store.context).unwrap();
    entries.iter().for_each(|entry| builder.add(entry.borrow()).unwrap());
    builder.set_range_tombstones(tombstones.clone());
    builder.finish().unwrap()
}

fn deletion(start: u64, end: u64, number: u64) -> RangeTombstone {
    RangeTombstone { start: key(start), end: key(end), number: SequenceNumber(number) }
}

#[test]
fn gets_see_range_tombstones_from_their_number_on() {
    for seed in 0..40 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let store = Store::new(Compression::Lz4, 8 << 20);
        let entry = |_| Owned::put(&key(random.next() % 500), random.next() % 100 + 1, b"value");
        let entries = in_order((0..400).map(entry).collect());
        let range = |_| {
            let start = random.next() % 520;
            deletion(start, start + 1 + random.next() % 60, random.next() % 100 + 1)
        };
        let tombstones = RangeTombstones::new((0..1 + seed % 30).map(range));
        let meta = write(&store, if seed % 5 == 0 { &[] } else { &entries }, &tombstones);
        let entries = if seed % 5 == 0 { &[][..] } else { &entries };
        let store = store.reopened(8 << 20);
        let branch = store.open(&meta);
        assert_eq!(branch.range_tombstones().unwrap(), &tombstones);
        branch.verify().unwrap();
        for at in 0..600 {
            let (key, number) = (key(at), SequenceNumber(random.next() % 110));
            let point = entries.iter().find(|entry| entry.key == key && entry.number <= number);
            let covering = tombstones.covering(&key, number);
            let expected = match point {
                Some(point) if point.number >= covering => Some((point.number, Kind::Put, b"value".to_vec())),
                _ if covering > SequenceNumber::ZERO => Some((covering, Kind::RangeDelete, Vec::new())),
                _ => None,
            };
            let head = crate::util::key::wide_head(&key);
            assert!(
                expected.is_none() || branch.spans(&key, head),
                "{at} lies outside the branch, according to `spans`"
            );
            assert_eq!(get(&branch, &key, number).unwrap(), expected, "{at} at {number}");
        }
        let mut cursor = branch.cursor(Purpose::Read);
        cursor.seek_first().unwrap();
        assert_eq!(cursor.valid(), !entries.is_empty());
        cursor.seek_for_prev(&key(300), SequenceNumber::ZERO).unwrap();
        assert_eq!(cursor.valid(), entries.iter().any(|entry| entry.key <= key(300)));
    }
}

/// The largest key is excluded if it is the end of a range, and included if it is the key of an entry.
#[test]
fn the_end_of_a_range_is_exclusive() {
    let store = Store::new(Compression::None, 1 << 20);
    let entries = [Owned::put(&key(5), 9, b"5")];
    for (start, end, min, max, open) in
        [(3, 7, 3, 7, true), (3, 5, 3, 5, false), (6, 9, 5, 9, true), (2, 4, 2, 5, false)]
    {
        let meta = write(&store, &entries, &RangeTombstones::new([deletion(start, end, 4)]));
        assert_eq!((&meta.key_min, &meta.key_max, meta.open_ended), (&key(min), &key(max), open));
        assert!(
            meta.ends_before(&key(max)) == open && meta.ends_before(&key(max + 1)) && !meta.ends_before(&key(max - 1))
        );
        assert_eq!((meta.number_min, meta.number_max), (SequenceNumber(4), SequenceNumber(9)));
        let branch = store.open(&meta);
        assert_eq!(branch.spans(&key(max), crate::util::key::wide_head(&key(max))), !open);
    }
}

/// A file with range tombstones only has no leaf, no index and no filter. It is read, measured and verified like any
/// other.
#[test]
fn a_file_with_range_tombstones_only() {
    let store = Store::new(Compression::None, 1 << 20);
    let meta = write(&store, &[], &RangeTombstones::new([deletion(10, 20, 3), deletion(15, 30, 5)]));
    assert_eq!((meta.entries, meta.distinct_keys, meta.range_tombstones, meta.open_ended), (0, 0, 4, true));
    let branch = store.open(&meta);
    assert_eq!(branch.verify().unwrap().entries, 0);
    assert_eq!(branch.approximate_bytes(&key(11), Some(&key(12))).unwrap(), meta.bytes);
    assert_eq!(branch.approximate_bytes(&key(30), None).unwrap(), 0);
    assert_eq!(branch.key_rank(&key(12)).unwrap(), 0);
    assert_eq!(
        get(&branch, &key(16), SequenceNumber(9)).unwrap(),
        Some((SequenceNumber(5), Kind::RangeDelete, vec![]))
    );
    assert_eq!(get(&branch, &key(30), SequenceNumber(9)).unwrap(), None);
    let builder = BranchBuilder::create(&store.context).unwrap();
    assert!(matches!(builder.finish(), Err(Error::InvalidArgument(_))));
}

/// Many range tombstones take several pages. A read finds each flipped byte in them, and repair salvages the other
/// pages.
#[test]
fn damage_is_found_and_intact_pages_are_salvaged() {
    let store = Store::new(Compression::None, 1 << 20);
    let tombstones = RangeTombstones::new((0..8_000).map(|at| deletion(at * 3, at * 3 + 2, at + 1)));
    let entries = [Owned::put(&key(5), 9_000, b"5")];
    let meta = write(&store, &entries, &tombstones);
    let footer_at = meta.bytes - 2 * PAGE_BYTES as u64;
    // The range tombstones are stored before properties and footer.
    let mut found = 0;
    for page in 2..(footer_at / PAGE_BYTES as u64) {
        let copy = store.reopened(1 << 20);
        let name = file_name(meta.file);
        let file = copy.disk.open(&name, OpenMode::ReadWrite).unwrap();
        let mut byte = [0];
        let at = page * PAGE_BYTES as u64 + 77;
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 4], at).unwrap();
        let branch = copy.open(&meta);
        if let Err(error) = branch.range_tombstones() {
            assert!(matches!(error, Error::Corruption { .. }), "{error}");
            assert!(branch.verify().is_err());
            assert!(get(&branch, &key(5), SequenceNumber(1)).is_err(), "an answer without the lost range tombstones");
            let saved = salvage_range_tombstones(&copy.context, meta.file).unwrap();
            assert!(saved.count() < 8_000 && saved.count() > 500, "{}", saved.count());
            assert!(saved.deletions().all(|one| tombstones.over(&one.start) == [one.number]));
            found += 1;
        }
        file.write_all_at(&byte, at).unwrap();
    }
    assert!(found > 20, "{found} pages had them");
    assert_eq!(salvage_range_tombstones(&store.context, meta.file).unwrap(), tombstones);
}

/// What a writer with a bug could write, with valid checksums: fragments in another order, overlapping fragments, or
/// fewer or more fragments than the manifest lists.
#[test]
fn fragments_out_of_order_are_found() {
    let store = Store::new(Compression::None, 1 << 20);
    let tombstones = RangeTombstones::new([deletion(10, 20, 3), deletion(20, 30, 5), deletion(20, 30, 4)]);
    let meta = write(&store, &[Owned::put(&key(15), 9, b"5"), Owned::put(&key(40), 9, b"6")], &tombstones);
    let valid_fragments = [(10, 20, 3), (20, 30, 5), (20, 30, 4)];
    let branch = store.open(&meta);
    let (at, owner) = (branch.footer().unwrap().range_tombstones_at, branch.owner());
    for (fragments, wrong) in [
        (&valid_fragments[..], None),
        (&[(20, 30, 5), (20, 30, 4), (10, 20, 3)], Some("fragments")),
        (&[(10, 20, 3), (20, 30, 4), (20, 30, 5)], Some("fragments")),
        (&[(10, 25, 3), (20, 30, 5), (20, 30, 4)], Some("fragments")),
        (&[(10, 20, 3), (20, 30, 5), (20, 29, 4)], Some("fragments")),
        (&[(10, 20, 3), (20, 30, 5), (20, 30, 5)], Some("fragments")),
        (&valid_fragments[..2], Some("3 in the file")),
        (&[(10, 20, 3), (20, 30, 5), (30, 50, 4)], Some("3 in the file")),
        (&[(10, 20, 3), (20, 30, 5), (20, 30, 2)], Some("number_min")),
    ] {
        let mut builder = SortedPageBuilder::default();
        for (start, end, number) in fragments {
            let tag = tag(SequenceNumber(*number), Kind::RangeDelete);
            let fit = builder.fit(&key(*start), tag, key(*end).len());
            builder.push(&key(*start), tag, &key(*end), fit);
        }
        let length = builder.size() as u32;
        let mut page = AlignedBuffer::new(page::stored_bytes(length as usize));
        assert_eq!(page.len(), PAGE_BYTES);
        builder.encode(&mut page[PAGE_HEADER_BYTES..][..length as usize]);
        let (kind, compression) = (PageKind::RangeTombstones, Compression::None);
        let header = PageHeader { kind, compression, level: 0, stored_len: length, raw_len: length, offset: at };
        page::seal(&mut page, &header, owner);
        let copy = store.reopened(1 << 20);
        copy.disk.open(&file_name(meta.file), OpenMode::WriteDirect).unwrap().write_all_at(&page, at).unwrap();
        let found = copy.open(&meta).verify().err().map(|error| error.to_string());
        assert_eq!(found.is_some(), wrong.is_some(), "{fragments:?}: {found:?}");
        assert!(wrong.is_none_or(|wrong| found.as_ref().is_some_and(|found| found.contains(wrong))), "{found:?}");
    }
    // If the manifest recorded none, no read would look for them in the file.
    let none = BranchMeta { range_tombstones: 0, ..meta };
    assert!(store.open(&none).count_range_tombstones(&mut BranchMeta::default()).is_err());
}
