//! The right answers: a sorted map, and a copy of it for each snapshot and each iterator.

use super::operation::{Action, Answer, Bounds, Ending, Expected, Key, Move, Operation, Value, altered, key};
use alluvium::Change;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::rc::Rc;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// See the module.
#[derive(Default)]
pub struct Model {
    map: Rc<Map>,
    snapshots: Vec<Rc<Map>>,
    iterators: Vec<Cursor>,
}

/// An iterator: its pairs and its position.
struct Cursor {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    at: Option<usize>,
}

impl Model {
    pub fn apply(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::Put(key, value) => self.change(*key, Some(*value)),
            Operation::Delete(key) => self.change(*key, None),
            Operation::Merge(key, operand) => self.merge(*key, *operand),
            Operation::MergeBatch(before, changes, after) => {
                before.iter().for_each(|(key, operand)| self.merge(*key, *operand));
                changes.iter().for_each(|(key, value)| self.change(*key, *value));
                after.iter().for_each(|(key, operand)| self.merge(*key, *operand));
            }
            Operation::Batch(changes) => changes.iter().for_each(|(key, value)| self.change(*key, *value)),
            Operation::DeleteRange(bounds) => self.delete_range(*bounds),
            Operation::Empty => self.delete_range(Bounds::All),
            Operation::Replace(before, bounds, after) => {
                before.iter().for_each(|(key, value)| self.change(*key, *value));
                self.delete_range(*bounds);
                after.iter().for_each(|(key, value)| self.change(*key, *value));
            }
            Operation::Update(number, value) => {
                let number = *number;
                match altered(self.map.get(&key(number)).map(|old| &old[..]), *value) {
                    Change::Put(value) => _ = Rc::make_mut(&mut self.map).insert(key(number), value),
                    Change::Delete => self.change(number, None),
                    Change::Keep => {}
                }
                return values(&self.map, &[number]);
            }
            Operation::CompareAndSwap(number, expected, new) => {
                let old = self.map.get(&key(*number));
                let is_expected = match expected {
                    Expected::Absent => old.is_none(),
                    Expected::Current => true,
                    Expected::Some(value) => old == Some(&value.bytes()),
                };
                if !is_expected {
                    return values(&self.map, &[*number]);
                }
                self.change(*number, *new);
            }
            Operation::PutIfAbsent(number, value) => {
                let is_absent = !self.map.contains_key(&key(*number));
                if is_absent {
                    self.change(*number, Some(*value));
                }
                return Answer::Is(is_absent);
            }
            Operation::Transaction(actions, ending) => return self.transaction(actions, *ending),
            Operation::Staged(actions, commits, _) => {
                return self.transaction(actions, if *commits { Ending::Commit } else { Ending::RollBack });
            }
            Operation::Ingest(pairs) => pairs.iter().for_each(|(key, value)| self.change(*key, Some(*value))),
            Operation::Get(key) => return values(&self.map, &[*key]),
            Operation::MultiGet(keys) => return values(&self.map, keys),
            Operation::Snapshot => self.snapshots.push(Rc::clone(&self.map)),
            Operation::DropSnapshot(which) => {
                if let Some(at) = chosen(*which, self.snapshots.len()) {
                    self.snapshots.remove(at);
                }
            }
            Operation::GetAt(which, key) => return values(self.state(Some(*which)), &[*key]),
            Operation::MultiGetAt(which, keys) => return values(self.state(Some(*which)), keys),
            Operation::Iterate(which, bounds) => {
                let cursor = Cursor { pairs: between(self.state(*which), *bounds), at: None };
                self.iterators.push(cursor);
            }
            Operation::Move(which, moves) => {
                let at = chosen(*which, self.iterators.len());
                return Answer::Positions(at.map_or_else(Vec::new, |at| self.iterators[at].moved(moves)));
            }
            Operation::DropIterator(which) => {
                if let Some(at) = chosen(*which, self.iterators.len()) {
                    self.iterators.remove(at);
                }
            }
            Operation::Scan(which, backwards) => {
                let pairs = self.state(*which).iter().map(|(key, value)| (key.clone(), value.clone()));
                return Answer::Pairs(if *backwards { pairs.rev().collect() } else { pairs.collect() });
            }
            Operation::ReadOnly | Operation::Checkpoint | Operation::Follow => {
                return self.apply(&Operation::Scan(None, false));
            }
            Operation::Reopen => {
                self.snapshots.clear();
                self.iterators.clear();
            }
            Operation::Flush
            | Operation::Settle
            | Operation::Sync
            | Operation::CompactRange(..)
            | Operation::Optimize(..)
            | Operation::Compact => {}
        }
        Answer::Done
    }

    fn change(&mut self, number: Key, value: Option<Value>) {
        change(Rc::make_mut(&mut self.map), number, value);
    }

    fn merge(&mut self, number: Key, operand: Value) {
        merge(Rc::make_mut(&mut self.map), number, operand);
    }

    fn delete_range(&mut self, bounds: Bounds) {
        Rc::make_mut(&mut self.map).retain(|key, _| !is_inside(key, bounds));
    }

    fn transaction(&mut self, actions: &[Action], ending: Ending) -> Answer {
        let (mut own, mut saved, mut read, mut writes) = (Map::clone(&self.map), Vec::new(), false, Vec::new());
        let mut answers = Vec::new();
        for action in actions {
            match action {
                Action::Put(number, value) => {
                    change(&mut own, *number, Some(*value));
                    writes.push(Written::Key(key(*number)));
                }
                Action::Merge(..) if matches!(ending, Ending::Disturbed(..)) => {}
                Action::Merge(number, operand) => {
                    merge(&mut own, *number, *operand);
                    writes.push(Written::Key(key(*number)));
                }
                Action::Delete(number) => {
                    change(&mut own, *number, None);
                    writes.push(Written::Key(key(*number)));
                }
                Action::DeleteRange(bounds) => {
                    own.retain(|key, _| !is_inside(key, *bounds));
                    writes.push(Written::Range(*bounds));
                }
                Action::Get(number) => {
                    answers.push(values(&own, &[*number]));
                    read |= is_disturbed(ending, |disturbed| {
                        disturbed == key(*number) && !has_written(&writes, &disturbed)
                    });
                }
                Action::MultiGet(numbers) => {
                    answers.push(values(&own, numbers));
                    let is_read = |disturbed: Vec<u8>| {
                        numbers.iter().any(|number| key(*number) == disturbed) && !has_written(&writes, &disturbed)
                    };
                    read |= is_disturbed(ending, is_read);
                }
                Action::Scan(bounds, backwards, most) => {
                    let mut pairs = between(&own, *bounds);
                    if *backwards {
                        pairs.reverse();
                    }
                    // Scans of a transaction with a conflicting write return everything, so that the set of reads is
                    // certain.
                    pairs.truncate(if matches!(ending, Ending::Disturbed(..)) { usize::MAX } else { *most });
                    answers.push(Answer::Pairs(pairs));
                    read |= is_disturbed(ending, |disturbed| is_inside(&disturbed, *bounds));
                }
                Action::Iterate(..) if matches!(ending, Ending::Disturbed(..)) => {}
                Action::Iterate(bounds, moves) => {
                    let mut cursor = Cursor { pairs: between(&own, *bounds), at: None };
                    answers.push(Answer::Positions(cursor.moved(moves)));
                }
                Action::Save => saved.push((own.clone(), writes.clone())),
                Action::RollBack(which) => {
                    if let Some(at) = chosen(*which, saved.len()) {
                        saved.truncate(at + 1);
                        (own, writes) = saved[at].clone();
                    }
                }
            }
        }
        let commits = match ending {
            Ending::Commit => true,
            Ending::RollBack => false,
            Ending::Disturbed(number, value) => {
                self.change(number, Some(value));
                // If the transaction did not read the key, the other write stays, unless the transaction wrote the key,
                // too.
                let disturbed = key(number);
                if !has_written(&writes, &disturbed) {
                    own.insert(disturbed, value.bytes());
                }
                !read || writes.is_empty()
            }
        };
        if commits && !writes.is_empty() {
            self.map = Rc::new(own);
        }
        Answer::Transaction(answers, commits)
    }

    /// A snapshot, or the newest state if there is none.
    fn state(&self, which: Option<usize>) -> &Map {
        which.and_then(|which| chosen(which, self.snapshots.len())).map_or(&self.map, |at| &self.snapshots[at])
    }
}

/// What a transaction has written.
#[derive(Clone)]
enum Written {
    Key(Vec<u8>),
    Range(Bounds),
}

fn has_written(writes: &[Written], key: &Vec<u8>) -> bool {
    writes.iter().any(|written| match written {
        Written::Key(written) => written == key,
        Written::Range(bounds) => is_inside(key, *bounds),
    })
}

fn merge(map: &mut Map, number: Key, operand: Value) {
    map.entry(key(number)).or_default().extend(operand.bytes());
}

fn change(map: &mut Map, number: Key, value: Option<Value>) {
    match value {
        Some(value) => map.insert(key(number), value.bytes()),
        None => map.remove(&key(number)),
    };
}

fn is_disturbed(ending: Ending, is_read: impl Fn(Vec<u8>) -> bool) -> bool {
    matches!(ending, Ending::Disturbed(number, _) if is_read(key(number)))
}

/// The index among `count` that a number selects.
pub fn chosen(which: usize, count: usize) -> Option<usize> {
    which.checked_rem(count)
}

fn values(map: &Map, keys: &[Key]) -> Answer {
    Answer::Values(keys.iter().map(|number| map.get(&key(*number)).cloned()).collect())
}

fn between(map: &Map, bounds: Bounds) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pairs = map.iter().filter(|(key, _)| is_inside(key, bounds));
    pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn is_inside(found: &Vec<u8>, bounds: Bounds) -> bool {
    match bounds {
        Bounds::All => true,
        Bounds::Range(lower, upper) => (lower.map(key), upper.map(key)).contains(found),
        Bounds::Prefix(number) => found.starts_with(&prefix(number)),
    }
}

/// The prefix for an iterator: a key without its end.
pub fn prefix(number: Key) -> Vec<u8> {
    let mut prefix = key(number);
    prefix.truncate(prefix.len().saturating_sub(number as usize % 4));
    prefix
}

/// A key range for `compact_range`.
pub fn ordered(one: Key, other: Key) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let (one, other) = (key(one), key(other));
    (Bound::Included(one.clone().min(other.clone())), Bound::Excluded(one.max(other)))
}

impl Cursor {
    fn moved(&mut self, moves: &[Move]) -> Vec<Option<(Vec<u8>, Vec<u8>)>> {
        let mut stood = vec![self.pair()];
        for going in moves {
            let is_nowhere = self.pair().is_none();
            self.at = match going {
                Move::First => Some(0),
                Move::Last => self.pairs.len().checked_sub(1),
                Move::Seek(number) => Some(self.pairs.partition_point(|(found, _)| *found < key(*number))),
                Move::SeekForPrev(number) => {
                    self.pairs.partition_point(|(found, _)| *found <= key(*number)).checked_sub(1)
                }
                Move::Step | Move::StepBack if is_nowhere => continue,
                Move::Step => self.at.map(|at| at + 1),
                Move::StepBack => self.at.and_then(|at| at.checked_sub(1)),
            };
            stood.push(self.pair());
        }
        stood
    }

    fn pair(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.at.and_then(|at| self.pairs.get(at)).cloned()
    }
}
