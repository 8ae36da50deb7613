//! Atomic read-modify-write of one key (`docs/concurrency.md`, P1): the old value in every place where it can be,
//! combined with every action of another writer between the read and the write. The caller's function performs that
//! action, since the store holds no lock while it runs.

use crate::support::expect_sound;
use alluvium::internals::{DeterministicDb, open_small};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Change, Error, MemoryComponent, Options, Snapshot, Swap, WriteBatch, WriteOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const KEY: &str = "key";
/// Large enough for its own value file.
const LARGE: usize = 300 << 10;

fn options() -> Options {
    Options::new().memory_budget(256 << 10).sync_interval(None)
}

/// A store on this disk without threads. A few writes fill its memory.
fn open(disk: &SimulatedStorage, memory_component: MemoryComponent) -> DeterministicDb {
    DeterministicDb::open_small(Arc::new(disk.clone()), options().memory_component(memory_component)).unwrap()
}

fn store() -> DeterministicDb {
    open(&SimulatedStorage::new(1), MemoryComponent::TwoLevel)
}

/// Puts keys on both sides of `KEY`.
fn put_neighbours(db: &DeterministicDb, from: usize) {
    (from..from + 4).for_each(|at| db.put(format!("{}{at}", ["a", "z"][at % 2]), [at as u8; 50]).unwrap());
}

/// Incorporates all memory.
fn incorporate(db: &DeterministicDb) {
    db.flush().unwrap();
    while db.step() {}
}

/// Switches to a new generation without an incorporation.
fn seal(db: &DeterministicDb) {
    for at in 0.. {
        if db.stats().generations > 1 {
            return;
        }
        db.put(format!("x{at}"), [1; 500]).unwrap();
    }
}

/// A name for where the old value is, and a function that puts it there and returns it.
type Place = (&'static str, fn(&DeterministicDb) -> Option<Vec<u8>>);

fn put(db: &DeterministicDb, length: usize) -> Option<Vec<u8>> {
    let value = [b"old".to_vec(), vec![7; length]].concat();
    db.put(KEY, &value).unwrap();
    Some(value)
}

const PLACES: [Place; 13] = [
    ("nowhere", |_| None),
    ("in the Membuffer", |db| put(db, 20)),
    ("in the sorted part of memory", |db| {
        let old = put(db, 20);
        assert!(db.iter().unwrap().count() > 2);
        old
    }),
    ("empty", |db| {
        db.put(KEY, "").unwrap();
        Some(Vec::new())
    }),
    ("in a sealed generation", |db| {
        let old = put(db, 20);
        seal(db);
        old
    }),
    ("in a branch file", |db| {
        let old = put(db, 20);
        incorporate(db);
        old
    }),
    ("in the last of two branch files", |db| {
        put(db, 100);
        incorporate(db);
        let old = put(db, 20);
        incorporate(db);
        old
    }),
    ("in a value file that memory refers to", |db| put(db, LARGE)),
    ("in a value file that a branch refers to", |db| {
        let old = put(db, LARGE);
        incorporate(db);
        old
    }),
    ("deleted in memory", |db| {
        put(db, 20);
        db.delete(KEY).unwrap();
        None
    }),
    ("in a branch file, and deleted in memory", |db| {
        put(db, 20);
        incorporate(db);
        db.delete(KEY).unwrap();
        None
    }),
    ("in a branch file, and deleted in a sealed generation", |db| {
        put(db, LARGE);
        incorporate(db);
        db.delete(KEY).unwrap();
        seal(db);
        None
    }),
    ("in a branch file, and deleted in another one", |db| {
        put(db, 20);
        incorporate(db);
        db.delete(KEY).unwrap();
        incorporate(db);
        None
    }),
];

/// An action between the read and the write. It returns the value that it leaves if it writes the key.
type Disturbance = (&'static str, Disturb);
type Disturb = fn(&DeterministicDb, &mut Vec<Snapshot>) -> Option<Option<Vec<u8>>>;

fn others() -> Option<Vec<u8>> {
    Some(b"of another writer".to_vec())
}

const DISTURBANCES: [Disturbance; 13] = [
    ("nothing", |_, _| None),
    ("a snapshot", |db, snapshots| {
        snapshots.push(db.snapshot());
        None
    }),
    ("writes of other keys", |db, _| {
        put_neighbours(db, 2);
        None
    }),
    ("a switch", |db, _| {
        seal(db);
        None
    }),
    // Memory alone no longer shows that the key is unchanged.
    ("an incorporation of all memory", |db, _| {
        put_neighbours(db, 2);
        incorporate(db);
        None
    }),
    ("a put", |db, _| {
        db.put(KEY, "of another writer").unwrap();
        Some(others())
    }),
    ("a delete", |db, _| {
        db.delete(KEY).unwrap();
        Some(None)
    }),
    ("a batch", |db, _| {
        let mut batch = WriteBatch::new();
        batch.put("a0", "too").put(KEY, "of another writer").delete("z1");
        db.write(batch).unwrap();
        Some(others())
    }),
    ("an update", |db, _| {
        db.update(KEY, |_| others()).unwrap();
        Some(others())
    }),
    ("a put and a switch", |db, _| {
        db.put(KEY, "of another writer").unwrap();
        seal(db);
        Some(others())
    }),
    // A newer value is incorporated and gone from memory before the precondition is checked.
    ("a put and an incorporation", |db, _| {
        db.put(KEY, "of another writer").unwrap();
        incorporate(db);
        Some(others())
    }),
    ("a delete, whose merge removes all traces of the key", |db, _| {
        db.delete(KEY).unwrap();
        incorporate(db);
        db.compact().unwrap();
        Some(None)
    }),
    ("a delete and an incorporation under a snapshot", |db, snapshots| {
        snapshots.push(db.snapshot());
        db.delete(KEY).unwrap();
        incorporate(db);
        Some(None)
    }),
];

fn changes() -> [Change; 4] {
    [Change::Put(b"new".to_vec()), Change::Put(vec![9; LARGE]), Change::Delete, Change::Keep]
}

#[test]
fn an_update_reads_the_newest_value_whatever_happens_meanwhile() {
    for memory in [MemoryComponent::TwoLevel, MemoryComponent::Skiplist] {
        for (place, fill) in PLACES {
            for (at, (what, disturb)) in DISTURBANCES.into_iter().enumerate() {
                // Large values are slow.
                let changes = changes().into_iter().enumerate().filter(|(number, _)| *number != 1 || at % 5 == 0);
                for (_, change) in changes {
                    let story = format!("{memory:?}, the old value {place}, then {what}, then {}", short(&change));
                    update_once(memory, fill, disturb, change, &story);
                }
            }
        }
    }
}

fn short(change: &Change) -> String {
    match change {
        Change::Put(value) => format!("{} bytes", value.len()),
        other => format!("{other:?}"),
    }
}

fn update_once(
    memory: MemoryComponent,
    fill: fn(&DeterministicDb) -> Option<Vec<u8>>,
    disturb: Disturb,
    change: Change,
    story: &str,
) {
    let disk = SimulatedStorage::new(1);
    let db = open(&disk, memory);
    put_neighbours(&db, 0);
    let before = fill(&db);
    let first = db.snapshot();
    let (mut snapshots, mut runs, mut left) = (Vec::new(), Vec::new(), None);
    let given = db.update_with(KEY, WriteOptions::default(), |old| {
        runs.push(old.map(<[u8]>::to_vec));
        if runs.len() == 1 {
            left = disturb(&db, &mut snapshots);
        }
        assert!(runs.len() < 10, "{story}: called again and again");
        change.clone()
    });
    assert_eq!(runs[0], before, "{story}: the old value in the first call");
    // A regression test: an incorporation of the key's generation caused a retry, so writers of other keys could starve
    // a slow function.
    assert!(
        runs.len() == 1 || left.is_some() || before.is_none(),
        "{story}: called again, although the key was not written"
    );
    let then = left.unwrap_or(before.clone());
    let (gives, now) = match change {
        // An update that changes nothing is correct as of its read, so it does not retry.
        Change::Keep => (before.clone(), then),
        Change::Delete if before.is_none() => (None, then),
        Change::Delete | Change::Put(_) => {
            assert_eq!(runs.last(), Some(&then), "{story}: the old value in the last call");
            let new = if let Change::Put(value) = change { Some(value) } else { None };
            (new.clone(), new)
        }
    };
    assert_eq!(given.unwrap(), gives, "{story}: the returned value");
    assert_eq!(db.get(KEY).unwrap(), now, "{story}: a get");
    assert_eq!(first.get(KEY).unwrap(), before, "{story}: the snapshot from before the update");
    for snapshot in snapshots {
        assert_eq!(snapshot.get(KEY).unwrap(), before, "{story}: the function's snapshot");
    }
    let pairs: Vec<_> = db.prefix(KEY).unwrap().map(|pair| pair.unwrap().1).collect();
    assert_eq!(pairs, now.clone().into_iter().collect::<Vec<_>>(), "{story}: a scan");
    drop(first);
    incorporate(&db);
    assert_eq!(db.get(KEY).unwrap(), now, "{story}: after an incorporation");
    expect_sound(&db);
    db.close().unwrap();
    assert_eq!(open(&disk, memory).get(KEY).unwrap(), now, "{story}: after reopening");
}

#[test]
fn a_swap_distinguishes_absent_from_empty() {
    let db = store();
    let swap = |expected, new| db.compare_and_swap(KEY, expected, new).unwrap();
    let differs = |value: Option<&[u8]>| Swap::Differs(value.map(<[u8]>::to_vec));
    assert_eq!(swap(Some(b""), Some(b"a")), differs(None));
    assert_eq!(swap(Some(b"a"), None), differs(None));
    assert_eq!(swap(None, None), Swap::Done);
    assert_eq!(swap(None, Some(b"")), Swap::Done);
    assert_eq!(swap(None, Some(b"a")), differs(Some(b"")));
    assert_eq!(swap(Some(b""), Some(b"a")), Swap::Done);
    incorporate(&db);
    assert_eq!(swap(Some(b"ab"), Some(b"c")), differs(Some(b"a")));
    assert_eq!(swap(Some(b"a"), Some(b"a")), Swap::Done);
    let large = vec![3; LARGE];
    assert_eq!(swap(Some(b"a"), Some(&large)), Swap::Done);
    incorporate(&db);
    assert_eq!(swap(Some(&large[1..]), None), differs(Some(&large)));
    assert_eq!(swap(Some(&large), None), Swap::Done);
    assert_eq!(swap(Some(&large), None), differs(None));
    assert_eq!(db.get(KEY).unwrap(), None);
}

/// A conflict leaves neither a value file nor anything else of the value that was not written.
#[test]
fn a_conflict_leaves_no_files() {
    let disk = SimulatedStorage::new(1);
    let db = open(&disk, MemoryComponent::TwoLevel);
    db.put(KEY, "present").unwrap();
    assert!(!db.put_if_absent(KEY, vec![1; LARGE]).unwrap());
    assert!(!db.compare_and_swap(KEY, Some(b"x"), Some(&vec![1; LARGE])).unwrap().is_done());
    let mut runs = 0;
    db.update(KEY, |_| {
        runs += 1;
        (runs < 3).then(|| db.put(KEY, [runs]).unwrap());
        Some(vec![1; LARGE])
    })
    .unwrap();
    assert_eq!(runs, 3);
    db.delete(KEY).unwrap();
    incorporate(&db);
    db.compact().unwrap();
    while db.step() {}
    db.close().unwrap();
    assert_eq!(crate::support::expect_sound_closed(&(Arc::new(disk) as Arc<dyn alluvium::storage::Storage>)), [""; 0]);
}

#[test]
fn a_function_that_panics_leaves_the_store_as_it_was() {
    let db = store();
    db.put(KEY, "old").unwrap();
    for _ in 0..3 {
        let panicked = catch_unwind(AssertUnwindSafe(|| db.update(KEY, |_| panic!("in the caller's function"))));
        assert!(panicked.is_err());
        assert_eq!(db.get(KEY).unwrap().as_deref(), Some(&b"old"[..]));
    }
    db.update(KEY, |old| Some([old.unwrap(), b", new"].concat())).unwrap();
    db.sync().unwrap();
    assert_eq!(db.get(KEY).unwrap().as_deref(), Some(&b"old, new"[..]));
    assert!(db.stats().failure.is_none());
    db.close().unwrap();
}

#[test]
fn updates_beyond_the_limits_write_nothing() {
    let db = store();
    let long_key = vec![1; 1 << 20];
    let refused = |error: Error| assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    refused(db.update(&long_key, |_| panic!("called")).unwrap_err());
    refused(db.compare_and_swap(&long_key, None, Some(b"")).unwrap_err());
    refused(db.put_if_absent(&long_key, "").unwrap_err());
    assert_eq!(db.iter().unwrap().count(), 0);
    assert_eq!(
        db.update("", |old| Some(old.map_or(b"empty key".to_vec(), <[u8]>::to_vec))).unwrap().unwrap(),
        b"empty key"
    );
}

/// Of several threads that put an absent key, exactly one succeeds, wherever the key was deleted and also during
/// incorporations.
#[test]
fn one_thread_of_many_puts_an_absent_key() {
    const THREADS: usize = 3;
    let db = open_small(Arc::new(SimulatedStorage::new(1)), options().memory_budget(1 << 20)).unwrap();
    for round in 0..400u32 {
        let all = std::sync::Barrier::new(THREADS);
        let put = |thread: usize| {
            all.wait();
            let value = [round.to_le_bytes(), (thread as u32).to_le_bytes()].concat();
            db.put_if_absent(KEY, &value).unwrap().then_some(value)
        };
        let done: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || put(thread))).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(done.len(), 1, "round {round}");
        assert_eq!(db.get(KEY).unwrap().as_ref(), Some(&done[0]), "round {round}");
        if round % 3 == 0 {
            db.flush().unwrap();
        }
        db.delete(KEY).unwrap();
        if round % 5 == 0 {
            db.flush().unwrap();
        }
    }
}
