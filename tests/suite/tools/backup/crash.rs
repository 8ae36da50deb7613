//! A crash during a backup, a removal or a restore: the earlier backups stay whole, and no part of a backup counts as one.

use super::{BACKUPS, TARGET, World, backups, both, check_files, components, open, restored, shared_files};
use crate::support::setting;
use crate::tools::checkpoint::Pairs;
use alluvium::storage::Storage;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{DiskComponent, Error, Result};

/// A store with two backups and further writes. Also what the backups should have.
fn world(component: &DiskComponent) -> (World, Vec<[Pairs; 2]>) {
    let mut world = World::new(11, component);
    world.unlogged = false;
    let mut states = Vec::new();
    for _ in 0..2 {
        world.write(200);
        world.steps(15);
        world.db.backup(BACKUPS).unwrap();
        states.push(world.pairs.clone());
    }
    world.write(200);
    world.steps(15);
    states.push(world.pairs.clone());
    (world, states)
}

/// Runs `act` once without a crash, and then with one before each of its operations, or before some of them. After each `check`
/// gets the disk after the death of the process and after power losses.
fn at_each_operation(
    kind: &str,
    component: &DiskComponent,
    act: impl Fn(&World) -> Result<()>,
    mut check: impl FnMut(&SimulatedStorage, &[[Pairs; 2]], bool, &str),
) {
    let (counting, _) = world(component);
    let before = counting.disk.operations();
    act(&counting).unwrap();
    let operations = counting.disk.operations() - before;
    let step = (operations / setting("ALLUVIUM_BACKUP_CRASHES", 20)).max(1) as usize;
    // The last operations are those that decide.
    let last = operations.saturating_sub(10).max(1)..=operations;
    for at in (1..=operations).step_by(step).chain(last) {
        let (world, states) = world(component);
        world.disk.crash_at(at);
        let is_done = act(&world).is_ok();
        // What a power loss leaves of the changes behind the last sync.
        let seeds = if kind == "trunk" && at + 3 >= operations { 40 } else { 3 };
        for seed in 0..seeds {
            let what = format!("{kind}, a crash at {at} of {operations}, {seed}");
            let disk = world.disk.clone_disk();
            let disk = if seed == 0 { disk.kill() } else { disk.power_cut(at * 8 + seed) };
            check(&disk, &states, is_done, &what);
        }
    }
}

#[test]
fn a_crash_during_a_backup_leaves_the_earlier_ones_and_this_one_whole_or_none() {
    for (kind, component) in components() {
        let (mut none, mut whole) = (0, 0);
        let act = |world: &World| world.db.backup(BACKUPS).map(drop);
        at_each_operation(kind, &component, act, |disk, states, is_done, what| {
            let ids: Vec<_> = backups(disk).list().unwrap().iter().map(|info| info.id).collect();
            let has_third = ids == [1, 2, 3];
            assert!(has_third || ids == [1, 2], "{what}: {ids:?}");
            assert!(has_third || !is_done, "{what}: no backup after a success");
            for id in ids {
                assert!(restored(disk, id, what, both) == states[id as usize - 1], "{what}: backup {id}");
            }
            *if has_third { &mut whole } else { &mut none } += 1;
            // The next backup removes what was left.
            let db = open(disk).unwrap();
            let report = db.backup(BACKUPS).unwrap();
            assert_eq!(report.id, if has_third { 4 } else { 3 }, "{what}");
            let needed = backups(disk).list().unwrap().iter().map(|info| info.id).collect::<Vec<_>>();
            for id in &needed {
                assert!(backups(disk).verify(*id).unwrap().is_valid(), "{what}: backup {id}");
            }
            assert!(!disk.at(BACKUPS).list().unwrap().iter().any(|name| name.ends_with(".new")), "{what}");
            backups(disk).keep_newest(1).unwrap();
            let files = shared_files(disk).len() as u64;
            assert_eq!(files, report.files_new + report.files_shared, "{what}: leftovers");
        });
        assert!(none > 20 && whole > 0, "{kind}: {none} without the backup, {whole} with it");
    }
}

/// The process dies right after the description got its name, before that is durable.
#[test]
fn a_description_is_never_there_without_its_files() {
    let (world, states) = world(&DiskComponent::Trunk);
    world.disk.inject("(rename name~.backup.new) -> eio part=all; (remove name~.backup) -> crash");
    world.db.backup(BACKUPS).unwrap_err();
    assert!(world.disk.is_dead());
    let (mut none, mut whole) = (0, 0);
    for seed in 0..300 {
        let disk = world.disk.clone_disk().power_cut(seed);
        let ids: Vec<_> = backups(&disk).list().unwrap().iter().map(|info| info.id).collect();
        *if ids.len() == 3 { &mut whole } else { &mut none } += 1;
        for id in ids {
            assert!(restored(&disk, id, "after a power loss", both) == states[id as usize - 1], "backup {id}");
        }
    }
    assert!(none > 20 && whole > 20, "{none} without the backup, {whole} with it");
}

/// The process dies before the removal of the descriptions is durable, or right after the files are removed.
#[test]
fn a_description_is_never_there_without_its_files_after_a_removal() {
    let (world, states) = world(&DiskComponent::Trunk);
    // The newest backup shares no file with the others.
    world.db.compact().unwrap();
    world.db.backup(BACKUPS).unwrap();
    let mut left = [0, 0, 0];
    for seed in 0..300 {
        let disk = world.disk.clone_disk();
        disk.inject(&format!("(remove nth={}) -> crash", seed % 8 + 1));
        let outcome = alluvium::Backups::open_with(std::sync::Arc::new(disk.at(BACKUPS)))
            .and_then(|backups| backups.keep_newest(1));
        let disk = disk.power_cut(seed);
        let ids: Vec<_> = backups(&disk).list().unwrap().iter().map(|info| info.id).collect();
        left[ids.len() - 1] += 1;
        for id in ids {
            let what = format!("after a power loss, {seed}: {outcome:?}");
            assert!(restored(&disk, id, &what, both) == states[id as usize - 1], "{what}: backup {id}");
        }
    }
    assert!(left.iter().all(|count| *count > 0), "{left:?}");
}

#[test]
fn a_crash_during_a_removal_leaves_the_other_backups() {
    let (world, states) = world(&DiskComponent::Trunk);
    world.db.backup(BACKUPS).unwrap();
    let counting = world.disk.clone_disk();
    let before = counting.operations();
    backups(&counting).keep_newest(1).unwrap();
    let operations = counting.operations() - before;
    assert!(operations > 10);
    let mut left = [0, 0, 0];
    for at in 1..=operations {
        let disk = world.disk.clone_disk();
        disk.crash_at(at);
        let outcome = alluvium::Backups::open_with(std::sync::Arc::new(disk.at(BACKUPS)))
            .and_then(|backups| backups.keep_newest(1));
        for seed in 0..4 {
            let what = format!("a crash at {at} of {operations}, {seed}: {outcome:?}");
            let disk = disk.clone_disk();
            let disk = if seed == 0 { disk.kill() } else { disk.power_cut(at * 8 + seed) };
            let ids: Vec<_> = backups(&disk).list().unwrap().iter().map(|info| info.id).collect();
            assert_eq!(ids.last(), Some(&3), "{what}");
            assert!(outcome.is_err() || ids == [3], "{what}: {ids:?}");
            for id in &ids {
                assert!(restored(&disk, *id, &what, both) == states[*id as usize - 1], "{what}: backup {id}");
            }
            left[ids.len() - 1] += 1;
            backups(&disk).keep_newest(1).unwrap();
            let files = backups(&disk).list().unwrap()[0].files;
            assert_eq!(shared_files(&disk).len() as u64, files, "{what}: leftovers");
        }
    }
    assert!(left.iter().all(|count| *count > 0), "{left:?}");
}

#[test]
fn a_crash_during_a_restore_leaves_a_whole_store_or_none() {
    for (kind, component) in components() {
        let (world, states) = world(&component);
        let counting = world.disk.clone_disk();
        let before = counting.operations();
        backups(&counting).restore(2, TARGET).unwrap();
        let operations = counting.operations() - before;
        let step = (operations / setting("ALLUVIUM_BACKUP_CRASHES", 40)).max(1) as usize;
        let (mut none, mut whole) = (0, 0);
        for at in (1..=operations).step_by(step).chain(operations - 15..=operations) {
            let disk = world.disk.clone_disk();
            disk.crash_at(at);
            let outcome = alluvium::Backups::open_with(std::sync::Arc::new(disk.at(BACKUPS)))
                .and_then(|backups| backups.restore(2, TARGET));
            for seed in 0..3 {
                let what = format!("{kind}, a crash at {at} of {operations}, {seed}: {outcome:?}");
                let disk = disk.clone_disk();
                let disk = if seed == 0 { disk.kill() } else { disk.power_cut(at * 8 + seed) };
                let target = disk.at(TARGET);
                match open(&target) {
                    Ok(db) => {
                        assert!(both(&db) == states[1], "{what}");
                        db.close().unwrap();
                        check_files(&target, &what);
                        whole += 1;
                    }
                    Err(error) => {
                        assert!(outcome.is_err(), "{what}: no store after a success");
                        assert!(matches!(error, Error::NoStore { .. }), "{what}: {error}");
                        none += 1;
                    }
                }
                for id in [1, 2] {
                    assert!(backups(&disk).verify(id).unwrap().is_valid(), "{what}: backup {id}");
                }
            }
        }
        assert!(none > 20 && whole > 0, "{kind}: {none} without a store, {whole} with one");
    }
}

/// An unfinished restore is named, and not overwritten.
#[test]
fn an_unfinished_restore_is_named() {
    let (world, _) = world(&DiskComponent::Trunk);
    world.disk.inject("(rename name=MANIFEST.new) -> crash");
    assert!(backups(&world.disk).restore(1, TARGET).is_err());
    let disk = world.disk.kill();
    let target = disk.at(TARGET);
    assert!(target.list().unwrap().iter().any(|name| name.ends_with(".branch")));
    let error = open(&target).map(drop).unwrap_err();
    assert!(
        matches!(error, Error::NoStore { .. }) && error.to_string().contains("a backup is being restored"),
        "{error}"
    );
    let error = backups(&disk).restore(1, TARGET).unwrap_err();
    assert!(error.to_string().contains("is not empty"), "{error}");
}
