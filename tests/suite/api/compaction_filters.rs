//! Compaction filters: what they are asked about, what their decisions do, and who must not notice them
//! (`docs/concurrency.md`, F).

use crate::support::{Last, Random, expect_sound, expect_sound_closed, setting, tiny, tiny_levels, tiny_skip};
use alluvium::internals::DeterministicDb;
use alluvium::merge_operators::Append;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{MemoryStorage, Storage};
use alluvium::{
    CompactionFilter, Db, DiskComponent, Error, FilterDecision, FilterPair, KeyspaceOptions, Options, Snapshot, Swap,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;
/// By keyspace and key: what was written last, and whether it was seen to be filtered.
type Model = BTreeMap<(usize, Vec<u8>), (Vec<u8>, bool)>;

/// A filter made of a function.
struct By<F>(F);

impl<F: Fn(&FilterPair<'_>) -> FilterDecision + Send + Sync + 'static> CompactionFilter for By<F> {
    fn name(&self) -> &str {
        "test.by"
    }

    fn filter(&self, pair: &FilterPair<'_>) -> FilterDecision {
        (self.0)(pair)
    }
}

/// By the first byte of the value: removes `-`, and makes `*` a `+`.
fn by_value(pair: &FilterPair<'_>) -> FilterDecision {
    match pair.value() {
        Some([b'-', ..]) => FilterDecision::Remove,
        Some([b'*', rest @ ..]) => FilterDecision::Replace([b"+", rest].concat()),
        _ => FilterDecision::Keep,
    }
}

/// What `by_value` leaves of a value.
fn filtered(value: &[u8]) -> Option<Vec<u8>> {
    match value {
        [b'-', ..] => None,
        [b'*', rest @ ..] => Some([b"+", rest].concat()),
        _ => Some(value.to_vec()),
    }
}

fn components() -> [Option<DiskComponent>; 4] {
    [None, Some(tiny_levels(1)), Some(tiny_levels(3)), Some(tiny_skip())]
}

fn contents(snapshot: &Snapshot) -> Contents {
    snapshot.iter().unwrap().map(Result::unwrap).collect()
}

/// `compact` asks about every pair, also about those in files that need not be rewritten otherwise, and in any component.
#[test]
fn a_compaction_asks_about_every_pair() {
    for disk_component in components() {
        let options = tiny().disk_component(disk_component.clone());
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let db = Db::open_with(Arc::clone(&storage), options.clone()).unwrap();
        for number in 0..6_000_u32 {
            let first = [b'-', b'*', b'='][number as usize % 3];
            db.put(format!("key{number:05}"), [&[first][..], &[b'v'; 40]].concat()).unwrap();
        }
        db.compact().unwrap();
        assert_eq!(db.iter().unwrap().count(), 6_000);
        db.close().unwrap();
        let db = Db::open_with(Arc::clone(&storage), options.compaction_filter(By(by_value))).unwrap();
        db.compact().unwrap();
        let stats = db.stats();
        assert_eq!((stats.compaction_filter_removed, stats.compaction_filter_replaced), (2_000, 2_000));
        for pair in db.iter().unwrap() {
            let (key, value) = pair.unwrap();
            let number: usize = std::str::from_utf8(&key[3..]).unwrap().parse().unwrap();
            assert_eq!(Some(value[0]), [None, Some(b'+'), Some(b'=')][number % 3], "{disk_component:?}");
        }
        assert_eq!(db.iter().unwrap().count(), 4_000);
        // Nothing is left of the removed pairs, and a second compaction has nothing to change.
        assert_eq!(db.stats().levels.iter().map(|level| level.tombstones).sum::<u64>(), 0, "{disk_component:?}");
        db.compact().unwrap();
        assert_eq!(db.stats().compaction_filter_removed, 2_000);
        expect_sound(&db);
        db.close().unwrap();
        expect_sound_closed(&storage);
    }
}

/// Of one deterministic store, with all its pairs. The filter checks itself that it is not asked about what a snapshot can
/// read.
#[test]
fn readers_agree_with_a_model() {
    for seed in 0..setting("ALLUVIUM_SEEDS", 8) {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let storage = Arc::new(SimulatedStorage::new(seed));
        let newest_pin = Arc::new(AtomicU64::new(0));
        let asked = Arc::new(AtomicU64::new(0));
        let filter = {
            let (newest_pin, asked) = (Arc::clone(&newest_pin), Arc::clone(&asked));
            move || {
                let (newest_pin, asked) = (Arc::clone(&newest_pin), Arc::clone(&asked));
                By(move |pair: &FilterPair<'_>| {
                    asked.fetch_add(1, Ordering::Relaxed);
                    assert!(pair.number() > newest_pin.load(Ordering::Relaxed), "a snapshot can read the pair");
                    by_value(pair)
                })
            }
        };
        let disk_component = components()[seed as usize % 4].clone();
        let options = || {
            let options = Options::new().memory_budget(1 << 20).disk_component(disk_component.clone());
            options.merge_operator(Last { joins: true }).compaction_filter(filter())
        };
        let open = || {
            let db = DeterministicDb::open_small(storage.clone(), options()).unwrap();
            let own = db.keyspace("own", KeyspaceOptions::new().compaction_filter(filter())).unwrap();
            let other = db.keyspace("other", KeyspaceOptions::new()).unwrap();
            (db, own, other)
        };
        let (mut db, mut own, mut other) = open();
        let mut model = Model::new();
        let mut snapshots: Vec<(u64, Snapshot, [Contents; 3])> = Vec::new();
        for round in 0..6_000 {
            let which = random.below(3) as usize;
            let key = format!("key{:03}", random.below(400)).into_bytes();
            let length = random.below(60) as usize;
            let value = [&[b"-*=+"[random.below(4) as usize]][..], &random.bytes(length)].concat();
            match random.below(600) {
                0..=4 => while db.step() && !random.one_in(30) {},
                5 => db.flush().unwrap(),
                6 => db.compact().unwrap(),
                7 | 8 if snapshots.len() < 3 => {
                    let snapshot = db.snapshot();
                    let seen = [snapshot.clone(), snapshot.within(&own).unwrap(), snapshot.within(&other).unwrap()];
                    let number = db.stats().last_number;
                    newest_pin.fetch_max(number, Ordering::Relaxed);
                    snapshots.push((number, snapshot, seen.map(|snapshot| contents(&snapshot))));
                }
                7..=11 => {
                    snapshots.truncate(snapshots.len().saturating_sub(1));
                    newest_pin
                        .store(snapshots.iter().map(|(number, ..)| *number).max().unwrap_or(0), Ordering::Relaxed);
                }
                12 if random.one_in(3) => {
                    snapshots.clear();
                    newest_pin.store(0, Ordering::Relaxed);
                    drop((own, other));
                    db.close().unwrap();
                    (db, own, other) = open();
                }
                13..=40 => {
                    [&db, &own, &other][which].delete(&key).unwrap();
                    model.remove(&(which, key));
                }
                41..=100 if which == 0 => {
                    db.merge(&key, &value).unwrap();
                    model.insert((which, key), (value, false));
                }
                101..=300 => {
                    let found = [&db, &own, &other][which].get(&key).unwrap();
                    check(which, &mut model, &key, found.as_deref(), round);
                }
                _ => {
                    [&db, &own, &other][which].put(&key, &value).unwrap();
                    model.insert((which, key), (value, false));
                }
            }
            if round % 500 == 0 {
                for (_, snapshot, contents_before) in &snapshots {
                    let seen = [snapshot.clone(), snapshot.within(&own).unwrap(), snapshot.within(&other).unwrap()];
                    assert_eq!(&seen.map(|snapshot| contents(&snapshot)), contents_before, "a snapshot has changed");
                }
            }
        }
        snapshots.clear();
        newest_pin.store(0, Ordering::Relaxed);
        db.compact().unwrap();
        for (which, keyspace) in [&*db, &own, &other].into_iter().enumerate() {
            let expected = model.iter().filter(|((of, _), _)| *of == which).filter_map(|((_, key), (value, _))| {
                let value = if which == 2 { Some(value.clone()) } else { filtered(value) };
                Some((key.clone(), value?))
            });
            assert_eq!(contents(&keyspace.snapshot()), expected.collect(), "keyspace {which}");
        }
        assert!(asked.load(Ordering::Relaxed) > 500 && db.stats().compaction_filter_panics == 0);
    }
}

/// A get finds what was written last, or what the filter makes of it, and never the former after the latter.
fn check(which: usize, model: &mut Model, key: &[u8], found: Option<&[u8]>, round: u64) {
    let Some((written, is_filtered)) = model.get_mut(&(which, key.to_vec())) else {
        assert_eq!(found, None, "round {round}: a deleted pair is back");
        return;
    };
    if which == 2 {
        assert_eq!(found, Some(&written[..]), "round {round}: a keyspace without a filter was filtered");
        return;
    }
    let after = filtered(written);
    if found == Some(&written[..]) && after.as_deref() != found {
        assert!(!*is_filtered, "round {round}: a filtered pair is back");
        return;
    }
    assert_eq!(found, after.as_deref(), "round {round}");
    *is_filtered = true;
}

/// A store whose pairs "key…" all have a value that `by_value` removes, in files.
fn removable(disk_component: Option<DiskComponent>, filter: impl CompactionFilter) -> Db {
    let options = tiny().disk_component(disk_component).compaction_filter(filter);
    let db = Db::open_with(Arc::new(MemoryStorage::new()), options).unwrap();
    for number in 0..400 {
        db.put(format!("key{number:03}"), [b'-'; 40]).unwrap();
    }
    db
}

/// The snapshot is taken after the merge has read the list of snapshots, and before its result is published.
#[test]
fn a_snapshot_taken_during_a_merge_keeps_its_pairs() {
    for disk_component in components() {
        let inside: Arc<Mutex<Option<Db>>> = Arc::default();
        let taken: Arc<Mutex<Option<Snapshot>>> = Arc::default();
        let filter = {
            let (inside, taken) = (Arc::clone(&inside), Arc::clone(&taken));
            By(move |pair: &FilterPair<'_>| {
                if let Some(db) = inside.lock().unwrap().take() {
                    let snapshot = db.snapshot();
                    assert!(snapshot.get(pair.key()).unwrap().is_some());
                    *taken.lock().unwrap() = Some(snapshot);
                }
                by_value(pair)
            })
        };
        let db = removable(disk_component.clone(), filter);
        *inside.lock().unwrap() = Some(db.clone());
        db.compact().unwrap();
        let snapshot = taken.lock().unwrap().take().expect("the filter was not asked");
        assert_eq!(snapshot.iter().unwrap().count(), 400, "a snapshot sees less than before: {disk_component:?}");
        assert!(db.stats().compaction_filter_repeated > 0, "{disk_component:?}");
        drop(snapshot);
        db.compact().unwrap();
        assert_eq!(db.iter().unwrap().count(), 0);
        assert_eq!(db.stats().compaction_filter_removed, 400, "{disk_component:?}");
        expect_sound(&db);
        db.close().unwrap();
    }
}

/// Whatever reads at a moment keeps what it can read from the filter.
#[test]
fn whoever_reads_a_moment_keeps_its_pairs() {
    type Hold = fn(&Db) -> Box<dyn FnOnce() -> usize>;
    let holders: [(&str, Hold); 5] = [
        ("a snapshot", |db| {
            let snapshot = db.snapshot();
            Box::new(move || snapshot.iter().unwrap().count())
        }),
        ("an iterator", |db| {
            let mut iter = db.iter().unwrap();
            let first = iter.next().unwrap().unwrap();
            assert_eq!(first.0, b"key000");
            Box::new(move || 1 + iter.count())
        }),
        ("an iterator from the end", |db| {
            let mut iter = db.iter().unwrap();
            iter.next_back().unwrap().unwrap();
            Box::new(move || 1 + iter.rev().count())
        }),
        ("a transaction", |db| {
            let transaction = db.transaction().unwrap();
            transaction.put("other", "=").unwrap();
            Box::new(move || {
                let found = (0..400).filter(|number| transaction.get(format!("key{number:03}")).unwrap().is_some());
                let count = found.count();
                transaction.commit().unwrap();
                count
            })
        }),
        ("the snapshot that the store keeps for relaxed ones", |db| {
            let age = std::time::Duration::from_secs(1000);
            drop(db.relaxed_snapshot(age));
            let db = db.clone();
            Box::new(move || db.relaxed_snapshot(age).iter().unwrap().count())
        }),
    ];
    for (name, hold) in holders {
        let asked = Arc::new(AtomicU64::new(0));
        let filter = {
            let asked = Arc::clone(&asked);
            By(move |pair: &FilterPair<'_>| {
                asked.fetch_add(1, Ordering::Relaxed);
                by_value(pair)
            })
        };
        let db = removable(None, filter);
        let held = hold(&db);
        asked.store(0, Ordering::Relaxed);
        db.compact().unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 0, "{name}: the filter was asked");
        assert_eq!(held(), 400, "{name}");
        assert_eq!(db.stats().compaction_filter_removed, 0, "{name}");
    }
}

/// The pair is filtered while an update that has read it runs.
#[test]
fn an_update_does_not_write_what_it_made_of_a_filtered_pair() {
    for disk_component in components() {
        let db = removable(disk_component.clone(), By(by_value));
        db.compact_range(..).unwrap();
        for number in 0..400 {
            db.put(format!("key{number:03}"), [b'-'; 40]).unwrap();
        }
        let snapshot = db.snapshot();
        db.compact().unwrap();
        drop(snapshot);
        let mut seen = Vec::new();
        let value = db.update("key007", |old| {
            seen.push(old.map(<[u8]>::to_vec));
            if seen.len() == 1 {
                db.compact().unwrap();
                assert_eq!(db.get("key007").unwrap(), None, "the filter was not asked");
            }
            Some(old.map_or(b"=new".to_vec(), |_| b"=old".to_vec()))
        });
        assert_eq!(value.unwrap().as_deref(), Some(&b"=new"[..]), "updated to what a filtered pair becomes");
        assert_eq!(seen.last(), Some(&None), "{disk_component:?}");
        assert!(matches!(db.compare_and_swap("key008", Some(b"-"), Some(b"=")).unwrap(), Swap::Differs(None)));
        assert!(db.put_if_absent("key009", "=").unwrap());
        db.close().unwrap();
    }
}

/// A value that a get has cached on its own.
#[test]
fn no_cached_item_outlives_a_filtered_pair() {
    for disk_component in [None, Some(tiny_levels(1))] {
        let storage = Arc::new(SimulatedStorage::new(3));
        let removes = Arc::new(AtomicBool::new(false));
        let filter = {
            let removes = Arc::clone(&removes);
            By(move |pair: &FilterPair<'_>| match pair.value() {
                Some(_) if removes.load(Ordering::Relaxed) && pair.key().ends_with(b"0") => FilterDecision::Remove,
                Some(_) if removes.load(Ordering::Relaxed) => FilterDecision::Replace(b"new".to_vec()),
                _ => FilterDecision::Keep,
            })
        };
        let options = Options::new().memory_budget(1 << 20).disk_component(disk_component).compaction_filter(filter);
        let db = DeterministicDb::open_small(storage, options).unwrap();
        let key = |number: u64| format!("key{number:05}");
        let random = &mut Random(5);
        for number in 0..8_000 {
            db.put(key(number), random.bytes(if number % 10 == 0 { 1_000 } else { 60 })).unwrap();
        }
        db.compact().unwrap();
        for _ in 0..4 {
            (0..60).for_each(|number| assert!(db.get(key(number * 131)).unwrap().is_some()));
            (0..500).for_each(|_| drop(db.get(key(random.below(8_000))).unwrap()));
        }
        let items = db.stats().items;
        assert!(items > 10, "{items} items");
        removes.store(true, Ordering::Relaxed);
        db.compact().unwrap();
        for number in 0..8_000 {
            let expected = if number % 10 == 0 { None } else { Some(b"new".to_vec()) };
            assert_eq!(db.get(key(number)).unwrap(), expected, "the item is old");
        }
    }
}

#[test]
fn a_panic_of_the_filter_keeps_the_pair() {
    let db = removable(
        None,
        By(|pair: &FilterPair<'_>| {
            assert!(!pair.key().ends_with(b"7"), "the filter fails");
            by_value(pair)
        }),
    );
    db.compact().unwrap();
    assert_eq!(db.iter().unwrap().count(), 40);
    let stats = db.stats();
    assert_eq!((stats.compaction_filter_removed, stats.failure), (360, None));
    assert!(stats.compaction_filter_panics >= 40, "{}", stats.compaction_filter_panics);
    db.put("more", "=").unwrap();
    db.close().unwrap();
}

/// A value in a file of its own is not read. A value that would need one is refused.
#[test]
fn large_values_are_not_shown_and_not_made() {
    let options = tiny().memory_budget(8 << 20).compaction_filter(By(|pair: &FilterPair<'_>| match pair.key() {
        b"large to remove" if pair.value().is_none() => FilterDecision::Remove,
        b"large to replace" if pair.value().is_none() => FilterDecision::Replace(b"small".to_vec()),
        b"small to enlarge" => FilterDecision::Replace(vec![1; 256 << 10]),
        _ => FilterDecision::Keep,
    }));
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let db = Db::open_with(Arc::clone(&storage), options).unwrap();
    let large = vec![7; 300 << 10];
    for key in ["large to keep", "large to remove", "large to replace"] {
        db.put(key, &large).unwrap();
    }
    db.put("small to enlarge", "small").unwrap();
    db.compact().unwrap();
    assert_eq!(db.get("large to keep").unwrap(), Some(large));
    assert_eq!(db.get("large to remove").unwrap(), None);
    assert_eq!(db.get("large to replace").unwrap().as_deref(), Some(&b"small"[..]));
    assert_eq!(db.get("small to enlarge").unwrap().as_deref(), Some(&b"small"[..]));
    let stats = db.stats();
    assert_eq!((stats.compaction_filter_removed, stats.compaction_filter_replaced), (1, 1));
    assert!(stats.compaction_filter_refused > 0);
    expect_sound(&db);
    db.close().unwrap();
    // What is left by then, the next opening removes.
    let db = Db::open_with(Arc::clone(&storage), tiny()).unwrap();
    assert_eq!(db.stats().value_files, 1);
    db.close().unwrap();
    expect_sound_closed(&storage);
}

/// Operands that wait are folded, then the filter is asked about the value.
#[test]
fn merge_operands_are_filtered_as_values() {
    let is_value = |pair: &FilterPair<'_>| match pair.value() {
        Some(b"-+") => FilterDecision::Remove,
        Some(b"-" | b"+") => panic!("an operand was passed to the filter"),
        _ => FilterDecision::Keep,
    };
    let options = tiny().merge_operator(Append).compaction_filter(By(is_value));
    let db = Db::open_with(Arc::new(MemoryStorage::new()), options).unwrap();
    db.merge("gone", "-").unwrap();
    db.merge("stays", "=").unwrap();
    db.flush().unwrap();
    db.merge("gone", "+").unwrap();
    db.merge("stays", "=").unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!((db.get("gone").unwrap(), db.get("stays").unwrap().as_deref()), (None, Some(&b"=="[..])));
    assert_eq!(db.stats().compaction_filter_panics, 0, "an operand was passed to the filter");
    db.close().unwrap();
}

#[test]
fn each_keyspace_has_its_filter() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let db = Db::open_with(Arc::clone(&storage), tiny()).unwrap();
    let with_filter = || KeyspaceOptions::new().compaction_filter(By(by_value));
    assert!(matches!(db.keyspace("default", with_filter()), Err(Error::InvalidArgument(_))));
    let (own, other) = (db.keyspace("own", with_filter()).unwrap(), db.keyspace("other", Default::default()).unwrap());
    let fill = || {
        [&db, &own, &other].into_iter().for_each(|keyspace| keyspace.put("key", "-").unwrap());
        db.compact().unwrap();
        [&db, &own, &other].map(|keyspace| keyspace.get("key").unwrap().is_some())
    };
    assert_eq!(fill(), [true, false, true]);
    // Opening it again without a filter leaves the one that it has.
    let again = db.keyspace("own", KeyspaceOptions::new()).unwrap();
    assert!(again.options().unwrap().compaction_filter.is_some());
    assert_eq!(fill(), [true, false, true]);
    // Options that are set replace it.
    own.set_options(own.options().unwrap()).unwrap();
    other.set_options(with_filter()).unwrap();
    assert_eq!(fill(), [true, false, false]);
    own.set_options(KeyspaceOptions::new()).unwrap();
    assert_eq!(fill(), [true, true, false]);
    // The store does not remember it.
    drop((own, other, again));
    db.close().unwrap();
    let db = Db::open_with(storage, tiny()).unwrap();
    let other = db.keyspace("other", KeyspaceOptions::new()).unwrap();
    other.put("key", "-").unwrap();
    db.compact().unwrap();
    assert!(other.get("key").unwrap().is_some());
    assert!(other.options().unwrap().compaction_filter.is_none());
    db.close().unwrap();
}

/// The store dies before operations of merges that filter. What it then has is the contents before or after a merge, and a
/// pair that was seen to be filtered stays so.
#[test]
fn a_death_during_a_merge_leaves_all_of_its_changes_or_none() {
    let random = &mut Random(setting("ALLUVIUM_SEED", 1));
    let (mut tried, mut partly) = (0, 0);
    for disk_component in components() {
        let options = || {
            let options = Options::new().memory_budget(1 << 20).disk_component(disk_component.clone());
            options.compaction_filter(By(by_value))
        };
        let disk = SimulatedStorage::new(11);
        let db = DeterministicDb::open_small(Arc::new(disk.clone()), options()).unwrap();
        let mut written = BTreeMap::new();
        for number in 0..3_000_u32 {
            let value = [&[b"-*="[number as usize % 3]][..], &random.bytes(40)].concat();
            let key = format!("key{:04}", number * 7 % 3_000).into_bytes();
            db.put(&key, &value).unwrap();
            written.insert(key, value);
        }
        db.sync().unwrap();
        disk.record_crashes();
        db.compact().unwrap();
        assert!(db.stats().compaction_filter_removed > 0);
        let points = disk.crash_points();
        let step = (points.len() / setting("ALLUVIUM_DEATHS", 30) as usize).max(1);
        for (at, point) in points.into_iter().enumerate().skip(random.below(step as u64) as usize).step_by(step) {
            let died = if at % 2 == 0 { point.disk.clone_disk() } else { point.disk.power_cut(at as u64) };
            let open =
                |disk: &SimulatedStorage| DeterministicDb::open_small(Arc::new(disk.clone()), options()).unwrap();
            let db = open(&died);
            let before = contents(&db.snapshot());
            for (key, value) in &written {
                let found = before.get(key);
                let fits = found == Some(value) || found == filtered(value).as_ref();
                assert!(fits, "{disk_component:?}, before {} {}: {found:?}", point.operation, point.name);
            }
            // A kill, after more merges: nothing that was filtered is back.
            for _ in 0..random.below(20) {
                db.step();
            }
            let killed = died.kill();
            drop(db);
            let db = open(&killed);
            for (key, value) in &written {
                let (found, was) = (db.get(key).unwrap(), before.get(key));
                let fits = found.as_ref() == was || found == filtered(value);
                assert!(fits, "a filtered pair is back: {disk_component:?}");
            }
            db.compact().unwrap();
            let expected = written.iter().filter_map(|(key, value)| Some((key.clone(), filtered(value)?)));
            assert_eq!(contents(&db.snapshot()), expected.collect());
            db.verify().unwrap();
            (tried, partly) = (tried + 1, partly + u64::from(before != written));
        }
    }
    assert!(tried > 40 && partly > 5, "{tried} deaths, {partly} with filtered pairs");
}

/// A reader in another opening has the files of its time.
#[test]
fn checkpoints_and_readers_have_what_was_there() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let db = Db::open_with(Arc::clone(&storage), tiny().compaction_filter(By(by_value))).unwrap();
    (0..400).for_each(|number| db.put(format!("key{number:03}"), [b'-'; 40]).unwrap());
    let snapshot = db.snapshot();
    db.flush().unwrap();
    let reader = alluvium::ReadOnlyDb::open_with(Arc::clone(&storage), tiny()).unwrap();
    drop(snapshot);
    db.compact().unwrap();
    assert_eq!((db.iter().unwrap().count(), reader.iter().unwrap().count()), (0, 400));
    drop(reader);
    let reader = alluvium::ReadOnlyDb::open_with(storage, tiny()).unwrap();
    assert_eq!(reader.iter().unwrap().count(), 0);
    db.close().unwrap();
}
