//! A store dies before every I/O operation while pairs expire and their space is freed. The next opening finds what had not
//! expired, nothing that had, and no damage.

use super::*;

/// Of so many places to die, one is tried; all with 1.
const EVERY: u64 = 3;

fn name(at: u32) -> String {
    format!("{at:03}")
}

/// The store after a death: by now the old pairs are gone for every reader, and the young ones are there.
fn check(disk: &SimulatedStorage, options: &Options, young: &[String], place: &str) {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let reader = ReadOnlyDb::open_with(Arc::clone(&storage), options.clone()).unwrap();
    let read = reader.keyspace("own", KeyspaceOptions::new()).unwrap().unwrap();
    let found: Vec<_> = read.iter().unwrap().keys().map(|key| String::from_utf8(key.unwrap()).unwrap()).collect();
    assert_eq!(found, young, "a reader, {place}");
    drop((read, reader));
    let db = DeterministicDb::open_small(Arc::clone(&storage), options.clone()).unwrap();
    let own = keyspace(&db, "own");
    assert_eq!(keys(&own), young, "{place}");
    assert_eq!(keyspace(&db, "kept").iter().unwrap().count(), 30, "{place}");
    rest(&db);
    assert_eq!(keys(&own), young, "after background work, {place}");
    disk.advance(EXPIRY);
    rest(&db);
    assert_eq!(keys(&own), [""; 0], "later, {place}");
    db.verify().unwrap();
    db.close().unwrap();
    expect_sound_closed(&storage);
}

#[test]
fn deaths_while_pairs_expire_bring_nothing_back() {
    let (mut points, mut last) = (0_u64, 0);
    for (seed, options) in (setting("ALLUVIUM_SEED", 1)..).zip(all_components()) {
        let world = World::new(options);
        let db = world.open();
        let (own, kept) = (db.keyspace("own", expiring()).unwrap(), keyspace(&db, "kept"));
        (0..150).for_each(|at| own.put(name(at), [7; 1000]).unwrap());
        (0..30).for_each(|at| kept.put(name(at), [7; 1000]).unwrap());
        db.flush().unwrap();
        world.pass(&db, EXPIRY / 2);
        let young: Vec<_> = (0..150).step_by(10).map(name).collect();
        young.iter().for_each(|key| own.put(key, "young").unwrap());
        world.pass(&db, SECOND);
        // With the dates.
        db.sync().unwrap();
        world.pass(&db, EXPIRY / 2 - SECOND * 2);
        world.disk.record_crashes();
        let before = db.stats().branch_bytes;
        world.pass(&db, SECOND * 4);
        assert_eq!(keys(&own), young);
        assert!(db.stats().branch_bytes < before / 2, "the space was not freed meanwhile");
        let end = world.disk.clone_disk();
        for point in world.disk.crash_points() {
            points += 1;
            if !points.is_multiple_of(setting("ALLUVIUM_EXPIRY_DEATHS", EVERY)) {
                continue;
            }
            let place = format!("before: {} {}", point.operation, point.name);
            for dead in [point.disk.clone_disk().kill(), point.disk.clone_disk().power_cut(seed + points)] {
                // So that they have expired, wherever it died.
                dead.advance(SECOND * 4);
                check(&dead, &world.options, &young, &place);
                last += 1;
            }
        }
        check(&end.kill(), &world.options, &young, "at the end");
    }
    println!("{points} places, {last} deaths");
    assert!(last > 50, "only {last} deaths");
}
