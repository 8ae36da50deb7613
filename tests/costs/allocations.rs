//! Puts and gets allocate nothing on the calling thread, except when a memory generation or a view begins or ends.

use crate::counting::{allocations, assert_none, places};
use crate::store::{KEYS, OPERATIONS, Store, VALUE, key, numbers};
use alluvium::WriteBatch;

/// Gives a Memtable of 32 MiB: the counted operations stay in one generation.
const ROOMY_MIB: u64 = 704;

#[test]
fn puts_of_existing_keys_allocate_nothing() {
    let store = Store::new(ROOMY_MIB);
    assert_none("puts of existing keys", || store.put(numbers(OPERATIONS)));
    assert_eq!(store.db.stats().generations, 1, "another test covers the switch of generations");
}

#[test]
fn puts_of_new_keys_allocate_nothing() {
    let store = Store::new(ROOMY_MIB);
    assert_none("puts of new keys", || store.put(KEYS..KEYS + OPERATIONS / 4));
    assert_eq!(store.db.stats().generations, 1);
}

/// Keys and values are in one buffer, and what the write makes of them in a few vectors of known length.
#[test]
fn a_batch_of_many_puts_allocates_as_often_as_one_of_few() {
    let store = Store::new(ROOMY_MIB);
    let write = |count: u64| {
        let mut batch = WriteBatch::with_capacity(count as usize, count as usize * (8 + VALUE.len()));
        (0..count).for_each(|number| _ = batch.put(key(number), VALUE));
        store.db.write(batch).unwrap();
    };
    write(1000);
    let [few, many] = [100, 1000].map(|count| allocations(|| write(count)));
    assert_eq!(few, many);
    assert!(many <= 8, "{many} allocations of a batch");
}

/// Gets that miss in memory run first: the first of them registers the thread with the page cache.
#[test]
fn gets_in_memory_allocate_nothing() {
    let store = Store::new(ROOMY_MIB);
    let mut out = Vec::with_capacity(VALUE.len());
    store.miss(0..KEYS, &mut out);
    assert_none("gets in memory", || store.read_into(numbers(OPERATIONS), &mut out));
    assert_none("gets of absent keys in memory", || store.miss(numbers(OPERATIONS), &mut out));
}

/// The store is otherwise idle. When pages are evicted, concurrent gets free them, which may grow the list of free
/// memory.
#[test]
fn gets_of_cached_pages_allocate_nothing() {
    let store = Store::new(64).into_files();
    let mut out = Vec::with_capacity(VALUE.len());
    assert_none("gets of cached pages", || store.read_into(numbers(OPERATIONS), &mut out));
    assert_none("gets of absent keys from cached pages", || store.miss(numbers(OPERATIONS), &mut out));
}

/// Whether the calls of a place include `function` in `file`, a path below `src`.
fn is_in(place: &str, function: &str, file: &str) -> bool {
    place.contains(&format!("{function} at ./src/{file}:"))
}

/// The exceptions. The put that fills a generation creates the next one. The last user of an old view, which may be a
/// put, frees the Memtable and the branch files that only this view still referenced.
#[test]
fn puts_allocate_only_for_a_new_generation_and_for_an_old_view() {
    /// Memtable, generation, list of generations, view.
    const ALLOCATIONS_OF_A_SWITCH: usize = 4;
    /// Memory for Memtables, until the pool holds as many as are ever used at once; each may also grow the pool's list.
    const ALLOCATIONS_OF_ARENAS: usize = 8;
    let store = Store::new(16);
    let places = places(|| store.put(numbers(OPERATIONS)));
    let (of_switches, others): (Vec<_>, Vec<_>) =
        places.iter().partition(|place| is_in(place, "switch_from", "engine/memory/generations.rs"));
    let innermost = |place: &String| place.lines().next().unwrap_or_default().to_owned();
    let switches =
        of_switches.iter().filter(|place| is_in(&innermost(place), "take_sized", "memory/table/pool.rs")).count();
    println!("{} allocations of {switches} switches, {} of old views", of_switches.len(), others.len());
    // A generation is an eleventh of the budget, or a quarter of that when the log is full; a version takes 40 bytes.
    assert!((3..=OPERATIONS as usize / 8_000).contains(&switches), "{switches} switches");
    assert!(of_switches.len() <= switches * ALLOCATIONS_OF_A_SWITCH + ALLOCATIONS_OF_ARENAS, "{}", of_switches.len());
    for place in others {
        let frees = is_in(place, "drop", "util/arena.rs") || is_in(place, "drop", "branch/branch.rs");
        assert!(frees, "an allocation of a put:\n{place}");
    }
}

/// A scan uses the cursor and the buffers of the scan before it. Only its bounds and its snapshot are allocated.
#[test]
fn warm_scans_allocate_only_bounds_and_snapshot() {
    let store = Store::new(64).into_files();
    let scan = |number: u64| {
        let mut iter = store.db.iter().unwrap();
        iter.seek(key(number)).unwrap();
        for _ in 0..50 {
            assert!(iter.value().is_none_or(|value| value == VALUE));
            iter.step().unwrap();
        }
    };
    let scans = || numbers(1_000).for_each(|number| scan(number % KEYS));
    scans();
    let allocated = allocations(scans);
    let found = places(|| numbers(1).for_each(|number| scan(number % KEYS)));
    assert!(allocated <= 3 * 1_000, "{allocated} allocations in 1000 scans, such as {found:#?}");
}

#[test]
fn warm_seeks_of_a_kept_iterator_allocate_nothing() {
    let store = Store::new(64).into_files();
    let mut iter = store.db.iter().unwrap();
    let mut seeks = || {
        for number in numbers(10_000) {
            iter.seek(key(number)).unwrap();
            (0..20).for_each(|_| iter.step().unwrap());
        }
    };
    seeks();
    assert_none("seeks of a kept iterator", seeks);
}
