//! Reading ahead affects only speed: cursors agree with a list in every direction, whatever reads fail.

use super::harness::*;
use crate::branch::extent_memory::{AHEAD_MAX, EXTENT_BYTES, EXTENT_BYTES_MIN, ExtentMemory};
use crate::branch::read::page_read::WantedPage;
use crate::branch::scan::extent_reader::ExtentReader;
use crate::branch::{
    Branch, BranchBuilder, BranchContext, BranchCursor, BranchResources, Compression, Purpose, Target, search_together,
};
use crate::cache::PageCache;
use crate::format::manifest_edit::BranchMeta;
use crate::format::sorted_page::ChildLocation;
use crate::io::simulated::Operation;
use crate::io::{PosixStorage, Storage};
use crate::merge::Cursor;
use crate::util::sync::Arc;
use crate::util::{DatabaseId, Result, SequenceNumber};

/// About four mebibytes: several of the largest extents.
fn entries() -> Vec<Owned> {
    let mut random = Random(3);
    (0..4000u32)
        .map(|at| {
            let length = 500 + random.below(1000);
            Owned::put(&at.to_be_bytes(), u64::from(at) + 1, &random.bytes(length))
        })
        .collect()
}

/// A new reader over the disk, with an empty cache.
fn opened(store: &Store, meta: &BranchMeta) -> (Store, Arc<Branch>) {
    let store = store.reopened(0);
    let branch = store.open(meta);
    (store, branch)
}

fn reads(store: &Store) -> u64 {
    store.disk.operation_count(Operation::Read)
}

/// Steps forward, or backward, over `count` entries, starting with entry `at`.
fn step_many(cursor: &mut BranchCursor, entries: &[Owned], at: &mut usize, count: usize, forward: bool) -> Result<()> {
    for _ in 0..count {
        if forward {
            cursor.next()?
        } else {
            cursor.prev()?
        }
        *at = if forward { *at + 1 } else { *at - 1 };
        assert_eq!(cursor.entry(), entries[*at].borrow());
    }
    Ok(())
}

#[test]
fn whole_passes_both_ways_agree_with_the_list() {
    let entries = entries();
    for compression in [Compression::None, Compression::Lz4] {
        let store = Store::new(compression, 0);
        let meta = store.write(&entries);
        for purpose in [Purpose::Read, Purpose::Compaction] {
            for forward in [true, false] {
                let (_store, branch) = opened(&store, &meta);
                let mut cursor = branch.cursor(purpose);
                let mut at = if forward { 0 } else { entries.len() - 1 };
                if forward {
                    cursor.seek_first().unwrap()
                } else {
                    cursor.seek_last().unwrap()
                }
                assert_eq!(cursor.entry(), entries[at].borrow());
                step_many(&mut cursor, &entries, &mut at, entries.len() - 1, forward).unwrap();
                if forward {
                    cursor.next().unwrap()
                } else {
                    cursor.prev().unwrap()
                }
                assert!(!cursor.valid());
            }
        }
    }
}

#[test]
fn turning_around_anywhere_agrees_with_the_list() {
    let entries = entries();
    let store = Store::new(Compression::Lz4, 0);
    let meta = store.write(&entries);
    let mut random = Random(5);
    for purpose in [Purpose::Read, Purpose::Compaction] {
        for round in 0..20 {
            let (store, branch) = opened(&store, &meta);
            if round % 2 == 1 {
                // About every fifth read fails once. What should have been read ahead is then read when it is needed.
                for nth in 0..40 {
                    let nth = 20 + nth * 5 + random.below(3) as u64;
                    store.disk.inject(&format!("(read nth={nth}) -> etimedout"));
                }
            }
            let mut cursor = branch.cursor(purpose);
            let mut at = random.below(entries.len());
            for _ in 0..30 {
                if random.below(4) == 0 || !cursor.valid() {
                    at = random.below(entries.len());
                    if round % 4 >= 2 {
                        cursor.expect_bytes(random.below(100_000));
                    }
                    let backward = random.below(2) == 0;
                    let number = if backward { SequenceNumber::ZERO } else { SequenceNumber::MAX };
                    let target = Target { key: &entries[at].key, number, backward };
                    let sought = if round % 8 >= 4 {
                        cursor
                            .begin_search()
                            .and_then(|()| search_together(&mut [&mut cursor], |cursor| Some(&mut **cursor), target))
                            .map(|_| ())
                    } else if target.backward {
                        cursor.seek_for_prev(target.key, target.number)
                    } else {
                        cursor.seek(target.key, target.number)
                    };
                    if sought.is_err() {
                        continue;
                    }
                    assert_eq!(cursor.entry(), entries[at].borrow());
                }
                let forward = random.below(2) == 0;
                let room = if forward { entries.len() - 1 - at } else { at };
                let most = if random.below(3) == 0 { 2000 } else { 200 };
                let count = random.below(most).min(room);
                let walked = step_many(&mut cursor, &entries, &mut at, count, forward);
                assert!(walked.is_ok() || round % 2 == 1);
                assert_eq!(walked.is_ok(), cursor.valid());
            }
            store.disk.clear_faults();
        }
    }
}

/// The leaves of a branch, in order.
fn leaves(branch: &Arc<Branch>) -> Vec<WantedPage> {
    let mut cursor = branch.cursor(Purpose::Compaction);
    let mut leaves: Vec<ChildLocation> = Vec::new();
    cursor.seek_first().unwrap();
    while cursor.valid() {
        let leaf = cursor.leaf_location().unwrap();
        if leaves.last().is_none_or(|last| last.offset() != leaf.offset()) {
            leaves.push(leaf);
        }
        cursor.next().unwrap();
    }
    leaves.into_iter().map(|leaf| WantedPage::child(leaf, 0)).collect()
}

/// The disk fails, for good or once, starting when the cursor reaches a given leaf.
#[test]
fn a_read_ahead_error_is_reported_only_when_its_leaf_is_needed() {
    let entries = entries();
    let store = Store::new(Compression::None, 0);
    let meta = store.write(&entries);
    for (purpose, backward) in
        [(Purpose::Read, false), (Purpose::Read, true), (Purpose::Compaction, false), (Purpose::Compaction, true)]
    {
        let (store, branch) = opened(&store, &meta);
        let mut order = leaves(&branch);
        if backward {
            order.reverse();
        }
        // The leaves at which the disk is read if there are no faults: there, the next extent is started.
        let mut reader = ExtentReader::new(Arc::clone(&branch), purpose);
        let mut turns = Vec::new();
        for (at, leaf) in order.iter().enumerate() {
            let before = reads(&store);
            let place = reader.page(*leaf, backward).unwrap();
            branch.check_page(reader.bytes(place), *leaf).unwrap();
            if reads(&store) > before {
                turns.push(at);
            }
        }
        let extents = (branch.footer().unwrap().fingerprints_at / EXTENT_BYTES as u64) as usize;
        assert!(extents > 8 && turns.len() < extents + 5, "{turns:?}");
        for pair in turns[3..].windows(3) {
            let [turn, next, last] = [pair[0], pair[1], pair[2]];
            // If the failure starts before the leaf of the turn, the extent started at that leaf fails, and its first
            // leaf is that of the next turn. If it starts after that leaf, the extent is read, and the one started at
            // the next turn fails.
            for (faulty_from, bad) in [(turn, next), (turn + 1, last)] {
                for nth in ["1..", "1"] {
                    let mut reader = ExtentReader::new(Arc::clone(&branch), purpose);
                    for (at, leaf) in order[..=last].iter().enumerate() {
                        if at == faulty_from {
                            store.disk.inject(&format!("(read nth={nth}) -> etimedout"));
                        }
                        match reader.page(*leaf, backward) {
                            Ok(place) => {
                                branch.check_page(reader.bytes(place), *leaf).unwrap();
                                assert!(nth == "1" || at < bad, "{at} {turn} {next} {last}");
                            }
                            Err(error) => {
                                assert!((nth, at) == ("1..", bad), "{at} {turn} {next} {last}: {error}");
                                break;
                            }
                        }
                    }
                    store.disk.clear_faults();
                    // The cursor continues from there.
                    let place = reader.page(order[bad], backward).unwrap();
                    branch.check_page(reader.bytes(place), order[bad]).unwrap();
                }
            }
        }
    }
}

/// Regression test: short scans once read their first leaves one after the other.
#[test]
fn a_scan_reads_its_expected_bytes_with_one_read() {
    const EXPECTED: usize = 20 << 10;
    let entries = entries();
    for compression in [Compression::None, Compression::Lz4] {
        let store = Store::new(compression, 0);
        let meta = store.write(&entries);
        // The reads of the search, and of a scan over half of the expected bytes, starting with an empty cache.
        let reads_of = |expected: usize, at: usize, backward: bool| {
            let store = store.reopened(8 << 20);
            let branch = store.open(&meta);
            branch.footer().unwrap();
            let mut cursor = branch.cursor(Purpose::Read);
            cursor.expect_bytes(expected);
            cursor.begin_search().unwrap();
            let target = Target { key: &entries[at].key, number: SequenceNumber(at as u64 + 1), backward };
            let before = reads(&store);
            let returned = search_together(&mut [&mut cursor], |cursor| Some(&mut **cursor), target).unwrap();
            let sought = reads(&store);
            assert_eq!(returned as u64, sought - before);
            assert_eq!(cursor.entry(), entries[at].borrow());
            step_many(&mut cursor, &entries, &mut { at }, EXPECTED / 2 / 1500, !backward).unwrap();
            (sought - before, reads(&store) - sought)
        };
        let (mut random, mut walked_alone) = (Random(4), 0);
        for round in 0..100 {
            let (at, backward) = (500 + random.below(entries.len() - 1000), round % 2 == 1);
            let (sought, walked) = reads_of(EXPECTED, at, backward);
            let (sought_alone, more) = reads_of(0, at, backward);
            assert_eq!(sought, sought_alone, "the expected bytes take more reads than the search alone");
            assert_eq!(walked, 0, "from {at}, backward: {backward}");
            // For so few bytes another leaf is not worth reading.
            assert_eq!(reads_of(150, at, backward), (sought_alone, more));
            walked_alone += more;
        }
        assert!(walked_alone > 50, "{walked_alone} reads in a hundred scans");
    }
}

#[test]
fn searches_read_nothing_ahead() {
    let entries = entries();
    let store = Store::new(Compression::None, 0);
    let meta = store.write(&entries);
    let (store, branch) = opened(&store, &meta);
    let mut cursor = branch.cursor(Purpose::Read);
    let mut random = Random(9);
    cursor.seek_first().unwrap();
    for _ in 0..200 {
        let at = random.below(entries.len());
        let before = reads(&store);
        cursor.seek(&entries[at].key, SequenceNumber::MAX).unwrap();
        assert!(reads(&store) - before <= 4);
    }
}

#[test]
fn many_cursors_read_a_bounded_number_of_extents_ahead() {
    let entries = entries();
    let store = Store::new(Compression::None, 0);
    let meta = store.write(&entries);
    let (store, branch) = opened(&store, &meta);
    let mut cursors: Vec<BranchCursor> = (0..AHEAD_MAX + 20).map(|_| branch.cursor(Purpose::Compaction)).collect();
    for cursor in &mut cursors {
        cursor.seek_first().unwrap();
    }
    assert_eq!(store.context.extents.ahead_now(), AHEAD_MAX);
    for (turn, cursor) in cursors.iter_mut().enumerate() {
        let mut at = 0;
        step_many(cursor, &entries, &mut at, 600 + turn * 20, true).unwrap();
        assert!(store.context.extents.ahead_now() <= AHEAD_MAX);
    }
    drop(cursors);
    assert_eq!(store.context.extents.ahead_now(), 0);
}

/// Regression test: merges of a hundred runs once took a hundred times two large extents, three times the budget of a
/// small store.
#[test]
fn extents_shrink_where_many_cursors_share_little_memory() {
    const LIMIT: usize = 2 << 20;
    let entries = entries();
    let store = Store::new(Compression::None, 0);
    let meta = store.write(&entries);
    let context = BranchContext::new(BranchResources {
        storage: Arc::new(store.disk.clone()),
        database: store.context.database,
        cache: Arc::new(PageCache::new(0)),
        files: Arc::clone(&store.context.files),
        numbers: Arc::clone(&store.context.numbers),
        form: Compression::None.into(),
        extents: ExtentMemory::new(LIMIT),
    });
    let branch = Branch::new(&context, meta);
    let mut cursors: Vec<BranchCursor> = (0..200).map(|_| branch.cursor(Purpose::Compaction)).collect();
    for round in 0..3 {
        for cursor in &mut cursors {
            if round == 0 {
                cursor.seek_first().unwrap();
            }
            step_many(cursor, &entries, &mut (round * 300), 300, true).unwrap();
            let held = context.extents.leased();
            assert!(held <= LIMIT + 200 * EXTENT_BYTES_MIN, "{held} bytes are leased, {LIMIT} are allowed");
        }
        assert!(context.extents.leased() > LIMIT / 2, "most of the available memory is unused");
    }
    drop(cursors);
    // A read that was in progress when its cursor was dropped is freed when it completes; on this disk that is at once.
    assert_eq!(context.extents.leased(), 0);
}

/// The same on a real disk, with io_uring and with threads.
#[test]
fn a_real_disk_gives_the_same_answers() {
    let entries = entries();
    for without in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = match without {
            true => Arc::new(PosixStorage::without_io_uring(directory.path())),
            false => Arc::new(PosixStorage::new(directory.path())),
        };
        let context = context_over(storage, Compression::None, 0, DatabaseId(42));
        let mut builder = BranchBuilder::create(&context).unwrap();
        entries.iter().for_each(|entry| builder.add(entry.borrow()).unwrap());
        let branch = Branch::new(&context, builder.finish().unwrap());
        let mut random = Random(1);
        for round in 0..30 {
            let mut cursor = branch.cursor(if round % 2 == 0 { Purpose::Read } else { Purpose::Compaction });
            let mut at = random.below(entries.len());
            cursor.seek(&entries[at].key, SequenceNumber::MAX).unwrap();
            for _ in 0..3 {
                let forward = random.below(2) == 0;
                let room = if forward { entries.len() - 1 - at } else { at };
                step_many(&mut cursor, &entries, &mut at, random.below(3000).min(room), forward).unwrap();
            }
        }
    }
}
