//! Tests of the page cache and the file table.

use super::clock::Clock;
use super::page::PageKind;
use super::{CacheMemory, FileTable, Page, PageBuffer, PageCache, PageTable};
use crate::format::page::PAGE_HEADER_BYTES;
use crate::io::{AlignedBuffer, OpenMode, PosixStorage, Storage};
use crate::util::FileNumber;
use crate::util::random::splitmix64 as random;
use crate::util::sync::Arc;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::RandomState;
use std::time::{Duration, Instant};

/// A leaf with `bytes` bytes of memory that contains its file and number.
fn page(file: u64, number: u32, bytes: usize) -> Page {
    let mut contents = vec![0; bytes.max(PAGE_HEADER_BYTES + 16)];
    let payload_bytes = (contents.len() - PAGE_HEADER_BYTES) as u32;
    contents[12..16].copy_from_slice(&payload_bytes.to_le_bytes());
    contents[PAGE_HEADER_BYTES..][..8].copy_from_slice(&file.to_le_bytes());
    contents[PAGE_HEADER_BYTES + 8..][..8].copy_from_slice(&u64::from(number).to_le_bytes());
    Arc::new(PageBuffer::copied(&[&contents]))
}

fn says(payload: &[u8], file: u64, number: u32) -> bool {
    payload[..8] == file.to_le_bytes() && payload[8..16] == u64::from(number).to_le_bytes()
}

/// A cache and the tables of some files in it.
struct Rig {
    cache: PageCache,
    tables: Vec<Arc<PageTable>>,
}

impl Rig {
    fn new(bytes: usize, files: u64) -> Self {
        let cache = PageCache::new(bytes);
        let tables = (0..files).map(|file| cache.table(FileNumber(file))).collect();
        Self { cache, tables }
    }

    fn insert(&self, file: u64, number: u32, bytes: usize, kind: PageKind) {
        self.cache.insert_missed(&self.tables[file as usize], number, page(file, number, bytes), kind);
    }

    /// Whether a page is cached. It must be the right one.
    fn has(&self, file: u64, number: u32, kind: PageKind) -> bool {
        let guard = crossbeam_epoch::pin();
        match self.cache.get(&self.tables[file as usize], number, kind, &guard) {
            Ok(Some(found)) => {
                assert!(says(found.payload(), file, number), "another page under {file}, {number}");
                true
            }
            Ok(None) => false,
            Err(other) => panic!("kind {other} under {file}, {number}"),
        }
    }

    /// Reads, as any reader does, until at most `bytes` bytes wait for a grace period. Other tests of the process pin
    /// the same epoch, so it may take a moment.
    fn wait_for_grace(&self, bytes: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.cache.retired_bytes() > bytes {
            assert!(!self.has(1, u32::MAX, PageKind::Leaf));
            assert!(Instant::now() < deadline, "{} bytes are still retired", self.cache.retired_bytes());
        }
    }

    /// Removes a file. Its table is a new one from then on, as a file number is never reused.
    fn remove_file(&mut self, file: u64) {
        self.cache.remove_file(FileNumber(file));
        self.tables[file as usize] = self.cache.table(FileNumber(file));
    }
}

#[test]
fn a_buffer_becomes_a_page_without_a_copy() {
    let copy = PageBuffer::copied(&[b"ab", b"", b"cde"]);
    assert_eq!((&copy[..], copy.memory_bytes()), (&b"abcde"[..], 4096));
    let aligned = AlignedBuffer::new(4096);
    let at = aligned.as_ptr();
    let page = PageBuffer::from(aligned);
    assert_eq!((page.as_ptr(), page.len(), page.memory_bytes()), (at, 4096, 4096));
}

/// About the bytes by which the newest chunk of a table may exceed the budget until the next page is inserted.
const CHUNK_BYTES: usize = 64 << 10;

#[test]
fn the_budget_holds_and_pages_are_never_mixed_up() {
    for (seed, budget) in [(1, 1 << 20), (2, 3 << 20), (3, 8 << 20), (4, 0)] {
        println!("seed {seed} budget {budget}");
        let mut state = seed;
        let mut rig = Rig::new(budget, 20);
        let mut hits = 0;
        for _ in 0..20_000 {
            let file = random(&mut state) % 20;
            // Numbers determine kinds, and reach far into the doubling directories.
            let number = (random(&mut state) % 50 * 31) as u32;
            let kind = if number.is_multiple_of(4) { PageKind::Index } else { PageKind::Leaf };
            if rig.has(file, number, kind) {
                hits += 1;
            } else {
                rig.insert(file, number, 16 + (random(&mut state) % 20_000) as usize, kind);
            }
            if random(&mut state).is_multiple_of(1000) {
                rig.remove_file(file);
                assert!((0..50).all(|at| !rig.has(file, at * 31, PageKind::Leaf)));
            }
            assert!(rig.cache.bytes_used() <= budget + CHUNK_BYTES);
            let cached = rig.cache.statistics();
            let pages = rig.cache.memory().page_bytes() as u64;
            assert_eq!((cached.leaf_bytes + cached.index_bytes, cached.filter_bytes), (pages, 0));
        }
        let statistics = rig.cache.statistics();
        assert_eq!(statistics.leaf_bytes > 0 && statistics.index_bytes > 0, budget > 0);
        assert_eq!((statistics.hits, statistics.misses), (hits, 20_000 - hits));
        assert_eq!(hits > 0, budget > 0);
        (0..20).for_each(|file| rig.remove_file(file));
        assert_eq!(rig.cache.bytes_used(), 0, "counted bytes were not subtracted again");
        let emptied = rig.cache.statistics();
        assert_eq!((emptied.leaf_bytes, emptied.index_bytes), (0, 0));
    }
}

#[test]
fn a_page_of_another_kind_is_an_error() {
    let rig = Rig::new(1 << 20, 1);
    rig.insert(0, 5, 4096, PageKind::Filter);
    let guard = crossbeam_epoch::pin();
    assert_eq!(rig.cache.get(&rig.tables[0], 5, PageKind::Leaf, &guard).err(), Some(PageKind::Filter as u8));
    assert!(rig.has(0, 5, PageKind::Filter));
}

#[test]
#[should_panic(expected = "shorter than its header says")]
fn a_page_shorter_than_its_header_says_is_rejected() {
    let rig = Rig::new(1 << 20, 1);
    let mut bytes = [0; 100];
    bytes[12] = 200;
    rig.cache.insert(&rig.tables[0], 0, Arc::new(PageBuffer::copied(&[&bytes])), PageKind::Leaf);
}

#[test]
fn a_page_larger_than_a_shard_is_not_cached_and_evicts_nothing() {
    let rig = Rig::new(1 << 20, 3);
    rig.insert(1, 0, 4096, PageKind::Leaf);
    rig.insert(2, 0, 2 << 20, PageKind::Index);
    assert!(rig.has(1, 0, PageKind::Leaf) && !rig.has(2, 0, PageKind::Index));
}

#[test]
fn pages_in_use_outlive_their_eviction() {
    let rig = Rig::new(64 << 10, 3);
    rig.insert(1, 0, 4096, PageKind::Leaf);
    let guard = crossbeam_epoch::pin();
    let seen = rig.cache.get(&rig.tables[1], 0, PageKind::Leaf, &guard).unwrap().unwrap();
    let held = rig.tables[1].pin(0, &guard).unwrap();
    let other = std::thread::scope(|scope| {
        // Another thread evicts the page and tries hard to free it.
        let busy = scope.spawn(|| {
            for number in 0..2000 {
                rig.insert(2, number, 4096, PageKind::Leaf);
                crossbeam_epoch::pin().flush();
            }
            rig.has(1, 0, PageKind::Leaf)
        });
        busy.join().unwrap()
    });
    assert!(!other && rig.tables[1].pin(0, &guard).is_none());
    assert!(says(seen.payload(), 1, 0), "a page was freed while a reader had its epoch pinned");
    drop(guard);
    (0..1000).for_each(|_| crossbeam_epoch::pin().flush());
    assert!(says(held.payload(), 1, 0) && rig.cache.statistics().evictions > 900);
}

#[test]
fn a_stalled_reader_retains_bounded_memory() {
    let rig = Rig::new(1 << 20, 1);
    let guard = crossbeam_epoch::pin();
    (0..10_000).for_each(|number| rig.insert(0, number, 4096, PageKind::Leaf));
    let evictions = rig.cache.statistics().evictions;
    assert!((900..1500).contains(&evictions), "{evictions} evicted pages wait to be freed");
    drop(guard);
}

#[test]
fn a_scan_evicts_neither_index_pages_nor_leaves_in_use() {
    let rig = Rig::new(1 << 20, 4);
    for number in 0..20 {
        rig.insert(1, number, 4096, PageKind::Index);
        rig.insert(2, number, 4096, PageKind::Leaf);
    }
    for number in 0..2000 {
        if number % 50 == 0 {
            assert!((0..20).all(|hot| rig.has(2, hot, PageKind::Leaf)), "a leaf in use was evicted at {number}");
        }
        rig.insert(3, number, 4096, PageKind::Leaf);
    }
    // The index pages had no hits since then. After four rounds of about 200 pages they are still cached.
    let rig = Rig::new(1 << 20, 4);
    (0..20).for_each(|number| rig.insert(1, number, 4096, PageKind::Index));
    (0..800).for_each(|number| rig.insert(3, number, 4096, PageKind::Leaf));
    assert!((0..20).all(|number| rig.has(1, number, PageKind::Index)));
}

#[test]
fn there_is_space_until_about_the_budget() {
    let mut rig = Rig::new(8 << 20, 2);
    let mut inserted = 0;
    while rig.cache.has_space() {
        rig.insert(1, inserted, 4096, PageKind::Leaf);
        inserted += 1;
    }
    assert!((1700..2000).contains(&inserted), "{inserted} pages");
    rig.remove_file(1);
    assert!(rig.cache.has_space());
    assert!(!PageCache::new(0).has_space());
}

/// Regression test: tables once grew with the store. A get of each of many files allocated the largest chunk of its
/// table, and in time a small cache of a large store would have contained nothing but tables.
#[test]
fn tables_stay_small_compared_with_the_cached_pages() {
    const FILES: u64 = 3000;
    let rig = Rig::new(4 << 20, FILES);
    for round in 0..3 {
        for file in 0..FILES {
            // Otherwise new pages are rejected (another test may stall on purpose).
            rig.wait_for_grace(1 << 20);
            // The page number of the filter in a file of eight megabytes.
            rig.insert(file, 2000 + round, 4096, PageKind::Filter);
            assert!(rig.has(file, 2000 + round, PageKind::Filter), "a page did not fit in file {file}");
        }
    }
    let cached = (0..FILES).filter(|file| rig.has(*file, 2002, PageKind::Filter)).count();
    assert!(cached > 400, "only {cached} pages are left");
    assert!(rig.cache.bytes_used() <= (4 << 20) + CHUNK_BYTES, "{} bytes", rig.cache.bytes_used());
}

#[test]
fn removed_files_leave_no_ring_entries() {
    // A store that compacts with free space in its cache never evicts, so only the removal of dead entries keeps the
    // rings short.
    let mut rig = Rig::new(32 << 20, 1);
    for _ in 0..300 {
        (0..100).for_each(|number| rig.insert(0, number, 4096, PageKind::Leaf));
        rig.remove_file(0);
    }
    assert!(rig.cache.ring_entries() <= 64 * 32 + 100, "{} entries", rig.cache.ring_entries());
}

/// Regression test: a load of five million pairs once left the cache rejecting all pages. A worker had removed large
/// files and gone to sleep with their pages in its own bag of deferred work.
#[test]
fn a_sleeping_thread_does_not_keep_its_retired_pages() {
    let rig = Rig::new(64 << 20, 2);
    (0..8000).for_each(|number| rig.insert(0, number, 4096, PageKind::Leaf));
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (sleep, wake) = std::sync::mpsc::channel::<()>();
        let cache = &rig.cache;
        scope.spawn(move || {
            cache.remove_file(FileNumber(0));
            done.send(()).unwrap();
            let _ = wake.recv();
        });
        wait.recv().unwrap();
        rig.wait_for_grace(0);
        rig.insert(1, 0, 4096, PageKind::Leaf);
        drop(sleep);
    });
    assert!(rig.has(1, 0, PageKind::Leaf));
}

#[test]
fn threads_share_the_cache() {
    const FILES: u64 = 10;
    let cache = PageCache::new(2 << 20);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                let mut state = seed;
                for _ in 0..20_000 {
                    let (file, number) = (random(&mut state) % FILES, (random(&mut state) % 100) as u32);
                    let table = cache.table(FileNumber(file));
                    let guard = crossbeam_epoch::pin();
                    let found = cache.get(&table, number, PageKind::Leaf, &guard).unwrap();
                    match found {
                        Some(found) => assert!(says(found.payload(), file, number)),
                        None => cache.insert(&table, number, page(file, number, 4096), PageKind::Leaf),
                    }
                    let held = table.pin(number, &guard);
                    drop(guard);
                    assert!(held.is_none_or(|page| says(page.payload(), file, number)));
                    // A branch is dropped by its last reader. Here files are removed while they are read, which must be
                    // safe too.
                    if random(&mut state).is_multiple_of(2000) {
                        cache.remove_file(FileNumber(file));
                    }
                }
            });
        }
    });
    assert!(cache.bytes_used() <= 2 << 20);
}

/// The clock against a map that never evicts: its values are right, and it loses only the entries that it evicts.
#[test]
fn the_clock_loses_only_what_it_evicts() {
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
                2..6 => {
                    if let Entry::Vacant(vacant) = model.entry(key) {
                        clock.insert(key, value, (value % 5) as u8, 8);
                        vacant.insert(value);
                    }
                }
                _ => assert_eq!(clock.hit(&key), model.get(&key)),
            }
            assert_eq!(clock.len(), model.len());
        }
    }
}

#[test]
fn an_eviction_among_entries_with_credit_takes_the_lowest() {
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
    let again = table.get(FileNumber(0), || unreachable!("the file is open")).unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    table.close(FileNumber(0));
    table.close(FileNumber(0));
    assert!(!Arc::ptr_eq(&first, &table.get(FileNumber(0), || "0".into()).unwrap()));
    assert!(table.get(FileNumber(9), || "9".into()).is_err());
}

/// Merges and checks read from the device, whatever users read through.
#[test]
fn a_direct_handle_is_the_users_one_unless_that_reads_through_the_page_cache() {
    let (_directory, storage) = storage_with_files(1);
    let name = || "0".to_owned();
    let table = FileTable::new(Arc::clone(&storage), 4);
    let file = table.get(FileNumber(0), name).unwrap();
    assert!(!file.reads_through_page_cache());
    assert!(Arc::ptr_eq(&file, &table.get_direct(FileNumber(0), name).unwrap()));
    let table = FileTable::with_mode(storage, 4, OpenMode::ReadCached);
    let file = table.get(FileNumber(0), name).unwrap();
    assert!(file.reads_through_page_cache());
    assert!(!table.get_direct(FileNumber(0), name).unwrap().reads_through_page_cache());
    assert!(Arc::ptr_eq(&file, &table.get(FileNumber(0), name).unwrap()));
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
                assert!(number < 5 || handles[3].strong_count() > 0, "a file in use was closed at {number}");
                table.get(FileNumber(3), || "3".into()).map(drop).unwrap();
            }
        }
    }
}

/// Two stores have files with the same numbers. They share one budget, and what one leaves behind is the other's at once.
#[test]
fn caches_in_one_memory_share_its_budget_and_nothing_else() {
    const BUDGET: usize = 4 << 20;
    let memory = CacheMemory::new(BUDGET);
    let mut rigs: Vec<Rig> = (0..2)
        .map(|_| {
            let cache = PageCache::in_memory(&memory);
            let tables = (0..4).map(|file| cache.table(FileNumber(file))).collect();
            Rig { cache, tables }
        })
        .collect();
    // The second store's pages are in files with numbers from 100 on, as `says` checks.
    rigs[1].tables = (100..104).map(|file| rigs[1].cache.table(FileNumber(file))).collect();
    let stored = |rig: &Rig, first: u64| {
        (0..4)
            .flat_map(|file| (0..200).map(move |number| (file, number)))
            .filter(|(file, number)| {
                let guard = crossbeam_epoch::pin();
                let found = rig.cache.get(&rig.tables[*file as usize], *number, PageKind::Leaf, &guard).unwrap();
                found.inspect(|page| assert!(says(page.payload(), first + file, *number))).is_some()
            })
            .count()
    };
    for number in 0..200 {
        for file in 0..4 {
            for (rig, first) in rigs.iter().zip([0, 100]) {
                let page = page(first + file, number, 4096);
                rig.cache.insert(&rig.tables[file as usize], number, page, PageKind::Leaf);
            }
        }
    }
    assert!(memory.bytes_used() <= BUDGET + CHUNK_BYTES, "{}", memory.bytes_used());
    let (first, second) = (stored(&rigs[0], 0), stored(&rigs[1], 100));
    assert!(first > 200 && second > 200, "{first} and {second}");
    // The statistics are each store's own.
    assert_eq!(rigs[0].cache.statistics().hits as usize, first);
    drop(rigs.remove(0));
    assert_eq!(memory.bytes_used(), rigs[0].cache.bytes_used());
    assert_eq!(stored(&rigs[0], 100), second);
    for file in 0..4u64 {
        rigs[0].cache.remove_file(FileNumber(100 + file));
    }
    assert_eq!(memory.bytes_used(), 0, "counted bytes were not subtracted again");
}
