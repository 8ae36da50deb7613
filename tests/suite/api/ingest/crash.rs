//! A crash during an ingest: all of it is there or nothing, and whatever was written before it is there if it is. Repair
//! agrees.

use super::{Contents, components, contents, key, of};
use crate::support::{expect_sound, setting};
use alluvium::internals::DeterministicDb;
use alluvium::storage::Storage;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{BranchFile, Db, Depth, DiskComponent, Options};
use std::sync::Arc;

fn open(disk: &SimulatedStorage, disk_component: &Option<DiskComponent>) -> DeterministicDb {
    let options = Options::new().memory_budget(1 << 20).sync_interval(None).disk_component(disk_component.clone());
    DeterministicDb::open_small(Arc::new(disk.clone()), options).unwrap()
}

/// A store with pairs in files and in memory, and the pairs of an ingest over them.
struct World {
    disk: SimulatedStorage,
    db: DeterministicDb,
    before: Contents,
    pairs: Contents,
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
        // In its range and beside it; not synced.
        (0..40).for_each(|number| put(number * 50 + 1, "in memory"));
        let pairs = (300..2_500).map(|number| (key(number), b"ingested".to_vec())).collect();
        Self { disk, db, before, pairs }
    }

    fn run(&self) -> alluvium::Result<()> {
        let mut entering = self.db.ingest()?;
        for (at, (key, value)) in self.pairs.iter().enumerate() {
            if at == 1_000 {
                // After the first files, and before the number of the ingest.
                self.db.put("beside", "it")?;
            }
            entering.put(key, value)?;
        }
        entering.commit().map(drop)
    }

    fn after(&self) -> Contents {
        let mut after = self.before.clone();
        after.extend(self.pairs.clone());
        after.insert(b"beside".to_vec(), b"it".to_vec());
        after
    }
}

#[test]
fn a_crash_leaves_a_whole_ingest_or_none() {
    for disk_component in components() {
        let counting = World::new(&disk_component);
        let first = counting.disk.operations();
        counting.run().unwrap();
        let operations = counting.disk.operations() - first;
        let after = counting.after();
        assert_eq!(of(&counting.db), after);
        let step = (operations / setting("ALLUVIUM_INGEST_CRASHES", 40)).max(1) as usize;
        let last = operations.saturating_sub(40)..=operations;
        let (mut none, mut whole) = (0, 0);
        for at in (1..=operations).step_by(step).chain(last) {
            let world = World::new(&disk_component);
            world.disk.crash_at(at.max(1));
            let done = world.run();
            for seed in 0..4 {
                let disk = world.disk.clone_disk();
                let disk = if seed == 0 { disk.kill() } else { disk.power_cut(at * 8 + seed) };
                let what = format!("{disk_component:?}, a crash at {at} of {operations}, {seed}: {done:?}");
                let db = open(&disk, &disk_component);
                let found = of(&db);
                let has_ingest = found.get(&key(301)).is_some_and(|value| value == b"ingested");
                assert!(has_ingest || done.is_err(), "{what}: an ingest that has returned is lost");
                if has_ingest {
                    assert!(found == after, "{what}: an ingest without what was written before it");
                    whole += 1;
                } else {
                    assert!(found.values().all(|value| value != b"ingested"), "{what}: a part of an ingest");
                    if seed == 0 {
                        let mut expected = found.clone();
                        expected.remove(&b"beside"[..]);
                        assert!(expected == world.before, "{what}: a killed store has lost a write");
                    }
                    none += 1;
                }
                // Numbers go on above it.
                db.put(key(301), "newer").unwrap();
                assert_eq!(db.get(key(301)).unwrap().as_deref(), Some(&b"newer"[..]), "{what}");
                db.flush().unwrap();
                while db.step() {}
                expect_sound(&db);
                db.close().unwrap();
                let closed = Db::verify_closed_with(Arc::new(disk.clone()), Depth::Deep, &mut |_| ()).unwrap();
                assert!(closed.is_valid() && closed.unreferenced.is_empty(), "{what}: {closed:#?}");
            }
        }
        assert!(none > 20 && whole > 4, "{disk_component:?}: {none} without the ingest, {whole} with it");
    }
}

/// A sync that fails: the store is read-only afterwards, and opened again it has all of the ingest or nothing.
#[test]
fn a_failed_operation_leaves_a_whole_ingest_or_none() {
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
            let has_ingest = open_still == after;
            assert!(has_ingest || done.is_err(), "{what}");
            assert!(has_ingest || open_still.values().all(|value| value != b"ingested"), "{what}");
            for seed in 1..3 {
                let disk = world.disk.clone_disk().power_cut(at * 4 + seed);
                let found = of(&open(&disk, &None));
                if done.is_ok() || found.values().any(|value| value == b"ingested") {
                    assert!(found == after, "{what}, {seed}");
                    whole += 1;
                }
            }
        }
    }
    assert!(refused > 10 && whole > 10, "{refused} refused, {whole} whole");
}

/// Without a manifest the number of an ingest is in its files. Those of an ingest that never took effect do not count.
#[test]
fn repair_finds_the_number_of_an_ingest() {
    for is_committed in [true, false] {
        let world = World::new(&None);
        let mut entering = world.db.ingest().unwrap();
        entering.put_all(&world.pairs).unwrap();
        let mut expected = world.before.clone();
        if is_committed {
            entering.commit().unwrap();
            expected.extend(world.pairs.clone());
            // Newer than the ingest.
            world.db.put(key(400), "newer").unwrap();
            expected.insert(key(400), b"newer".to_vec());
            world.db.flush().unwrap();
        } else {
            // Its files are complete but for their number.
            world.disk.inject("(any name=MANIFEST) -> crash");
            assert!(entering.commit().is_err());
        }
        let disk = world.disk.clone_disk().kill();
        disk.remove("MANIFEST").unwrap();
        let report = Db::repair_with(Arc::new(disk.clone()), &mut |_| ()).unwrap();
        let db = open(&disk, &None);
        let found = of(&db);
        if is_committed {
            assert!(found == expected, "{report:#?}");
        } else {
            // What had its number before the crash may have entered, but then as a whole.
            let mut with_ingest = expected.clone();
            with_ingest.extend(world.pairs.clone());
            assert!(found == expected || found == with_ingest, "{report:#?}");
        }
        db.put(key(401), "newest").unwrap();
        assert_eq!(db.get(key(401)).unwrap().as_deref(), Some(&b"newest"[..]));
        expect_sound(&db);
    }
}

/// A damaged leaf costs its own pairs, whether the footer can still be read or not.
#[test]
fn repair_reads_past_damage_in_an_ingested_file() {
    for damages_footer in [false, true] {
        let world = World::new(&None);
        let before: Vec<String> = world.db.branch_files().into_iter().map(|file| file.name).collect();
        world.run().unwrap();
        let after = world.after();
        let World { disk, db, pairs, .. } = world;
        let is_ingested = |file: &&BranchFile| file.first_key >= key(300) && !before.contains(&file.name);
        let files = db.branch_files();
        let ingested = files.iter().filter(is_ingested).max_by_key(|file| file.bytes).unwrap();
        db.close().unwrap();
        disk.corrupt(&ingested.name, 100, 0xa5);
        if damages_footer {
            disk.corrupt(&ingested.name, ingested.bytes - 4_000, 0xa5);
        }
        let report = Db::repair_with(Arc::new(disk.clone()), &mut |_| ()).unwrap();
        assert!(report.entries_lost > 0 && report.entries_saved > 0, "{report:#?}");
        let db = open(&disk, &None);
        let found = of(&db);
        let kept = found.iter().filter(|(_, value)| *value == b"ingested").count();
        assert!(kept > 100 && kept < pairs.len(), "{kept} pairs are left: {report:#?}");
        assert!(found.keys().all(|key| after.contains_key(key)));
        expect_sound(&db);
    }
}
