//! Every engine that is built in returns correct results, and engines are picked by name.

use super::*;
use alluvium_bench::engine::{Direction, Engine};
use alluvium_bench::{LevelKnobs, counter};
use std::path::PathBuf;

fn setup(directory: PathBuf, sync: bool) -> Setup {
    Setup {
        directory,
        memory_bytes: 256 << 20,
        write_buffer: None,
        item_cache: None,
        write_limit: None,
        compressed: false,
        component: None,
        levels: LevelKnobs::default(),
        data_bytes: 1 << 20,
        sync,
        background_threads: 2,
        harness_bytes: super::HARNESS_BYTES,
        beside_caches_bytes: super::beside_caches_bytes(256 << 20),
    }
}

fn key(number: u32) -> [u8; 8] {
    u64::from(number).to_be_bytes()
}

fn pairs(engine: &dyn Engine, from: Option<u32>, direction: Direction, limit: u64) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    let from = from.map(key);
    let visited = engine
        .scan(from.as_ref().map(|key| &key[..]), direction, limit, &mut |key, value| {
            found.push((u64::from_be_bytes(key.try_into().unwrap()), value.to_vec()));
        })
        .unwrap();
    assert_eq!(visited, found.len() as u64);
    found
}

fn numbers(pairs: &[(u64, Vec<u8>)]) -> Vec<u64> {
    pairs.iter().map(|(number, _)| *number).collect()
}

/// Puts even numbers, overwrites, removes, reads and scans in both directions, before and after settling.
fn check_answers(engine: &dyn Engine, name: &str) {
    for number in (0..2000).step_by(2) {
        engine.put(&key(number), &[number as u8; 100]).unwrap();
    }
    engine.put_batch(&[(&key(4), b"four"), (&key(2000), b"last")]).unwrap();
    engine.delete(&key(6)).unwrap();
    engine
        .update(&key(8), &mut |old, new| {
            assert_eq!(old, Some(&[8u8; 100][..]), "{name}");
            new.extend_from_slice(b"eight");
            true
        })
        .unwrap();
    engine
        .update(&key(9), &mut |old, new| {
            assert_eq!(old, None, "{name}");
            new.extend_from_slice(b"nine");
            true
        })
        .unwrap();
    engine.update(&key(10), &mut |_, _| false).unwrap();
    assert!(!engine.put_if_absent(&key(10), b"no").unwrap(), "{name}");
    assert!(engine.put_if_absent(&key(6), b"six").unwrap(), "{name}");
    engine.delete(&key(6)).unwrap();
    for round in ["written", "settled"] {
        let mut value = b"rest".to_vec();
        assert!(engine.get(&key(10), &mut value).unwrap(), "{name}, {round}");
        assert_eq!(value, [10; 100], "{name}, {round}");
        assert!(engine.get(&key(4), &mut value).unwrap() && value == b"four", "{name}, {round}");
        assert!(engine.get(&key(8), &mut value).unwrap() && value == b"eight", "{name}, {round}");
        assert!(!engine.get(&key(6), &mut value).unwrap(), "{name}, {round}");
        assert!(!engine.get(&key(11), &mut value).unwrap(), "{name}, {round}");
        let forward = pairs(engine, Some(3), Direction::Forward, 4);
        assert_eq!(numbers(&forward), [4, 8, 9, 10], "{name}, {round}");
        assert_eq!(forward[2].1, b"nine", "{name}, {round}");
        assert_eq!(numbers(&pairs(engine, Some(7), Direction::Backward, 3)), [4, 2, 0], "{name}, {round}");
        assert_eq!(numbers(&pairs(engine, Some(8), Direction::Backward, 2)), [8, 4], "{name}, {round}");
        assert_eq!(numbers(&pairs(engine, None, Direction::Forward, 2)), [0, 2], "{name}, {round}");
        assert_eq!(numbers(&pairs(engine, None, Direction::Backward, 2)), [2000, 1998], "{name}, {round}");
        assert_eq!(numbers(&pairs(engine, Some(5000), Direction::Backward, 1)), [2000], "{name}, {round}");
        assert_eq!(pairs(engine, Some(5000), Direction::Forward, 5), [], "{name}, {round}");
        assert_eq!(pairs(engine, None, Direction::Forward, u64::MAX).len(), 1001, "{name}, {round}");
        engine.settle().unwrap();
    }
}

#[test]
fn every_engine_gives_right_answers() {
    assert!(!select(&[], false).unwrap().taken.is_empty());
    for kind in all_ready() {
        let directory = tempfile::tempdir().unwrap();
        let opened = kind.open.unwrap()(&setup(directory.path().to_owned(), false)).unwrap();
        check_answers(&*opened.engine, kind.name);
        assert!(!opened.version.is_empty() && opened.version != "unknown", "{}", kind.name);
        assert!(!opened.settings.is_empty(), "{}", kind.name);
    }
}

#[test]
fn every_engine_that_syncs_gives_right_answers() {
    for kind in select(&[], true).unwrap().taken {
        let directory = tempfile::tempdir().unwrap();
        let opened = kind.open.unwrap()(&setup(directory.path().to_owned(), true)).unwrap();
        opened.engine.put(b"key", b"value").unwrap();
        let mut value = Vec::new();
        assert!(opened.engine.get(b"key", &mut value).unwrap() && value == b"value", "{}", kind.name);
    }
}

#[test]
fn engines_may_be_used_by_many_threads() {
    for kind in select(&[], false).unwrap().taken {
        let directory = tempfile::tempdir().unwrap();
        let opened = kind.open.unwrap()(&setup(directory.path().to_owned(), false)).unwrap();
        let engine = &*opened.engine;
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                scope.spawn(move || {
                    let mut value = Vec::new();
                    for number in 0..500 {
                        let key = key(thread * 1000 + number);
                        engine.put(&key, &key).unwrap();
                        assert!(engine.get(&key, &mut value).unwrap() && value == key, "{}", kind.name);
                    }
                });
            }
        });
        assert_eq!(pairs(engine, None, Direction::Forward, u64::MAX).len(), 2000, "{}", kind.name);
    }
}

#[test]
fn every_engine_with_default_options_gives_right_answers() {
    let selection = select_defaults(&[]).unwrap();
    assert!(selection.taken.iter().any(|kind| kind.name == OURS));
    for kind in selection.taken {
        let directory = tempfile::tempdir().unwrap();
        let defaults = Defaults {
            directory: directory.path().to_owned(),
            data_bytes: 1 << 20,
            puts_per_transaction: 100,
            for_point_reads: true,
        };
        let open = || kind.open_default.unwrap()(&defaults).unwrap();
        let opened = open();
        opened.engine.put(b"key", b"value").unwrap();
        opened.engine.put_batch(&[(b"a", b"1"), (b"b", b"2")]).unwrap();
        opened.engine.settle().unwrap();
        drop(opened);
        let mut value = Vec::new();
        let opened = open();
        assert!(opened.engine.get(b"key", &mut value).unwrap() && value == b"value", "{}", kind.name);
        assert!(!opened.version.is_empty() && opened.version != "unknown", "{}", kind.name);
    }
    let error = select_defaults(&["alluvium-striped".to_owned()]).unwrap_err();
    assert!(error.contains("alluvium-striped"), "{error}");
}

/// Every available engine, also those that take part only by name.
fn all_ready() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.hindrance(false).is_none())
}

#[test]
fn increments_and_updates_of_several_threads_lose_none() {
    for kind in all_ready() {
        let directory = tempfile::tempdir().unwrap();
        let opened = kind.open.unwrap()(&setup(directory.path().to_owned(), false)).unwrap();
        let engine = &*opened.engine;
        let (rounds, keys) = (600u32, 5);
        let first = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..rounds {
                        engine.increment(&key(round % keys), 2).unwrap();
                        engine.update(&key(100 + round % keys), &mut |old, new| counter::add(old, new, 1)).unwrap();
                        let put = engine.put_if_absent(&key(1000 + round), b"once").unwrap();
                        first.fetch_add(u64::from(put), std::sync::atomic::Ordering::Relaxed);
                        // Other writes to the same engine, which must not discard the waiting ones.
                        engine.put_batch(&[(&key(5000 + round), b"batch"), (&key(5001), b"batch")]).unwrap();
                    }
                });
            }
        });
        for round in ["written", "settled"] {
            let sum = |from: u32| -> u64 {
                let mut value = Vec::new();
                let counts = (from..from + keys).map(|number| {
                    assert!(engine.get(&key(number), &mut value).unwrap(), "{}, {round}", kind.name);
                    counter::of(Some(&value))
                });
                counts.sum()
            };
            let expected = u64::from(4 * rounds);
            assert_eq!((sum(0), sum(100)), (2 * expected, expected), "{}, {round}", kind.name);
            engine.settle().unwrap();
        }
        assert_eq!(first.into_inner(), u64::from(rounds), "{}", kind.name);
    }
}

#[test]
fn names_pick_engines() {
    let taken = select(&["alluvium".to_owned(), "alluvium".to_owned()], false).unwrap().taken;
    assert_eq!(taken.iter().map(|kind| kind.name).collect::<Vec<_>>(), ["alluvium"]);
    let striped = select(&["alluvium-striped".to_owned()], false).unwrap().taken;
    assert_eq!(striped.iter().map(|kind| kind.name).collect::<Vec<_>>(), ["alluvium-striped"]);
    assert!(select(&[], false).unwrap().taken.iter().all(|kind| kind.name != "alluvium-striped"));
    let error = select(&["oracle".to_owned()], false).unwrap_err();
    assert!(
        error.contains("oracle")
            && error.contains(
                "known: alluvium, alluvium-leveled, alluvium-tiered, alluvium-skip, alluvium-skip-files, \
                 alluvium-striped, rocksdb"
            ),
        "{error}"
    );
}

/// The two stores that skip differ in where what skipped waits, whatever the setup says.
#[test]
fn the_name_decides_whether_what_skipped_waits_in_memory() {
    let component = |name: &str, buffer_bytes| {
        let directory = tempfile::tempdir().unwrap();
        let levels = LevelKnobs { buffer_bytes, ..LevelKnobs::default() };
        let setup = Setup { levels, ..setup(directory.path().to_owned(), false) };
        let opened = find(name).unwrap().open.unwrap()(&setup).unwrap();
        opened.settings.into_iter().find(|(name, _)| name == "component").unwrap().1
    };
    assert_eq!(component("alluvium-skip", None), "skip");
    assert_eq!(component("alluvium-skip", Some(1 << 20)), "skip, bytes of buffers 1048576");
    assert_eq!(component("alluvium-skip-files", Some(1 << 20)), "skip, bytes of buffers 0");
}

/// The sizes of levels are those that were asked for, and RocksDB reports what is in which level.
#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_has_the_named_sizes_of_levels() {
    let directory = tempfile::tempdir().unwrap();
    let levels = LevelKnobs { base_bytes: Some(1 << 20), file_bytes: Some(1 << 18), ..LevelKnobs::default() };
    let setup = Setup { write_buffer: Some(1 << 18), levels, ..setup(directory.path().to_owned(), false) };
    let opened = find("rocksdb").unwrap().open.unwrap()(&setup).unwrap();
    let compaction = &opened.settings.iter().find(|(name, _)| name == "compaction").unwrap().1;
    assert_eq!(compaction, "leveled, 7 levels, first level 1048576 bytes, ratio 10, files of 262144 bytes");
    for number in 0..6000u32 {
        opened.engine.put(&key(number.reverse_bits()), &[number as u8; 1000]).unwrap();
    }
    opened.engine.settle().unwrap();
    let found = opened.engine.levels();
    // Six megabytes: one in level 1, the others in level 2; with sizes that follow the data all would be in level 6.
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found.iter().map(|level| level.entries).sum::<u64>(), 6000);
    assert!(found[1].entries < found[2].entries && found[1..].iter().all(|level| level.runs == 1), "{found:?}");
}

#[test]
fn what_cannot_take_part_says_why() {
    let absent = Kind {
        open: None,
        ..Kind {
            name: "x",
            feature: Some("y"),
            open: None,
            open_default: None,
            is_log: |_| false,
            syncs: true,
            missing: || None,
            by_name: false,
        }
    };
    assert_eq!(absent.hindrance(false).unwrap(), "not built in; build with --features y");
    let unsynced = Kind { open: Some(ours::open), syncs: false, ..absent };
    assert_eq!(unsynced.hindrance(false), None);
    assert!(unsynced.hindrance(true).unwrap().contains("sync"));
    // Whatever is built in, every engine either takes part or is listed with its reason.
    for sync in [false, true] {
        let selection = select(&[], sync).unwrap();
        let named = KINDS.iter().filter(|kind| kind.by_name).count();
        assert_eq!(selection.taken.len() + selection.skipped.len() + named, KINDS.len());
    }
}

#[test]
fn logs_are_told_from_data() {
    let is_log = |name: &str, path: &str| (find(name).unwrap().is_log)(Path::new(path));
    assert!(is_log("rocksdb", "000012.log") && !is_log("rocksdb", "000012.sst"));
    assert!(is_log("fjall", "a/0.jnl") && !is_log("fjall", "a/tables/1"));
    assert!(!is_log("lmdb", "data.mdb") && !is_log("redb", "bench.redb"));
}
