//! The change stream: a copy of a store that follows it ends equal (`docs/concurrency.md`, J).

mod copies;
mod crash;
mod foreign;
mod ingests;
mod kept;
mod races;

use crate::support::{Random, setting, tiny, tiny_levels, tiny_skip};
use alluvium::internals::DeterministicDb;
use alluvium::merge_operators::Append;
use alluvium::storage::MemoryStorage;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{
    ChangeRetention, Db, DiskComponent, Durability, Error, Event, KeyspaceChange, KeyspaceOptions, Operation, Options,
    WriteBatch, WriteOptions,
};
use std::collections::BTreeMap;
use std::sync::Arc;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

const POSITION: &str = "position of the follower";
const PLENTY: ChangeRetention = ChangeRetention::new(1 << 30);

fn components() -> [Option<DiskComponent>; 4] {
    [None, Some(tiny_levels(1)), Some(tiny_levels(3)), Some(tiny_skip())]
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// All pairs of all keyspaces, by the name of the keyspace, without the position of a follower.
fn everything(db: &Db) -> BTreeMap<String, Contents> {
    let mut names = db.keyspace_names().unwrap();
    names.push("default".into());
    let of = |name: &String| {
        let keyspace = db.keyspace(name, KeyspaceOptions::new()).unwrap();
        let mut pairs: Contents = keyspace.iter().unwrap().map(Result::unwrap).collect();
        pairs.remove(POSITION.as_bytes());
        pairs
    };
    names.iter().map(|name| (name.clone(), of(name))).collect()
}

fn position(copy: &Db, start: u64) -> u64 {
    let stored = copy.get(POSITION).unwrap();
    stored.map_or(start, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
}

/// Applies up to `most` writes to a copy that has everything up to `start`. Returns whether there may be more.
fn follow(db: &Db, copy: &Db, start: u64, most: usize) -> alluvium::Result<bool> {
    let mut changes = db.changes(position(copy, start))?;
    for _ in 0..most {
        let before = changes.through();
        let Some(write) = changes.next() else { return Ok(false) };
        let write = write?;
        assert!(write.position() >= before && write.position() == changes.through());
        assert!(write.number() > before);
        let mut batch = WriteBatch::new();
        write.apply_to(copy, &mut batch)?;
        batch.put(POSITION, write.position().to_be_bytes());
        copy.write(batch)?;
    }
    Ok(true)
}

/// Says why a stream was lost, where a test fails because of that.
fn say(event: &Event) {
    if let Event::ChangesLost { reason } = event {
        println!("changes are lost: {reason}");
    }
}

fn in_memory(options: Options) -> Db {
    let options = options.listener(say);
    Db::open_with(Arc::new(MemoryStorage::new()), options.merge_operator(Append)).unwrap()
}

/// A write of some kind to one of the keyspaces of a store.
fn write_something(db: &Db, random: &mut Random, what: &str) -> alluvium::Result<()> {
    let name = ["default", "one", "other"][random.below(3) as usize];
    if name != "default" && random.one_in(60) {
        db.drop_keyspace(name)?;
        return Ok(());
    }
    let keyspace = match name {
        "default" => db.keyspace(name, KeyspaceOptions::new())?,
        _ => db.keyspace(name, KeyspaceOptions::new().merge_operator(Append))?,
    };
    let number = random.below(300);
    match random.below(20) {
        0..8 => keyspace.put(key(number), what),
        8..11 => keyspace.delete(key(number)),
        11 => keyspace.delete_range(key(number)..key(number + 20)),
        12..14 => keyspace.merge(key(number), what),
        14 if random.one_in(4) => keyspace.put(key(number), vec![number as u8; 300 << 10]),
        15 => keyspace.update(key(number), |old| Some([old.unwrap_or_default(), b"+"].concat())).map(drop),
        16 if random.one_in(20) => keyspace.clear(),
        _ => {
            let mut batch = WriteBatch::new();
            batch.put(key(number), "replaced by the batch").put(key(1_000), what);
            let mut part = batch.within(&keyspace);
            part.put(key(number + 5), "deleted by the batch").delete_range(key(number)..key(number + 10));
            part.put(key(number + 1), what).merge(key(number + 2), what).delete(key(number + 3));
            db.write(batch)
        }
    }
}

/// One deterministic store with writes of all kinds and a copy, both of which are closed now and then.
#[test]
fn a_copy_that_follows_ends_equal() {
    for seed in 0..setting("ALLUVIUM_SEEDS", 12) {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let (storage, copied) = (SimulatedStorage::new(seed), SimulatedStorage::new(seed + 1000));
        let disk_component = components()[seed as usize % 4].clone();
        let options = Options::new().memory_budget(1 << 20).disk_component(disk_component);
        let options = options.merge_operator(Append);
        let open = |storage: &SimulatedStorage, retention: Option<ChangeRetention>| {
            let options = options.clone().change_retention(retention);
            DeterministicDb::open_small(Arc::new(storage.clone()), options).unwrap()
        };
        let (mut db, mut copy) = (open(&storage, Some(PLENTY)), open(&copied, None));
        for round in 0..1_500 {
            write_something(&db, random, &format!("round {round}")).unwrap();
            match random.below(40) {
                0 => db.flush().unwrap(),
                1 => drop(follow(&db, &copy, 0, random.below(100) as usize).unwrap()),
                2 if random.one_in(4) => {
                    db.close().unwrap();
                    // The store remembers what it keeps.
                    db = open(&storage, None);
                }
                3 if random.one_in(4) => {
                    copy.close().unwrap();
                    copy = open(&copied, None);
                }
                4..20 => drop(db.step()),
                _ => {}
            }
        }
        while follow(&db, &copy, 0, 1_000).unwrap() {}
        assert_eq!(everything(&copy), everything(&db), "seed {seed}");
        let writes = db.changes(0).unwrap().map(|write| write.unwrap().number());
        let numbers: Vec<u64> = writes.collect();
        assert!(numbers.is_sorted_by(|one, next| one < next) && numbers.len() > 1_000);
    }
}

/// What a write is in the stream.
#[test]
fn writes_are_returned_as_they_were_made() {
    let db = in_memory(tiny().change_retention(PLENTY));
    let start = db.stats().last_number;
    let mut changes = db.changes(start).unwrap();
    assert!(changes.next().is_none());
    let users = db.keyspace("users", KeyspaceOptions::new().merge_operator(Append)).unwrap();
    let write = changes.next().unwrap().unwrap();
    assert!(matches!(write.keyspaces(), [KeyspaceChange::Set { keyspace, .. }] if keyspace == "users"));
    assert_eq!(write.operations().count(), 0);
    let mut batch = WriteBatch::new();
    batch.put("a", "1").delete("b").merge("c", "2");
    batch.within(&users).delete_range("d".."f").put("e", "3").delete_range("x"..);
    db.write(batch).unwrap();
    let write = changes.next().unwrap().unwrap();
    let expected = [
        Operation::DeleteRange { keyspace: "users", start: b"d", end: Some(b"f") },
        Operation::DeleteRange { keyspace: "users", start: b"x", end: None },
        Operation::Put { keyspace: "default", key: b"a", value: b"1" },
        Operation::Delete { keyspace: "default", key: b"b" },
        Operation::Merge { keyspace: "default", key: b"c", operand: b"2" },
        Operation::Put { keyspace: "users", key: b"e", value: b"3" },
    ];
    assert_eq!(write.operations().collect::<Vec<_>>(), expected);
    assert_eq!((write.number(), changes.through()), (db.stats().last_number, db.stats().last_number));
    assert!(write.keyspaces().is_empty());
    db.drop_keyspace("users").unwrap();
    let write = changes.next().unwrap().unwrap();
    assert!(matches!(write.keyspaces(), [KeyspaceChange::Dropped { keyspace }] if keyspace == "users"));
    assert!(changes.next().is_none());
    // Only what is durable was returned.
    assert_eq!(db.stats().synced_number, db.stats().last_number);
}

/// A value of a file of its own is in the stream itself, whatever becomes of that file.
#[test]
fn large_values_are_in_the_stream() {
    let db = in_memory(tiny().change_retention(PLENTY));
    let (first, second) = (vec![1; 700 << 10], vec![2; 3 << 20]);
    let start = db.stats().last_number;
    let mut batch = WriteBatch::new();
    batch.put("a", &first).put("b", "small").put("c", &second);
    db.write(batch).unwrap();
    for key in ["a", "c"] {
        db.put(key, "small").unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
    let write = db.changes(start).unwrap().next().unwrap().unwrap();
    let puts = write.operations().map(|operation| match operation {
        Operation::Put { key, value, .. } => (key.to_vec(), value.to_vec()),
        other => panic!("{other:?}"),
    });
    let expected = [(b"a".to_vec(), first), (b"b".to_vec(), b"small".to_vec()), (b"c".to_vec(), second)];
    assert!(puts.eq(expected), "other values");
}

/// Nothing is kept unless it is asked for; then it is remembered, until it is ended.
#[test]
fn the_store_remembers_that_it_keeps_changes() {
    let storage: Arc<MemoryStorage> = Arc::new(MemoryStorage::new());
    let open = |options: Options| Db::open_with(storage.clone(), options).unwrap();
    let has_files = || {
        let names = alluvium::storage::Storage::list(&*storage).unwrap();
        names.iter().any(|name| name.ends_with(".changes"))
    };
    let db = open(tiny());
    db.put("a", "1").unwrap();
    let refused = db.changes(0).unwrap_err();
    assert!(refused.to_string().contains("open it with `Options::change_retention`"), "{refused}");
    db.close().unwrap();
    assert!(!has_files());
    // From now on, not from the beginning.
    let db = open(tiny().change_retention(PLENTY));
    let start = db.stats().last_number;
    let refused = db.changes(start - 1).unwrap_err();
    assert!(matches!(refused, Error::ChangesTooOld { since, oldest } if (since, oldest) == (start - 1, start)));
    let refused = db.changes(start + 1).unwrap_err();
    assert!(refused.to_string().contains("there is no change after number"), "{refused}");
    db.put("b", "2").unwrap();
    db.close().unwrap();
    assert!(has_files());
    let db = open(tiny());
    db.put("c", "3").unwrap();
    assert_eq!(db.changes(start).unwrap().count(), 2);
    let kept = db.stats();
    assert!(kept.change_bytes > 0 && kept.changes_after == start);
    db.close().unwrap();
    let db = open(tiny().change_retention(ChangeRetention::OFF));
    assert!(!has_files() && db.changes(start).is_err());
    assert_eq!((db.stats().change_bytes, db.stats().changes_after), (0, 0));
    db.close().unwrap();
    drop(open(tiny()));
    assert!(!has_files());
}

/// What the store does by itself is no change, and what was written without log is none either.
#[test]
fn only_logged_writes_of_users_are_in_the_stream() {
    let db = in_memory(tiny().change_retention(PLENTY));
    let soon = KeyspaceOptions::new().expiry(std::time::Duration::from_millis(1));
    let events = db.keyspace("events", soon).unwrap();
    let start = db.stats().last_number;
    let unlogged = WriteOptions::new().durability(Durability::Unlogged);
    for number in 0..200 {
        events.put(key(number), "expires").unwrap();
        db.put_with(key(number), "unlogged", unlogged).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
    let mut changes = db.changes(start).unwrap();
    let writes: Vec<_> = changes.by_ref().map(Result::unwrap).collect();
    assert_eq!(writes.len(), 200);
    for write in &writes {
        let operations: Vec<_> = write.operations().collect();
        assert!(
            matches!(operations[..], [Operation::Put { keyspace: "events", value: b"expires", .. }]),
            "{operations:?}"
        );
    }
    // A follower that has seen everything is not behind because of what is left out.
    assert_eq!(changes.through(), db.stats().synced_number);
}
