//! One thread of a run: does transactions and single operations, drawn from its seed, and records what they did and
//! saw.
//!
//! Ticks come from one counter. Taking a tick is a fence, which could hide a missing fence in the store. So a *sparse*
//! thread takes few ticks; what it does between two ticks has these as its bounds.

use super::history::{Action, By, Item, Key, Outcome, Transaction};
use super::lists::{LISTS, Lists, decode, encode};
use crate::support::Random;
use alluvium::{Db, Error, Savepoint, Snapshot, Swap, TransactOptions, WriteBatch};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The state that the threads of a run share.
pub struct Board {
    pub lists: Lists,
    pub ticks: AtomicU64,
    /// The next item.
    pub items: AtomicU32,
    /// For each range, how many of its keys were created.
    pub made: Vec<AtomicUsize>,
}

/// See the module.
pub struct Client<'a> {
    db: &'a Db,
    board: &'a Board,
    thread: usize,
    random: Random,
    sparse: bool,
    done: Vec<Transaction>,
    /// The first transaction that has not returned yet.
    unreturned: usize,
    now: u64,
}

pub type Broken = Result<(), String>;

fn failed(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what} failed: {error}")
}

impl<'a> Client<'a> {
    pub fn new(db: &'a Db, board: &'a Board, thread: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let sparse = random.one_in(4);
        Self { db, board, thread, random, sparse, done: Vec::new(), unreturned: 0, now: 0 }
    }

    /// Returns what was done and seen.
    pub fn finish(mut self) -> Vec<Transaction> {
        self.tick();
        self.done
    }

    fn tick(&mut self) {
        self.now = self.board.ticks.fetch_add(1, Ordering::SeqCst);
        self.done[self.unreturned..].iter_mut().for_each(|done| done.ret = self.now);
        self.unreturned = self.done.len();
    }

    fn pause(&mut self) {
        match self.random.below(8) {
            0 => std::thread::yield_now(),
            1 => (0..self.random.below(300)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }

    fn note(&mut self, name: &'static str, actions: Vec<Action>, outcome: Outcome) {
        let (thread, call) = (self.thread, self.now);
        self.done.push(Transaction { thread, name, actions, outcome, call, ret: u64::MAX });
    }

    fn item(&mut self) -> Item {
        self.board.items.fetch_add(1, Ordering::Relaxed)
    }

    fn bytes(&mut self, list: &[Item]) -> Vec<u8> {
        let padding = if self.random.one_in(20) { 3000 } else { self.random.below(100) };
        encode(list, padding as u16)
    }

    fn list(&mut self) -> Key {
        // Half of the operations use one key.
        let number = if self.random.one_in(2) { 1 } else { self.random.next() >> 1 };
        self.board.lists.list(number)
    }

    fn range(&mut self) -> usize {
        self.random.below(self.board.lists.ranges as u64) as usize
    }

    /// A key that does not exist yet.
    fn once(&mut self) -> Option<Key> {
        let range = self.range();
        self.board.lists.once(range, self.board.made[range].fetch_add(1, Ordering::Relaxed))
    }

    /// Does one step. An error is something that no history may contain.
    pub fn step(&mut self) -> Broken {
        self.pause();
        if !self.sparse || self.done.is_empty() || self.random.one_in(4) {
            self.tick();
        }
        match self.random.below(100) {
            0..48 => self.transaction()?,
            48..57 => self.transact()?,
            57..65 => self.update()?,
            65..69 => self.swap()?,
            69..72 => self.put_if_absent()?,
            72..77 => self.batch()?,
            77..81 => self.merge()?,
            81..83 => self.delete_nothing()?,
            83..87 => self.snapshot()?,
            87..91 => {
                let key = self.list();
                let found = self.db.get(self.board.lists.name(key)).map_err(failed("a get"))?;
                self.note("get", vec![read(key, decode(found.as_deref())?)], Outcome::Committed);
            }
            91..98 => {
                // Fills memory, so that the generation is switched.
                let (number, length) = (self.random.below(1000), 200 + self.random.below(2000));
                self.db.put(format!("filler{number}"), vec![1; length as usize]).map_err(failed("a put"))?;
            }
            98 => self.db.flush().map_err(failed("a flush"))?,
            _ if self.random.one_in(4) => self.db.compact().map_err(failed("a compaction"))?,
            _ => {}
        }
        if !self.sparse || self.random.one_in(4) {
            self.tick();
        }
        Ok(())
    }

    fn transaction(&mut self) -> Broken {
        let transaction = self.db.transaction().map_err(failed("a transaction"))?;
        let mut open = Open::new(&transaction);
        let done = self.do_actions(&mut open);
        let Open { actions, own, .. } = open;
        done?;
        self.pause();
        if self.random.one_in(10) {
            transaction.rollback();
            self.note("transaction", actions, Outcome::Aborted);
            return Ok(());
        }
        let outcome = match transaction.commit() {
            Ok(()) => Outcome::Committed,
            Err(Error::Conflict { key, .. }) => self.conflict(&key, &actions, !own.is_empty())?,
            Err(error) => return Err(format!("a commit failed: {error}")),
        };
        self.note("transaction", actions, outcome);
        Ok(())
    }

    /// Checks that the key of a conflict was read, and that the transaction had writes. So one that only merges has no
    /// conflict. Where another one deleted a range, the conflict may name the beginning of that.
    fn conflict(&mut self, name: &[u8], actions: &[Action], writes: bool) -> Result<Outcome, String> {
        let keys = self.board.lists.keys_at(name);
        let was_read = |action: &Action| matches!(action, Action::Read { key, .. } if keys.contains(key));
        match writes && actions.iter().any(was_read) {
            true => Ok(Outcome::Aborted),
            false => Err(format!("a conflict at {:?} after {actions:?}", name.escape_ascii().to_string())),
        }
    }

    /// Uses the retries of `transact`: every attempt except the last was aborted.
    fn transact(&mut self) -> Broken {
        let (mut attempts, mut broken) = (Vec::new(), None);
        let options = TransactOptions::new().attempts(3);
        let done = self.db.transact_with(&options, |transaction| {
            let mut open = Open::new(transaction);
            let done = self.do_actions(&mut open);
            attempts.push(open.actions);
            done.map_err(|error| {
                broken = Some(error);
                Error::Cancelled
            })
        });
        if let Some(broken) = broken {
            return Err(broken);
        }
        let last = match done {
            Ok(()) => Outcome::Committed,
            Err(Error::Conflict { .. }) if attempts.len() == 3 => Outcome::Aborted,
            Err(error) => return Err(format!("a transaction failed at attempt {}: {error}", attempts.len())),
        };
        let count = attempts.len();
        for (at, actions) in attempts.into_iter().enumerate() {
            self.note("transact", actions, if at + 1 == count { last } else { Outcome::Aborted });
        }
        Ok(())
    }

    /// One to six actions of a transaction.
    fn do_actions(&mut self, open: &mut Open<'_>) -> Broken {
        for _ in 0..1 + self.random.below(6) {
            self.pause();
            match self.random.below(24) {
                0..6 => {
                    let key = self.list();
                    open.get(&self.board.lists, key)?;
                }
                6..10 => {
                    let (key, item) = (self.list(), self.item());
                    let operand = self.bytes(&[item]);
                    open.merge(&self.board.lists, key, item, &operand)?;
                }
                10..15 => {
                    let (key, item) = (self.list(), self.item());
                    let list = [open.get(&self.board.lists, key)?, vec![item]].concat();
                    let bytes = self.bytes(&list);
                    open.append(&self.board.lists, key, item, &bytes)?;
                }
                15..17 => {
                    if let Some(key) = self.once() {
                        let item = self.item();
                        let bytes = self.bytes(&[item]);
                        open.append(&self.board.lists, key, item, &bytes)?;
                    }
                }
                17..20 => {
                    let (range, back) = (self.range(), self.random.one_in(2));
                    open.scan(&self.board.lists, range, back)?;
                }
                20 => self.rewrite(open)?,
                21..23 => {
                    open.actions.push(Action::Save);
                    open.saved.push((open.transaction.savepoint(), open.own.clone()));
                }
                _ => {
                    if let Some(to) = (self.random.next() as usize >> 1).checked_rem(open.saved.len()) {
                        open.roll_back(to)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Deletes a range and writes all of its lists again, one of them with a new item, by puts and by merges.
    fn rewrite(&mut self, open: &mut Open<'_>) -> Broken {
        let (lists, range, back, item) = (&self.board.lists, self.range(), self.random.one_in(2), self.item());
        let appended = lists.list(range as u64 * LISTS as u64 + self.random.below(LISTS as u64));
        let read = open.scan(lists, range, back)?;
        open.delete_range(lists, range)?;
        for (key, mut list) in read {
            list.extend((key == appended).then_some(item));
            if list.is_empty() {
                continue;
            }
            let bytes = self.bytes(&list);
            open.write_again(&lists.name(key), &bytes, self.random.one_in(2))?;
        }
        open.note(appended, Action::Append(appended, item));
        Ok(())
    }

    /// Each call of the function except the last is a read.
    fn update(&mut self) -> Broken {
        let (key, item, mut runs) = (self.list(), self.item(), Vec::new());
        let padding = self.random.below(100) as u16;
        let add = |old: Option<&[u8]>| {
            let list = decode(old);
            let new = [list.as_deref().unwrap_or(&[]), &[item]].concat();
            runs.push(list);
            Some(encode(&new, padding))
        };
        self.db.update(self.board.lists.name(key), add).map_err(failed("an update"))?;
        let count = runs.len();
        for (at, list) in runs.into_iter().enumerate() {
            let mut actions = vec![read(key, list?)];
            actions.extend((at + 1 == count).then_some(Action::Append(key, item)));
            self.note("update", actions, Outcome::Committed);
        }
        Ok(())
    }

    fn swap(&mut self) -> Broken {
        let (key, item) = (self.list(), self.item());
        let name = self.board.lists.name(key);
        let old = self.db.get(&name).map_err(failed("a get"))?;
        let list = decode(old.as_deref())?;
        self.note("get", vec![read(key, list.clone())], Outcome::Committed);
        let new = self.bytes(&[&list[..], &[item]].concat());
        let actions = match self.db.compare_and_swap(&name, old.as_deref(), Some(&new)).map_err(failed("a swap"))? {
            Swap::Done => vec![read(key, list), Action::Append(key, item)],
            Swap::Differs(found) => vec![read(key, decode(found.as_deref())?)],
        };
        self.note("compare_and_swap", actions, Outcome::Committed);
        Ok(())
    }

    fn put_if_absent(&mut self) -> Broken {
        let (key, item) = (self.list(), self.item());
        let bytes = self.bytes(&[item]);
        if self.db.put_if_absent(self.board.lists.name(key), bytes).map_err(failed("a put_if_absent"))? {
            self.note("put_if_absent", vec![read(key, Vec::new()), Action::Append(key, item)], Outcome::Committed);
        }
        Ok(())
    }

    fn merge(&mut self) -> Broken {
        let (key, item) = (self.list(), self.item());
        let operand = self.bytes(&[item]);
        self.db.merge(self.board.lists.name(key), operand).map_err(failed("a merge"))?;
        self.note("merge", vec![Action::Merge(key, item)], Outcome::Committed);
        Ok(())
    }

    /// Deletes a range between two keys, which has no keys.
    fn delete_nothing(&mut self) -> Broken {
        let name = self.board.lists.name(self.list());
        let [start, end] = [b"!", b"~"].map(|more| [&name[..], more].concat());
        self.db.delete_range(start..end).map_err(failed("a range delete"))
    }

    /// Creates some keys and appends to others, with blind writes.
    fn batch(&mut self) -> Broken {
        let (mut batch, mut actions) = (WriteBatch::new(), Vec::new());
        for _ in 0..1 + self.random.below(3) {
            if self.random.one_in(2) {
                let (key, item) = (self.list(), self.item());
                batch.merge(self.board.lists.name(key), self.bytes(&[item]));
                actions.push(Action::Merge(key, item));
            } else if let Some(key) = self.once() {
                let item = self.item();
                batch.put(self.board.lists.name(key), self.bytes(&[item]));
                actions.push(Action::Append(key, item));
            }
        }
        self.db.write(batch).map_err(failed("a batch"))?;
        self.note("batch", actions, Outcome::Committed);
        Ok(())
    }

    fn snapshot(&mut self) -> Broken {
        let snapshot = self.db.snapshot();
        let actions = all_of(&snapshot, &self.board.lists)?;
        self.note("snapshot", actions, Outcome::Committed);
        Ok(())
    }

    /// Reads everything after the writers have ended.
    pub fn read_all(&mut self) -> Broken {
        self.tick();
        self.snapshot()?;
        let transaction = self.db.transaction().map_err(failed("a transaction"))?;
        let mut open = Open::new(&transaction);
        self.board.lists.all().try_for_each(|key| open.get(&self.board.lists, key).map(drop))?;
        let actions = open.actions;
        self.note("transaction", actions, Outcome::Committed);
        self.tick();
        Ok(())
    }
}

fn read(key: Key, list: Vec<Item>) -> Action {
    Action::Read { key, list, by: By::Get }
}

fn of_scan((key, list): &(Key, Vec<Item>)) -> Action {
    Action::Read { key: *key, list: list.clone(), by: By::Range }
}

fn all_of(snapshot: &Snapshot, lists: &Lists) -> Result<Vec<Action>, String> {
    let mut actions = Vec::new();
    for range in 0..lists.ranges {
        let pairs: alluvium::Result<Vec<_>> = snapshot.prefix(lists.prefix(range)).and_then(Iterator::collect);
        actions.extend(scanned(lists, range, pairs)?.iter().map(of_scan));
    }
    Ok(actions)
}

/// The result of a scan: the lists of all keys of the range.
fn scanned(
    lists: &Lists,
    range: usize,
    pairs: alluvium::Result<Vec<(Vec<u8>, Vec<u8>)>>,
) -> Result<Vec<(Key, Vec<Item>)>, String> {
    let mut pairs: BTreeMap<_, _> = pairs.map_err(failed("a scan"))?.into_iter().collect();
    let list_of = |key| Ok((key, decode(pairs.remove(&lists.name(key)).as_deref())?));
    let found = lists.of_range(range).map(list_of).collect::<Result<Vec<_>, String>>()?;
    match pairs.pop_first() {
        Some((name, _)) => Err(format!("a scan returned {name:?}, which is no key of the run")),
        None => Ok(found),
    }
}

/// An open transaction.
struct Open<'t> {
    transaction: &'t alluvium::Transaction,
    actions: Vec<Action>,
    /// The keys that it has written.
    own: BTreeSet<Key>,
    saved: Vec<(Savepoint, BTreeSet<Key>)>,
}

impl<'t> Open<'t> {
    fn new(transaction: &'t alluvium::Transaction) -> Self {
        Self { transaction, actions: Vec::new(), own: BTreeSet::new(), saved: Vec::new() }
    }

    fn get(&mut self, lists: &Lists, key: Key) -> Result<Vec<Item>, String> {
        let found = self.transaction.get(lists.name(key)).map_err(failed("a transaction's get"))?;
        let list = decode(found.as_deref())?;
        self.actions.push(read(key, list.clone()));
        Ok(list)
    }

    fn append(&mut self, lists: &Lists, key: Key, item: Item, bytes: &[u8]) -> Broken {
        self.transaction.put(lists.name(key), bytes).map_err(failed("a transaction's put"))?;
        self.note(key, Action::Append(key, item));
        Ok(())
    }

    fn merge(&mut self, lists: &Lists, key: Key, item: Item, operand: &[u8]) -> Broken {
        self.transaction.merge(lists.name(key), operand).map_err(failed("a transaction's merge"))?;
        self.note(key, Action::Merge(key, item));
        Ok(())
    }

    fn note(&mut self, key: Key, write: Action) {
        self.actions.push(write);
        self.own.insert(key);
    }

    /// Returns the lists of all keys of the range.
    fn scan(&mut self, lists: &Lists, range: usize, back: bool) -> Result<Vec<(Key, Vec<Item>)>, String> {
        let iter = self.transaction.prefix(lists.prefix(range)).map_err(failed("a transaction's scan"))?;
        let pairs = if back { iter.rev().collect() } else { iter.collect() };
        let found = scanned(lists, range, pairs)?;
        self.actions.extend(found.iter().map(of_scan));
        Ok(found)
    }

    fn delete_range(&mut self, lists: &Lists, range: usize) -> Broken {
        self.transaction.delete_prefix(lists.prefix(range)).map_err(failed("a transaction's range delete"))?;
        self.actions.push(Action::DeleteRange(lists.of_range(range)));
        Ok(())
    }

    /// Writes a key whose range was deleted.
    fn write_again(&mut self, name: &[u8], bytes: &[u8], by_merge: bool) -> Broken {
        match by_merge {
            true => self.transaction.merge(name, bytes),
            false => self.transaction.put(name, bytes),
        }
        .map_err(failed("a transaction's write after a range delete"))
    }

    fn roll_back(&mut self, to: usize) -> Broken {
        self.saved.truncate(to + 1);
        let (savepoint, own) = &self.saved[to];
        self.transaction.rollback_to(savepoint).map_err(failed("a rollback to a savepoint"))?;
        self.own = own.clone();
        self.actions.push(Action::RollBack(to));
        Ok(())
    }
}
