//! Extreme sizes: the longest keys, large values, many versions of one key, several index levels. Also the removal of
//! unfinished and obsolete files.

use super::harness::*;
use crate::branch::{BranchBuilder, Compression, Purpose, file_name, parse_file_name};
use crate::io::Storage;
use crate::merge::Cursor;
use crate::util::limits::{KEY_BYTES_MAX, VALUE_FILE_BYTES_MIN};
use crate::util::{Error, SequenceNumber};

fn check_all(entries: &[Owned], compression: Compression) -> crate::branch::BranchReport {
    let store = Store::new(compression, 0);
    let meta = store.write(entries);
    let branch = store.open(&meta);
    let mut cursor = branch.cursor(Purpose::Read);
    cursor.seek_first().unwrap();
    for at in 0..entries.len() {
        assert_position(&cursor, entries, Some(at), "forward");
        cursor.next().unwrap();
    }
    for entry in entries.iter().step_by(entries.len() / 300 + 1) {
        assert_eq!(get(&branch, &entry.key, entry.number).unwrap().unwrap().2, entry.value);
    }
    branch.verify().unwrap()
}

#[test]
fn the_longest_keys_and_values_from_nothing_to_hundreds_of_kilobytes() {
    let mut random = Random(3);
    let mut entries = vec![Owned::put(b"", 1, b"")];
    for at in 0..12u8 {
        let long = KEY_BYTES_MAX + 4;
        let mut key = vec![1; long - usize::from(at % 3)];
        key[if at % 2 == 0 { 5 } else { long - 10 }] = at;
        let length = [0, 1, 4000, 200_000, VALUE_FILE_BYTES_MIN - 1][random.below(5)];
        entries.push(Owned::put(&key, 1 + u64::from(at), &random.bytes(length)));
        entries.push(Owned::put(&[2, at], 1, &vec![at; 200_000]));
    }
    let entries = in_order(entries);
    for compression in [Compression::None, Compression::Lz4] {
        check_all(&entries, compression);
    }
}

#[test]
fn many_versions_of_one_key_span_leaves() {
    let versions = (1..=3000u64).rev().map(|number| Owned::put(b"hot", number * 2, &[number as u8; 50]));
    let mut entries = vec![Owned::put(b"before", 5, b"x")];
    entries.extend(versions);
    entries.push(Owned::put(b"hot!", 5, b"y"));
    let report = check_all(&entries, Compression::None);
    assert!(report.leaves > 20, "{report:?}");
    let store = Store::new(Compression::None, 1 << 20);
    let branch = store.open(&store.write(&entries));
    for number in 0..6010 {
        let at = SequenceNumber(number);
        assert_eq!(get(&branch, b"hot", at).unwrap(), expected_get(&entries, b"hot", at), "at {number}");
    }
    assert_eq!(branch.key_rank(b"hot").unwrap(), 1);
    assert_eq!(branch.key_rank(b"hot!").unwrap(), 2);
}

#[test]
fn long_separators_make_several_index_levels() {
    let entries: Vec<Owned> = (0..4000u32)
        .map(|at| {
            let mut key = vec![b'k'; 1000];
            key.extend_from_slice(&at.to_be_bytes());
            key[10..14].copy_from_slice(&(at / 2).to_be_bytes());
            Owned::put(&key, 1, &[at as u8; 3000])
        })
        .collect();
    let report = check_all(&entries, Compression::None);
    assert!(report.index_pages > 100, "{report:?}");
}

#[test]
fn a_hundred_thousand_small_entries_take_little_more_than_their_bytes() {
    let entries: Vec<Owned> = (0..100_000u64)
        .map(|at| Owned::put(&[&[0; 4], &at.wrapping_mul(3).to_be_bytes()[..]].concat(), at + 1, &[at as u8; 100]))
        .collect();
    let report = check_all(&entries, Compression::None);
    assert!(report.leaves * 4096 < 100_000 * 126, "{report:?}");
    let packed = check_all(&entries, Compression::Lz4);
    assert!(packed.bytes < report.bytes / 3, "{packed:?}");
}

#[test]
fn an_entry_larger_than_a_page_is_rejected() {
    let store = Store::new(Compression::None, 0);
    let mut builder = BranchBuilder::create(&store.context).unwrap();
    for (key, value) in [(KEY_BYTES_MAX + 5, 0), (1, 1 << 20)] {
        let refused = builder.add(Owned::put(&vec![1; key], 1, &vec![1; value]).borrow());
        assert!(matches!(refused, Err(Error::InvalidArgument(_))));
    }
}

#[test]
fn an_unfinished_builder_leaves_no_file() {
    let store = Store::new(Compression::None, 1 << 20);
    let mut builder = BranchBuilder::create(&store.context).unwrap();
    let name = file_name(builder.file());
    assert_eq!(parse_file_name(&name), Some(builder.file()));
    assert_eq!(store.disk.list().unwrap(), [name]);
    builder.add(Owned::put(b"k", 1, b"v").borrow()).unwrap();
    drop(builder);
    assert!(store.disk.list().unwrap().is_empty());
    let empty = BranchBuilder::create(&store.context).unwrap();
    assert!(empty.finish().is_err());
    assert!(store.disk.list().unwrap().is_empty());
}

#[test]
fn an_obsolete_branch_is_removable_when_its_last_reader_is_gone() {
    let store = Store::new(Compression::None, 1 << 20);
    let meta = store.write(&[Owned::put(b"k", 1, b"v")]);
    let branch = store.open(&meta);
    let cursor = branch.cursor(Purpose::Read);
    branch.mark_obsolete();
    drop(branch);
    assert!(store.context.take_obsolete_branches().is_empty());
    drop(cursor);
    assert_eq!(store.context.take_obsolete_branches(), [meta.file]);
    assert!(store.context.take_obsolete_branches().is_empty());
    drop(store.open(&meta));
    assert!(store.context.take_obsolete_branches().is_empty());
}

#[test]
fn names_of_other_files_are_not_branch_names() {
    for name in ["", "7.branch", "0000007.branch", "000007.branc", "000007.log", "-00007.branch", "+00007.branch"] {
        assert_eq!(parse_file_name(name), None, "{name}");
    }
    assert_eq!(parse_file_name("12345678.branch").map(|file| file.0), Some(12_345_678));
}
