//! Keyspaces whose pairs expire: every read misses them in time and not before, snapshots keep what they saw, the space comes
//! back, and nothing comes back with a reopening, another clock or other options.

use super::*;
use std::time::{Duration, Instant};

mod deaths;
mod random;

const EXPIRY: Duration = Duration::from_secs(100);
/// More than pairs may be found after their time.
const LATE: Duration = Duration::from_secs(1);
const SECOND: Duration = Duration::from_secs(1);

fn expiring() -> KeyspaceOptions {
    KeyspaceOptions::new().expiry(EXPIRY)
}

/// A store on a disk whose time a test lets pass.
struct World {
    disk: SimulatedStorage,
    storage: Arc<dyn Storage>,
    options: Options,
}

impl World {
    fn new(options: Options) -> Self {
        let disk = SimulatedStorage::new(1);
        // The clock begins at 0, and nothing is older than that.
        disk.advance(EXPIRY * 10);
        Self { storage: Arc::new(disk.clone()), disk, options }
    }

    fn open(&self) -> DeterministicDb {
        DeterministicDb::open_small(Arc::clone(&self.storage), self.options.clone()).unwrap()
    }

    /// Lets time pass, and background work be done as it becomes due.
    fn pass(&self, db: &DeterministicDb, time: Duration) {
        // What was written last gets a date soon.
        let soon = LATE / 4;
        for step in [soon].into_iter().chain([(time - soon) / 10; 10]) {
            self.disk.advance(step);
            rest(db);
        }
    }
}

fn rest(db: &DeterministicDb) {
    for _ in 0..100_000 {
        if !db.step() {
            return;
        }
    }
    panic!("background work does not end");
}

/// Every way to read a key of a keyspace, which must agree. Returns the value.
fn value(keyspace: &Keyspace, key: &str) -> Option<Vec<u8>> {
    let value = keyspace.get(key).unwrap();
    assert_eq!(keyspace.contains_key(key).unwrap(), value.is_some(), "contains_key of {key}");
    assert_eq!(keyspace.multi_get(&[key]).unwrap(), std::slice::from_ref(&value), "multi_get of {key}");
    assert_eq!(keyspace.get_pinned(key).unwrap().map(|value| value.to_vec()), value, "get_pinned of {key}");
    let snapshot = keyspace.snapshot();
    assert_eq!(snapshot.get(key).unwrap(), value, "a snapshot's get of {key}");
    assert_eq!(snapshot.contains_key(key).unwrap(), value.is_some(), "a snapshot's contains_key of {key}");
    let found = keyspace.range(key..).unwrap().next().map(|pair| pair.unwrap());
    let found = found.filter(|(found, _)| *found == key.as_bytes()).map(|(_, value)| value);
    assert_eq!(found, value, "a seek of {key}");
    value
}

/// The keys, read in every direction, which must agree.
fn keys(keyspace: &Keyspace) -> Vec<String> {
    let text = |key: Vec<u8>| String::from_utf8(key).unwrap();
    let keys: Vec<_> = keyspace.iter().unwrap().map(|pair| text(pair.unwrap().0)).collect();
    let mut backward: Vec<_> = keyspace.iter().unwrap().rev().map(|pair| text(pair.unwrap().0)).collect();
    backward.reverse();
    assert_eq!(backward, keys, "backward");
    let only_keys: Vec<_> = keyspace.iter().unwrap().keys().map(|key| text(key.unwrap())).collect();
    assert_eq!(only_keys, keys, "keys alone");
    assert_eq!(keyspace.first().unwrap().map(|(key, _)| text(key)).as_ref(), keys.first());
    assert_eq!(keyspace.last().unwrap().map(|(key, _)| text(key)).as_ref(), keys.last());
    assert_eq!(keyspace.is_empty().unwrap(), keys.is_empty());
    keys
}

/// How the data lies when it expires.
#[derive(Clone, Copy, Debug)]
enum Place {
    Memory,
    Files,
    Merged,
}

#[test]
fn every_read_misses_what_has_expired_and_nothing_else() {
    for (options, place) in all_components()
        .into_iter()
        .flat_map(|options| [Place::Memory, Place::Files, Place::Merged].map(|place| (options.clone(), place)))
    {
        let world = World::new(options);
        let db = world.open();
        let (own, other) = (db.keyspace("own", expiring()).unwrap(), keyspace(&db, "other"));
        let name = |at: u32| format!("{at:03}");
        for at in 0..100 {
            own.put(name(at), "old").unwrap();
            other.put(name(at), "old").unwrap();
        }
        own.put("large", vec![7; 300_000]).unwrap();
        db.put("default", "old").unwrap();
        world.pass(&db, EXPIRY / 2);
        // What is written again, or for the first time, is younger. A delete stays one.
        (0..100).step_by(3).for_each(|at| own.put(name(at), "new").unwrap());
        own.put("young", "new").unwrap();
        own.delete(name(1)).unwrap();
        match place {
            Place::Memory => {}
            Place::Files => db.flush().unwrap(),
            Place::Merged => db.compact().unwrap(),
        }
        let all: Vec<_> =
            (0..100).filter(|at| *at != 1).map(name).chain(["large", "young"].map(str::to_owned)).collect();
        // Not before its time.
        world.pass(&db, EXPIRY / 2 - LATE);
        assert_eq!(keys(&own), all, "{place:?}");
        assert_eq!(
            (value(&own, "002").as_deref(), value(&own, "large").map(|value| value.len())),
            (Some(&b"old"[..]), Some(300_000))
        );
        let snapshot = own.snapshot();
        let mut walk = own.iter().unwrap();
        walk.next().unwrap().unwrap();
        world.pass(&db, LATE * 2);
        let young: Vec<_> = (0..100).step_by(3).map(name).chain(["young".to_owned()]).collect();
        assert_eq!(keys(&own), young, "{place:?}");
        for at in 0..100 {
            assert_eq!(value(&own, &name(at)).as_deref(), (at % 3 == 0).then_some(&b"new"[..]), "{place:?}");
            assert_eq!(other.get(name(at)).unwrap().as_deref(), Some(&b"old"[..]));
        }
        assert_eq!((value(&own, "large"), value(&own, "young").as_deref()), (None, Some(&b"new"[..])));
        assert_eq!(db.get("default").unwrap().as_deref(), Some(&b"old"[..]));
        // What was opened before goes on with what it had, also when it is merged.
        db.compact().unwrap();
        rest(&db);
        assert_eq!((snapshot.iter().unwrap().count(), walk.count() + 1), (all.len(), all.len()), "{place:?}");
        assert_eq!(snapshot.get("large").unwrap().map(|value| value.len()), Some(300_000));
        drop(snapshot);
        world.pass(&db, EXPIRY / 2);
        assert_eq!(keys(&own), [""; 0], "{place:?}");
        assert_eq!(other.iter().unwrap().count(), 100);
        db.close().unwrap();
        expect_sound_closed(&world.storage);
    }
}

#[test]
fn writes_that_depend_on_a_value_find_none_that_has_expired() {
    let world = World::new(tiny());
    let db = world.open();
    let own = db.keyspace("own", expiring()).unwrap();
    for place in [Place::Memory, Place::Files] {
        for key in ["absent", "update", "swap", "take", "transaction", "first"] {
            own.put(key, "old").unwrap();
        }
        if matches!(place, Place::Files) {
            db.flush().unwrap();
        }
        let transaction = db.transaction().unwrap();
        let old = transaction.within(&own).unwrap().get("transaction").unwrap();
        assert_eq!(old.as_deref(), Some(&b"old"[..]));
        world.pass(&db, EXPIRY + LATE);
        assert!(own.put_if_absent("absent", "new").unwrap());
        assert_eq!(own.take("take").unwrap(), None);
        assert!(!own.compare_and_swap("swap", Some(b"old"), Some(b"new")).unwrap().is_done());
        assert!(own.compare_and_swap("swap", None, Some(b"new")).unwrap().is_done());
        own.update("update", |old| {
            assert_eq!(old, None);
            Some(b"new".to_vec())
        })
        .unwrap();
        // An older transaction still has it; nothing was written meanwhile.
        assert_eq!(transaction.within(&own).unwrap().get("transaction").unwrap(), old);
        transaction.within(&own).unwrap().put("transaction", "new").unwrap();
        transaction.commit().unwrap();
        db.transact(|transaction| {
            assert_eq!(transaction.within(&own)?.get("first")?, None);
            transaction.within(&own)?.put("first", "new")
        })
        .unwrap();
        assert_eq!(keys(&own), ["absent", "first", "swap", "transaction", "update"], "{place:?}");
        world.pass(&db, EXPIRY + LATE);
        assert_eq!(own.pop_first().unwrap(), None);
    }
}

/// The time passes while the store is closed, for readers too, and what has expired does not come back.
#[test]
fn time_passes_while_a_store_is_closed() {
    for options in all_components() {
        let world = World::new(options);
        let db = world.open();
        let own = db.keyspace("own", expiring()).unwrap();
        own.put("old", "1").unwrap();
        world.pass(&db, EXPIRY / 2);
        own.put("young", "1").unwrap();
        let reader = |expected: &[&str]| {
            let reader = ReadOnlyDb::open_with(Arc::clone(&world.storage), world.options.clone()).unwrap();
            let own = reader.keyspace("own", KeyspaceOptions::new()).unwrap().unwrap();
            let found: Vec<_> =
                own.iter().unwrap().keys().map(|key| String::from_utf8(key.unwrap()).unwrap()).collect();
            assert_eq!(found, expected);
        };
        db.close().unwrap();
        reader(&["old", "young"]);
        world.disk.advance(EXPIRY / 2 + LATE);
        reader(&["young"]);
        let db = world.open();
        let own = db.keyspace("own", KeyspaceOptions::new()).unwrap();
        // Before any background work.
        assert_eq!(keys(&own), ["young"]);
        assert_eq!(own.options().unwrap().expiry, Some(EXPIRY));
        world.pass(&db, EXPIRY / 2);
        assert_eq!(keys(&own), [""; 0]);
        own.put("new", "1").unwrap();
        // Killed, so that the newest write has no date.
        let disk = world.disk.clone_disk();
        let killed = World { storage: Arc::new(disk.clone()), disk, options: world.options.clone() };
        drop(db);
        let db = killed.open();
        let own = keyspace(&db, "own");
        assert_eq!(keys(&own), ["new"]);
        killed.pass(&db, EXPIRY - SECOND);
        assert_eq!(keys(&own), ["new"]);
        killed.pass(&db, LATE * 2 + SECOND);
        assert_eq!(keys(&own), [""; 0]);
    }
}

#[test]
fn what_has_expired_gives_its_space_back() {
    for options in all_components() {
        let world = World::new(options);
        let db = world.open();
        let (own, kept) = (db.keyspace("own", expiring()).unwrap(), keyspace(&db, "kept"));
        let fill = |keyspace: &Keyspace, count: u32| {
            (0..count).for_each(|at| keyspace.put((at * 7919 % 4000).to_be_bytes(), [at as u8; 500]).unwrap());
        };
        fill(&own, 1800);
        fill(&kept, 200);
        db.compact().unwrap();
        rest(&db);
        let full = db.stats().branch_bytes;
        world.pass(&db, EXPIRY / 2);
        fill(&own, 200);
        db.flush().unwrap();
        let snapshot = db.snapshot();
        world.pass(&db, EXPIRY / 2 + LATE);
        assert!(db.stats().branch_bytes > full / 10 * 9, "a snapshot keeps it");
        assert_eq!(snapshot.within(&own).unwrap().iter().unwrap().count(), 1800);
        drop(snapshot);
        world.pass(&db, Duration::from_secs(20));
        // A tenth each is young, and of the other keyspace.
        let left = db.stats().branch_bytes;
        assert!(left < full / 3, "{full} bytes, then {left}: {:?}", db.branch_files());
        assert_eq!((own.iter().unwrap().count(), kept.iter().unwrap().count()), (200, 200));
        world.pass(&db, EXPIRY);
        let left = db.stats().branch_bytes;
        assert!(left < full / 5, "{full} bytes, then {left}");
        assert!(own.is_empty().unwrap());
    }
}

/// In a small store the pairs lie in one file with others, the dates of the catalog at least. That once kept their space for ever,
/// also from `compact`.
#[test]
fn pairs_that_share_their_file_give_their_space_back() {
    for (options, others) in
        all_components().into_iter().flat_map(|options| [(options.clone(), false), (options, true)])
    {
        let disk = SimulatedStorage::new(1);
        disk.advance(EXPIRY * 10);
        let world = World { storage: Arc::new(disk.clone()), disk, options: options.memory_budget(4 << 20) };
        let db = DeterministicDb::open(Arc::clone(&world.storage), world.options.clone()).unwrap();
        let (first, own) = (keyspace(&db, "first"), db.keyspace("own", expiring()).unwrap());
        let last = keyspace(&db, "last");
        for at in 0..1000_u32 {
            own.put(at.to_be_bytes(), [at as u8; 300]).unwrap();
        }
        if others {
            first.put("a", "1").unwrap();
            last.put("a", "1").unwrap();
        }
        world.pass(&db, SECOND);
        db.flush().unwrap();
        let full = db.stats().branch_bytes;
        world.pass(&db, EXPIRY + LATE);
        let freed = db.stats().branch_bytes;
        assert!(own.is_empty().unwrap() && freed < full / 4, "{full} bytes, then {freed}: {:?}", db.branch_files());
        assert_eq!(first.get("a").unwrap().is_some() && last.get("a").unwrap().is_some(), others);
        // And it ends.
        db.compact().unwrap();
        db.close().unwrap();
        expect_sound_closed(&world.storage);
    }
}

#[test]
fn options_are_remembered_checked_and_changed() {
    let world = World::new(tiny());
    let db = world.open();
    let refused = |result: Result<Keyspace>, part: &str| match result {
        Err(Error::InvalidArgument(reason)) => assert!(reason.contains(part), "{reason}"),
        other => panic!("{other:?}"),
    };
    refused(db.keyspace("own", expiring().merge_operator(Add)), "merge operator");
    refused(db.keyspace("own", KeyspaceOptions::new().expiry(Duration::ZERO)), "expiry");
    refused(db.keyspace("own", KeyspaceOptions::new().expiry(Duration::MAX)), "expiry");
    refused(db.keyspace("default", expiring()), "default");
    assert_eq!(db.keyspace_names().unwrap(), [""; 0]);
    let own = db.keyspace("own", expiring()).unwrap();
    let other = db.keyspace("own", KeyspaceOptions::new().expiry(EXPIRY * 2));
    assert!(matches!(other, Err(Error::KeyspaceMismatch { what: "expiry", .. })), "{other:?}");
    refused(own.set_options(own.options().unwrap().merge_operator(Add)).map(|()| own.clone()), "merge operator");
    // Regression test: the advice was to create it with a merge operator, which is refused.
    refused(own.merge("a", "1").map(|()| own.clone()), "a keyspace with an expiry has no merges");
    // Regression test: the text said that an absent expiry was that of the store, and that options were as at the creation.
    let plain = db.keyspace("plain", KeyspaceOptions::new()).unwrap();
    let differs = || db.keyspace("plain", expiring()).unwrap_err().to_string();
    assert!(differs().contains("has the expiry \"none\", not"), "{}", differs());
    plain.set_options(expiring().expiry(EXPIRY * 2)).unwrap();
    assert!(differs().contains(&format!("has the expiry \"{:?}\", not", EXPIRY * 2)), "{}", differs());
    assert!(db.drop_keyspace("plain").unwrap());
    own.put("a", "1").unwrap();
    world.pass(&db, EXPIRY / 2);
    own.put("b", "1").unwrap();
    // Longer, then none, then as before.
    own.set_options(expiring().expiry(EXPIRY * 2).durability(Durability::Sync)).unwrap();
    world.pass(&db, EXPIRY);
    assert_eq!(keys(&own), ["a", "b"]);
    own.set_options(KeyspaceOptions::new()).unwrap();
    world.pass(&db, EXPIRY * 3);
    assert_eq!(keys(&own), ["a", "b"]);
    assert_eq!((own.options().unwrap().expiry, own.options().unwrap().durability), (None, None));
    own.set_options(expiring()).unwrap();
    world.pass(&db, EXPIRY + LATE);
    assert_eq!(keys(&own), [""; 0]);
    // What is gone stays so.
    own.set_options(expiring().expiry(EXPIRY * 50)).unwrap();
    world.pass(&db, SECOND);
    assert_eq!(keys(&own), [""; 0]);
    own.set_options(KeyspaceOptions::new()).unwrap();
    db.close().unwrap();
    let db = world.open();
    assert_eq!(keys(&keyspace(&db, "own")), [""; 0]);
}

/// A dropped keyspace, an emptied one, and another one with the same name.
#[test]
fn drops_and_expiry_do_not_disturb_each_other() {
    let world = World::new(tiny());
    let db = world.open();
    let own = db.keyspace("own", expiring()).unwrap();
    own.put("a", "1").unwrap();
    own.clear().unwrap();
    own.put("b", "1").unwrap();
    world.pass(&db, EXPIRY / 2);
    let before = db.snapshot();
    assert!(db.drop_keyspace("own").unwrap());
    world.pass(&db, EXPIRY);
    let own = keyspace(&db, "own");
    own.put("c", "1").unwrap();
    world.pass(&db, EXPIRY * 3);
    assert_eq!((keys(&own), own.options().unwrap().expiry), (vec!["c".to_owned()], None));
    assert_eq!(before.keyspace("own").unwrap().unwrap().get("b").unwrap().as_deref(), Some(&b"1"[..]));
    drop(before);
    db.close().unwrap();
    let db = world.open();
    assert_eq!(keys(&keyspace(&db, "own")), ["c"]);
}

/// With threads and the system's clock: a pair is found for at least its time, and soon no longer.
#[test]
fn pairs_expire_by_the_clock_of_the_system() {
    let db = Db::open_temporary(Options::default()).unwrap();
    let expiry = Duration::from_millis(300);
    let own = db.keyspace("own", KeyspaceOptions::new().expiry(expiry)).unwrap();
    for round in 0..3 {
        let key = format!("{round}");
        let started = Instant::now();
        own.put(&key, "1").unwrap();
        // Ends when the pair expires.
        while own.get(&key).unwrap().is_some() {
            std::thread::sleep(Duration::from_millis(1));
            assert!(started.elapsed() < Duration::from_secs(60), "it does not expire");
        }
        // Milliseconds are cut.
        assert!(started.elapsed() + Duration::from_millis(1) >= expiry, "after {:?}", started.elapsed());
    }
    db.close().unwrap();
}
