//! Promise 6: whatever happens to the bytes of a closed store, it is found and named, or harmless; never a wrong answer, a
//! panic or a hang. And what `repair` makes of it is a sound store that lies about nothing: a key that the report does not
//! name holds what was last written to it.
//!
//! `ALLUVIUM_DAMAGES=20000 cargo test --test suite corruption` runs as many cases; each prints its seed when it fails.

pub mod damage;
pub mod world;

use crate::support::{Random, setting};
use alluvium::io::simulated::SimulatedStorage;
use alluvium::{Db, Depth, Error, RepairReport, Verification};
use damage::{ALL, Case, Damage, damage, kind_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use world::{World, open};

const KINDS: [&str; 7] = ["MANIFEST", "log", "free", "branch", "value", "POISON", "LOCK"];

pub fn verify(disk: &SimulatedStorage, depth: Depth) -> Result<Verification, Error> {
    Db::verify_closed_with(Arc::new(disk.clone()), depth, &mut |_| ())
}

pub fn repair(disk: &SimulatedStorage) -> Result<RepairReport, Error> {
    Db::repair_with(Arc::new(disk.clone()), &mut |_| ())
}

/// Opens and reads everything. A wrong answer is a panic; the first error is told.
fn read_all(world: &World, disk: &SimulatedStorage, what: &str) -> Result<(), Error> {
    let db = open(disk)?;
    let mut first = Ok(());
    for key in world.versions.keys() {
        match db.get(key) {
            Ok(found) => assert!(found.as_deref() == world.right(key), "{what}: a wrong answer for {key:?}"),
            Err(error) => first = first.and(Err(error)),
        }
    }
    let mut at = 0;
    let right: Vec<_> = world.versions.keys().filter_map(|key| Some((key, world.right(key)?))).collect();
    for pair in db.iter()? {
        match pair {
            Ok((key, value)) => {
                assert!(
                    right.get(at).is_some_and(|right| (&key, &value[..]) == *right),
                    "{what}: a wrong pair {key:?}"
                );
                at += 1;
            }
            Err(error) => {
                first = first.and(Err(error));
                break;
            }
        }
    }
    assert!(first.is_err() || at == right.len(), "{what}: the iterator ended early");
    first
}

/// What no bytes that are left can tell: an older or another log segment under the name of one that was live.
fn is_beyond_telling(case: &Case) -> bool {
    let of_log = kind_of(&case.touched[0]) == "log";
    of_log && matches!(case.damage, Damage::Remove | Damage::StaleCopy | Damage::SwapFiles | Damage::OverwriteByAnother)
}

fn names_a_file(error: &str, case: &Case) -> bool {
    case.touched.iter().any(|name| error.contains(name.as_str()))
}

/// Whether the damage was found.
fn check_detection(world: &World, case: &Case) -> bool {
    let what = &case.what;
    let quick = verify(&case.disk, Depth::Quick).unwrap_or_else(|error| panic!("{what}: quick: {error}"));
    let deep = verify(&case.disk, Depth::Deep).unwrap_or_else(|error| panic!("{what}: deep: {error}"));
    assert!(quick.is_sound() || !deep.is_sound(), "{what}: the deep check lacks {:?}", quick.damage);
    let read = read_all(world, &case.disk.clone_disk(), what);
    if let Err(error) = &read {
        assert!(!deep.is_sound(), "{what}: verify does not find what reading does: {error}");
    }
    if !deep.is_sound() {
        let texts: Vec<String> = deep.damage.iter().map(Error::to_string).collect();
        assert!(texts.iter().any(|text| names_a_file(text, case)), "{what}: none names the file: {texts:?}");
    }
    !deep.is_sound()
}

/// Repairs, and checks what came out against everything that was ever written.
pub fn check_repair(world: &World, disk: &SimulatedStorage, what: &str, exact: bool) -> RepairReport {
    let report = repair(disk).unwrap_or_else(|error| panic!("{what}: repair: {error}"));
    let found = verify(disk, Depth::Deep).unwrap_or_else(|error| panic!("{what}: after repair: {error}"));
    assert!(found.is_sound(), "{what}: after repair: {:?}\n{report:?}", found.damage);
    let again = repair(disk).unwrap();
    assert!(!again.changed, "{what}: a second repair finds work: {again:?}\n{report:?}");
    let db = open(disk).unwrap_or_else(|error| panic!("{what}: after repair: {error}\n{report:?}"));
    for (key, versions) in &world.versions {
        let found = db.get(key).unwrap_or_else(|error| panic!("{what}: after repair: {error}"));
        if found.as_deref() == world.right(key) {
            continue;
        }
        let written = found.is_none() || versions.iter().any(|(_, value)| *value == found);
        assert!(written, "{what}: {key:?} holds what was never written\n{report:?}");
        let deleted = report.manifest_lost.is_some() && world.right(key).is_none();
        let told = world.told(&report, key) || deleted || report.log_records_cut > 0;
        assert!(told || !exact, "{what}: {:?} was lost in silence\n{report:?}", String::from_utf8_lossy(key));
    }
    assert_eq!(db.iter().unwrap().filter(|pair| pair.is_err()).count(), 0, "{what}");
    db.put("after", "repair").unwrap();
    db.flush().unwrap();
    while db.step() {}
    assert_eq!(db.get("after").unwrap().as_deref(), Some(&b"repair"[..]));
    db.verify().unwrap_or_else(|error| panic!("{what}: after repair and work: {error}"));
    db.close().unwrap();
    assert!(verify(disk, Depth::Deep).unwrap().is_sound(), "{what}");
    report
}

#[test]
fn damage_is_found_or_harmless_and_repaired() {
    let cases = setting("ALLUVIUM_DAMAGES", 160);
    let first = setting("ALLUVIUM_DAMAGES_FROM", 0);
    let world = World::new(5);
    let mut counts: BTreeMap<(&str, Damage), (u32, u32)> = BTreeMap::new();
    for seed in first..first + cases {
        let mut random = Random(seed ^ 0x5eed);
        let (kind, how) = (KINDS[(seed % 7) as usize], ALL[(seed / 7 % 16) as usize]);
        let Some(case) = damage(&world, kind, how, &mut random) else { continue };
        println!("seed {seed}: {}", case.what);
        let count = counts.entry((kind, how)).or_default();
        if is_beyond_telling(&case) {
            // Still no panic, and repair leaves nothing that was never written.
            let _ = verify(&case.disk, Depth::Deep).unwrap();
            check_repair(&world, &case.disk, &case.what, false);
            continue;
        }
        let found = check_detection(&world, &case);
        *(if found { &mut count.0 } else { &mut count.1 }) += 1;
        // In another life of the machine, too: there the log is cut and not skipped.
        let disk = if random.one_in(2) { case.disk } else { case.disk.remount() };
        let report = check_repair(&world, &disk, &case.what, true);
        assert!(report.changed || !found || kind == "free", "{}: repair found nothing", case.what);
    }
    println!("(found, harmless): {counts:#?}");
    for kind in ["MANIFEST", "log", "branch", "value"] {
        let found: u32 = counts.iter().filter(|((of, _), _)| *of == kind).map(|(_, count)| count.0).sum();
        assert!(found > 0, "no damage of {kind} files was found");
    }
}
