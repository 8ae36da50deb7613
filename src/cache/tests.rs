//! Tests of the page cache and the file table.

use super::clock::Clock;
use super::{FileTable, Page, PageBuffer, PageCache, PageKey, Priority};
use crate::base::FileNumber;
use crate::base::random::splitmix64 as random;
use crate::base::sync::Arc;
use crate::io::{AlignedBuffer, OpenMode, PosixStorage, Storage};
use std::collections::HashMap;
use std::hash::RandomState;

fn key(file: u64, offset: u64) -> PageKey {
    PageKey { file: FileNumber(file), offset }
}

/// A page that says which it is.
fn page(key: PageKey, bytes: usize) -> Page {
    let mut contents = vec![0; bytes];
    contents[..8].copy_from_slice(&key.file.0.to_le_bytes());
    contents[8..16].copy_from_slice(&key.offset.to_le_bytes());
    Arc::new(PageBuffer::copied(&[&contents]))
}

#[test]
fn a_buffer_becomes_a_page_without_a_copy() {
    let copy = PageBuffer::copied(&[b"ab", b"", b"cde"]);
    assert_eq!((&copy[..], copy.bytes_held()), (&b"abcde"[..], 4096));
    let aligned = AlignedBuffer::new(4096);
    let at = aligned.as_ptr();
    let page = PageBuffer::from(aligned);
    assert_eq!((page.as_ptr(), page.len(), page.bytes_held()), (at, 4096, 4096));
}

#[test]
fn the_budget_holds_and_pages_are_never_mixed_up() {
    for (seed, budget) in [(1, 300_000), (2, 1 << 20), (3, 5 << 20), (4, 0)] {
        println!("seed {seed} budget {budget}");
        let mut state = seed;
        let cache = PageCache::new(budget);
        let mut hits = 0;
        for _ in 0..20_000 {
            let key = key(random(&mut state) % 20, random(&mut state) % 50 * 4096);
            match cache.get(key) {
                Some(found) => {
                    hits += 1;
                    assert_eq!(found[..8], key.file.0.to_le_bytes());
                    assert_eq!(found[8..16], key.offset.to_le_bytes());
                }
                None => {
                    let priority = if random(&mut state).is_multiple_of(4) { Priority::High } else { Priority::Low };
                    cache.insert(key, page(key, 16 + (random(&mut state) % 20_000) as usize), priority);
                }
            }
            if random(&mut state).is_multiple_of(1000) {
                cache.remove_file(key.file);
                assert!((0..50).all(|offset| cache.get(PageKey { offset: offset * 4096, ..key }).is_none()));
            }
            assert!(cache.bytes_used() <= budget);
        }
        let statistics = cache.statistics();
        assert!(statistics.hits == hits && statistics.misses >= 20_000 - hits);
        assert_eq!(statistics.hits > 0, budget > 0);
        (0..20).for_each(|file| cache.remove_file(FileNumber(file)));
        assert_eq!(cache.bytes_used(), 0, "what was counted in is counted out");
    }
}

#[test]
fn a_page_larger_than_a_shard_is_not_kept_and_drives_nothing_out() {
    let cache = PageCache::new(1 << 20);
    cache.insert(key(1, 0), page(key(1, 0), 4096), Priority::Low);
    cache.insert(key(2, 0), page(key(2, 0), 2 << 20), Priority::High);
    assert!(cache.get(key(1, 0)).is_some() && cache.get(key(2, 0)).is_none());
}

#[test]
fn a_pinned_page_outlives_its_eviction() {
    let cache = PageCache::new(64 << 10);
    cache.insert(key(1, 0), page(key(1, 0), 4096), Priority::Low);
    let pinned = cache.get(key(1, 0)).unwrap();
    for offset in 0..100 {
        cache.insert(key(2, offset), page(key(2, offset), 4096), Priority::Low);
    }
    assert!(cache.get(key(1, 0)).is_none());
    assert_eq!(pinned[..8], 1_u64.to_le_bytes());
    assert!(cache.statistics().evictions > 80);
}

#[test]
fn a_scan_drives_out_neither_index_pages_nor_leaves_in_use() {
    let cache = PageCache::new(1 << 20);
    let index: Vec<_> = (0..20).map(|offset| key(1, offset)).collect();
    let hot: Vec<_> = (0..20).map(|offset| key(2, offset)).collect();
    for (&index, &hot) in index.iter().zip(&hot) {
        cache.insert(index, page(index, 4096), Priority::High);
        cache.insert(hot, page(hot, 4096), Priority::Low);
    }
    for offset in 0..2000 {
        if offset % 50 == 0 {
            assert!(hot.iter().all(|&key| cache.get(key).is_some()), "a leaf in use went at {offset}");
        }
        cache.insert(key(3, offset), page(key(3, offset), 4096), Priority::Low);
    }
    // Nobody asked for the index pages since; in four rounds of about 200 pages they are still there.
    let cache = PageCache::new(1 << 20);
    for &index in &index {
        cache.insert(index, page(index, 4096), Priority::High);
    }
    for offset in 0..800 {
        let scanned = key(3, offset);
        cache.insert(scanned, page(scanned, 4096), Priority::Low);
    }
    assert!(index.iter().all(|&key| cache.get(key).is_some()));
}

#[test]
fn room_is_there_until_about_the_budget() {
    let cache = PageCache::new(8 << 20);
    let mut inserted = 0;
    while cache.has_room() {
        cache.insert(key(1, inserted), page(key(1, inserted), 4096), Priority::Low);
        inserted += 1;
    }
    assert!((1500..2000).contains(&inserted), "{inserted} pages");
    cache.remove_file(FileNumber(1));
    assert!(cache.has_room());
    assert!(!PageCache::new(0).has_room());
}

#[test]
fn threads_share_the_cache() {
    let cache = Arc::new(PageCache::new(2 << 20));
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let cache = Arc::clone(&cache);
            std::thread::spawn(move || {
                let mut state = seed;
                for _ in 0..20_000 {
                    let key = key(random(&mut state) % 10, random(&mut state) % 100);
                    match cache.get(key) {
                        Some(page) => assert_eq!(page[8..16], key.offset.to_le_bytes()),
                        None => cache.insert(key, page(key, 4096), Priority::Low),
                    }
                    if random(&mut state).is_multiple_of(2000) {
                        cache.remove_file(key.file);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(cache.bytes_used() <= 2 << 20);
    (0..10).for_each(|file| cache.remove_file(FileNumber(file)));
    assert_eq!(cache.bytes_used(), 0);
}

/// The clock against a map that never forgets: what it holds is right, and it loses only what it gives up.
#[test]
fn the_clock_loses_nothing_by_itself() {
    for seed in 0..50 {
        println!("seed {seed}");
        let mut state = seed;
        let mut clock: Clock<u64, u64, RandomState> = Clock::default();
        let mut model = HashMap::new();
        for value in 0..2000 {
            let key = random(&mut state) % 300;
            match random(&mut state) % 8 {
                0 => assert_eq!(clock.remove(&key), model.remove(&key)),
                1 => match clock.evict() {
                    Some((key, value)) => assert_eq!(model.remove(&key), Some(value)),
                    None => assert!(model.is_empty()),
                },
                2 if random(&mut state).is_multiple_of(20) => {
                    let mut removed = Vec::new();
                    clock.remove_where(|key| key % 7 == 0, &mut removed);
                    let mut expected: Vec<_> =
                        model.extract_if(|key, _| key % 7 == 0).map(|(_, value)| value).collect();
                    removed.sort_unstable();
                    expected.sort_unstable();
                    assert_eq!(removed, expected);
                }
                3..6 => {
                    if !clock.contains(&key) {
                        clock.insert(key, value, (value % 5) as u8, 8);
                        assert_eq!(model.insert(key, value), None);
                    }
                }
                _ => assert_eq!(clock.hit(&key), model.get(&key)),
            }
            assert_eq!(clock.len(), model.len());
        }
    }
}

#[test]
fn an_eviction_among_rich_entries_ends_and_takes_the_poorest() {
    let mut clock: Clock<u64, (), RandomState> = Clock::default();
    for key in 0..100_000 {
        clock.insert(key, (), if key == 77 { 100 } else { 200 }, 255);
    }
    assert_eq!(clock.evict(), Some((77, ())));
    assert!(clock.evict().is_some());
}

fn storage_with_files(count: u64) -> (tempfile::TempDir, Arc<dyn Storage>) {
    let directory = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(PosixStorage::new(directory.path()));
    for number in 0..count {
        storage.open(&format!("{number}"), OpenMode::Create).unwrap();
    }
    (directory, storage)
}

#[test]
fn a_file_is_opened_once_while_it_is_in_the_table() {
    let (_directory, storage) = storage_with_files(1);
    let table = FileTable::new(storage, 4);
    let first = table.get(FileNumber(0), || "0".into()).unwrap();
    let again = table.get(FileNumber(0), || unreachable!("it is open")).unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    table.forget(FileNumber(0));
    table.forget(FileNumber(0));
    assert!(!Arc::ptr_eq(&first, &table.get(FileNumber(0), || "0".into()).unwrap()));
    assert!(table.get(FileNumber(9), || "9".into()).is_err());
}

#[test]
fn open_files_are_bounded_and_those_in_use_stay() {
    for open_max in [1, 10, 200] {
        let (_directory, storage) = storage_with_files(400);
        let table = FileTable::new(storage, open_max);
        let mut handles = Vec::new();
        for number in 0..400 {
            let file = table.get(FileNumber(number), || format!("{number}")).unwrap();
            handles.push(Arc::downgrade(&file));
            drop(file);
            let open = handles.iter().filter(|handle| handle.strong_count() > 0).count();
            assert!(open <= open_max, "{open} files are open, {open_max} allowed");
            if open_max >= 10 {
                assert!(number < 5 || handles[3].strong_count() > 0, "a file in use was given up at {number}");
                table.get(FileNumber(3), || "3".into()).map(drop).unwrap();
            }
        }
    }
}
