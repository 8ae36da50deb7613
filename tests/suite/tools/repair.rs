//! Repair, case by case: the remains of a store become a valid store, no data is destroyed, and a crash leaves the
//! state before or after the repair. `merges`: stores with merges and range deletes.

mod merges;

use crate::support::{Random, setting, tiny_unsynced};
use crate::tools::corruption::world::{Image, Size, World, open};
use crate::tools::corruption::{Unreported, check_repair, repair, verify};
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{OpenMode, Storage};
use alluvium::{Db, Depth, Error, LostKeys};
use std::sync::Arc;

fn names(disk: &SimulatedStorage, ending: &str) -> Vec<String> {
    disk.current_image().into_keys().filter(|name| name.ends_with(ending)).collect()
}

/// Flips a bit in the middle of the file's page.
fn flipped(bytes: &[u8], page: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[page * 4096 + 100] ^= 4;
    bytes
}

fn largest(world: &World, ending: &str) -> String {
    let of_kind = world.image.iter().filter(|(name, _)| name.ends_with(ending));
    of_kind.max_by_key(|(_, bytes)| bytes.len()).unwrap().0.clone()
}

/// Parents hold older versions, too, whose newer ones or deletes merges have taken elsewhere or dropped. `check_repair`
/// finds what comes back, and what is lost without a report.
#[test]
fn of_a_damaged_parent_only_what_is_in_memory_is_saved() {
    let world = World::with_parents(1);
    let parents = world.parents(&open(&world.disk.clone_disk()).unwrap());
    let (mut lost, mut saved) = (0, 0);
    for name in &parents {
        let pages = world.image[name].len() / 4096;
        for page in 0..pages {
            let disk = world.with(&[(name.clone(), flipped(&world.image[name], page))].into(), &[]);
            let report = check_repair(&world, &disk, &format!("page {page} of {name}"), Unreported::Nothing);
            assert!(report.log_kept && report.manifest_lost.is_none(), "{report:?}");
            assert_eq!(report.set_aside, [format!("{name}.damaged")], "page {page}");
            (lost, saved) = (lost + report.entries_lost, saved + report.entries_saved);
            let db = open(&disk).unwrap();
            assert_eq!(db.stats().disk_component, "skip");
            db.compact().unwrap();
            assert_eq!(db.stats().parent_bytes, 0);
            db.close().unwrap();
            assert!(verify(&disk, Depth::Deep).unwrap().is_valid());
        }
        let disk = world.with(&Image::new(), std::slice::from_ref(name));
        let report = check_repair(&world, &disk, "a lost parent", Unreported::Nothing);
        assert!(report.entries_lost > 0 && report.losses.iter().any(|loss| loss.file == *name), "{report:?}");
    }
    assert!(lost > 0 && saved > 0, "{lost} lost, {saved} saved");
    assert!(!repair(&world.disk.clone_disk()).unwrap().changed);
}

#[test]
fn repair_leaves_a_valid_store_alone() {
    let world = World::new(1);
    let disk = world.disk.clone_disk();
    let report = repair(&disk).unwrap();
    assert!(!report.changed && report.is_complete() && report.log_kept && report.branches_kept > 1, "{report:?}");
    assert_eq!(disk.current_image(), world.image);
}

#[test]
fn a_damaged_branch_keeps_its_good_pages_and_its_place() {
    let world = World::of_puts_and_deletes(1, Size::Usual, true);
    let name = largest(&world, ".branch");
    let disk = world.with(&[(name.clone(), flipped(&world.image[&name], 1))].into(), &[]);
    let report = check_repair(&world, &disk, "a flipped page", Unreported::Nothing);
    assert!(report.log_kept && report.manifest_lost.is_none(), "{report:?}");
    assert_eq!((report.branches_rewritten, report.branches_lost), (1, 0), "{report:?}");
    assert!(report.entries_lost > 0 && report.entries_saved > 0, "{report:?}");
    let [loss] = &report.losses[..] else { panic!("{report:?}") };
    assert_eq!((&loss.file, loss.bytes.as_ref().map(|bytes| bytes.start)), (&name, Some(4096)));
    assert!(matches!(&loss.keys, Some(LostKeys::Between { after: Some(_), before: Some(_) })), "{loss:?}");
    // The damaged file is still there, complete, under another name.
    assert_eq!(report.set_aside, [format!("{name}.damaged")]);
    assert_eq!(disk.current_image()[&report.set_aside[0]], flipped(&world.image[&name], 1));
}

#[test]
fn damaged_and_lost_branches_of_levels_keep_the_rest_in_its_place() {
    let world = World::with_end(1, Size::Levels, true);
    let of_branches = || world.image.keys().filter(|name| name.ends_with(".branch"));
    assert!(of_branches().count() > 4, "{:?}", world.image.keys());
    let disk = world.disk.clone_disk();
    assert!(!repair(&disk).unwrap().changed);
    for name in of_branches() {
        let disk = world.with(&[(name.clone(), flipped(&world.image[name], 0))].into(), &[]);
        let report = check_repair(&world, &disk, "a flipped page", Unreported::Nothing);
        assert!(report.log_kept && report.manifest_lost.is_none() && report.entries_lost > 0, "{report:?}");
        let disk = world.with(&Image::new(), std::slice::from_ref(name));
        let report = check_repair(&world, &disk, "a lost file", Unreported::Nothing);
        assert_eq!(report.branches_lost, 1, "{report:?}");
        let db = open(&disk).unwrap();
        assert_eq!(db.stats().disk_component, "skip");
        db.compact().unwrap();
        db.close().unwrap();
        assert!(verify(&disk, Depth::Deep).unwrap().is_valid());
    }
    // Nothing but the manifest says that the store had levels, so its data becomes a trunk.
    let disk = world.with(&Image::new(), &["MANIFEST".into()]);
    check_repair(&world, &disk, "no manifest", Unreported::Nothing);
    assert_eq!(open(&disk).unwrap().stats().disk_component, "trunk");
}

/// After a split, several leaves refer to one branch file. A rewritten file without its first page has no keys in some of
/// them. Repair once kept all the references, and `verify` then reported that the manifest was damaged.
#[test]
fn a_rewritten_branch_stays_only_in_the_leaves_that_it_overlaps() {
    let disk = SimulatedStorage::new(1);
    let db = DeterministicDb::open(Arc::new(disk.clone()), tiny_unsynced()).unwrap();
    let mut random = Random(1);
    for at in 0..6000 {
        db.put(format!("key{:06}", random.below(1_000_000)), random.bytes(100)).unwrap();
        if at % 40 == 0 {
            db.step();
        }
    }
    db.flush().unwrap();
    // Enough work to split the leaf, and not enough to merge its files.
    for _ in 0..5 {
        db.step();
    }
    let leaves = db.stats().levels.last().map(|level| level.nodes);
    assert!(leaves > Some(1), "{}", db.stats());
    db.close().unwrap();
    let image = disk.current_image();
    let mut rewritten = 0;
    for name in names(&disk, ".branch") {
        let disk = disk.clone_disk();
        disk.open(&name, OpenMode::ReadWrite).unwrap().write_all_at(&flipped(&image[&name], 0), 0).unwrap();
        rewritten += repair(&disk).unwrap().branches_rewritten;
        let found = verify(&disk, Depth::Deep).unwrap();
        assert!(found.is_valid(), "{name}: {:?}", found.damage);
    }
    assert!(rewritten > 0, "no file kept a part of its keys");
}

#[test]
fn a_store_without_its_manifest_is_restored_completely() {
    let world = World::new(2);
    let disk = world.with(&Image::new(), &["MANIFEST".into()]);
    assert!(
        matches!(open(&disk), Err(Error::Corruption { .. })),
        "a new store was created in a directory with files of a store"
    );
    let report = check_repair(&world, &disk, "no manifest", Unreported::Nothing);
    assert!(report.manifest_lost.is_some() && report.warnings.len() == 1, "{report:?}");
    assert_eq!((report.branches_lost, report.entries_lost, report.values_lost), (0, 0, 0), "{report:?}");
    let db = open(&disk).unwrap();
    for (key, right) in world.versions.keys().map(|key| (key, world.right(key))).filter(|(_, right)| right.is_some()) {
        let found = db.get(key).unwrap();
        // `check_repair` has looked at the values of keys that end with merges.
        let is_restored = if world.ends_with_a_merge(key) { found.is_some() } else { found.as_deref() == right };
        assert!(is_restored, "not all data was restored: {:?}", String::from_utf8_lossy(key));
    }
    drop(db);
    // But repair cannot know that nothing is missing.
    let [loss] = &report.losses[..] else { panic!("{report:?}") };
    assert_eq!((loss.file.as_str(), &loss.keys, &loss.numbers), ("MANIFEST", &None, &None));
    assert!(loss.what.contains("files that are gone cannot be known"), "{report:?}");
}

/// A regression test: repair reported "nothing lost" for a store without its manifest, even if a branch file or the log
/// was also missing.
#[test]
fn repair_without_a_manifest_reports_that_files_may_be_missing() {
    let world = World::new(2);
    let disk = world.with(&Image::new(), &["MANIFEST".into(), largest(&world, ".branch")]);
    let report = check_repair(&world, &disk, "no manifest, a branch gone", Unreported::Anything);
    let reports = |text: &str| report.losses.iter().any(|loss| loss.what.contains(text));
    assert!(!report.is_complete() && reports("files that are gone cannot be known"), "{report:?}");
    assert!(!reports("the last writes may be gone"), "the log is not missing: {report:?}");
    let mut removed = names(&world.disk, ".log");
    removed.push("MANIFEST".into());
    let disk = world.with(&Image::new(), &removed);
    // The sequence numbers show which writes the branch files lack.
    let report = check_repair(&world, &disk, "neither manifest nor log", Unreported::Nothing);
    let log = report.losses.iter().find(|loss| loss.file == "the log");
    assert!(
        log.is_some_and(|loss| loss.numbers.is_some() && loss.what.contains("last writes may be gone")),
        "{report:?}"
    );
}

#[test]
fn without_manifest_log_and_most_branches_the_rest_is_saved() {
    let world = World::new(2);
    let kept = largest(&world, ".branch");
    let lost: Vec<String> = world
        .image
        .keys()
        .filter(|name| *name == "MANIFEST" || name.ends_with(".log") || (name.ends_with(".branch") && **name != kept))
        .cloned()
        .collect();
    let disk = world.with(&Image::new(), &lost);
    let report = check_repair(&world, &disk, "one branch", Unreported::Anything);
    assert!(report.entries_saved > 0, "{report:?}");
    let db = open(&disk).unwrap();
    assert!(db.iter().unwrap().count() > 10);
}

#[test]
fn a_key_whose_value_file_is_lost_is_named_and_absent() {
    let world = World::new(3);
    let names = names(&world.disk, ".value");
    for name in &names {
        let disk = world.with(&Image::new(), std::slice::from_ref(name));
        let report = check_repair(&world, &disk, name, Unreported::Nothing);
        for loss in report.losses.iter().filter(|loss| loss.file == *name) {
            let Some(LostKeys::One(key)) = &loss.keys else { panic!("{loss:?}") };
            let number = *loss.numbers.as_ref().unwrap().start();
            let newest = world.versions[key].last().unwrap().0;
            if number == newest {
                assert_eq!(open(&disk).unwrap().get(key).unwrap(), None, "a get returns an older value");
            }
        }
    }
    // A damaged value file is kept under another name.
    let damaged = flipped(&world.image[&names[0]], 3);
    let disk = world.with(&[(names[0].clone(), damaged.clone())].into(), &[]);
    let report = check_repair(&world, &disk, "a damaged value", Unreported::Nothing);
    assert_eq!(disk.current_image().get(&format!("{}.damaged", names[0])), Some(&damaged), "{report:?}");
}

/// Found by the corruption test: a file truncated at the end of a page has no damaged page, and its losses were not
/// reported.
#[test]
fn losses_of_a_truncated_file_are_reported() {
    let world = World::new(5);
    let name = largest(&world, ".branch");
    for pages in [0, 1, 2] {
        for also in [&[][..], &["MANIFEST".to_owned()]] {
            let disk = world.with(&[(name.clone(), world.image[&name][..pages * 4096].to_vec())].into(), also);
            let report = check_repair(&world, &disk, &format!("{name} cut to {pages} pages"), Unreported::Nothing);
            assert!(report.losses.iter().any(|loss| loss.file == name), "{report:?}");
            assert!(report.set_aside.contains(&format!("{name}.damaged")), "{report:?}");
        }
    }
}

/// Found by the corruption test: the marks of a truncated log segment were ignored, and the losses were not reported.
#[test]
fn losses_of_a_truncated_log_segment_are_reported() {
    let world = World::new(5);
    for name in names(&world.disk, ".log") {
        for length in [4096, 7593, 20_000].into_iter().filter(|length| *length < world.image[&name].len()) {
            let disk = world.with(&[(name.clone(), world.image[&name][..length].to_vec())].into(), &[]);
            check_repair(&world, &disk, &format!("{name} cut to {length}"), Unreported::Nothing);
        }
    }
}

/// Found by the corruption test: the removed segment of a store that died had the newest mark, and the report did not
/// say which numbers may be lost with it.
#[test]
fn losses_of_a_missing_log_segment_are_reported() {
    for size in [Size::Usual, Size::Small] {
        let world = World::with_end(5, size, false);
        for name in names(&world.disk, ".log") {
            let disk = world.with(&Image::new(), std::slice::from_ref(&name));
            check_repair(&world, &disk, &format!("{name} removed"), Unreported::Nothing);
        }
    }
}

/// Found by the corruption test: without a segment's header its marks are lost, so records behind a lost page may have
/// been durable. They were cut off as if they had not been durable, and only counted.
#[test]
fn a_cut_without_a_mark_is_reported() {
    let disk = SimulatedStorage::new(35);
    let options = tiny_unsynced().memory_budget(8 << 20).write_buffer(1 << 20);
    let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
    // Two segments, all of it durable.
    for number in 0..200u64 {
        db.put(number.to_be_bytes(), [7; 300]).unwrap();
    }
    db.sync().unwrap();
    let disk = disk.remount();
    drop(db);
    let segment = disk.current_image().into_keys().filter(|name| name.ends_with(".log")).max().unwrap();
    // The newest marks, and the first chunk behind them.
    disk.corrupt(&segment, 100, 4);
    disk.corrupt(&segment, 4096 + 100, 4);
    disk.current_image()
        .into_keys()
        .filter(|name| name.ends_with(".shadow"))
        .for_each(|name| disk.remove(&name).unwrap());
    let report = repair(&disk).unwrap();
    assert!(report.log_records_cut > 0, "{report:?}");
    assert!(report.losses.iter().any(|loss| loss.file == segment), "{report:?}");
    assert!(report.losses.iter().any(|loss| loss.numbers.is_some()), "{report:?}");
}

/// With some unreadable sectors, everything that can be read is saved.
#[test]
fn unreadable_sectors_lose_only_their_own_data() {
    let world = World::new(7);
    let name = largest(&world, ".branch");
    let disk = world.disk.clone_disk();
    disk.inject(&format!("(read name={name} nth=5) -> eio"));
    assert!(repair(&disk.clone_disk()).is_ok());
    disk.clear_faults();
    disk.inject(&format!("(read name={name} p=0.3) -> eio"));
    let report = repair(&disk).unwrap();
    disk.clear_faults();
    assert!(verify(&disk, Depth::Deep).unwrap().is_valid(), "{report:?}");
    let db = open(&disk).unwrap();
    for key in world.versions.keys().filter(|key| !world.reports_loss(&report, key)) {
        assert_eq!(db.get(key).unwrap().as_deref(), world.right(key), "{report:?}");
    }
}

#[test]
fn repair_keeps_the_valid_records_of_a_damaged_log() {
    let world = World::new(4);
    let mut damaged = 0;
    for name in names(&world.disk, ".log") {
        let bytes = &world.image[&name];
        // The header page, and pages with records unless they are all zeroes.
        for page in [0, 1, 2].into_iter().filter(|page| page * 4096 < bytes.len()) {
            let changed = flipped(bytes, page);
            let disk = world.with(&[(name.clone(), changed)].into(), &[]);
            if verify(&disk, Depth::Deep).unwrap().is_valid() {
                continue;
            }
            damaged += 1;
            let report = check_repair(&world, &disk, &format!("{name}, page {page}"), Unreported::Nothing);
            assert!(!report.log_kept && report.manifest_lost.is_none(), "{report:?}");
        }
    }
    assert!(damaged > 0);
}

#[test]
fn what_repair_sets_aside_is_destroyed_with_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let db = Db::open(&path, crate::support::tiny()).unwrap();
    for key in 0..500_u32 {
        db.put(key.to_be_bytes(), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    assert!(matches!(Db::repair(&path, &mut |_| ()), Err(Error::AlreadyOpen { .. })));
    db.close().unwrap();
    std::fs::write(path.join("MANIFEST"), "no manifest").unwrap();
    let report = Db::repair(&path, &mut |_| ()).unwrap();
    assert_eq!(report.set_aside, ["MANIFEST.damaged"]);
    assert_eq!(std::fs::read(path.join("MANIFEST.damaged")).unwrap(), b"no manifest");
    std::fs::write(path.join("MANIFEST"), "none again").unwrap();
    assert_eq!(Db::repair(&path, &mut |_| ()).unwrap().set_aside, ["MANIFEST.2.damaged"]);
    let db = Db::open(&path, crate::support::tiny()).unwrap();
    assert_eq!(db.iter().unwrap().count(), 500);
    db.close().unwrap();
    Db::destroy(&path).unwrap();
    assert!(!path.exists());
    assert!(matches!(Db::repair(&path, &mut |_| ()), Err(Error::NoStore { .. })));
}

/// Files of another store under valid names, as a restore into the wrong directory leaves them.
fn of_another_store(ending: &str) -> Vec<Vec<u8>> {
    let other = World::new(12);
    other.image.iter().filter(|(name, _)| name.ends_with(ending)).map(|(_, bytes)| bytes.clone()).collect()
}

/// A regression test: the manifest alone decided which store the files belong to. With the manifest of another store in
/// place of its own, a whole store was set aside file by file as damaged, and an empty store was left.
#[test]
fn a_manifest_of_another_store_is_outvoted_by_all_other_files() {
    let world = World::new(11);
    let manifest = of_another_store("MANIFEST").pop().unwrap();
    let disk = world.with(&[("MANIFEST".to_owned(), manifest.clone())].into(), &[]);
    let report = check_repair(&world, &disk, "a misplaced manifest", Unreported::Nothing);
    assert!(
        report.manifest_lost.as_ref().is_some_and(|why| why.contains("belongs to another store (id ")),
        "{report:?}"
    );
    assert_eq!((report.branches_lost, report.values_lost, report.entries_lost), (0, 0, 0), "{report:?}");
    assert_eq!(disk.current_image()["MANIFEST.damaged"], manifest);
    assert!(report.losses.iter().all(|loss| !loss.file.ends_with(".branch")), "{report:?}");
}

/// However many files of other stores are among those of a valid store: they are reported as such and not as damage,
/// and the store loses nothing.
#[test]
fn stray_files_of_another_store_are_set_aside_as_such() {
    let world = World::new(11);
    for copies in [1, 20] {
        let mut strays = Image::new();
        for (kind, ending) in [("branch", ".branch"), ("value", ".value"), ("log", ".log")] {
            // A value file and a log segment identify their store only under their own number.
            let other = World::new(12);
            for (name, bytes) in other.image.iter().filter(|(name, _)| name.ends_with(ending)).take(copies) {
                let name = if kind == "branch" { format!("9{name}") } else { name.clone() };
                if !world.image.contains_key(&name) && kind != "log" {
                    strays.insert(name, bytes.clone());
                }
            }
        }
        for (number, bytes) in (800_000..).zip(of_another_store(".branch").iter().cycle().take(copies)) {
            strays.insert(format!("{number}.branch"), bytes.clone());
        }
        let disk = world.with(&strays, &[]);
        let report = check_repair(&world, &disk, "strays", Unreported::Nothing);
        assert!(report.is_complete() && report.manifest_lost.is_none() && report.log_kept, "{report:?}");
        let aside: Vec<String> = strays.keys().map(|name| format!("{name}.damaged")).collect();
        assert!(aside.iter().all(|name| report.set_aside.contains(name)), "{aside:?}: {report:?}");
        let reports_it = |warning: &String| warning.contains("belongs to another store (id ");
        assert!(report.warnings.iter().any(reports_it), "{report:?}");
        // Without a manifest the smaller group of files is reported file by file.
        if copies == 1 {
            let disk = world.with(&strays, &["MANIFEST".into()]);
            let report = check_repair(&world, &disk, "strays, no manifest", Unreported::Nothing);
            for name in strays.keys() {
                let loss = report.losses.iter().find(|loss| loss.file == *name);
                assert!(loss.is_some_and(|loss| loss.what.contains("belongs to another store")), "{name}: {report:?}");
            }
        }
    }
}

/// A regression test: the opening of a store removed every file that its manifest did not name, even files of other
/// stores. With the manifest of a new store in place of its own, a store lost all its files at the next opening, and a
/// check before it reported nothing.
#[test]
fn files_of_another_store_are_reported_and_never_removed() {
    let disk = SimulatedStorage::new(13);
    let db = DeterministicDb::open(Arc::new(disk.clone()), crate::support::tiny_unsynced()).unwrap();
    db.put("own", "1").unwrap();
    db.close().unwrap();
    let world = World::new(12);
    let mut strays = Image::new();
    for (name, bytes) in world.image.iter().filter(|(name, _)| name.ends_with(".branch") || name.ends_with(".value")) {
        if !disk.current_image().contains_key(name) {
            disk.open(name, OpenMode::Create).unwrap().write_all_at(bytes, 0).unwrap();
            strays.insert(name.clone(), bytes.clone());
        }
    }
    // And one incomplete file of the store itself, as a crash leaves it.
    let own = "900000.branch".to_owned();
    disk.open(&own, OpenMode::Create).unwrap().write_all_at(&[0; 8192], 0).unwrap();
    assert!(strays.len() > 3);
    for depth in [Depth::Quick, Depth::Deep] {
        let found = verify(&disk, depth).unwrap();
        assert!(found.is_valid(), "{found:?}");
        assert_eq!(found.other_stores, strays.keys().cloned().collect::<Vec<_>>());
        assert_eq!(found.unreferenced, std::slice::from_ref(&own));
    }
    let db = open(&disk).unwrap();
    assert_eq!(db.get("own").unwrap().as_deref(), Some(&b"1"[..]));
    db.close().unwrap();
    let image = disk.current_image();
    assert!(strays.iter().all(|(name, bytes)| image.get(name) == Some(bytes)), "{:?}", image.keys());
    assert!(!image.contains_key(&own), "the stray file of the store itself was not removed");
}

/// A file of another store in place of a file of the store is reported as such, and the store's own file as lost.
#[test]
fn a_file_of_another_store_under_a_used_name_is_reported() {
    let world = World::new(11);
    let name = largest(&world, ".branch");
    let bytes = of_another_store(".branch").pop().unwrap();
    let disk = world.with(&[(name.clone(), bytes.clone())].into(), &[]);
    let report = check_repair(&world, &disk, "a branch of another store", Unreported::Nothing);
    let loss = report.losses.iter().find(|loss| loss.file == name);
    assert!(loss.is_some_and(|loss| loss.what.contains("belongs to another store (id ")), "{report:?}");
    assert_eq!(disk.current_image()[&format!("{name}.damaged")], bytes);
}

/// What a get returned, or why it failed.
type Answer = Result<Option<Vec<u8>>, String>;

/// The contents of a store, or why it does not open.
fn answers(disk: &SimulatedStorage, world: &World) -> Result<Vec<Answer>, String> {
    let db = open(disk).map_err(|error| error.to_string())?;
    Ok(world.versions.keys().map(|key| db.get(key).map_err(|error| error.to_string())).collect())
}

/// After a kill or a power cut before any I/O operation of repair, the store is unchanged or repaired, and a second
/// repair succeeds.
#[test]
fn a_crash_of_repair_leaves_the_state_before_or_after() {
    let world = World::new(6);
    let branch = largest(&world, ".branch");
    let log = names(&world.disk, ".log").pop().unwrap();
    let value = names(&world.disk, ".value").pop().unwrap();
    let worlds = [
        ("branch and value", world.with(&[(branch.clone(), flipped(&world.image[&branch], 1))].into(), &[value])),
        ("log header", world.with(&[(log.clone(), flipped(&world.image[&log], 0))].into(), &[])),
        ("manifest", world.with(&[("MANIFEST".into(), flipped(&world.image["MANIFEST"], 1))].into(), &[])),
    ];
    for (what, damaged) in worlds {
        // After a power cut the log is in another life, so the same damage may be reported in other words.
        let before = answers(&damaged.clone_disk(), &world);
        let before_in_another_life = answers(&damaged.clone_disk().power_cut(1), &world);
        let whole = damaged.clone_disk();
        let operations = whole.operations();
        repair(&whole).unwrap();
        let operations = whole.operations() - operations;
        let after = answers(&whole, &world);
        let step = (operations / setting("ALLUVIUM_REPAIR_CRASHES", 60)).max(1);
        let (mut as_before, mut repaired) = (0, 0);
        for at in (1..=operations).step_by(step as usize).chain(operations.saturating_sub(20)..=operations) {
            let disk = damaged.clone_disk();
            disk.crash_at(at.max(1));
            assert!(repair(&disk).is_err(), "{what}: operation {at} of {operations} was not reached");
            let disk = if at % 2 == 0 { disk.kill() } else { disk.power_cut(at) };
            let now = answers(&disk.clone_disk(), &world);
            if now == after {
                repaired += 1;
            } else if now == before || now == before_in_another_life {
                as_before += 1;
            } else {
                panic!(
                    "{what}: after a crash at {at} of {operations} the store is neither unchanged nor repaired: {:?}",
                    now.err()
                );
            }
            let again = repair(&disk).unwrap_or_else(|error| panic!("{what}: again after {at}: {error}"));
            // A regression test: the partial output of the first repair was reported as a loss ("000045.branch: the
            // file ends early").
            let was_there = |name: &str| !name.ends_with(".branch") || world.image.contains_key(name);
            assert!(again.losses.iter().all(|loss| was_there(&loss.file)), "{what}: again after {at}: {again:?}");
            assert!(
                again.set_aside.iter().all(|name| was_there(name.trim_end_matches(".damaged"))),
                "{what}: {again:?}"
            );
            assert_eq!(names(&disk, ".repair"), [""; 0], "{what}: again after {at}: the `.repair` file is still there");
            assert!(verify(&disk, Depth::Deep).unwrap().is_valid(), "{what}: again after {at}");
            assert!(answers(&disk, &world) == after, "{what}: again after {at}: a get gives another answer");
            assert!(disk.list().unwrap().contains(&"MANIFEST".to_owned()));
        }
        assert!(as_before > 0 && repaired > 0, "{what}: {as_before} unchanged, {repaired} repaired");
    }
}

/// A regression test: only branch files and maplets were reported; a value file of a write that a crash interrupted was
/// not reported until the next opening.
#[test]
fn an_unreferenced_value_file_is_reported() {
    let world = World::new(1);
    let disk = world.disk.clone_disk();
    let useless = |depth| {
        let found = verify(&disk, depth).unwrap();
        assert!(found.is_valid(), "{found:?}");
        found.unreferenced.into_iter().filter(|name| name.ends_with(".value")).collect::<Vec<_>>()
    };
    assert!(useless(Depth::Deep).is_empty());
    let bytes = &world.image[&largest(&world, ".value")];
    let stray = "900000.value".to_owned();
    disk.open(&stray, OpenMode::Create).unwrap().write_all_at(bytes, 0).unwrap();
    assert_eq!(useless(Depth::Deep), std::slice::from_ref(&stray));
    // The quick check does not read records, so it cannot know this.
    assert!(useless(Depth::Quick).is_empty());
    open(&disk).unwrap().close().unwrap();
    assert!(!names(&disk, ".value").contains(&stray));
}
