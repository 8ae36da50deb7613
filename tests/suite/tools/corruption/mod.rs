//! Promise 6 (`docs/guarantees.md`): damage to the bytes of a closed store is found and reported, or harmless. It never
//! causes a wrong answer, a panic or a hang. `repair` turns the damaged store into a valid one, and its report is
//! complete: a key that the report does not name has its last value. Without a manifest the values of keys that end with
//! merges may be wrong (`docs/recovery.md`, Repair).
//!
//! `ALLUVIUM_DAMAGES=20000 cargo test --test suite corruption` sets the number of cases; a failing case prints its
//! seed. `ALLUVIUM_DAMAGES_FROM` is the first case's seed, `ALLUVIUM_DAMAGES_WORLD` the seed of the stores that are
//! damaged.

pub mod damage;
pub mod world;

use crate::support::{Random, setting};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Depth, Error, RepairReport, Verification};
use damage::{ALL, Case, Damage, damage, kind_of};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use world::{End, Size, World, open};

const KINDS: [&str; 7] = ["MANIFEST", "log", "free", "branch", "value", "POISON", "LOCK"];

/// The number of cases for each kind of file and each kind of damage.
const EVERY_KIND: u64 = 7 * 16;

pub fn verify(disk: &SimulatedStorage, depth: Depth) -> Result<Verification, Error> {
    Db::verify_closed_with(Arc::new(disk.clone()), depth, &mut |_| ())
}

pub fn repair(disk: &SimulatedStorage) -> Result<RepairReport, Error> {
    Db::repair_with(Arc::new(disk.clone()), &mut |_| ())
}

/// The writes that may be missing after a repair, or an opening, without a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreported {
    Nothing,
    /// The writes after this number (see `of_damage`).
    After(u64),
    Anything,
}

impl Unreported {
    /// In the log of a process that died without closing, no sync covers the last records. Without them the log looks
    /// as if the process had died before it wrote them, so their loss cannot be detected. In another life of the
    /// machine this also holds for their value files.
    ///
    /// A sync writes only to the current segment, including its mark. So an older complete copy of that segment is what
    /// a process that died at that time would have left.
    fn of_damage(world: &World, case: &Case, another_life: bool) -> Self {
        let of = |kind| case.touched.iter().all(|name| kind_of(name) == kind);
        match &world.end {
            End::Killed { current } if case.touched[..] == [current.clone()] => {
                Self::After(case.copied_at.map_or(world.synced, |number| number.min(world.synced)))
            }
            End::Killed { .. } if of("log") || (another_life && of("value")) => Self::After(world.synced),
            _ => Self::Nothing,
        }
    }

    fn allows(self, world: &World, key: &[u8], found: Option<&[u8]>) -> bool {
        match self {
            Self::Nothing => false,
            Self::After(number) => world.is_of_number_or_later(key, number, found),
            Self::Anything => true,
        }
    }
}

/// The contents of a store, if nothing failed.
type Contents = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Opens and reads everything. A wrong answer is a panic; returns the first error.
fn read_all(world: &World, disk: &SimulatedStorage, what: &str, unreported: Unreported) -> Result<Contents, Error> {
    let db = open(disk)?;
    let (mut first, mut contents) = (Ok(()), Contents::new());
    for key in world.versions.keys() {
        match db.get(key) {
            Ok(found) => {
                let right = found.as_deref() == world.right(key) || unreported.allows(world, key, found.as_deref());
                assert!(right, "{what}: a wrong answer for {:?}", String::from_utf8_lossy(key));
                contents.insert(key.clone(), found);
            }
            Err(error) => first = first.and(Err(error)),
        }
    }
    let expected = |key: &Vec<u8>| match contents.get(key) {
        Some(found) => found.clone(),
        None => world.right(key).map(<[u8]>::to_vec),
    };
    let mut right = world.versions.keys().filter_map(|key| Some((key.clone(), expected(key)?)));
    for pair in db.iter()? {
        match pair {
            Ok((key, value)) => {
                assert!(right.next() == Some((key.clone(), value.to_vec())), "{what}: a wrong pair {key:?}");
            }
            Err(error) => {
                first = first.and(Err(error));
                break;
            }
        }
    }
    assert!(first.is_err() || right.next().is_none(), "{what}: the iterator ended early");
    drop(right);
    first.map(|()| contents)
}

fn names_a_file(error: &str, case: &Case) -> bool {
    case.touched.iter().any(|name| error.contains(name.as_str()))
}

/// Whether the damage was found.
fn check_detection(world: &World, case: &Case) -> bool {
    let what = &case.what;
    let quick = verify(&case.disk, Depth::Quick).unwrap_or_else(|error| panic!("{what}: quick: {error}"));
    let deep = verify(&case.disk, Depth::Deep).unwrap_or_else(|error| panic!("{what}: deep: {error}"));
    assert!(quick.is_valid() || !deep.is_valid(), "{what}: the deep check misses {:?}", quick.damage);
    match read_all(world, &case.disk.clone_disk(), what, Unreported::of_damage(world, case, false)) {
        Err(error) => assert!(!deep.is_valid(), "{what}: verify does not find an error that reading finds: {error}"),
        Ok(contents) => check_older_state(world, case, &contents),
    }
    if !deep.is_valid() {
        let texts: Vec<String> = deep.damage.iter().map(Error::to_string).collect();
        assert!(texts.iter().any(|text| names_a_file(text, case)), "{what}: none names the file: {texts:?}");
    }
    !deep.is_valid()
}

/// Damage that looks like an earlier death must leave a state that such a death would leave: all writes up to one
/// number, which is not below that of the copy.
fn check_older_state(world: &World, case: &Case, contents: &Contents) {
    let is_of = |number| contents.iter().all(|(key, found)| found.as_deref() == world.at(key, number));
    if let Some(number) = case.copied_at.filter(|_| !is_of(u64::MAX)) {
        let last = world.versions.values().filter_map(|versions| Some(versions.last()?.0)).max().unwrap();
        assert!((number..=last).any(is_of), "{}: the contents are not those at any number from {number} on", case.what);
    }
}

/// Repairs, and compares the result with everything that was ever written.
pub fn check_repair(world: &World, disk: &SimulatedStorage, what: &str, unreported: Unreported) -> RepairReport {
    let report = repair(disk).unwrap_or_else(|error| panic!("{what}: repair: {error}"));
    let found = verify(disk, Depth::Deep).unwrap_or_else(|error| panic!("{what}: after repair: {error}"));
    assert!(found.is_valid(), "{what}: after repair: {:?}\n{report:?}", found.damage);
    let again = repair(disk).unwrap();
    assert!(!again.changed, "{what}: a second repair changes the store: {again:?}\n{report:?}");
    let db = open(disk).unwrap_or_else(|error| panic!("{what}: after repair: {error}\n{report:?}"));
    for key in world.versions.keys() {
        let found = db.get(key).unwrap_or_else(|error| panic!("{what}: after repair: {error}"));
        if found.as_deref() == world.right(key) {
            continue;
        }
        let written = found.as_ref().is_none_or(|value| world.has_pieces_of(key, value));
        assert!(written, "{what}: {key:?} has a value that was never written\n{report:?}");
        let without_manifest =
            report.manifest_lost.is_some() && (world.right(key).is_none() || world.ends_with_a_merge(key));
        let before = match unreported {
            // If writes may be missing without a report, the reported losses continue from there.
            Unreported::After(number) => world.reports_loss_at(&report, key, number),
            Unreported::Nothing | Unreported::Anything => false,
        };
        let reported = world.reports_loss(&report, key)
            || before
            || without_manifest
            || unreported.allows(world, key, found.as_deref());
        assert!(reported, "{what}: {:?} was lost without a report\n{report:?}", String::from_utf8_lossy(key));
    }
    assert_eq!(db.iter().unwrap().filter(|pair| pair.is_err()).count(), 0, "{what}");
    db.put("after", "repair").unwrap();
    db.flush().unwrap();
    while db.step() {}
    assert_eq!(db.get("after").unwrap().as_deref(), Some(&b"repair"[..]));
    db.verify().unwrap_or_else(|error| panic!("{what}: after repair and work: {error}"));
    db.close().unwrap();
    assert!(verify(disk, Depth::Deep).unwrap().is_valid(), "{what}");
    report
}

/// Whether the damage was found. Panics if a promise is broken.
fn check(world: &World, case: &Case, kind: &str, another_life: bool) -> bool {
    let found = check_detection(world, case);
    // Also in another life of the machine, where missing numbers end the log instead of being skipped.
    let disk = case.disk.clone_disk();
    let disk = if another_life { disk.remount() } else { disk };
    let unreported = Unreported::of_damage(world, case, another_life);
    let report = check_repair(world, &disk, &case.what, unreported);
    let may_be_harmless_there = match world.end {
        // A record that the tree has, too. The same life demands that all records of a chunk but the last are whole.
        End::Closed => kind == "log",
        End::Killed { .. } => lacks_its_last_edit(world, case),
    };
    if another_life && may_be_harmless_there && !report.changed {
        // Then every value is right.
        let disk = case.disk.clone_disk().remount();
        let contents = read_all(world, &disk, &case.what, Unreported::Nothing);
        contents.unwrap_or_else(|error| panic!("{}: in another life: {error}", case.what));
        return found;
    }
    let harmless = !found || kind == "free" || (another_life && unreported != Unreported::Nothing);
    assert!(report.changed || harmless, "{}: repair found nothing", case.what);
    found
}

/// Whether the damage is that the manifest's last edit cannot be read. After a process that died without closing, only the
/// mark of a shadow may name that edit. In the same life the mark counts, so the damage is found; in another life it does not
/// (`docs/recovery.md`, H2), and the manifest is like that of a machine that lost power before the edit was durable.
fn lacks_its_last_edit(world: &World, case: &Case) -> bool {
    const RECORDS_BEGIN: usize = 4096;
    const RECORD_HEADER_BYTES: usize = 16;
    let (name, whole) = ("MANIFEST", &world.image["MANIFEST"]);
    let (mut last, mut next) = (RECORDS_BEGIN, RECORDS_BEGIN);
    // The length of each record is at its offset 4; see `docs/format/manifest.md`.
    while let Some(length) = whole.get(next..).and_then(|record| record.get(4..8)) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        (last, next) = (next, (next + RECORD_HEADER_BYTES + length).next_multiple_of(8));
    }
    assert_eq!(next, whole.len(), "the manifest of a world is whole");
    let damaged = case.disk.current_image().remove(name).unwrap_or_default();
    let edit_is_whole = damaged.get(last..next) == Some(&whole[last..]);
    case.touched == [name] && damaged.get(..last) == Some(&whole[..last]) && !edit_is_whole
}

#[test]
fn damage_is_found_or_harmless_and_repaired() {
    let cases = setting("ALLUVIUM_DAMAGES", 160);
    let first = setting("ALLUVIUM_DAMAGES_FROM", 0);
    let of = setting("ALLUVIUM_DAMAGES_WORLD", 5);
    let sizes = [Size::Usual, Size::Small, Size::Levels].map(|size| [(size, true), (size, false)]);
    let worlds = sizes.as_flattened().to_vec().into_iter().map(|(size, closes)| World::with_end(of, size, closes));
    let worlds: Vec<World> = worlds.collect();
    let mut counts: BTreeMap<(&str, Damage), (u32, u32)> = BTreeMap::new();
    let mut failed = Vec::new();
    for seed in first..first + cases {
        let mut random = Random(seed ^ 0x5eed);
        let (kind, how) = (KINDS[(seed % 7) as usize], ALL[(seed / 7 % 16) as usize]);
        let world = &worlds[random.below(worlds.len() as u64) as usize];
        let Some(case) = damage(world, kind, how, &mut random) else { continue };
        println!("seed {seed}, {:?}: {}", world.end, case.what);
        let checked = catch_unwind(AssertUnwindSafe(|| check(world, &case, kind, random.one_in(2))));
        let count = counts.entry((kind, how)).or_default();
        match checked {
            Ok(true) => count.0 += 1,
            Ok(false) => count.1 += 1,
            Err(_) => failed.push(seed),
        }
    }
    println!("(found, harmless): {counts:#?}");
    assert!(failed.is_empty(), "{} of {cases} cases failed, their messages are above: {failed:?}", failed.len());
    if cases < EVERY_KIND {
        println!(
            "{cases} cases are too few to require that damage of every kind of file is found: {EVERY_KIND} are needed"
        );
        return;
    }
    for kind in ["MANIFEST", "log", "branch", "value"] {
        let found: u32 = counts.iter().filter(|((of, _), _)| *of == kind).map(|(_, count)| count.0).sum();
        assert!(found > 0, "no damage of {kind} files was found");
    }
}
