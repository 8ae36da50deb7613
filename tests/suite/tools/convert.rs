//! Conversion between disk components: the contents stay, a crash leaves the store before or after it, and what cannot
//! be converted is left as it is.

use crate::support::{Random, setting, tiny_levels, tiny_skip, tiny_unsynced};
use crate::tools::corruption::world::{Size, World};
use crate::tools::corruption::{repair, verify};
use alluvium::internals::DeterministicDb;
use alluvium::storage::Storage;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{ConvertReport, Db, Depth, DiskComponent, Error, LevelsOptions, Options, ReadOnlyDb};
use std::collections::BTreeMap;
use std::sync::Arc;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn all() -> [(&'static str, DiskComponent); 4] {
    let (leveled, tiered) = (tiny_levels(1), tiny_levels(3));
    [("trunk", DiskComponent::Trunk), ("leveled", leveled), ("tiered", tiered), ("skip", tiny_skip())]
}

fn options(component: &DiskComponent) -> Options {
    tiny_unsynced().disk_component(component.clone())
}

fn open(disk: &SimulatedStorage) -> DeterministicDb {
    let options = tiny_unsynced().create_if_missing(false);
    DeterministicDb::open(Arc::new(disk.clone()), options).unwrap()
}

fn convert(disk: &SimulatedStorage, to: &DiskComponent) -> alluvium::Result<ConvertReport> {
    Db::convert_with(Arc::new(disk.clone()), &options(to), &mut |_| ())
}

/// Puts, overwrites and deletes; now and then a value so large that it has a file of its own.
fn write(db: &Db, random: &mut Random, pairs: &mut Pairs, count: usize) {
    for at in 0..count {
        let key = format!("key{:04}", random.below(1500)).into_bytes();
        if random.one_in(6) {
            db.delete(&key).unwrap();
            pairs.remove(&key);
        } else {
            let length = if at % 400 == 399 { 270_000 } else { random.below(200) as usize };
            let value = random.bytes(length);
            db.put(&key, &value).unwrap();
            pairs.insert(key, value);
        }
    }
}

/// A closed store with all its data in branch and value files.
fn store(seed: u64, component: &DiskComponent) -> (SimulatedStorage, Pairs, u64) {
    let disk = SimulatedStorage::new(seed);
    let db = DeterministicDb::open(Arc::new(disk.clone()), options(component)).unwrap();
    let (mut random, mut pairs) = (Random(seed), Pairs::new());
    for _ in 0..10 {
        write(&db, &mut random, &mut pairs, 500);
        for _ in 0..20 {
            db.step();
        }
    }
    db.flush().unwrap();
    let last = db.stats().last_number;
    db.close().unwrap();
    (disk, pairs, last)
}

fn contents(db: &Db) -> Pairs {
    db.iter().unwrap().map(|pair| pair.unwrap()).collect()
}

fn names(disk: &SimulatedStorage, ending: &str) -> Vec<String> {
    disk.current_image().into_keys().filter(|name| name.ends_with(ending)).collect()
}

/// Checks every file of a closed store, and that no file is left over.
fn check_files(disk: &SimulatedStorage, what: &str) {
    let found = verify(disk, Depth::Deep).unwrap();
    assert!(found.is_valid(), "{what}: {:?}", found.damage);
    assert!(found.unreferenced.is_empty(), "{what}: {:?}", found.unreferenced);
    assert_eq!(names(disk, ".repair"), [""; 0], "{what}");
}

#[test]
fn the_contents_and_the_numbers_stay() {
    for (from_kind, from) in all() {
        let (disk, pairs, last) = store(1, &from);
        let files = [".branch", ".value"].map(|ending| names(&disk, ending).len());
        assert!(files[0] > 2 && files[1] > 2, "{from_kind}: {files:?} files");
        for (kind, to) in all() {
            let what = format!("{from_kind} to {kind}");
            let (disk, before) = (disk.clone_disk(), disk.current_image());
            let (mut done, mut total, mut reports) = (0, 0, 0);
            let report = Db::convert_with(Arc::new(disk.clone()), &options(&to), &mut |progress| {
                assert!(progress.bytes_done >= done && progress.bytes_done <= progress.bytes_total, "{what}");
                (done, total, reports) = (progress.bytes_done, progress.bytes_total, reports + 1);
            });
            let report = report.unwrap();
            assert_eq!((report.component_before, report.component), (from_kind, kind), "{what}");
            assert_eq!(report.changed, from_kind != kind, "{what}");
            if from_kind == kind {
                assert_eq!(disk.current_image(), before, "{what}");
                continue;
            }
            assert!(reports > 2 && total > 0 && done == total, "{what}: {done} of {total}, {reports} reports");
            assert_eq!(report.entries, pairs.len() as u64, "{what}: {report:?}");
            assert_eq!(report.files, names(&disk, ".branch").len() as u64, "{what}: {report:?}");
            assert!(report.entries_before > report.entries && report.files_before > 0, "{what}: {report:?}");
            // Only values that overwritten or deleted keys had are gone; no value was copied.
            for name in names(&disk, ".value") {
                assert_eq!(before[&name], disk.current_image()[&name], "{what}");
            }
            check_files(&disk, &what);
            let db = open(&disk);
            assert_eq!(db.stats().disk_component, kind, "{what}");
            assert_eq!(db.stats().last_number, last, "{what}");
            assert!(contents(&db) == pairs, "{what}");
            for key in pairs.keys() {
                assert_eq!(db.get(key).unwrap().as_ref(), pairs.get(key), "{what}");
            }
            let mut pairs = pairs.clone();
            write(&db, &mut Random(2), &mut pairs, 1500);
            db.flush().unwrap();
            while db.step() {}
            assert!(db.stats().last_number > last && contents(&db) == pairs, "{what}, after more writes");
            db.close().unwrap();
            check_files(&disk, &what);
            // And back.
            assert!(convert(&disk, &from).unwrap().changed, "{what}");
            check_files(&disk, &what);
            let db = open(&disk);
            assert!(contents(&db) == pairs && db.stats().disk_component == from_kind, "{what} and back");
        }
    }
}

/// A conversion leaves the log alone: its records are newer than all branch files.
#[test]
fn what_only_the_log_has_stays() {
    for (size, closes) in [(Size::Usual, false), (Size::Usual, true), (Size::Small, false), (Size::Levels, false)] {
        let world = World::with_end(8, size, closes);
        let to = if size == Size::Levels { DiskComponent::Trunk } else { tiny_levels(1) };
        let disk = world.disk.clone_disk();
        let log = |disk: &SimulatedStorage| {
            let files = disk.current_image().into_iter();
            files.filter(|(name, _)| name.ends_with(".log") || name.ends_with(".shadow")).collect::<BTreeMap<_, _>>()
        };
        assert!(!log(&disk).is_empty() && convert(&disk, &to).unwrap().changed, "{size:?}");
        assert_eq!(log(&disk), log(&world.disk), "{size:?}");
        assert!(verify(&disk, Depth::Deep).unwrap().is_valid(), "{size:?}");
        for disk in [disk.clone_disk(), disk.kill()] {
            let db = open(&disk);
            assert_eq!(db.stats().disk_component == "trunk", size == Size::Levels, "{size:?}");
            for key in world.versions.keys() {
                assert_eq!(db.get(key).unwrap().as_deref(), world.right(key), "{size:?}");
            }
        }
        if closes {
            let db = open(&disk.power_cut(1));
            for key in world.versions.keys() {
                assert_eq!(db.get(key).unwrap().as_deref(), world.right(key), "after a power cut");
            }
        }
    }
}

/// After a kill or a power cut before any I/O operation of a conversion, the store has the old component or the new one,
/// with the same contents, and it is converted by a second attempt.
#[test]
fn a_crash_leaves_the_store_before_or_after_the_conversion() {
    let (leveled, tiered) = (tiny_levels(1), tiny_levels(3));
    let cases = [
        (World::new(6), "trunk", "leveled", &leveled),
        (World::with_end(6, Size::Levels, true), "skip", "trunk", &DiskComponent::Trunk),
        (World::with_end(6, Size::Levels, true), "skip", "tiered", &tiered),
    ];
    for (world, from_kind, kind, to) in cases {
        let whole = world.disk.clone_disk();
        let operations = whole.operations();
        assert!(convert(&whole, to).unwrap().changed);
        let operations = whole.operations() - operations;
        let step = (operations / setting("ALLUVIUM_CONVERT_CRASHES", 80)).max(1);
        let (mut as_before, mut converted) = (0, 0);
        let last = operations.saturating_sub(40)..=operations;
        for at in (1..=operations).step_by(step as usize).chain(last) {
            let what = format!("{from_kind} to {kind}, a crash at {at} of {operations}");
            let disk = world.disk.clone_disk();
            disk.crash_at(at.max(1));
            assert!(convert(&disk, to).is_err(), "{what}: was not reached");
            let disk = if at % 2 == 0 { disk.kill() } else { disk.power_cut(at) };
            let found = verify(&disk, Depth::Deep).unwrap();
            assert!(found.is_valid(), "{what}: {:?}", found.damage);
            let repaired = disk.clone_disk();
            assert!(repair(&repaired).unwrap().is_complete(), "{what}");
            let again = disk.clone_disk();
            let report = convert(&again, to).unwrap_or_else(|error| panic!("{what}: again: {error}"));
            let changed = report.changed;
            if changed {
                // Nothing is left of the first attempt. (A power cut may bring back a value file whose removal was not
                // durable yet; the next opening removes it.)
                let left = verify(&again, Depth::Deep).unwrap().unreferenced;
                let was_there = |name: &String| name.ends_with(".value") && found.unreferenced.contains(name);
                assert!(left.iter().all(was_there), "{what}: {left:?}");
                assert_eq!(names(&again, ".repair"), [""; 0], "{what}");
                assert_eq!(names(&again, ".branch").len() as u64, report.files, "{what}");
            }
            for (disk, is_new) in [(&disk, !changed), (&repaired, !changed), (&again, true)] {
                let db = open(disk);
                assert_eq!(db.stats().disk_component, if is_new { kind } else { from_kind }, "{what}");
                for key in world.versions.keys() {
                    assert_eq!(db.get(key).unwrap().as_deref(), world.right(key), "{what}");
                }
                db.close().unwrap();
                check_files(disk, &what);
            }
            *if changed { &mut as_before } else { &mut converted } += 1;
        }
        assert!(as_before > 0 && converted > 0, "{from_kind} to {kind}: {as_before} as before, {converted} converted");
    }
}

/// A conversion that was killed leaves the mark. If the manifest is lost as well, repair must not take the unfinished
/// files for data.
#[test]
fn a_killed_conversion_and_a_lost_manifest_are_repaired() {
    // Without a manifest the values of keys that end with merges may be wrong.
    let world = World::of_puts_and_deletes(9, Size::Usual, true);
    let whole = world.disk.clone_disk();
    let operations = whole.operations();
    convert(&whole, &tiny_levels(1)).unwrap();
    let operations = whole.operations() - operations;
    // The latest moment at which there are finished files and the mark.
    let killed = (1..operations).rev().map(|at| {
        let disk = world.disk.clone_disk();
        disk.crash_at(at);
        assert!(convert(&disk, &tiny_levels(1)).is_err());
        disk.kill()
    });
    let is_before = |disk: &SimulatedStorage| disk.current_image()["MANIFEST"] == world.image["MANIFEST"];
    let disk = killed.into_iter().find(|disk| names(disk, ".repair").len() == 1 && is_before(disk)).unwrap();
    assert!(names(&disk, ".branch").len() > names(&world.disk, ".branch").len());
    disk.remove("MANIFEST").unwrap();
    let report = repair(&disk).unwrap();
    let [loss] = &report.losses[..] else { panic!("{report:?}") };
    assert_eq!(loss.file, "MANIFEST", "{report:?}");
    for key in world.versions.keys().filter(|key| world.right(key).is_some()) {
        assert_eq!(open(&disk).get(key).unwrap().as_deref(), world.right(key));
    }
}

#[test]
fn too_little_space_is_found_before_anything_is_written() {
    let (disk, pairs, _) = store(3, &DiskComponent::Trunk);
    let live: u64 = names(&disk, ".branch").iter().map(|name| disk.current_image()[name].len() as u64).sum();
    for free in [0, live / 2] {
        let (disk, before) = (disk.clone_disk(), disk.current_image());
        disk.set_capacity(Some(disk.used() + free));
        let operations = disk.operations();
        let error = convert(&disk, &tiny_levels(1)).unwrap_err();
        assert!(error.is_disk_full() && error.to_string().contains("bytes are free"), "{error}");
        assert!(disk.operations() > operations);
        assert_eq!(disk.current_image(), before);
        disk.set_capacity(None);
        assert!(convert(&disk, &tiny_levels(1)).unwrap().changed);
        assert!(contents(&open(&disk)) == pairs);
    }
    // With what the error says it needs, it succeeds.
    disk.set_capacity(Some(disk.used()));
    let text = convert(&disk, &tiny_levels(1)).unwrap_err().to_string();
    let needed = text.split_once("need about ").unwrap().1.split(' ').next().unwrap();
    disk.set_capacity(Some(disk.used() + needed.parse::<u64>().unwrap()));
    assert!(convert(&disk, &tiny_levels(1)).unwrap().changed);
    disk.set_capacity(None);
    assert!(contents(&open(&disk)) == pairs);
}

/// An error in the middle, whatever it is: the store is as before, and the new files do not keep their space.
#[test]
fn after_an_error_the_new_files_are_removed() {
    let (disk, pairs, _) = store(4, &tiny_levels(1));
    let before = disk.current_image();
    for fault in [
        "(write name~.branch nth=3) -> enospc",
        "(sync name~.branch nth=2) -> eio",
        "(read name~.branch nth=2) -> eio",
        "(write name=MANIFEST.new) -> enospc",
        "(sync name=MANIFEST.new) -> eio",
    ] {
        let disk = disk.clone_disk();
        disk.inject(fault);
        assert!(convert(&disk, &DiskComponent::Trunk).is_err(), "{fault}");
        disk.clear_faults();
        let mut image = disk.current_image();
        image.remove("MANIFEST.new");
        assert_eq!(image.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{fault}");
        assert_eq!(image, before, "{fault}");
        assert!(convert(&disk, &DiskComponent::Trunk).unwrap().changed, "{fault}");
        assert!(contents(&open(&disk)) == pairs, "{fault}");
    }
}

#[test]
fn what_cannot_be_converted_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let to = |component: DiskComponent| crate::support::tiny().disk_component(component);
    let leveled = || to(tiny_levels(1));
    let convert = |options: &Options| Db::convert(&path, options, &mut |_| ());
    assert!(matches!(convert(&leveled()), Err(Error::NoStore { .. })));
    assert!(!path.exists());
    let db = Db::open(&path, crate::support::tiny()).unwrap();
    db.put("key", "value").unwrap();
    assert!(matches!(convert(&leveled()), Err(Error::AlreadyOpen { .. })));
    db.close().unwrap();
    let reader = ReadOnlyDb::open(&path, crate::support::tiny()).unwrap();
    assert!(matches!(convert(&leveled()), Err(Error::AlreadyOpen { .. })));
    drop(reader);
    let refused = |options: &Options, text: &str| {
        let error = convert(options).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.to_string().contains(text), "{error}");
    };
    refused(&crate::support::tiny(), "disk_component");
    let levels = LevelsOptions::leveled().size_ratio(1);
    refused(&to(DiskComponent::Levels(levels)), "size_ratio");
    // An opening with the other component names the conversion; after it, the opening succeeds.
    let error = Db::open(&path, leveled()).unwrap_err().to_string();
    assert!(error.contains("alluvium convert"), "{error}");
    assert!(convert(&leveled()).unwrap().changed);
    // Levels of another shape are another component.
    assert!(!convert(&leveled()).unwrap().changed);
    let wide = LevelsOptions::leveled().size_ratio(7);
    assert!(convert(&to(DiskComponent::Levels(wide.clone()))).unwrap().changed);
    let db = Db::open(&path, to(DiskComponent::Levels(wide))).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    db.close().unwrap();
}

#[test]
fn a_damaged_store_is_not_converted() {
    let world = World::new(3);
    let name = names(&world.disk, ".branch").pop().unwrap();
    for (name, offset) in [(name.as_str(), 100), ("MANIFEST", 20), (&names(&world.disk, ".log")[0], 20)] {
        let disk = world.disk.clone_disk();
        disk.corrupt(name, offset, 4);
        let before = disk.current_image();
        let error = convert(&disk, &tiny_levels(1)).unwrap_err();
        assert!(matches!(error, Error::Corruption { .. }), "{name}: {error}");
        assert!(error.to_string().contains(name), "{name}: {error}");
        assert_eq!(disk.current_image(), before, "{name}");
    }
    let disk = world.disk.clone_disk();
    disk.remove(&name).unwrap();
    let error = convert(&disk, &tiny_levels(1)).unwrap_err();
    assert!(matches!(&error, Error::Corruption { path, .. } if path.ends_with(&name)), "{error}");
}
