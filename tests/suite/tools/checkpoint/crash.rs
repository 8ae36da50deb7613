//! A crash during a checkpoint: the store is unharmed, and the directory has a whole checkpoint or is no store.

use super::{COPY, World, both, check_files, components, open};
use crate::support::setting;
use crate::tools::corruption::verify;
use alluvium::storage::Storage;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Depth, Error, Options, ReadOnlyDb};
use std::sync::Arc;

fn world(component: &alluvium::DiskComponent) -> World {
    let mut world = World { unlogged: false, ..World::new(5, component) };
    for _ in 0..3 {
        world.write(250);
        world.steps(15);
    }
    world
}

/// Whether the directory of a checkpoint is none that can be opened: missing, or empty but for files that mean nothing, or
/// marked as unfinished.
fn is_unfinished(copy: &SimulatedStorage) -> bool {
    let error = match open(copy) {
        Ok(_) => return false,
        Err(error) => error,
    };
    assert!(matches!(error, Error::NoStore { .. }), "{error}");
    true
}

#[test]
fn a_crash_leaves_a_whole_checkpoint_or_none() {
    for (kind, component) in components() {
        let counting = world(&component);
        let before = counting.disk.operations();
        counting.db.checkpoint(COPY).unwrap();
        let operations = counting.disk.operations() - before;
        let step = (operations / setting("ALLUVIUM_CHECKPOINT_CRASHES", 60)).max(1) as usize;
        let (mut none, mut whole) = (0, 0);
        // The last operations are those that decide.
        let last = operations.saturating_sub(25)..=operations;
        for at in (1..=operations).step_by(step).chain(last) {
            let world = world(&component);
            world.disk.crash_at(at.max(1));
            // The mark's removal is no failure of the checkpoint.
            let done = world.db.checkpoint(COPY);
            let what = format!("{kind}, a crash at {at} of {operations}: {done:?}");
            let pairs = world.pairs.clone();
            for seed in 0..3 {
                let what = format!("{what}, {seed}");
                let disk = world.disk.clone_disk();
                let disk = if seed == 0 { disk.kill() } else { disk.power_cut(at * 8 + seed) };
                let copy = disk.at(COPY);
                let has_copy = !is_unfinished(&copy);
                assert!(has_copy || done.is_err(), "{what}: no checkpoint after a success");
                if has_copy {
                    check_files(&copy, &what);
                    assert!(both(&open(&copy).unwrap()) == pairs, "{what}: other contents in the checkpoint");
                    assert!(!copy.current_image().contains_key("CHECKPOINT.new"), "{what}: opening leaves the mark");
                }
                *if has_copy { &mut whole } else { &mut none } += 1;
                let found = verify(&disk, Depth::Deep).unwrap();
                assert!(found.is_valid(), "{what}: {:?}", found.damage);
                if seed == 0 {
                    assert!(both(&open(&disk).unwrap()) == pairs, "{what}: other contents in the store");
                } else {
                    open(&disk).unwrap();
                }
            }
        }
        assert!(none > 20 && whole > 2, "{kind}: {none} without a checkpoint, {whole} with one");
    }
}

/// Every tool says what the directory is, and changes nothing.
#[test]
fn an_unfinished_checkpoint_is_named() {
    let world = world(&alluvium::DiskComponent::Trunk);
    world.disk.inject("(rename name=MANIFEST.new nth=1) -> crash");
    assert!(world.db.checkpoint(COPY).is_err());
    let disk = world.disk.kill();
    let copy = disk.at(COPY);
    let image = copy.current_image();
    assert!(image.keys().any(|name| name.ends_with(".branch")) && image.contains_key("CHECKPOINT.new"));
    assert!(!image.contains_key("MANIFEST"));
    let storage = || Arc::new(copy.clone());
    let outcomes = [
        ("open", Db::open_with(storage(), Options::new()).map(drop)),
        ("read", ReadOnlyDb::open_with(storage(), Options::new()).map(drop)),
        ("verify", Db::verify_closed_with(storage(), Depth::Deep, &mut |_| ()).map(drop)),
        ("repair", Db::repair_with(storage(), &mut |_| ()).map(drop)),
        ("convert", {
            let options = Options::new().disk_component(crate::support::tiny_levels(1));
            Db::convert_with(storage(), &options, &mut |_| ()).map(drop)
        }),
    ];
    for (what, outcome) in outcomes {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::NoStore { .. }), "{what}: {error}");
        assert!(error.to_string().contains("a checkpoint is being made here, or was not finished"), "{what}: {error}");
    }
    assert_eq!(copy.current_image(), image);
    // It is not overwritten either; once it is removed, another one can be made.
    let db = open(&disk).unwrap();
    let error = db.checkpoint(COPY).unwrap_err();
    assert!(error.to_string().contains("is not empty"), "{error}");
    assert_eq!(copy.current_image(), image);
    for name in copy.list().unwrap() {
        copy.remove(&name).unwrap();
    }
    db.checkpoint(COPY).unwrap();
    db.close().unwrap();
    check_files(&copy, "the second attempt");
}
