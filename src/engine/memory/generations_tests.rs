//! Tests of the sizes of generations, of their address space, and of memory that stores share.

use crate::db::DeterministicDb;
use crate::engine::resources::shared_memory::{IDLE_AFTER, KEPT_BYTES, MEMTABLE_BYTES_SMALL};
use crate::io::simulated::SimulatedStorage;
use crate::util::random::splitmix64;
use crate::util::sync::Arc;
use crate::{Options, Resources, WriteBatch};
use std::time::Duration;

const MIB: usize = 1 << 20;

fn open(disk: &SimulatedStorage, options: Options) -> DeterministicDb {
    DeterministicDb::open(Arc::new(disk.clone()), options).unwrap()
}

fn private(memory_budget: usize) -> Options {
    Options { memory_budget: Some(memory_budget as u64), ..Options::default() }
}

fn newest_bytes(db: &DeterministicDb) -> usize {
    db.engine.background.read.view.load().newest().memtable.soft_bytes()
}

fn write(db: &DeterministicDb, bytes: usize, random: &mut u64) {
    for _ in 0..bytes / 1000 {
        db.put(splitmix64(random).to_be_bytes(), [7; 900]).unwrap();
    }
}

/// *Otherwise:* beside eight readers on two cores, a store with a `write_buffer` of 1 GiB made 35 to 180 puts in its first
/// second: each touched another huge page of the index, which the kernel cleared first.
#[test]
fn the_first_put_into_a_large_generation_gets_the_index_populated() {
    let options = Options { write_buffer: Some(16 << 20), ..private(128 * MIB) };
    let db = open(&SimulatedStorage::new(1), options);
    let memtable = || Arc::clone(&db.engine.background.read.view.load().newest().memtable);
    while db.step() {}
    assert!(!memtable().has_index_pages(), "a store that is not written to has no need of them");
    db.put("key", "value").unwrap();
    while db.step() {}
    assert!(memtable().has_index_pages());
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    // The next one, in other memory, while the first is recycled.
    db.flush().unwrap();
    db.put("key", "other").unwrap();
    while db.step() {}
    assert!(memtable().has_index_pages());
}

#[test]
fn generations_grow_while_they_fill_quickly() {
    let disk = SimulatedStorage::new(1);
    let db = open(&disk, private(64 * MIB));
    let (mut random, mut sizes) = (1, vec![newest_bytes(&db)]);
    let largest = db.engine.background.budget.memtable;
    for _ in 0..40 * MIB / 10_000 {
        write(&db, 10_000, &mut random);
        while db.step() {}
        if newest_bytes(&db) != sizes[sizes.len() - 1] {
            sizes.push(newest_bytes(&db));
        }
    }
    assert_eq!(sizes[0], MEMTABLE_BYTES_SMALL);
    assert!(sizes.is_sorted() && sizes.len() < 7, "{sizes:?}");
    assert_eq!(sizes[sizes.len() - 1], largest);
    // A switch for another reason keeps the size.
    db.flush().unwrap();
    assert_eq!(newest_bytes(&db), largest);
    drop(db);
    // A store that writes slowly keeps its size.
    let slow = SimulatedStorage::new(2);
    let db = open(&slow, private(64 * MIB));
    for _ in 0..100 {
        slow.advance(Duration::from_secs(5));
        write(&db, 2000, &mut random);
        while db.step() {}
    }
    assert_eq!(newest_bytes(&db), MEMTABLE_BYTES_SMALL);
}

/// A batch is hundreds of times larger than the first Memtable with all of its address space. Before Memtables were
/// small, each had space for dozens of the largest batches.
#[test]
fn a_batch_larger_than_the_newest_memtable_begins_one_with_space_for_it() {
    let disk = SimulatedStorage::new(1);
    let db = open(&disk, private(64 * MIB));
    db.put("first", "value").unwrap();
    let mut random = 1;
    for count in 1..4u8 {
        let mut batch = WriteBatch::new();
        let value = vec![count; 100_000];
        for key in 0..250u64 {
            batch.put(key.to_be_bytes(), value.clone());
        }
        // Tiny entries take many times their own bytes.
        for key in 0..40_000u64 {
            batch.put((key << 20 | 1 << 63).to_be_bytes(), []);
        }
        db.write(batch).unwrap();
        write(&db, 10_000, &mut random);
        assert_eq!(db.get(7u64.to_be_bytes()).unwrap().as_deref(), Some(&value[..]));
    }
    assert_eq!(db.iter().unwrap().count(), 1 + 250 + 40_000 + 3 * 10);
    while db.step() {}
    drop(db);
    let db = open(&disk, private(64 * MIB));
    assert_eq!(db.iter().unwrap().count(), 1 + 250 + 40_000 + 3 * 10);
}

#[test]
fn an_idle_store_gives_its_memory_back_if_others_share_it() {
    let resources = Resources::builder().memory(64 << 20).build().unwrap();
    let shared = || Options { resources: Some(resources.clone()), ..Options::default() };
    let disks = [SimulatedStorage::new(1), SimulatedStorage::new(2)];
    let first = open(&disks[0], shared());
    let mut random = 1;
    write(&first, 8 * MIB, &mut random);
    while first.step() {}
    let large = newest_bytes(&first);
    assert!(large > MIB, "{large}");
    let idle = |db: &DeterministicDb, disk: &SimulatedStorage| {
        for _ in 0..=IDLE_AFTER.as_secs() + 1 {
            disk.advance(Duration::from_secs(1));
            while db.step() {}
        }
    };
    idle(&first, &disks[0]);
    assert_eq!(newest_bytes(&first), large, "a store that is alone keeps its memory");
    let second = open(&disks[1], shared());
    idle(&first, &disks[0]);
    assert!(newest_bytes(&first) <= KEPT_BYTES);
    let arenas = &first.engine.background.arbiter.memory.arenas;
    assert!(arenas.lent_bytes() < 256 << 10, "{}", arenas.lent_bytes());
    // What is tiny stays in memory.
    second.put("key", "value").unwrap();
    let files = first.stats().branch_files;
    first.put("key", "value").unwrap();
    idle(&first, &disks[0]);
    idle(&second, &disks[1]);
    assert_eq!((first.stats().branch_files, second.stats().branch_files), (files, 0));
    assert!(first.iter().unwrap().count() > 8000);
}

/// A store on a full disk holds its Memtables. Another one with the same resources gets on.
#[test]
fn a_store_on_a_full_disk_stops_no_other() {
    let resources = Resources::builder().memory(32 << 20).build().unwrap();
    let shared = || Options { resources: Some(resources.clone()), ..Options::default() };
    let disks = [SimulatedStorage::new(1), SimulatedStorage::new(2)];
    let dbs = [open(&disks[0], shared()), open(&disks[1], shared())];
    let mut random = 1;
    write(&dbs[0], 3 * MIB, &mut random);
    disks[0].set_capacity(Some(disks[0].used()));
    while dbs[0].put(splitmix64(&mut random).to_be_bytes(), [7; 900]).is_ok() {}
    let arenas = &dbs[0].engine.background.arbiter.memory.arenas;
    for _ in 0..20 {
        write(&dbs[1], MIB, &mut random);
        while dbs[1].step() {}
        assert!(arenas.lent_bytes() <= arenas.limit_bytes() + 6 * MEMTABLE_BYTES_SMALL, "{}", arenas.lent_bytes());
    }
    assert_eq!(dbs[1].iter().unwrap().count(), 20 * (MIB / 1000));
}

/// Two stores at full speed: the memory of both together stays within the shared part, and the cache within the rest.
#[test]
fn two_stores_that_load_at_once_share_one_budget() {
    let resources = Resources::builder().memory(32 << 20).build().unwrap();
    let shared = || Options { resources: Some(resources.clone()), ..Options::default() };
    let disks = [SimulatedStorage::new(1), SimulatedStorage::new(2)];
    let dbs = [open(&disks[0], shared()), open(&disks[1], shared())];
    let own = open(&SimulatedStorage::new(3), private(8 * MIB));
    let memory = &dbs[0].engine.background.arbiter.memory;
    assert!(Arc::ptr_eq(memory, &dbs[1].engine.background.arbiter.memory));
    assert!(!Arc::ptr_eq(memory, &own.engine.background.arbiter.memory));
    let mut random = 1;
    let mut largest = 0;
    for _ in 0..30 {
        for db in &dbs {
            write(db, MIB / 2, &mut random);
            while db.step() {}
            for entry in db.iter().unwrap().take(500) {
                entry.unwrap();
            }
            largest = largest.max(newest_bytes(db));
            let memtables = memory.arenas.lent_bytes();
            assert!(memtables <= memory.arenas.limit_bytes(), "{memtables}");
            assert!(memtables + memory.cache.bytes_used() <= 32 * MIB, "{}", memory.cache.bytes_used());
        }
    }
    assert!(largest >= MIB, "both loads reach large Memtables: {largest}");
    write(&own, MIB, &mut random);
    assert_eq!(own.stats().memory_budget, 8 << 20);
}
