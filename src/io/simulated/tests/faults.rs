//! What each kind of fault does to reads, to the disk and to the clock.

use super::*;

const LENGTH: usize = 3 * 4096;

/// A file in which every sector is different, synced, on a disk with two others.
fn three_files(seed: u64) -> (SimulatedStorage, Vec<u8>) {
    let storage = SimulatedStorage::new(seed);
    let contents: Vec<u8> = (0..LENGTH).map(|at| (at / 512 + 1) as u8).collect();
    put(&storage, "a", &contents).sync().unwrap();
    put(&storage, "b", &[100; 4096]).sync().unwrap();
    put(&storage, "c", &[200; 512]).sync().unwrap();
    storage.sync_directory().unwrap();
    (storage, contents)
}

fn differing_bits(one: &[u8], other: &[u8]) -> u32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum()
}

fn direct(storage: &SimulatedStorage, name: &str) -> Vec<u8> {
    let file = storage.open(name, OpenMode::ReadDirect).unwrap();
    let mut buffer = crate::io::AlignedBuffer::new(file.length().unwrap() as usize);
    file.read_exact_at(&mut buffer, 0).unwrap();
    buffer.to_vec()
}

#[test]
fn a_bit_flips_on_the_way_or_rots_at_rest() {
    let (storage, contents) = three_files(3);
    storage.inject("(read name=a nth=1) -> flip");
    assert_eq!(differing_bits(&get(&storage, "a"), &contents), 1);
    assert_eq!(get(&storage, "a"), contents);
    storage.inject("(write name=a) -> flip");
    let file = storage.open("a", OpenMode::ReadWrite).unwrap();
    file.write_all_at(&contents, 0).unwrap();
    assert_eq!(differing_bits(&get(&storage, "a"), &contents), 1);
    storage.clear_faults();
    file.write_all_at(&contents, 0).unwrap();
    storage.inject("(length name=a nth=1) -> rot");
    assert_eq!(differing_bits(&get(&storage, "a"), &contents), 1);
    assert_eq!(differing_bits(&get(&storage.power_cut(1), "a"), &contents), 1);
}

#[test]
fn a_misdirected_read_returns_another_place() {
    for seed in 0..50 {
        let (storage, contents) = three_files(seed);
        storage.inject("(read name=a nth=1) -> misdirect");
        let file = storage.open("a", OpenMode::Read).unwrap();
        let (mut first, mut second) = ([0; 512], [0; 512]);
        file.read_exact_at(&mut first, 1024).unwrap();
        file.read_exact_at(&mut second, 1024).unwrap();
        assert_eq!(second, contents[1024..1536]);
        assert_ne!(first, second, "seed {seed}");
        assert!(first.iter().all(|byte| *byte == first[0]), "one whole sector of another place");
    }
}

#[test]
fn a_misdirected_write_lands_elsewhere_and_only_the_disk_knows() {
    let (mut own, mut other) = (0, 0);
    for seed in 0..50 {
        let (storage, contents) = three_files(seed);
        storage.inject("(write name=a nth=1) -> misdirect");
        let file = storage.open("a", OpenMode::ReadWrite).unwrap();
        file.write_all_at(&[77; 512], 0).unwrap();
        assert_eq!(get(&storage, "a")[..512], [77; 512], "the page cache has what was written");
        assert_eq!(direct(&storage, "a")[..512], contents[..512], "the disk does not have it");
        file.sync().unwrap();
        let after = storage.power_cut(seed);
        let hit = |name: &str| get(&after, name).chunks(512).filter(|sector| *sector == [77; 512]).count();
        assert_eq!(get(&after, "a")[..512], contents[..512]);
        assert_eq!(hit("a") + hit("b") + hit("c"), 1, "seed {seed}");
        own += hit("a");
        other += hit("b") + hit("c");
    }
    assert!(own > 5 && other > 5);
}

#[test]
fn a_stale_write_is_acknowledged_and_lost() {
    let (storage, contents) = three_files(1);
    storage.inject("(write name=b nth=1) -> stale");
    let file = storage.open("b", OpenMode::ReadWrite).unwrap();
    file.write_all_at(&[1; 512], 0).unwrap();
    file.write_all_at(&[2; 512], 512).unwrap();
    file.sync().unwrap();
    assert_eq!(get(&storage, "b")[..1024], [[1; 512], [2; 512]].concat());
    storage.inject("(list nth=1) -> evict");
    storage.list().unwrap();
    assert_eq!(get(&storage, "b")[..1024], [[100; 512], [2; 512]].concat(), "the old version comes back");
    // A read of an old version, and a sync that is half done.
    let file = storage.open("a", OpenMode::ReadWrite).unwrap();
    file.write_all_at(&[9; LENGTH], 0).unwrap();
    storage.inject("(sync nth=2) -> stale; (read name=a nth=1) -> stale");
    file.sync().unwrap();
    assert_eq!(get(&storage, "a"), contents);
    assert_eq!(get(&storage, "a"), [9; LENGTH]);
    file.write_all_at(&[10; LENGTH], 0).unwrap();
    file.sync().unwrap();
    let left = get(&storage.power_cut(1), "a");
    let new = left.chunks(512).filter(|sector| *sector == [10; 512]).count();
    assert!((1..LENGTH / 512).contains(&new) && left.iter().all(|byte| [9, 10].contains(byte)));
}

/// As on Linux: after a failed sync the page cache has the new bytes. Reads past it, and reads after its eviction,
/// return the old ones.
#[test]
fn data_lost_by_a_failed_sync_is_visible_until_the_page_cache_is_evicted() {
    let (storage, contents) = three_files(4);
    let map = storage.map("a").unwrap();
    store(&*map, 0, &[255; LENGTH]);
    storage.inject("(map-sync nth=1) -> eio part=some");
    map.sync().unwrap_err();
    map.sync().unwrap();
    assert_eq!(get(&storage, "a"), [255; LENGTH]);
    let past = direct(&storage, "a");
    assert_ne!(past, [255; LENGTH]);
    for (sector, old) in past.chunks(512).zip(contents.chunks(512)) {
        assert!(sector == [255; 512] || sector == old);
    }
    assert_eq!(direct(&storage.clone_disk(), "a"), past, "a kill changes nothing");
    let settled = storage.clone_disk().remount();
    assert_eq!(get(&settled, "a"), past);
    storage.inject("(list nth=1) -> evict");
    storage.list().unwrap();
    assert_eq!(get(&storage, "a"), past);
    // SAFETY: inside the mapping; no other thread stores to it now.
    assert_eq!(unsafe { std::slice::from_raw_parts(map.pointer(), LENGTH) }, past, "and in the mapping");
}

/// Data written past the page cache is in the disk's own cache: it is visible, whatever the sync returned, until the
/// power is cut.
#[test]
fn direct_writes_are_visible_after_a_failed_sync_until_a_power_cut() {
    let mut kept = BTreeSet::new();
    for seed in 0..20 {
        let (storage, contents) = three_files(seed);
        let mut buffer = crate::io::AlignedBuffer::new(4096);
        buffer.fill(255);
        let file = storage.open("d", OpenMode::CreateDirect).unwrap();
        file.write_all_at(&buffer, 0).unwrap();
        storage.sync_directory().unwrap();
        storage.inject("(sync) -> eio; (list) -> evict");
        file.sync().unwrap_err();
        storage.list().unwrap();
        assert_eq!(direct(&storage, "d"), [255; 4096]);
        assert_eq!(get(&storage, "a"), contents);
        assert_eq!(get(&storage.clone_disk().remount(), "d"), [255; 4096]);
        let synced = storage.clone_disk();
        synced.open("d", OpenMode::ReadWrite).unwrap().sync().unwrap();
        assert_eq!(get(&synced.power_cut(seed), "d"), [255; 4096]);
        kept.insert(get(&storage.power_cut(seed), "d").iter().filter(|byte| **byte == 255).count());
    }
    assert!(kept.contains(&0) && kept.len() > 2, "{kept:?}");
}

#[test]
fn failures_do_the_given_part() {
    for (part, present) in [("none", false), ("all", true)] {
        let (storage, _) = three_files(1);
        storage.inject(&format!("(rename,remove,create,write,sync-directory) -> eio part={part}"));
        storage.rename("b", "d").unwrap_err();
        storage.remove("c").unwrap_err();
        storage.open("e", OpenMode::Create).unwrap_err();
        let file = storage.open("a", OpenMode::ReadWrite).unwrap();
        file.write_all_at(b"new", 0).unwrap_err();
        let names = storage.list().unwrap();
        assert_eq!(names, if present { ["a", "d", "e"] } else { ["a", "b", "c"] });
        assert_eq!(get(&storage, "a").starts_with(b"new"), present);
        storage.sync_directory().unwrap_err();
        assert_eq!(storage.durable_image().contains_key("d"), present);
    }
}

/// Stores to a mapping may be durable without any sync, in any version that it had.
#[test]
fn the_kernel_writes_back_at_any_time() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let storage = SimulatedStorage::new(seed);
        put(&storage, "a", &[0; 512]).sync().unwrap();
        storage.sync_directory().unwrap();
        let map = storage.map("a").unwrap();
        storage.inject("(any p=0.5) -> write-back");
        for version in 1..=3 {
            store(&*map, 0, &[version; 512]);
            storage.list().unwrap();
        }
        seen.insert(get(&storage.power_cut(seed), "a")[0]);
    }
    assert_eq!(seen, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn operations_take_simulated_time_and_slow_ones_more() {
    let (storage, _) = three_files(1);
    let before = storage.now();
    storage.sync_directory().unwrap();
    let usual = storage.now() - before;
    assert!(usual > Duration::ZERO && usual < Duration::from_millis(1));
    storage.inject("(sync-directory nth=1) -> slow=3s");
    storage.sync_directory().unwrap();
    assert_eq!(storage.now() - before, 2 * usual + Duration::from_secs(3));
}

#[test]
fn one_clock_advances_only_on_command_and_the_other_always() {
    let (storage, _) = three_files(1);
    let (stepped, running) = (storage.deterministic_clock(), storage.clock());
    let (before, started) = (storage.now(), running.now());
    running.sleep(Duration::from_millis(5));
    assert!(running.now() - started >= Duration::from_millis(5));
    assert_eq!((stepped.now(), storage.now()), (before, before), "waiting does not advance the disk's time");
    // Sleeping on it takes no real time.
    stepped.sleep(Duration::from_secs(3600));
    storage.advance(Duration::from_secs(1));
    assert_eq!(stepped.now() - before, Duration::from_secs(3601));
    assert!((3601..3700).contains(&(running.now() - started).as_secs()));
    // Time continues over every death, and separately on a copy.
    let next = storage.clone_disk().power_cut(1);
    assert_eq!(next.now(), storage.now());
    next.advance(Duration::from_secs(1));
    assert_eq!(next.now() - storage.now(), Duration::from_secs(1));
    storage.advance(Duration::MAX);
    storage.list().unwrap();
    assert_eq!(storage.now(), Duration::MAX);
}

#[test]
fn a_fraction_of_the_operations_fails_and_the_same_ones_again() {
    let run = |seed| -> Vec<bool> {
        let storage = SimulatedStorage::new(seed);
        storage.inject("(list p=0.25) -> eio");
        (0..400).map(|_| storage.list().is_err()).collect()
    };
    let struck = run(1).iter().filter(|failed| **failed).count();
    assert!((60..140).contains(&struck), "{struck}");
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_recorded_run_gives_every_state_before_which_it_could_die() {
    let storage = SimulatedStorage::new(1);
    storage.record_crashes();
    let file = storage.open("a", OpenMode::Create).unwrap();
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.sync().unwrap();
    storage.list().unwrap();
    storage.sync_directory().unwrap();
    let map = storage.map("a").unwrap();
    store(&*map, 0, &[2]);
    map.sync().unwrap();
    let points = storage.crash_points();
    let operations: Vec<&str> = points.iter().map(|point| point.operation.word()).collect();
    // Nothing changed between `list` and `sync-directory`, nor between `map` and the operation before it.
    assert_eq!(operations, ["create", "write", "sync", "list", "map", "map-sync"]);
    let first = |point: &CrashPoint| point.disk.current_image().get("a").map(|bytes| bytes.first().copied());
    let seen: Vec<_> = points.iter().map(first).collect();
    let (one, two) = (Some(Some(1)), Some(Some(2)));
    assert_eq!(seen, [None, Some(None), one, one, one, two]);
    for (point, durable) in points.iter().zip([0, 0, 0, 0, 1, 1]) {
        assert_eq!(point.disk.durable_image().len(), durable, "{:?}", point.operation);
    }
    assert_eq!(points[5].disk.durable_image()["a"][0], 1);
    // The next operation makes one although nothing has changed, and images are separate disks.
    storage.list().unwrap();
    storage.list().unwrap();
    assert_eq!(storage.crash_points().len(), 1);
    points[3].disk.remove("a").unwrap();
    assert_eq!(get(&points[2].disk, "a"), [1; 4096]);
}
