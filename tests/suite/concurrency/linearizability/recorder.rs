//! One thread of a run: does the steps of its plan and records what it saw, and when.
//!
//! Ticks come from one counter. Taking a tick is a fence, which could hide a missing fence in the store. So a *sparse*
//! thread takes few ticks; what it does between two ticks has these as its bounds. `changes` and `transactions` record
//! operations that read and write, and `keyspaces` has the keyspaces of keys.

mod changes;
mod keyspaces;
mod transactions;

pub use keyspaces::NAME;

use super::history::{Effect, Key, Operation, Seen, Value};
use super::plan::{Keys, Shape, Step};
use super::values::{self, encode};
use crate::support::Random;
use alluvium::{Db, Iter, Keyspace, Snapshot, WriteBatch};
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module.
pub struct Recorder<'a> {
    db: &'a Db,
    keys: &'a Keys,
    ticks: &'a AtomicU64,
    random: Random,
    merges: bool,
    joins: bool,
    sparse: bool,
    operations: Vec<Operation>,
    /// The first operation that has not returned yet.
    unreturned: usize,
    now: u64,
    /// The bytes that the thread last saw or wrote at each key.
    known: Vec<Option<Vec<u8>>>,
    /// The open snapshots, each with the operation that its reads belong to.
    snapshots: Vec<(usize, Snapshot)>,
    iterator: Option<Scan>,
    /// The keyspace with a name, once the thread has opened it.
    named: Option<Keyspace>,
}

/// An iterator in either direction.
type Pairs = dyn Iterator<Item = alluvium::Result<(Vec<u8>, Vec<u8>)>>;

/// An open iterator.
struct Scan {
    operation: usize,
    iter: Box<Pairs>,
    /// The keys that it has yet to pass, in its order.
    ahead: std::vec::IntoIter<Key>,
    by: &'static str,
}

type Broken = Result<(), String>;

impl<'a> Recorder<'a> {
    pub fn new(db: &'a Db, shape: &'a Shape, ticks: &'a AtomicU64, seed: u64) -> Self {
        let Shape { keys, merges, joins, .. } = shape;
        let mut random = Random(seed);
        let sparse = random.one_in(4);
        let (operations, snapshots, known) = (Vec::with_capacity(32), Vec::new(), vec![None; keys.names.len()]);
        Self {
            db,
            keys,
            ticks,
            random,
            merges: *merges,
            joins: *joins,
            sparse,
            operations,
            unreturned: 0,
            now: 0,
            known,
            snapshots,
            iterator: None,
            named: None,
        }
    }

    /// Ends all open operations and returns what was done and seen.
    pub fn finish(mut self) -> Vec<Operation> {
        self.tick();
        self.operations
    }

    /// Does a step, except `Step::Meet`. An error is something that no history may contain.
    pub fn step(&mut self, step: &Step) -> Broken {
        self.pause();
        if !self.sparse || self.operations.is_empty() || self.random.one_in(4) {
            self.tick();
        }
        self.apply(step)?;
        if !self.sparse || self.random.one_in(4) {
            self.tick();
        }
        Ok(())
    }

    fn tick(&mut self) {
        self.now = self.ticks.fetch_add(1, Ordering::SeqCst);
        for operation in &mut self.operations[self.unreturned..] {
            operation.ret = self.now;
        }
        self.unreturned = self.operations.len();
    }

    fn pause(&mut self) {
        match self.random.below(8) {
            0 => std::thread::yield_now(),
            1 => (0..self.random.below(300)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }

    fn apply(&mut self, step: &Step) -> Broken {
        match step {
            Step::Put(key, value, length) => {
                let bytes = encode(*value, *length);
                let merges = self.merges();
                let (own, name) = (self.of_key(*key)?, self.name(*key));
                let done = if merges { own.merge(name, &bytes) } else { own.put(name, &bytes) };
                self.known[*key] = Some(bytes);
                self.wrote(if merges { "merge" } else { "put" }, vec![(*key, *value)], done)
            }
            Step::Delete(key) => {
                let done = self.of_key(*key)?.delete(self.name(*key));
                self.wrote("delete", vec![(*key, Value::ABSENT)], done)
            }
            Step::DeletePrefix(range) => {
                let (is_named, prefix) = self.keys.range(*range);
                let done = self.keyspace(is_named)?.delete_prefix(prefix);
                let deleted = self.keys.in_range(*range).into_iter().map(|key| (key, Value::ABSENT));
                self.wrote("range delete", deleted.collect(), done)
            }
            Step::Replace(range, puts) => {
                let mut batch = WriteBatch::new();
                let (is_named, prefix) = self.keys.range(*range);
                batch.within(&*self.keyspace(is_named)?).delete_prefix(prefix);
                let mut wrote: Vec<_> =
                    self.keys.in_range(*range).into_iter().map(|key| (key, Value::ABSENT)).collect();
                for (key, value, length) in puts {
                    let bytes = encode(*value, *length);
                    batch.within(&*self.of_key(*key)?).put(self.name(*key), bytes.clone());
                    self.known[*key] = Some(bytes);
                    wrote.retain(|(deleted, _)| deleted != key);
                    wrote.push((*key, *value));
                }
                let done = self.db.write(batch);
                self.wrote("replacement", wrote, done)
            }
            Step::Batch(operations) => {
                let mut batch = WriteBatch::new();
                for (key, value, length) in operations {
                    let own = self.of_key(*key)?;
                    let mut within = batch.within(&own);
                    match *value {
                        Value::ABSENT => within.delete(self.name(*key)),
                        value if self.merges() => within.merge(self.name(*key), values::encode(value, *length)),
                        value => within.put(self.name(*key), values::encode(value, *length)),
                    };
                }
                let done = self.db.write(batch);
                self.wrote("batch", operations.iter().map(|(key, value, _)| (*key, *value)).collect(), done)
            }
            Step::Update { key, value, length, manner } => self.update(*key, *value, *length, *manner),
            Step::CompareAndSwap { key, value, length, guess } => self.swap(*key, *value, *length, *guess),
            Step::PutIfAbsent(key, value, length) => self.put_if_absent(*key, *value, *length),
            Step::Transaction(actions, commits) => self.transaction(actions, *commits),
            Step::Get(key) => self.get(*key),
            Step::MultiGet(keys) => {
                let (own, keys) = (self.of_key(keys[0])?, self.of_one_keyspace(keys));
                let operation = self.read("multi_get");
                let found = own.multi_get(&self.names(&keys));
                self.saw(operation, "multi_get", &keys, found)
            }
            Step::Snapshot => {
                self.take_snapshot();
                Ok(())
            }
            Step::SnapshotGet(key) => {
                let (operation, snapshot) = self.snapshot();
                let found = self.within(&snapshot, self.keys.is_named(*key)).and_then(|within| match within {
                    Some(within) => within.get(self.name(*key)),
                    None => Ok(None),
                });
                self.saw(operation, "get", &[*key], found.map(|found| vec![found]))
            }
            Step::SnapshotMultiGet(keys) => {
                let (operation, snapshot) = self.snapshot();
                let keys = self.of_one_keyspace(keys);
                let found = self.within(&snapshot, self.keys.is_named(keys[0])).and_then(|within| match within {
                    Some(within) => within.multi_get(&self.names(&keys)),
                    None => Ok(vec![None; keys.len()]),
                });
                self.saw(operation, "multi_get", &keys, found)
            }
            Step::Scan { held, range, back } => {
                let (is_named, prefix) = self.keys.range(*range);
                let scan = if *held {
                    let (operation, snapshot) = self.snapshot();
                    let within = self.within(&snapshot, is_named).map_err(|error| format!("a scan failed: {error}"))?;
                    let Some(within) = within else { return self.saw_none(operation, "scan", *range) };
                    self.scan(operation, within.prefix(prefix), *range, *back)?
                } else {
                    let own = self.keyspace(is_named)?;
                    let operation = self.read("scan");
                    self.scan(operation, own.prefix(prefix), *range, *back)?
                };
                let Some(mut scan) = scan else { return Ok(()) };
                // Terminates, since each step passes a key.
                while self.advance(&mut scan)? {}
                Ok(())
            }
            Step::OpenIterator { range, back } => {
                let (is_named, prefix) = self.keys.range(*range);
                let own = self.keyspace(is_named)?;
                let operation = self.read("iterator");
                self.iterator = self.scan(operation, own.prefix(prefix), *range, *back)?;
                Ok(())
            }
            Step::GoOn => match self.iterator.take() {
                Some(mut scan) => {
                    if self.advance(&mut scan)? {
                        self.iterator = Some(scan);
                    }
                    Ok(())
                }
                None => {
                    let back = self.random.one_in(2);
                    self.apply(&Step::OpenIterator { range: 0, back })
                }
            },
            Step::DropSnapshot => {
                if !self.snapshots.is_empty() {
                    let gone = self.random.below(self.snapshots.len() as u64) as usize;
                    self.snapshots.swap_remove(gone);
                }
                Ok(())
            }
            Step::DropKeyspace => self.drop_keyspace(),
            Step::ClearKeyspace => self.clear_keyspace(),
            Step::Flush => self.db.flush().map_err(|error| format!("a flush failed: {error}")),
            Step::Meet => Ok(()),
        }
    }

    /// Whether a put is to be a merge.
    fn merges(&mut self) -> bool {
        self.merges && self.random.one_in(2)
    }

    fn name(&self, key: Key) -> &'a [u8] {
        &self.keys.names[key]
    }

    fn names(&self, keys: &[Key]) -> Vec<&'a [u8]> {
        keys.iter().map(|key| self.name(*key)).collect()
    }

    fn get(&mut self, key: Key) -> Broken {
        let own = self.of_key(key)?;
        let operation = self.read("get");
        let found = own.get(self.name(key));
        self.saw(operation, "get", &[key], found.map(|found| vec![found]))
    }

    fn wrote(&mut self, name: &'static str, pairs: Vec<(Key, Value)>, done: alluvium::Result<()>) -> Broken {
        if self.unless_dropped(name, done)?.is_some() {
            self.begin(name, Effect::write(pairs));
        }
        Ok(())
    }

    /// A read that has seen nothing yet.
    fn read(&mut self, name: &'static str) -> usize {
        self.begin(name, Effect::default())
    }

    fn begin(&mut self, name: &'static str, effect: Effect) -> usize {
        self.operations.push(Operation { name, effect, call: self.now, ret: u64::MAX });
        self.operations.len() - 1
    }

    fn saw(
        &mut self,
        operation: usize,
        by: &'static str,
        keys: &[Key],
        found: alluvium::Result<Vec<Option<Vec<u8>>>>,
    ) -> Broken {
        let Some(found) = self.unless_dropped(by, found)? else { return Ok(()) };
        if found.len() != keys.len() {
            return Err(format!("a {by} of {} keys returned {} values", keys.len(), found.len()));
        }
        keys.iter().zip(found).try_for_each(|(key, found)| self.saw_one(operation, by, *key, found.as_deref()))
    }

    fn saw_one(&mut self, operation: usize, by: &'static str, key: Key, found: Option<&[u8]>) -> Broken {
        let describe =
            |wrong| format!("a {by} of key {:?} returned {wrong}", String::from_utf8_lossy(&self.keys.names[key]));
        let value = values::decode(found).map_err(describe)?;
        self.operations[operation].effect.saw.push(Seen { key, value, by });
        self.known[key] = found.map(<[u8]>::to_vec);
        Ok(())
    }

    fn take_snapshot(&mut self) -> (usize, Snapshot) {
        let operation = self.read("snapshot");
        let snapshot = self.db.snapshot();
        self.snapshots.push((operation, snapshot.clone()));
        (operation, snapshot)
    }

    /// A held snapshot, or a new one.
    fn snapshot(&mut self) -> (usize, Snapshot) {
        if self.snapshots.is_empty() {
            return self.take_snapshot();
        }
        self.snapshots[self.random.below(self.snapshots.len() as u64) as usize].clone()
    }

    /// `None` if the keyspace was dropped.
    fn scan(
        &mut self,
        operation: usize,
        iter: alluvium::Result<Iter>,
        range: usize,
        back: bool,
    ) -> Result<Option<Scan>, String> {
        let Some(iter) = self.unless_dropped("scan", iter)? else { return Ok(None) };
        let mut ahead = self.keys.in_range(range);
        if back {
            ahead.reverse();
        }
        let ahead = ahead.into_iter();
        Ok(Some(match back {
            true => Scan { operation, iter: Box::new(iter.rev()), ahead, by: "reverse scan" },
            false => Scan { operation, iter: Box::new(iter), ahead, by: "scan" },
        }))
    }

    /// Moves to the iterator's next pair; false at its end. The keys that it passes over are absent.
    fn advance(&mut self, scan: &mut Scan) -> Result<bool, String> {
        let (operation, by) = (scan.operation, scan.by);
        let Some(pair) = scan.iter.next() else {
            for key in scan.ahead.by_ref() {
                self.saw_one(operation, by, key, None)?;
            }
            return Ok(false);
        };
        let (name, value) = pair.map_err(|error| format!("a {by} failed: {error}"))?;
        for key in scan.ahead.by_ref() {
            if self.keys.names[key] == name {
                self.saw_one(operation, by, key, Some(&value))?;
                return Ok(true);
            }
            self.saw_one(operation, by, key, None)?;
        }
        Err(format!("a {by} returned {:?}, which is not ahead of it", String::from_utf8_lossy(&name)))
    }
}
