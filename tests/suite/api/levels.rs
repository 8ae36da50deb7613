//! Stores with levels: how the component is chosen, recorded and shown, and what compactions leave.

use crate::support::{Random, expect_sound, tiny, tiny_levels, tiny_skip};
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{CompactOptions, Db, DiskComponent, Error, Goal, LevelFilters, LevelsOptions, Options, ReadOnlyDb};
use std::sync::Arc;

mod buffers;

fn with(disk_component: Option<DiskComponent>) -> Options {
    tiny().disk_component(disk_component)
}

fn open(disk: &SimulatedStorage, disk_component: Option<DiskComponent>) -> alluvium::Result<Db> {
    Db::open_with(Arc::new(disk.clone()), with(disk_component))
}

#[test]
fn the_recorded_component_wins_and_another_one_is_refused() {
    let all = [
        (tiny_levels(1), "leveled"),
        (tiny_levels(4), "tiered"),
        (tiny_skip(), "skip"),
        (DiskComponent::Trunk, "trunk"),
    ];
    for (created, shown) in all.clone() {
        let disk = SimulatedStorage::new(1);
        let db = open(&disk, Some(created.clone())).unwrap();
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        assert_eq!(db.stats().disk_component, shown);
        db.close().unwrap();
        let others = all.clone().into_iter().chain([(tiny_levels(5), "tiered")]);
        for (other, asked) in others {
            let opened = open(&disk, Some(other.clone()));
            if other == created {
                opened.unwrap().close().unwrap();
                continue;
            }
            let error = opened.unwrap_err();
            let named = matches!(&error, Error::InvalidArgument(text) if text.contains("disk_component"));
            let says = format!("the store is {shown}, and `disk_component` asks for {asked}");
            let differs = if asked == shown { "other knobs" } else { &says };
            assert!(named && error.to_string().contains(differs), "{error}");
        }
        let db = open(&disk, None).unwrap();
        assert_eq!((db.stats().disk_component, db.get("key").unwrap()), (shown, Some(b"value".to_vec())));
        let reader = ReadOnlyDb::open_with(Arc::new(disk.clone()), with(Some(DiskComponent::Trunk))).unwrap();
        assert_eq!((reader.stats().disk_component, reader.get("key").unwrap()), (shown, Some(b"value".to_vec())));
        db.put("key2", "value").unwrap();
        expect_sound(&db);
    }
}

#[test]
fn sizes_that_are_not_named_do_not_matter_at_the_next_opening() {
    let disk = SimulatedStorage::new(1);
    let leveled = || Some(DiskComponent::Levels(LevelsOptions::leveled()));
    open(&disk, leveled()).unwrap().close().unwrap();
    let larger = with(leveled()).memory_budget(64 << 20);
    Db::open_with(Arc::new(disk), larger).unwrap().close().unwrap();
}

#[test]
fn options_outside_their_bounds_are_refused_and_create_nothing() {
    let base = LevelsOptions::leveled();
    let bad = [
        base.clone().size_ratio(1),
        base.clone().runs_per_level(0),
        base.clone().level0_runs(0),
        base.clone().merge_percent(0),
        base.clone().merge_percent(101),
        base.clone().file_bytes(4095),
        base.clone().base_level_bytes(u64::MAX),
        base.clone().filter_bits(0),
        base.clone().filter_bits(17),
        base.clone().max_skip(7),
        base.clone().skip_runs(0),
        base.max_skip(1).runs_per_level(2),
    ];
    for levels in bad {
        let disk = SimulatedStorage::new(1);
        let error = open(&disk, Some(DiskComponent::Levels(levels.clone()))).unwrap_err();
        assert!(matches!(&error, Error::InvalidArgument(text) if text.contains("levels")), "{levels:?}: {error}");
        assert!(disk.current_image().is_empty());
    }
}

/// Levels form in the background, a compaction leaves one run, and deleting everything leaves no file.
#[test]
fn levels_form_and_a_compaction_leaves_one_run() {
    for component in [tiny_levels(1), tiny_levels(3), tiny_skip()] {
        let disk = SimulatedStorage::new(1);
        let options = with(Some(component)).memory_budget(1 << 20);
        let db = DeterministicDb::open(Arc::new(disk), options).unwrap();
        let mut random = Random(3);
        let key = |number: u64| format!("key{number:06}");
        for at in 0..20_000 {
            db.put(key(random.below(8000)), random.bytes(60)).unwrap();
            if at % 50 == 0 {
                db.step();
            }
        }
        db.flush().unwrap();
        while db.step() {}
        let stats = db.stats();
        assert!(stats.levels.len() >= 3 && stats.debt_bytes == 0, "{stats}");
        let count = db.iter().unwrap().count();
        db.compact().unwrap();
        let stats = db.stats();
        assert_eq!(stats.levels.iter().map(|level| level.runs).sum::<u64>(), 1, "{stats}");
        assert_eq!(stats.levels.iter().map(|level| level.entries).sum::<u64>(), count as u64, "{stats}");
        assert_eq!(db.iter().unwrap().count(), count);
        expect_sound(&db);
        for number in 0..8000 {
            db.delete(key(number)).unwrap();
        }
        db.compact().unwrap();
        assert_eq!((db.stats().branch_files, db.iter().unwrap().count()), (0, 0), "{}", db.stats());
    }
}

/// Gets of absent keys read fewer pages with more bits, and with finer filters in the smaller levels.
#[test]
fn finer_filters_save_reads_of_absent_keys() {
    let pages_read = |filter_bits, filters| {
        let DiskComponent::Levels(tiny) = tiny_levels(1) else { unreachable!("a trunk has no levels") };
        let levels = tiny.filter_bits(filter_bits).filters(filters);
        let options = with(Some(DiskComponent::Levels(levels))).memory_budget(1 << 20);
        let db = DeterministicDb::open(Arc::new(SimulatedStorage::new(1)), options).unwrap();
        let mut random = Random(4);
        for at in 0..20_000u64 {
            db.put(format!("key{:08}", random.below(1 << 26) * 2), [1; 60]).unwrap();
            if at % 50 == 0 {
                db.step();
            }
        }
        db.flush().unwrap();
        while db.step() {}
        assert!(db.stats().levels.len() >= 3, "{}", db.stats());
        let looked = |stats: &alluvium::Stats| stats.cache_hits + stats.cache_misses;
        let before = looked(&db.stats());
        for _ in 0..4000 {
            assert_eq!(db.get(format!("key{:08}", random.below(1 << 26) * 2 + 1)).unwrap(), None);
        }
        looked(&db.stats()) - before
    };
    let pages = [
        pages_read(1, LevelFilters::Equal),
        pages_read(1, LevelFilters::FinerAbove),
        pages_read(9, LevelFilters::Equal),
    ];
    println!("{pages:?} pages for 4,000 gets of absent keys");
    assert!(pages.array_windows().all(|[coarser, finer]| finer * 100 < coarser * 95), "{pages:?}");
}

/// What waits in memory is there for every reader, in this process and in others, survives its death, and is in files once
/// `Goal::Recovery` has asked for that.
#[test]
fn keys_that_wait_in_memory_are_read_pinned_found_by_other_openers_and_written_on_request() {
    let disk = SimulatedStorage::new(5);
    let open =
        |disk: &SimulatedStorage| DeterministicDb::open(Arc::new(disk.clone()), with(Some(tiny_skip()))).unwrap();
    let db = open(&disk);
    let (mut random, mut model) = (Random(5), std::collections::BTreeMap::new());
    let fill = |db: &DeterministicDb, random: &mut Random, model: &mut std::collections::BTreeMap<_, _>| {
        for round in 0.. {
            assert!(round < 400, "nothing waits in memory: {}", db.stats());
            for _ in 0..20 {
                let (key, value) = (format!("key{:07}", random.below(1 << 22)), random.bytes(80));
                db.put(&key, &value).unwrap();
                model.insert(key.into_bytes(), value);
            }
            db.flush().unwrap();
            while db.step() {}
            if db.stats().buffer_bytes > 0 {
                break;
            }
        }
    };
    fill(&db, &mut random, &mut model);
    let stats = db.stats();
    assert!(stats.parent_bytes > 0 && stats.transition_bytes > 0 && stats.buffered_bytes > 0, "{stats}");
    assert!(stats.to_string().contains("buffers"), "{stats}");
    let is_equal = |found: Vec<(Vec<u8>, Vec<u8>)>, model: &std::collections::BTreeMap<Vec<u8>, Vec<u8>>| {
        assert!(found.iter().map(|(key, value)| (key, value)).eq(model), "{} pairs", found.len());
    };
    // A process that dies now, and another one that only reads, beside it.
    let copy = disk.clone_disk();
    let reader = ReadOnlyDb::open_with(Arc::new(disk.clone()), with(None)).unwrap();
    assert_eq!(reader.stats().buffer_bytes, stats.buffer_bytes);
    let after_death = open(&copy);
    assert_eq!(after_death.stats().buffer_bytes, stats.buffer_bytes);
    let pinned: Vec<_> = model.keys().map(|key| db.get_pinned(key).unwrap().unwrap()).collect();
    let snapshot = db.snapshot();
    let old = model.clone();
    // While the reader has its files, and the snapshot its versions, the buffers are written, and everything changes.
    let options = CompactOptions::new().goal(Goal::Recovery);
    db.compact_with(.., &options, &mut |_| ()).unwrap();
    assert_eq!((db.stats().buffer_bytes, db.stats().parent_bytes), (0, 0), "{}", db.stats());
    for key in old.keys() {
        db.put(key, "new").unwrap();
    }
    db.compact().unwrap();
    is_equal(reader.iter().unwrap().collect::<Result<_, _>>().unwrap(), &old);
    is_equal(after_death.iter().unwrap().collect::<Result<_, _>>().unwrap(), &old);
    is_equal(snapshot.iter().unwrap().collect::<Result<_, _>>().unwrap(), &old);
    assert!(pinned.iter().map(|value| value.to_vec()).eq(old.values().cloned()));
    expect_sound(&after_death);
    drop((reader, snapshot, pinned));
    fill(&after_death, &mut random, &mut model);
    after_death.close().unwrap();
    db.close().unwrap();
}
