//! The operations of a run and their answers.

use crate::support::Random;
use alluvium::Change;
use std::ops::Bound;

/// A key, by its number; see `key`.
pub type Key = u64;

/// A value: the bytes of a stamp, repeated up to a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    pub stamp: u64,
    pub length: usize,
}

impl Value {
    pub fn bytes(self) -> Vec<u8> {
        self.stamp.to_le_bytes().into_iter().cycle().take(self.length).collect()
    }
}

/// One action of a transaction. Savepoints are numbered as snapshots are.
#[derive(Clone, Debug)]
pub enum Action {
    Put(Key, Value),
    Merge(Key, Value),
    Delete(Key),
    /// Of a range that is not empty.
    DeleteRange(Bounds),
    Get(Key),
    MultiGet(Vec<Key>),
    /// A scan in either direction, up to a number of pairs.
    Scan(Bounds, bool, usize),
    Iterate(Bounds, Vec<Move>),
    Save,
    RollBack(usize),
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    Commit,
    RollBack,
    /// Another writer puts this key before the commit.
    Disturbed(Key, Value),
}

/// What a swap expects at its key.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    Absent,
    /// The current value.
    Current,
    Some(Value),
}

/// The change that an update makes to an old value.
pub fn altered(old: Option<&[u8]>, value: Value) -> Change {
    match old {
        Some(old) if old.len() % 4 == 1 => Change::Delete,
        Some(old) if old.len() % 4 == 2 => Change::Keep,
        Some(old) => Change::Put([&old[..old.len().min(50)], &value.bytes()].concat()),
        None => Change::Put(value.bytes()),
    }
}

/// A move of an iterator.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    First,
    Last,
    Seek(Key),
    SeekForPrev(Key),
    Step,
    StepBack,
}

/// The bounds of an iterator.
#[derive(Clone, Copy, Debug)]
pub enum Bounds {
    All,
    Range(Bound<Key>, Bound<Key>),
    Prefix(Key),
}

/// One operation. A snapshot or an iterator is named by a number, modulo how many there are; if there are none, the
/// operation does nothing. So every part of a sequence is a valid sequence.
#[derive(Clone, Debug)]
pub enum Operation {
    Put(Key, Value),
    Delete(Key),
    /// Appends to the value of a key.
    Merge(Key, Value),
    Batch(Vec<(Key, Option<Value>)>),
    /// Merges and changes in one batch.
    MergeBatch(Vec<(Key, Value)>, Vec<(Key, Option<Value>)>, Vec<(Key, Value)>),
    DeleteRange(Bounds),
    /// All keys go: by a range delete, or with their keyspace, which is created again.
    Empty,
    /// A batch of changes, then a range delete, then more changes.
    Replace(Vec<(Key, Option<Value>)>, Bounds, Vec<(Key, Option<Value>)>),
    /// The new value depends on the old one: see `altered`.
    Update(Key, Value),
    CompareAndSwap(Key, Expected, Option<Value>),
    PutIfAbsent(Key, Value),
    /// The actions, and how the transaction ends.
    Transaction(Vec<Action>, Ending),
    /// The actions of a staged batch without savepoints, whether it is committed, and its memory.
    Staged(Vec<Action>, bool, usize),
    /// Puts by an ingest; of several of a key the last one counts.
    Ingest(Vec<(Key, Value)>),
    Get(Key),
    MultiGet(Vec<Key>),
    Snapshot,
    DropSnapshot(usize),
    GetAt(usize, Key),
    MultiGetAt(usize, Vec<Key>),
    /// An iterator over a snapshot or over the newest state.
    Iterate(Option<usize>, Bounds),
    Move(usize, Vec<Move>),
    DropIterator(usize),
    /// A full scan, in either direction, of a snapshot or of the newest state.
    Scan(Option<usize>, bool),
    /// A full scan by a read-only opener of the open store.
    ReadOnly,
    /// A full scan of a checkpoint.
    Checkpoint,
    /// A full scan of a copy that follows the change stream.
    Follow,
    Flush,
    Settle,
    Sync,
    CompactRange(Key, Key),
    Optimize(Key, Key),
    Compact,
    /// Ends and reopens the store, each store in its own way.
    Reopen,
}

/// An operation, and its number in the original sequence.
#[derive(Clone, Debug)]
pub struct Drawn {
    pub id: u64,
    pub operation: Operation,
}

/// The answer of an operation.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// Whether the operation succeeded.
    Is(bool),
    Values(Vec<Option<Vec<u8>>>),
    /// The position of an iterator after each move.
    Positions(Vec<Option<(Vec<u8>, Vec<u8>)>>),
    Pairs(Vec<(Vec<u8>, Vec<u8>)>),
    /// The answers of a transaction's actions, and whether it was committed.
    Transaction(Vec<Answer>, bool),
}

impl Answer {
    /// Describes the first difference, shortened.
    pub fn difference(&self, expected: &Self) -> String {
        let short = |value: &[u8]| format!("{}*{:?}", value.len(), &value[..value.len().min(8)]);
        let pair = |pair: Option<&(Vec<u8>, Vec<u8>)>| {
            pair.map(|(key, value)| format!("{} = {}", key[..key.len().min(60)].escape_ascii(), short(value)))
        };
        match (self, expected) {
            (Self::Values(found), Self::Values(expected)) => {
                let at = found.iter().zip(expected).position(|(found, expected)| found != expected).unwrap_or(0);
                let short = |value: &Option<Vec<u8>>| value.as_deref().map(short);
                format!("at {at}: found {:?}, expected {:?}", short(&found[at]), short(&expected[at]))
            }
            (Self::Positions(found), Self::Positions(expected)) => {
                let at = found.iter().zip(expected).position(|(found, expected)| found != expected);
                let at = at.unwrap_or(found.len().min(expected.len()));
                let there = |positions: &[Option<_>]| pair(positions.get(at).and_then(Option::as_ref));
                format!("after move {at}: found {:?}, expected {:?}", there(found), there(expected))
            }
            (Self::Pairs(found), Self::Pairs(expected)) => {
                let at = found.iter().zip(expected).position(|(found, expected)| found != expected);
                let at = at.unwrap_or(found.len().min(expected.len()));
                let counts = (found.len(), expected.len());
                let (found, expected) = (pair(found.get(at)), pair(expected.get(at)));
                format!("{counts:?} pairs, at {at}: found {found:?}, expected {expected:?}")
            }
            (Self::Transaction(found, committed), Self::Transaction(expected, commits)) => {
                match found.iter().zip(expected).position(|(found, expected)| found != expected) {
                    Some(at) => format!("action {at}: {}", found[at].difference(&expected[at])),
                    None => format!("{} actions, committed: {committed}, expected {commits}", found.len()),
                }
            }
            _ => "an answer of another kind".into(),
        }
    }
}

/// Keys of several shapes: short keys, keys with long shared prefixes, some very long keys, and the empty key.
pub fn key(number: Key) -> Vec<u8> {
    match number % 16 {
        0 if number == 0 => Vec::new(),
        1 => format!("https://example.invalid/a/long/common/path/{number:08}").into_bytes(),
        2 if number % 97 == 2 => vec![number as u8; 3000 + number as usize % 500],
        3 => number.to_be_bytes().to_vec(),
        4 => vec![0xff; number as usize % 7],
        _ => format!("key{number:06}").into_bytes(),
    }
}

/// The sequence of a seed.
pub fn draw(seed: u64, length: usize) -> Vec<Drawn> {
    let mut random = Random(seed);
    let keys = [12, 150, 1500][random.below(3) as usize];
    let mut drawing = Drawing { random, keys };
    (0..length as u64).map(|id| Drawn { id, operation: drawing.operation() }).collect()
}

struct Drawing {
    random: Random,
    keys: u64,
}

impl Drawing {
    fn operation(&mut self) -> Operation {
        let which = self.random.next() as usize >> 8;
        match self.random.below(1050) {
            1000..1020 => {
                let actions = (0..self.random.below(40)).map(|_| self.action());
                let actions = actions.filter(|action| !matches!(action, Action::Save | Action::RollBack(_))).collect();
                let memory = [1, 300, 5_000, 1 << 20][self.random.below(4) as usize];
                Operation::Staged(actions, !self.random.one_in(5), memory)
            }
            1020..1035 => {
                let count = self.random.below(60);
                Operation::Ingest((0..count).map(|_| (self.key(), self.value())).collect())
            }
            1035..1038 => Operation::Checkpoint,
            1038..1050 => Operation::Follow,
            0..220 => Operation::Put(self.key(), self.value()),
            220..270 => Operation::Merge(self.key(), self.operand()),
            270..290 => Operation::MergeBatch(self.operands(), self.changes(), self.operands()),
            290..310 => Operation::Update(self.key(), self.value()),
            310..320 => {
                let expected = [Expected::Absent, Expected::Current, Expected::Some(self.value())];
                let expected = expected[self.random.below(3) as usize];
                let new = (!self.random.one_in(3)).then(|| self.value());
                Operation::CompareAndSwap(self.key(), expected, new)
            }
            320..330 => Operation::PutIfAbsent(self.key(), self.value()),
            330..360 => {
                let actions = (0..self.random.below(12)).map(|_| self.action()).collect();
                let ending = match self.random.below(8) {
                    0 => Ending::RollBack,
                    1 => Ending::Disturbed(self.key(), self.value()),
                    _ => Ending::Commit,
                };
                Operation::Transaction(actions, ending)
            }
            360..418 => Operation::Delete(self.key()),
            418..420 => Operation::Empty,
            420..510 => Operation::Batch(self.changes()),
            510..525 => Operation::DeleteRange(self.deleted()),
            525..540 => Operation::Replace(self.changes(), self.deleted(), self.changes()),
            540..620 => Operation::Get(self.key()),
            620..660 => Operation::MultiGet(self.some_keys()),
            660..685 => Operation::Snapshot,
            685..700 => Operation::DropSnapshot(which),
            700..750 => Operation::GetAt(which, self.key()),
            750..770 => Operation::MultiGetAt(which, self.some_keys()),
            770..800 => Operation::Iterate(self.random.one_in(2).then_some(which), self.bounds()),
            800..880 => Operation::Move(which, self.moves()),
            880..895 => Operation::DropIterator(which),
            895..920 => Operation::Scan(self.random.one_in(2).then_some(which), self.random.one_in(2)),
            920..925 => Operation::ReadOnly,
            925..950 => Operation::Flush,
            950..962 => Operation::Settle,
            962..970 => Operation::Sync,
            970..980 => Operation::CompactRange(self.key(), self.key()),
            980..990 => Operation::Optimize(self.key(), self.key()),
            990..993 => Operation::Compact,
            993.. => Operation::Reopen,
        }
    }

    fn action(&mut self) -> Action {
        match self.random.below(20) {
            0..4 => Action::Put(self.key(), self.value()),
            4 | 5 => Action::Merge(self.key(), self.operand()),
            6 => Action::Delete(self.key()),
            7 if self.random.one_in(2) => Action::Delete(self.key()),
            7 => Action::DeleteRange(self.deleted()),
            8..12 => Action::Get(self.key()),
            12 => Action::MultiGet(self.some_keys()),
            13 | 14 => Action::Scan(self.bounds(), self.random.one_in(2), self.random.below(40) as usize),
            15..18 => Action::Iterate(self.bounds(), self.moves()),
            18 => Action::Save,
            _ => Action::RollBack(self.random.next() as usize >> 8),
        }
    }

    fn key(&mut self) -> Key {
        // Half of the operations use a tenth of the keys.
        let keys = if self.random.one_in(2) { self.keys } else { self.keys.div_ceil(10) };
        self.random.below(keys)
    }

    fn value(&mut self) -> Value {
        let length = match self.random.below(300) {
            0 => 0,
            1 => 20_000,
            2 if self.random.one_in(4) => 270_000 + self.random.below(1000) as usize,
            3..10 => 4000,
            n => n as usize,
        };
        Value { stamp: self.random.next(), length }
    }

    fn operand(&mut self) -> Value {
        let length = if self.random.one_in(50) { 3000 } else { self.random.below(60) as usize };
        Value { stamp: self.random.next(), length }
    }

    fn operands(&mut self) -> Vec<(Key, Value)> {
        let count = self.random.below(12);
        (0..count).map(|_| (self.key(), self.operand())).collect()
    }

    fn changes(&mut self) -> Vec<(Key, Option<Value>)> {
        let count = self.random.below(25);
        (0..count).map(|_| (self.key(), (!self.random.one_in(3)).then(|| self.value()))).collect()
    }

    fn some_keys(&mut self) -> Vec<Key> {
        let count = self.random.below(20);
        (0..count).map(|_| self.key()).collect()
    }

    fn bound(&mut self) -> Bound<Key> {
        match self.random.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(self.key()),
            _ => Bound::Excluded(self.key()),
        }
    }

    fn bounds(&mut self) -> Bounds {
        match self.random.below(4) {
            0 => Bounds::Range(self.bound(), self.bound()),
            1 => Bounds::Prefix(self.key()),
            _ => Bounds::All,
        }
    }

    /// A range that is not empty. Mostly of a few keys, so that some remain.
    fn deleted(&mut self) -> Bounds {
        let (one, near) = (self.key(), self.random.below(10));
        let other = if self.random.one_in(12) { self.key() } else { one + near };
        let (lower, upper) = if key(one) <= key(other) { (one, other) } else { (other, one) };
        match self.random.below(40) {
            0 => Bounds::Range(Bound::Included(lower), Bound::Unbounded),
            1 => Bounds::Prefix(one),
            _ => Bounds::Range(Bound::Included(lower), Bound::Included(upper)),
        }
    }

    /// A start, and steps mostly in one direction.
    fn moves(&mut self) -> Vec<Move> {
        let mut moves = Vec::new();
        match self.random.below(6) {
            0 => moves.push(Move::First),
            1 => moves.push(Move::Last),
            2 => moves.push(Move::Seek(self.key())),
            3 => moves.push(Move::SeekForPrev(self.key())),
            _ => {}
        }
        let forward = self.random.one_in(2);
        for _ in 0..self.random.below(30) {
            let is_step = (self.random.below(10) < 8) == forward;
            moves.push(if is_step { Move::Step } else { Move::StepBack });
        }
        moves
    }
}
