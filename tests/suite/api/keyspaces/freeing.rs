//! The space of dropped and emptied keyspaces comes back without further calls.

use super::*;

/// A store with two keyspaces of the same size on the disk, and the bytes of its files.
fn filled(storage: &Arc<dyn Storage>, options: &Options) -> (DeterministicDb, u64) {
    let db = DeterministicDb::open_small(Arc::clone(storage), options.clone()).unwrap();
    let (kept, doomed) = (keyspace(&db, "kept"), keyspace(&db, "doomed"));
    for at in 0..400_u32 {
        kept.put(at.to_be_bytes(), [at as u8; 1000]).unwrap();
        doomed.put(at.to_be_bytes(), [at as u8; 1000]).unwrap();
    }
    db.flush().unwrap();
    rest(&db);
    let bytes = db.stats().branch_bytes;
    (db, bytes)
}

/// Lets background work end.
fn rest(db: &DeterministicDb) {
    for _ in 0..10_000 {
        if !db.step() {
            return;
        }
    }
    panic!("background work does not end");
}

fn storage() -> (SimulatedStorage, Arc<dyn Storage>) {
    let disk = SimulatedStorage::new(1);
    (disk.clone(), Arc::new(disk))
}

fn expect_freed(db: &DeterministicDb, before: u64) {
    let bytes = db.stats().branch_bytes;
    assert!(bytes < before / 5 * 3, "{before} bytes before, {bytes} after");
    assert_eq!(keyspace(db, "kept").iter().unwrap().count(), 400);
}

#[test]
fn a_dropped_keyspace_gives_its_space_back() {
    for options in all_components() {
        let (db, before) = filled(&storage().1, &options);
        assert!(db.drop_keyspace("doomed").unwrap());
        rest(&db);
        expect_freed(&db, before);
        assert!(!db.step());
    }
}

/// Its space came back only with merges that other writes to the same place caused.
#[test]
fn a_large_deleted_range_gives_its_space_back() {
    for options in all_components() {
        let (db, before) = filled(&storage().1, &options);
        let (doomed, snapshot) = (keyspace(&db, "doomed"), db.snapshot());
        doomed.delete_range(10_u32.to_be_bytes()..200_u32.to_be_bytes()).unwrap();
        doomed.delete_range(200_u32.to_be_bytes()..400_u32.to_be_bytes()).unwrap();
        db.flush().unwrap();
        rest(&db);
        assert!(db.stats().branch_bytes >= before, "a snapshot needs it");
        assert_eq!(snapshot.keyspace("doomed").unwrap().unwrap().iter().unwrap().count(), 400);
        drop(snapshot);
        rest(&db);
        expect_freed(&db, before);
        assert_eq!(doomed.iter().unwrap().count(), 10);
        assert!(!db.step());
    }
}

#[test]
fn an_emptied_keyspace_gives_its_space_back() {
    for options in all_components() {
        let (db, before) = filled(&storage().1, &options);
        let doomed = keyspace(&db, "doomed");
        doomed.clear().unwrap();
        doomed.put("new", "1").unwrap();
        rest(&db);
        expect_freed(&db, before);
        assert_eq!(contents(&doomed), ["new=1"]);
    }
}

#[test]
fn snapshots_keep_the_space_until_they_end() {
    for options in all_components() {
        let (db, before) = filled(&storage().1, &options);
        let snapshot = db.snapshot();
        assert!(db.drop_keyspace("doomed").unwrap());
        rest(&db);
        assert!(db.stats().branch_bytes >= before);
        assert_eq!(snapshot.keyspace("doomed").unwrap().unwrap().iter().unwrap().count(), 400);
        drop(snapshot);
        rest(&db);
        expect_freed(&db, before);
    }
}

/// The process dies before the space is freed.
#[test]
fn the_next_opening_goes_on_freeing() {
    for options in all_components() {
        let (disk, storage) = storage();
        let (db, before) = filled(&storage, &options);
        assert!(db.drop_keyspace("doomed").unwrap());
        let killed: Arc<dyn Storage> = Arc::new(disk.clone_disk());
        drop(db);
        let db = DeterministicDb::open_small(Arc::clone(&killed), options.clone()).unwrap();
        rest(&db);
        expect_freed(&db, before);
        db.close().unwrap();
        expect_sound_closed(&killed);
    }
}

/// Many small ones have what one large one has, be they neighbours or not.
#[test]
fn small_keyspaces_give_their_space_back_together() {
    for (options, kept) in all_components().into_iter().flat_map(|options| [(options.clone(), 20), (options, 2)]) {
        let db = DeterministicDb::open_small(storage().1, options).unwrap();
        let name = |at: u32| format!("{at:04}");
        for at in 0..400 {
            keyspace(&db, &name(at)).put("key", [at as u8; 2000]).unwrap();
        }
        db.flush().unwrap();
        rest(&db);
        let before = db.stats().branch_bytes;
        (0..400).filter(|at| at % kept != 0).for_each(|at| assert!(db.drop_keyspace(&name(at)).unwrap()));
        rest(&db);
        let (after, most) = (db.stats().branch_bytes, if kept == 2 { before / 4 * 3 } else { before / 3 });
        assert!(after < most, "{before} bytes before, {after} after, one in {kept} is kept");
        assert!((0..400).step_by(kept as usize).all(|at| keyspace(&db, &name(at)).contains_key("key").unwrap()));
    }
}

/// The values of a keyspace may be in files of their own, beside which its branch files are small.
#[test]
fn value_files_of_a_dropped_keyspace_are_removed() {
    for options in all_components() {
        let db = DeterministicDb::open_small(storage().1, options).unwrap();
        let (kept, doomed) = (keyspace(&db, "kept"), keyspace(&db, "doomed"));
        for at in 0..1000_u32 {
            kept.put(at.to_be_bytes(), [at as u8; 1000]).unwrap();
        }
        for at in 0..10_u32 {
            doomed.put(at.to_be_bytes(), vec![at as u8; 300_000]).unwrap();
        }
        db.flush().unwrap();
        rest(&db);
        assert_eq!(db.stats().value_files, 10);
        assert!(db.drop_keyspace("doomed").unwrap());
        rest(&db);
        assert_eq!(db.stats().value_files, 0);
    }
}

/// While there always is a snapshot from before the last drop, those before it are freed. They were not when neighbours had
/// the number of the newest drop among them.
#[test]
fn newer_snapshots_do_not_keep_the_space_of_older_drops() {
    let db = DeterministicDb::open_small(storage().1, tiny()).unwrap();
    keyspace(&db, "kept").put("a", "b").unwrap();
    let (mut older, mut greatest) = (db.snapshot(), 0);
    for round in 0..10_u32 {
        let name = format!("temporary {round}");
        let temporary = keyspace(&db, &name);
        for at in 0..200_u32 {
            temporary.put(at.to_be_bytes(), [at as u8; 1000]).unwrap();
        }
        db.flush().unwrap();
        rest(&db);
        let newer = db.snapshot();
        assert!(db.drop_keyspace(&name).unwrap());
        drop(std::mem::replace(&mut older, newer));
        rest(&db);
        let bytes = db.stats().branch_bytes;
        if round == 2 {
            greatest = bytes;
        }
        assert!(
            round < 2 || bytes < greatest + greatest / 2,
            "{bytes} bytes in round {round}, {greatest} in the third"
        );
    }
}

/// The tombstone of a drop is in the newest of three generations, which nothing incorporates by itself.
#[test]
fn a_drop_while_memory_is_full_frees_its_space() {
    let (db, before) = filled(&storage().1, &tiny());
    let kept = keyspace(&db, "kept");
    let mut at = 0_u32;
    while db.stats().generations < 3 {
        kept.put((at % 400).to_be_bytes(), [at as u8; 1000]).unwrap();
        at += 1;
    }
    assert!(db.drop_keyspace("doomed").unwrap());
    rest(&db);
    expect_freed(&db, before);
}

/// The last number of the log is that of a write without a record, which nothing incorporates.
#[test]
fn an_opening_after_an_unlogged_write_goes_on_freeing() {
    let (disk, storage) = storage();
    let options = tiny().sync_interval(None);
    let (db, before) = filled(&storage, &options);
    let snapshot = db.snapshot();
    assert!(db.drop_keyspace("doomed").unwrap());
    db.flush().unwrap();
    keyspace(&db, "kept")
        .put_with(1_u32.to_be_bytes(), "", WriteOptions::new().durability(Durability::Unlogged))
        .unwrap();
    db.sync().unwrap();
    let killed: Arc<dyn Storage> = Arc::new(disk.clone_disk());
    drop((snapshot, db));
    let db = DeterministicDb::open_small(killed, options).unwrap();
    rest(&db);
    expect_freed(&db, before);
}

/// A scratch keyspace that is filled and emptied again and again, all in memory, causes no work on the disk.
#[test]
fn emptying_what_is_in_memory_writes_no_files() {
    let db = DeterministicDb::open(storage().1, tiny()).unwrap();
    let scratch = keyspace(&db, "scratch");
    for round in 0..100_u32 {
        for at in 0..10_u32 {
            scratch.put(at.to_be_bytes(), round.to_be_bytes()).unwrap();
        }
        scratch.clear().unwrap();
        rest(&db);
    }
    assert_eq!(db.stats().incorporations, 0);
}
