//! Fences lead where index pages lead, and cursors go on when they are evicted.

use super::harness::*;
use crate::branch::branch::Branch;
use crate::branch::read::fences::{Fences, FencesBuilder, page_of};
use crate::branch::{BranchCursor, Compression, Purpose, Target, search_together};
use crate::format::manifest_edit::BranchMeta;
use crate::format::page::PageOwner;
use crate::format::sorted_page::ChildLocation;
use crate::merge::Cursor;
use crate::util::{DatabaseId, FileNumber, SequenceNumber, key};
use std::collections::BTreeSet;

fn bytes(random: &mut Random, shape: usize) -> Vec<u8> {
    match shape {
        0 => random.next().to_be_bytes().to_vec(),
        1 => (0..random.below(11)).map(|_| random.below(3) as u8).collect(),
        2 => [b"\0\0\0\x01a prefix of all".to_vec(), (random.below(900) as u32).to_be_bytes().to_vec()].concat(),
        // Longer than the bytes of a separator that the builder keeps.
        3 => [vec![7; 250 + random.below(20)], random.bytes(4)].concat(),
        _ => [vec![0xff; random.below(20)], random.bytes(3)].concat(),
    }
}

#[test]
fn fences_lead_to_the_leaf_of_the_last_separator_before_a_key() {
    for seed in 0..400 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let (shape, count) = (random.below(5), 1 + random.below(200));
        let separators: BTreeSet<Vec<u8>> = (0..count).map(|_| bytes(&mut random, shape)).collect();
        let separators: Vec<Vec<u8>> = separators.into_iter().collect();
        let mut builder = FencesBuilder::default();
        for (at, separator) in separators.iter().enumerate() {
            builder.add(separator, ChildLocation { page: at as u32 * 3, pages: 1 + at as u16 % 5, first_key: 0 });
        }
        let owner = PageOwner { database: DatabaseId(1), file: FileNumber(1) };
        let page = page_of(&builder, owner, 4096).unwrap();
        let fences = Fences::new(page.payload()).unwrap();
        let mut known = 0;
        for round in 0..400 {
            let mut key = if round % 2 == 0 {
                bytes(&mut random, shape)
            } else {
                separators[random.below(separators.len())].clone()
            };
            match random.below(4) {
                0 => key.push(random.next() as u8),
                1 => drop(key.pop()),
                2 => key.iter_mut().last().into_iter().for_each(|last| *last = last.wrapping_add(1)),
                _ => {}
            }
            let expected = separators.partition_point(|separator| *separator <= key).saturating_sub(1);
            let Some((at, location)) = fences.leaf_of(&key) else { continue };
            known += 1;
            assert_eq!(at, expected, "{key:?}");
            assert_eq!((location.page, location.pages), (at as u32 * 3, 1 + at as u16 % 5));
        }
        // The other shapes have many equal heads, about which fences know nothing.
        assert!(shape != 0 || known > 200, "only {known} keys are known");
        assert_eq!(fences.location(separators.len()), None);
    }
}

/// One or two entries a leaf, so that there are two levels of index pages. Some keys have versions in many leaves.
fn entries() -> Vec<Owned> {
    let mut random = Random(3);
    let mut entries = Vec::new();
    for at in 0..700u64 {
        let user_key = at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        for version in 0..if at % 50 == 0 { 20 } else { 1 } {
            let length = 1500 + random.below(3000);
            entries.push(Owned::put(&key::encoded(Default::default(), &user_key), 1 + version, &random.bytes(length)));
        }
    }
    in_order(entries)
}

fn has_fences(branch: &Branch) -> bool {
    branch.fences(&crossbeam_epoch::pin()).is_some()
}

fn search(cursor: &mut BranchCursor, entry: &Owned, backward: bool) {
    let target = Target { key: &entry.key, number: entry.number, backward };
    cursor.begin_search().unwrap();
    search_together(&mut [cursor], |cursor| Some(&mut **cursor), target).unwrap();
}

#[test]
fn builders_leave_fences_and_searches_make_them() {
    let (store, entries) = (Store::new(Compression::None, 64 << 20), entries());
    let meta = store.write(&entries);
    let branch = store.open(&meta);
    assert!(has_fences(&branch));
    let hits = || store.context.cache.statistics().hits;
    let before = hits();
    let mut out = Vec::new();
    let mut pages = crate::branch::BlockingPages::new();
    // A key with versions in several leaves is its own separator.
    let single = entries.windows(3).find(|three| three[0].key != three[1].key && three[1].key != three[2].key);
    let entry = &single.unwrap()[1];
    branch.get_unfiltered(&entry.key, entry.number, &mut pages, &mut out).unwrap().unwrap();
    assert_eq!((hits() - before, &out), (2, &entry.value), "fences and leaf, no index page");

    let store = store.reopened(64 << 20);
    let branch = store.open(&meta);
    let footer = *branch.footer().unwrap();
    assert!(footer.height >= 2, "{footer:?}");
    let mut searches = 0;
    while !has_fences(&branch) {
        let entry = &entries[searches * 7 % entries.len()];
        let mut pages = crate::branch::BlockingPages::new();
        branch.get_unfiltered(&entry.key, entry.number, &mut pages, &mut Vec::new()).unwrap().unwrap();
        searches += 1;
        assert!(searches as u64 <= footer.leaves / 16 + 1);
    }
    assert!(searches as u64 > footer.leaves / 16, "after {searches} searches");

    // A cache whose shards are smaller than the fences does without them, and stops to make them.
    let store = store.reopened(12_000);
    let branch = store.open(&meta);
    for entry in &entries {
        assert_eq!(get(&branch, &entry.key, entry.number).unwrap().unwrap().2, entry.value);
    }
    assert!(!has_fences(&branch));
}

#[test]
fn cursors_agree_with_the_list_with_and_without_fences() {
    let (written, entries) = (Store::new(Compression::None, 64 << 20), entries());
    let meta: BranchMeta = written.write(&entries);
    for (store, drops) in
        [(&written, false), (&written, true), (&written.reopened(64 << 20), true), (&written.reopened(0), false)]
    {
        let branch = store.open(&meta);
        let mut random = Random(7);
        let mut cursor = branch.cursor(Purpose::Read);
        for round in 0..300 {
            let (mut at, backward) = (random.below(entries.len()), random.below(2) == 0);
            search(&mut cursor, &entries[at], backward);
            assert_eq!(cursor.entry(), entries[at].borrow(), "round {round}");
            for _ in 0..random.below(8) {
                if drops && random.below(10) == 0 {
                    store.context.cache.remove_file(meta.file);
                }
                if random.below(2) == 0 && at + 1 < entries.len() {
                    at += 1;
                    cursor.next().unwrap();
                } else if at > 0 {
                    at -= 1;
                    cursor.prev().unwrap();
                }
                assert_eq!(cursor.entry(), entries[at].borrow(), "round {round}");
            }
        }
        search(&mut cursor, &entries[entries.len() - 1], false);
        cursor.next().unwrap();
        assert!(!cursor.valid());
        search(&mut cursor, &entries[0], true);
        cursor.prev().unwrap();
        assert!(!cursor.valid());
        // Between the entries and past them.
        for at in [0, 1, 2, entries.len() / 2] {
            let mut entry = entries[at].clone();
            entry.number = SequenceNumber::ZERO;
            search(&mut cursor, &entry, false);
            let expected = expected_seek(&entries, &entry.key, SequenceNumber::ZERO);
            assert_position(&cursor, &entries, expected, "after the versions of a key");
        }
    }
}

#[test]
fn too_many_leaves_have_no_fences() {
    let owner = PageOwner { database: DatabaseId(1), file: FileNumber(1) };
    let mut builder = FencesBuilder::default();
    let mut largest = 0;
    for at in 0..70_000u32 {
        builder.add(&[&[9; 240][..], &at.to_be_bytes()].concat(), ChildLocation { page: at, pages: 1, first_key: 0 });
        if at % 1000 == 999 && page_of(&builder, owner, 4096).is_some() {
            largest = at + 1;
        }
    }
    assert_eq!(largest, 61_000, "1 MiB has room for more, or a page was too large");
}
