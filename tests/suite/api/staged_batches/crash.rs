//! A crash while a staged batch is filled or committed: all of it is there or nothing, and no file of it remains. Repair agrees.

use super::{Contents, components, contents, key, of};
use crate::support::{expect_sound, setting};
use alluvium::internals::DeterministicDb;
use alluvium::storage::Storage;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Depth, DiskComponent, Options};
use std::sync::Arc;

fn open(disk: &SimulatedStorage, disk_component: &Option<DiskComponent>) -> DeterministicDb {
    let options = Options::new().memory_budget(1 << 20).sync_interval(None).disk_component(disk_component.clone());
    DeterministicDb::open_small(Arc::new(disk.clone()), options).unwrap()
}

/// A store with pairs in files and in memory, and a batch that changes and deletes some.
struct World {
    disk: SimulatedStorage,
    db: DeterministicDb,
    before: Contents,
}

impl World {
    fn new(disk_component: &Option<DiskComponent>) -> Self {
        let disk = SimulatedStorage::new(7);
        let db = open(&disk, disk_component);
        let mut before = Contents::new();
        let mut put = |number: u64, value: &str| {
            db.put(key(number), value).unwrap();
            before.insert(key(number), value.as_bytes().to_vec());
        };
        (0..1_500).for_each(|number| put(number * 2, "in files"));
        db.flush().unwrap();
        while db.step() {}
        (0..40).for_each(|number| put(number * 50 + 1, "in memory"));
        Self { disk, db, before }
    }

    fn run(&self) -> alluvium::Result<()> {
        let mut batch = self.db.staged_batch()?.with_memory(20_000);
        for number in 300..1_200 {
            batch.put(key(number), "batch")?;
            if number == 800 {
                batch.delete_range(key(400)..key(500))?;
                batch.delete_range(key(2_000)..key(2_400))?;
            }
        }
        assert!(batch.spilled_bytes() > 0);
        batch.commit()
    }

    fn after(&self) -> Contents {
        let mut after = self.before.clone();
        after.extend((300..1_200).map(|number| (key(number), b"batch".to_vec())));
        let deleted = [key(400)..key(500), key(2_000)..key(2_400)];
        after.retain(|key, _| !deleted.iter().any(|range| range.contains(key)));
        after
    }
}

#[test]
fn a_crash_leaves_a_whole_batch_or_none() {
    for disk_component in components() {
        let counting = World::new(&disk_component);
        let first = counting.disk.operations();
        counting.run().unwrap();
        let operations = counting.disk.operations() - first;
        let after = counting.after();
        assert_eq!(of(&counting.db), after);
        let step = (operations / setting("ALLUVIUM_INGEST_CRASHES", 20)).max(1) as usize;
        let last = operations.saturating_sub(30)..=operations;
        let (mut none, mut whole) = (0, 0);
        for at in (1..=operations).step_by(step).chain(last) {
            let world = World::new(&disk_component);
            world.disk.crash_at(at.max(1));
            let done = world.run();
            for seed in 0..3 {
                let disk = world.disk.clone_disk();
                let disk = if seed == 0 { disk.kill() } else { disk.power_cut(at * 8 + seed) };
                let what = format!("{disk_component:?}, a crash at {at} of {operations}, {seed}: {done:?}");
                let db = open(&disk, &disk_component);
                let found = of(&db);
                if found.values().any(|value| value == b"batch") {
                    assert!(found == after, "{what}: a part of a batch");
                    whole += 1;
                } else {
                    assert!(done.is_err(), "{what}: a batch that has returned is lost");
                    assert!(seed > 0 || found == world.before, "{what}: a killed store has lost a write");
                    none += 1;
                }
                db.put(key(450), "newer").unwrap();
                assert_eq!(db.get(key(450)).unwrap().as_deref(), Some(&b"newer"[..]), "{what}");
                db.flush().unwrap();
                while db.step() {}
                expect_sound(&db);
                db.close().unwrap();
                let closed = Db::verify_closed_with(Arc::new(disk.clone()), Depth::Deep, &mut |_| ()).unwrap();
                assert!(closed.is_valid() && closed.unreferenced.is_empty(), "{what}: {closed:#?}");
            }
        }
        assert!(none > 20 && whole > 4, "{disk_component:?}: {none} without the batch, {whole} with it");
    }
}

/// A sync that fails: the store is read-only afterwards, and opened again it has all of the batch or nothing.
#[test]
fn a_failed_operation_leaves_a_whole_batch_or_none() {
    let counting = World::new(&None);
    let first = counting.disk.operations();
    counting.run().unwrap();
    let operations = counting.disk.operations() - first;
    let (mut refused, mut whole) = (0, 0);
    for at in operations.saturating_sub(40)..=operations {
        for effect in ["eio", "enospc"] {
            let world = World::new(&None);
            world.disk.inject(&format!("(any nth={at}) -> {effect}"));
            let done = world.run();
            world.disk.clear_faults();
            refused += usize::from(done.is_err());
            let what = format!("{effect} at {at} of {operations}: {done:?}");
            let after = world.after();
            let open_still = contents(&world.db.snapshot());
            let is_whole = open_still == after;
            assert!(is_whole || (done.is_err() && open_still == world.before), "{what}");
            let disk = world.disk.clone_disk().power_cut(at * 4);
            let found = of(&open(&disk, &None));
            if done.is_ok() || found.values().any(|value| value == b"batch") {
                assert!(found == after, "{what}");
                whole += 1;
            }
        }
    }
    assert!(refused > 10 && whole > 10, "{refused} refused, {whole} whole");
}

/// Without a manifest the number of its entries and of its deleted ranges is in its files; with one, it is there too.
#[test]
fn repair_finds_the_number_of_a_batch() {
    for has_manifest in [true, false] {
        let world = World::new(&None);
        world.run().unwrap();
        let mut expected = world.after();
        // Newer than the batch, in a range that it deletes.
        world.db.put(key(450), "newer").unwrap();
        expected.insert(key(450), b"newer".to_vec());
        world.db.flush().unwrap();
        let disk = world.disk.clone_disk().kill();
        if !has_manifest {
            disk.remove("MANIFEST").unwrap();
        }
        let report = Db::repair_with(Arc::new(disk.clone()), &mut |_| ()).unwrap();
        let db = open(&disk, &None);
        let found = of(&db);
        assert!(found == expected, "{report:#?}");
        expect_sound(&db);
    }
}
