//! Crashes of a store and of the copy that follows it: the copy ends equal, without a gap and without a write that the store has
//! lost.

use super::{PLENTY, components, everything, follow, key, position, write_something};
use crate::support::{Random, setting};
use alluvium::internals::DeterministicDb;
use alluvium::merge_operators::Append;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{ChangeRetention, Db, Depth, Error, Options};
use std::sync::Arc;

fn try_open(disk: &SimulatedStorage, seed: u64, keeps: bool) -> alluvium::Result<DeterministicDb> {
    let options = Options::new()
        .memory_budget(1 << 20)
        .listener(super::say)
        .disk_component(components()[seed as usize % 4].clone());
    let options = options.merge_operator(Append).sync_interval(None);
    let options = if keeps { options.change_retention(PLENTY) } else { options };
    DeterministicDb::open_small(Arc::new(disk.clone()), options)
}

/// Opens what a crash has left; the opening may crash again.
fn reopen(
    mut disk: SimulatedStorage,
    random: &mut Random,
    seed: u64,
    keeps: bool,
) -> (SimulatedStorage, DeterministicDb) {
    for _ in 0..3 {
        let next = if random.one_in(2) { disk.kill() } else { disk.power_cut(random.next()) };
        disk = next;
        if random.one_in(3) {
            disk.crash_at(disk.operations() + 1 + random.below(60));
            if let Ok(db) = try_open(&disk, seed, keeps)
                && !disk.is_dead()
            {
                // It may die later.
                return (disk, db);
            }
        } else {
            break;
        }
    }
    let disk = if disk.is_dead() { disk.kill() } else { disk };
    let db = try_open(&disk, seed, keeps).unwrap();
    (disk, db)
}

/// Some writes, some background work, some following, and then a crash of either side, again and again.
#[test]
fn a_copy_ends_equal_after_crashes_of_either_side() {
    let (mut crashes, mut followed) = (0, 0);
    for seed in 0..setting("ALLUVIUM_CHANGE_SEEDS", 26) {
        println!("seed {seed}");
        let random = &mut Random(seed + 77);
        let (mut disk, mut copied) = (SimulatedStorage::new(seed), SimulatedStorage::new(seed + 1000));
        // A log that is mapped, and one that is written.
        disk.set_maps_safely(seed % 3 > 0);
        let mut db = try_open(&disk, seed, true).unwrap();
        let mut copy = try_open(&copied, seed + 1, false).unwrap();
        for crash in 0..40 {
            let what = format!("seed {seed}, crash {crash}");
            let is_copy = random.one_in(3);
            // Either side dies at some operation, or between two.
            let dying = if is_copy { &copied } else { &disk };
            if random.one_in(2) {
                dying.crash_at(dying.operations() + 1 + random.below(400));
            }
            for round in 0..random.below(120) {
                if disk.is_dead() || copied.is_dead() {
                    break;
                }
                match random.below(12) {
                    0 => drop(db.flush()),
                    1 => drop(db.sync()),
                    2..5 => drop(db.step()),
                    5 => drop(copy.step()),
                    6 => match follow(&db, &copy, 0, random.below(30) as usize) {
                        Err(error @ (Error::ChangesTooOld { .. } | Error::Corruption { .. })) => {
                            panic!("{what}: {error}")
                        }
                        _ => followed += 1,
                    },
                    _ => drop(write_something(&db, random, &format!("{crash} {round}"))),
                }
            }
            crashes += 1;
            if is_copy {
                drop(copy);
                (copied, copy) = reopen(copied, random, seed + 1, false);
            } else {
                drop(db);
                (disk, db) = reopen(disk, random, seed, true);
                assert!(position(&copy, 0) <= db.stats().last_number, "{what}: the copy has seen a write that is lost");
            }
            if random.one_in(4) && !disk.is_dead() && !copied.is_dead() {
                // Neither dies in between.
                disk.clear_faults();
                copied.clear_faults();
                match follow(&db, &copy, 0, usize::MAX) {
                    Ok(_) => assert_eq!(everything(&copy), everything(&db), "{what}"),
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
        if disk.is_dead() {
            (disk, db) = reopen(disk, random, seed, true);
        }
        if copied.is_dead() {
            (copied, copy) = reopen(copied, random, seed + 1, false);
        }
        disk.clear_faults();
        copied.clear_faults();
        while follow(&db, &copy, 0, 1_000).unwrap() {}
        assert_eq!(everything(&copy), everything(&db), "seed {seed}");
        db.close().unwrap();
        let closed = Db::verify_closed_with(Arc::new(disk.clone()), Depth::Deep, &mut |_| ()).unwrap();
        assert!(closed.is_valid() && closed.unreferenced.is_empty(), "seed {seed}: {closed:#?}");
    }
    assert!(crashes >= 1_000 && followed > 500, "{crashes} crashes, followed {followed} times");
}

/// A crash at every operation of a short run with incorporations and a full change file: the next opening goes on without a gap.
#[test]
fn no_crash_leaves_a_gap() {
    let options =
        || Options::new().memory_budget(1 << 20).listener(super::say).change_retention(ChangeRetention::new(1 << 20));
    let open = |disk: &SimulatedStorage| DeterministicDb::open_small(Arc::new(disk.clone()), options());
    let run = |disk: &SimulatedStorage| -> alluvium::Result<()> {
        let db = open(disk)?;
        for round in 0..60 {
            db.put(key(round), vec![round as u8; 3_000])?;
            if round % 20 == 19 {
                while db.step() {}
                db.flush()?;
            }
            if round == 50 {
                db.changes(0)?.try_for_each(|write| write.map(drop))?;
            }
        }
        db.close()
    };
    let counting = SimulatedStorage::new(1);
    run(&counting).unwrap();
    let operations = counting.operations();
    let step = (operations / setting("ALLUVIUM_CHANGE_CRASHES", 150)).max(1) as usize;
    for at in (1..=operations).step_by(step) {
        let disk = SimulatedStorage::new(1);
        disk.crash_at(at);
        let done = run(&disk);
        for seed in 0..3 {
            let disk = disk.clone_disk();
            let disk = if seed == 0 { disk.kill() } else { disk.power_cut(at * 4 + seed) };
            let what = format!("a crash at {at} of {operations}, {seed}: {done:?}");
            let db = open(&disk).unwrap();
            let expected = everything(&db);
            let copy = super::in_memory(crate::support::tiny());
            match follow(&db, &copy, 0, usize::MAX) {
                Ok(_) => assert_eq!(everything(&copy), expected, "{what}"),
                Err(error) => panic!("{what}: {error}"),
            }
            assert_eq!(db.stats().changes_lost, 0, "{what}");
        }
    }
}
