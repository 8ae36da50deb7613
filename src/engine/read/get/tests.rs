//! Merge operands and range tombstones in a store's reads: from memory, from the tree, and from both. No call of the public
//! face writes them yet, so they are put into memory here.

use crate::db::Db;
use crate::db::DeterministicDb;
use crate::db::snapshot::Snapshot;
use crate::engine::open::opening::{self, Host};
use crate::engine::scheduler::Driver;
use crate::engine::state::budget::{Budget, Figures};
use crate::engine::types::options::Options;
use crate::format::value_file::ValueReference;
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;
use crate::merge::{MergeOperator, RangeTombstone};
use crate::util::sync::Arc;
use crate::util::{Error, key};

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
    let options = Options::default();
    let (clock, budget) = (storage.deterministic_clock(), Budget::small(&options).unwrap());
    let figures = Figures::new(budget, &options);
    let host = Host { merge_operator: operator, ..Host::new(options, figures, Driver::Deterministic, clock) };
    let (engine, log_contents) = opening::open(storage, &host).unwrap();
    let db = Db { engine };
    db.engine.background.refill(&log_contents).unwrap();
    db
}

/// Deletes [start, end) under the number of a write of its own.
fn delete_range(db: &Db, start: &str, end: &str) {
    db.put("~", "").unwrap();
    let encoded = |text: &str| key::encoded(crate::util::KeyspaceId::DEFAULT, text.as_bytes());
    let (start, end, number) = (encoded(start), encoded(end), db.engine.read.sequencer.last());
    db.engine.read.view.load().newest().memtable.add_range_tombstone(&RangeTombstone { start, end, number });
}

/// All that a snapshot shows, the same by walking both ways, by gets and by gets together.
fn shown(snapshot: &Snapshot) -> String {
    let pairs: Vec<_> = snapshot.iter().unwrap().map(Result::unwrap).filter(|(key, _)| key != b"~").collect();
    let mut back: Vec<_> = snapshot.iter().unwrap().rev().map(Result::unwrap).collect();
    back.retain(|(key, _)| key != b"~");
    back.reverse();
    assert_eq!(pairs, back);
    let names = ["a", "b", "c", "d", "e"];
    let found = snapshot.multi_get(&names).unwrap();
    for (name, together) in names.iter().zip(found) {
        let walked = pairs.iter().find(|(key, _)| key == name.as_bytes()).map(|(_, value)| value.clone());
        assert_eq!(snapshot.get(name).unwrap(), walked, "{name}");
        assert_eq!(together, walked, "{name}");
    }
    let show = |(key, value): &(Vec<u8>, Vec<u8>)| format!("{}={}", key.escape_ascii(), value.escape_ascii());
    pairs.iter().map(show).collect::<Vec<_>>().join(" ")
}

#[test]
fn range_tombstones_hide_what_is_older_wherever_it_is() {
    let db = store(None);
    for name in ["a", "b", "c", "d"] {
        db.put(name, "1").unwrap();
    }
    db.flush().unwrap();
    let before = db.snapshot().unwrap();
    db.put("b", "2").unwrap();
    delete_range(&db, "b", "d");
    let after = db.snapshot().unwrap();
    db.put("c", "3").unwrap();
    // The tombstone in memory and what it hides in memory and in the tree; then all in the tree; then a Memtable of nothing else.
    for _ in 0..3 {
        assert_eq!(shown(&before), "a=1 b=1 c=1 d=1");
        assert_eq!(shown(&after), "a=1 d=1");
        assert_eq!(shown(&db.snapshot().unwrap()), "a=1 c=3 d=1");
        db.flush().unwrap();
    }
    delete_range(&db, "a", "e");
    assert_eq!(shown(&db.snapshot().unwrap()), "");
    assert_eq!(db.get("d").unwrap(), None);
    assert_eq!(shown(&before), "a=1 b=1 c=1 d=1");
    db.flush().unwrap();
    assert_eq!(shown(&db.snapshot().unwrap()), "");
    assert_eq!(shown(&before), "a=1 b=1 c=1 d=1");
}

/// A value that is kept apart from its page, since a get had to read the disk for it, is in no Memtable that a range tombstone comes in.
#[test]
fn range_tombstones_hide_what_is_kept_apart_from_its_page() {
    let storage: Arc<dyn Storage> = Arc::new(SimulatedStorage::new(1));
    let open = || DeterministicDb::open_small(Arc::clone(&storage), Options::default()).unwrap();
    let db = open();
    ["a", "b", "c"].iter().for_each(|name| db.put(name, "1").unwrap());
    db.flush().unwrap();
    drop(db);
    // Whose cache has no pages yet.
    let db = open();
    assert!(["a", "b", "c"].iter().all(|name| db.get(name).unwrap().is_some()));
    let before = db.snapshot().unwrap();
    assert!(db.stats().items > 0, "nothing was kept");
    delete_range(&db, "b", "c");
    for _ in 0..2 {
        let found = ["a", "b", "c"].map(|name| db.get(name).unwrap().is_some());
        assert_eq!(found, [true, false, true]);
        assert_eq!(before.get("b").unwrap().unwrap(), b"1");
        db.flush().unwrap();
    }
}

/// A snapshot does not see what a Memtable that is being written out has of a key, and finds the version in the tree. That was kept
/// apart from its page as the newest, after the incorporation had forgotten the key.
#[test]
fn what_a_snapshot_finds_below_a_newer_version_is_not_kept() {
    let storage: Arc<dyn Storage> = Arc::new(SimulatedStorage::new(1));
    let open = || DeterministicDb::open_small(Arc::clone(&storage), Options::default()).unwrap();
    let db = open();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    drop(db);
    // Whose cache has no pages yet.
    let db = open();
    let snapshot = db.snapshot().unwrap();
    db.put("a", "2").unwrap();
    let generations = &db.engine.background.generations;
    let switching = generations.lock();
    generations.switch(&switching);
    drop(switching);
    db.engine.read.cache.items().begin_change();
    assert_eq!(snapshot.get("a").unwrap().unwrap(), b"1");
    assert_eq!(db.stats().items, 0, "an old version was kept");
}

/// Some operands on both sides of a range tombstone, one key with a base and one without. Snapshots between the operands keep
/// all of them in memory.
fn write_words(db: &Db) -> Vec<Snapshot> {
    let mut snapshots = Vec::new();
    let mut take = || snapshots.push(db.snapshot().unwrap());
    db.put("a", "one").unwrap();
    take();
    db.engine.write.write_operand(b"a", b"two").unwrap();
    take();
    db.engine.write.write_operand(b"b", b"three").unwrap();
    take();
    db.flush().unwrap();
    delete_range(db, "b", "c");
    db.engine.write.write_operand(b"a", b"four").unwrap();
    take();
    db.engine.write.write_operand(b"b", b"five").unwrap();
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
    let seen: Vec<String> = snapshots.iter().map(shown).collect();
    assert_eq!(seen, ["a=one", "a=one,two", "a=one,two b=three", "a=one,two,four", "a=one,two,four b=five"]);
    // A large base lies in a file of its own.
    let large = vec![b'x'; 300 << 10];
    db.put("a", &large).unwrap();
    let _pin = db.snapshot().unwrap();
    db.engine.write.write_operand(b"a", b"six").unwrap();
    db.flush().unwrap();
    let folded = [&large[..], b",six"].concat();
    assert!(folded.len() > ValueReference::BYTES && db.get("a").unwrap().unwrap() == folded);
    let first = db.iter().unwrap().next().unwrap().unwrap();
    assert!(first.0 == b"a" && first.1 == folded);
}

/// Without its operator a read of such a key says what is missing, and other keys are read as ever; a refusal is handed on.
#[test]
fn what_cannot_be_folded_is_an_error_that_says_why() {
    let db = store(None);
    let _snapshots = write_words(&db);
    db.put("c", "whole").unwrap();
    db.flush().unwrap();
    let error = db.get("a").unwrap_err();
    assert!(matches!(&error, Error::MergeOperands { key, .. } if key == b"a"), "{error}");
    assert!(error.to_string().contains("without a merge operator"), "{error}");
    assert!(db.iter().unwrap().next().unwrap().is_err() && db.multi_get(&["b"]).is_err());
    assert_eq!(db.get("c").unwrap().unwrap(), b"whole");
    let db = store(Some(Arc::new(Words)));
    db.engine.write.write_operand(b"a", b"no, never").unwrap();
    let text = db.get("a").unwrap_err().to_string();
    assert!(text.contains("\"words\" refused") && text.contains("a word with a comma"), "{text}");
}
