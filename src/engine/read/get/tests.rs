//! Reads of merge operands and range tombstones from memory, from the tree, and from both.

use crate::db::snapshot::Snapshot;
use crate::db::{Db, DeterministicDb, ReadOnlyDb};
use crate::engine::open::host::Host;
use crate::engine::open::opening;
use crate::engine::scheduler::Driver;
use crate::engine::state::budget::{Budget, StoreConfig};
use crate::engine::types::options::Options;
use crate::format::value_file::ValueReference;
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;
use crate::merge::operator::Append;
use crate::merge::{MergeOperator, RangeTombstone, RangeTombstones};
use crate::util::sync::Arc;
use crate::util::{Error, Result, key};

/// Joins words with commas; no word has a comma.
struct Words;

impl MergeOperator for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        let words: Vec<&[u8]> = base.into_iter().chain(operands.iter().copied()).collect();
        if operands.iter().any(|word| word.contains(&b',')) {
            return Err("a word with a comma".into());
        }
        out.extend_from_slice(&words.join(&b","[..]));
        Ok(())
    }
}

/// A store without threads.
fn store(operator: Option<Arc<dyn MergeOperator>>) -> Db {
    let storage: Arc<dyn Storage> = Arc::new(SimulatedStorage::new(1));
    open(storage, operator).unwrap()
}

fn open(storage: Arc<dyn Storage>, merge_operator: Option<Arc<dyn MergeOperator>>) -> Result<Db> {
    let options = Options { merge_operator, ..Options::default() };
    let (clock, budget) = (storage.deterministic_clock(), Budget::small(&options).unwrap());
    let config = StoreConfig::new(budget, &options);
    let host = Host::new(options, config, Driver::Deterministic, clock);
    let (engine, log_contents) = opening::open(storage, &host)?;
    let db = Db::of(engine);
    db.engine.background.refill(&log_contents)?;
    Ok(db)
}

/// Deletes [start, end) with the sequence number of a write made for this purpose.
fn delete_range(db: &Db, start: &str, end: &str) {
    db.put("~", "").unwrap();
    let encoded = |text: &str| key::encoded(crate::util::KeyspaceId::DEFAULT, text.as_bytes());
    let (start, end, number) = (encoded(start), encoded(end), db.engine.read.sequencer.last());
    db.engine.read.view.load().newest().memtable.add_range_tombstones(RangeTombstones::new([RangeTombstone {
        start,
        end,
        number,
    }]));
}

/// All pairs of a snapshot. Checks that scans in both directions, gets and a multi-get agree.
fn contents(snapshot: &Snapshot) -> String {
    let pairs: Vec<_> = snapshot.iter().unwrap().map(Result::unwrap).filter(|(key, _)| key != b"~").collect();
    let mut back: Vec<_> = snapshot.iter().unwrap().rev().map(Result::unwrap).collect();
    back.retain(|(key, _)| key != b"~");
    back.reverse();
    assert_eq!(pairs, back);
    let names = ["a", "b", "c", "d", "e"];
    let found = snapshot.multi_get(&names).unwrap();
    for (name, together) in names.iter().zip(found) {
        let scanned = pairs.iter().find(|(key, _)| key == name.as_bytes()).map(|(_, value)| value.clone());
        assert_eq!(snapshot.get(name).unwrap(), scanned, "{name}");
        assert_eq!(together, scanned, "{name}");
    }
    let show = |(key, value): &(Vec<u8>, Vec<u8>)| format!("{}={}", key.escape_ascii(), value.escape_ascii());
    pairs.iter().map(show).collect::<Vec<_>>().join(" ")
}

#[test]
fn range_tombstones_hide_older_versions_in_memory_and_tree() {
    let db = store(None);
    for name in ["a", "b", "c", "d"] {
        db.put(name, "1").unwrap();
    }
    db.flush().unwrap();
    let before = db.snapshot();
    db.put("b", "2").unwrap();
    delete_range(&db, "b", "d");
    let after = db.snapshot();
    db.put("c", "3").unwrap();
    // First the tombstone is in memory, over versions in memory and in the tree; then everything is in the tree.
    // Afterwards a Memtable holds nothing but a tombstone.
    for _ in 0..3 {
        assert_eq!(contents(&before), "a=1 b=1 c=1 d=1");
        assert_eq!(contents(&after), "a=1 d=1");
        assert_eq!(contents(&db.snapshot()), "a=1 c=3 d=1");
        db.flush().unwrap();
    }
    delete_range(&db, "a", "e");
    assert_eq!(contents(&db.snapshot()), "");
    assert_eq!(db.get("d").unwrap(), None);
    assert_eq!(contents(&before), "a=1 b=1 c=1 d=1");
    db.flush().unwrap();
    assert_eq!(contents(&db.snapshot()), "");
    assert_eq!(contents(&before), "a=1 b=1 c=1 d=1");
}

/// A value in the item cache is in no Memtable, but a range tombstone in a Memtable must hide it.
#[test]
fn range_tombstones_hide_values_in_the_item_cache() {
    let storage: Arc<dyn Storage> = Arc::new(SimulatedStorage::new(1));
    let open = || DeterministicDb::open_small(Arc::clone(&storage), Options::default()).unwrap();
    let db = open();
    ["a", "b", "c"].iter().for_each(|name| db.put(name, "1").unwrap());
    db.flush().unwrap();
    drop(db);
    // The cache of this opening has no pages yet.
    let db = open();
    assert!(["a", "b", "c"].iter().all(|name| db.get(name).unwrap().is_some()));
    let before = db.snapshot();
    assert!(db.stats().items > 0, "the item cache is empty");
    delete_range(&db, "b", "c");
    for _ in 0..2 {
        let found = ["a", "b", "c"].map(|name| db.get(name).unwrap().is_some());
        assert_eq!(found, [true, false, true]);
        assert_eq!(before.get("b").unwrap().unwrap(), b"1");
        db.flush().unwrap();
    }
}

/// A snapshot skips the newer version in a Memtable that is being incorporated and finds the older one in the tree.
/// Regression test: the item cache took that version for the newest, after the incorporation had invalidated the key.
#[test]
fn an_old_version_is_not_added_to_the_item_cache() {
    let storage: Arc<dyn Storage> = Arc::new(SimulatedStorage::new(1));
    let open = || DeterministicDb::open_small(Arc::clone(&storage), Options::default()).unwrap();
    let db = open();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    drop(db);
    // The cache of this opening has no pages yet.
    let db = open();
    let snapshot = db.snapshot();
    db.put("a", "2").unwrap();
    let generations = &db.engine.background.generations;
    let switching = generations.lock();
    generations.switch(&switching).unwrap();
    drop(switching);
    db.engine.read.cache.items().begin_change();
    assert_eq!(snapshot.get("a").unwrap().unwrap(), b"1");
    assert_eq!(db.stats().items, 0, "an old version was added to the item cache");
}

/// Writes operands on both sides of a range tombstone, for a key with a base value and for one without. Snapshots
/// between the operands retain all of them in memory.
fn write_words(db: &Db) -> Vec<Snapshot> {
    let mut snapshots = Vec::new();
    let mut take = || snapshots.push(db.snapshot());
    db.put("a", "one").unwrap();
    take();
    db.merge("a", "two").unwrap();
    take();
    db.merge("b", "three").unwrap();
    take();
    db.flush().unwrap();
    delete_range(db, "b", "c");
    db.merge("a", "four").unwrap();
    take();
    db.merge("b", "five").unwrap();
    take();
    snapshots
}

#[test]
fn operands_are_folded_across_memory_and_tree() {
    let db = store(Some(Arc::new(Words)));
    let snapshots = write_words(&db);
    assert_eq!(db.get("a").unwrap().unwrap(), b"one,two,four");
    assert_eq!(db.get("b").unwrap().unwrap(), b"five");
    db.flush().unwrap();
    let seen: Vec<String> = snapshots.iter().map(contents).collect();
    assert_eq!(seen, ["a=one", "a=one,two", "a=one,two b=three", "a=one,two,four", "a=one,two,four b=five"]);
    // A large base value is in a value file.
    let large = vec![b'x'; 300 << 10];
    db.put("a", &large).unwrap();
    let _pin = db.snapshot();
    db.merge("a", "six").unwrap();
    db.flush().unwrap();
    let folded = [&large[..], b",six"].concat();
    assert!(folded.len() > ValueReference::BYTES && db.get("a").unwrap().unwrap() == folded);
    let first = db.iter().unwrap().next().unwrap().unwrap();
    assert!(first.0 == b"a" && first.1 == folded);
}

/// Without the operator a writer is refused, and a reader gets an error that says what is missing; reads of other keys
/// succeed. An error of the operator is returned.
#[test]
fn operands_that_cannot_be_folded_are_an_error_with_the_reason() {
    let storage: Arc<dyn Storage> = Arc::new(SimulatedStorage::new(1));
    let db = open(Arc::clone(&storage), Some(Arc::new(Words))).unwrap();
    let _snapshots = write_words(&db);
    db.put("c", "whole").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let text = open(Arc::clone(&storage), None).unwrap_err().to_string();
    assert!(text.contains("merge operator \"words\""), "{text}");
    let text = open(Arc::clone(&storage), Some(Arc::new(Append))).unwrap_err().to_string();
    assert!(text.contains("\"words\", not \"alluvium.append\""), "{text}");
    let reader = ReadOnlyDb::open_with(Arc::clone(&storage), Options::default()).unwrap();
    let error = reader.get("a").unwrap_err();
    assert!(matches!(&error, Error::MergeOperands { operator, key, .. } if operator == "words" && key == b"a"));
    assert!(error.to_string().contains("the store was opened without it"), "{error}");
    assert!(reader.iter().unwrap().next().unwrap().is_err() && reader.multi_get(&["a"]).is_err());
    assert_eq!(reader.get("c").unwrap().unwrap(), b"whole");
    drop(reader);
    let db = open(storage, Some(Arc::new(Words))).unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), b"one,two,four");
    db.merge("a", "no, never").unwrap();
    let text = db.get("a").unwrap_err().to_string();
    assert!(text.contains("the operator \"words\"") && text.contains("a word with a comma"), "{text}");
}
