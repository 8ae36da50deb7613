//! Iterators from both ends, over keys alone, with pinned values and after `refresh`, over ranges and prefixes of every
//! odd shape. They are compared with a model that follows the documentation of `Iter`, over memory, over files and over
//! both.

use crate::support::tiny;
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Iter, Pinned, WriteBatch};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Pair = (Vec<u8>, Vec<u8>);

#[derive(Clone, Debug)]
enum Write {
    /// The value's length; `None` is a delete.
    One(Vec<u8>, Option<usize>),
    Batch(Vec<(Vec<u8>, Option<usize>)>),
    Flush,
    Snapshot,
}

#[derive(Clone, Debug)]
enum Within {
    All,
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>),
    Prefix(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rest {
    Pairs,
    Keys,
    Pinned,
}

#[derive(Clone, Debug)]
enum Move {
    Next,
    NextBack,
    Seek(Vec<u8>),
    SeekForPrev(Vec<u8>),
    SeekFirst,
    SeekLast,
    Step,
    StepBack,
    Refresh,
    /// A write during the iteration, and an incorporation unless the data stays in memory.
    Stir(Vec<u8>),
}

/// One iterator's history: its range, whether it reads the snapshot instead of the newest data, its moves, and how the
/// rest is read. The booleans say from which side each remaining pair is taken; true is the front.
type Scan = (Within, bool, Vec<Move>, Rest, Vec<bool>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Memory,
    Files,
    Both,
}

/// Few keys, among them the empty one. They are prefixes of each other and contain the least and the greatest byte.
fn key() -> impl Strategy<Value = Vec<u8>> {
    vec(prop::sample::select(vec![0x00, b'a', b'b', 0xfe, 0xff]), 0..4)
}

fn write() -> impl Strategy<Value = Write> {
    let change = || (key(), prop::option::weighted(0.7, prop_oneof![9 => 0..40_usize, 1 => 500..3000_usize]));
    prop_oneof![
        16 => change().prop_map(|(key, length)| Write::One(key, length)),
        4 => vec(change(), 1..5).prop_map(Write::Batch),
        2 => Just(Write::Flush),
        1 => Just(Write::Snapshot),
    ]
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![key().prop_map(Bound::Included), key().prop_map(Bound::Excluded), Just(Bound::Unbounded)]
}

fn scan() -> impl Strategy<Value = Scan> {
    let within = prop_oneof![
        1 => Just(Within::All),
        3 => (bound(), bound()).prop_map(|(start, end)| Within::Range(start, end)),
        3 => key().prop_map(Within::Prefix),
    ];
    let a_move = prop_oneof![
        6 => Just(Move::Next),
        6 => Just(Move::NextBack),
        2 => key().prop_map(Move::Seek),
        2 => key().prop_map(Move::SeekForPrev),
        1 => Just(Move::SeekFirst),
        1 => Just(Move::SeekLast),
        2 => Just(Move::Step),
        2 => Just(Move::StepBack),
        1 => Just(Move::Refresh),
        1 => key().prop_map(Move::Stir),
    ];
    let rest = prop::sample::select(vec![Rest::Pairs, Rest::Keys, Rest::Pinned]);
    (within, any::<bool>(), vec(a_move, 0..20), rest, vec(any::<bool>(), 1..8))
}

impl Within {
    fn pairs(&self, model: &Model) -> Vec<Pair> {
        let has = |key: &Vec<u8>| match self {
            Self::All => true,
            Self::Range(start, end) => (start.clone(), end.clone()).contains(key),
            Self::Prefix(prefix) => key.starts_with(prefix),
        };
        model.iter().filter(|(key, _)| has(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// Position of one end of the model's iterator.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    New,
    On(usize),
    Given(usize),
    Nowhere,
}

/// An iterator as its documentation describes it.
struct Expected {
    pairs: Vec<Pair>,
    front: End,
    back: End,
}

impl Expected {
    fn new(pairs: Vec<Pair>) -> Self {
        Self { pairs, front: End::New, back: End::New }
    }

    fn place(&self, at: Option<usize>) -> End {
        at.filter(|at| *at < self.pairs.len()).map_or(End::Nowhere, End::On)
    }

    fn sought(&mut self, at: Option<usize>) {
        (self.front, self.back) = (self.place(at), End::New);
    }

    fn standing(&self) -> Option<&Pair> {
        match self.front {
            End::On(at) | End::Given(at) => Some(&self.pairs[at]),
            End::New | End::Nowhere => None,
        }
    }

    fn step(&mut self, forward: bool) {
        if let End::On(at) | End::Given(at) = self.front {
            self.front = self.place(if forward { Some(at + 1) } else { at.checked_sub(1) });
        }
    }

    fn next(&mut self) -> Option<Pair> {
        if self.back == End::Nowhere {
            return None;
        }
        match self.front {
            End::New => self.front = self.place(Some(0)),
            End::Given(_) => self.step(true),
            End::On(_) | End::Nowhere => {}
        }
        let End::On(at) = self.front else { return None };
        let left = match self.back {
            End::New => true,
            End::On(back) => at <= back,
            End::Given(back) => at < back,
            End::Nowhere => false,
        };
        left.then(|| {
            self.front = End::Given(at);
            self.pairs[at].clone()
        })
    }

    fn next_back(&mut self) -> Option<Pair> {
        if self.front == End::Nowhere {
            return None;
        }
        match self.back {
            End::New => self.back = self.place(self.pairs.len().checked_sub(1)),
            End::Given(at) => self.back = self.place(at.checked_sub(1)),
            End::On(_) | End::Nowhere => {}
        }
        let End::On(at) = self.back else { return None };
        let left = match self.front {
            End::New => true,
            End::On(front) => at >= front,
            End::Given(front) => at > front,
            End::Nowhere => false,
        };
        left.then(|| {
            self.back = End::Given(at);
            self.pairs[at].clone()
        })
    }
}

/// A store filled by the writes, a model of its contents, and an earlier snapshot with its model.
struct Filled {
    db: DeterministicDb,
    model: Model,
    old: (alluvium::Snapshot, Model),
}

impl Filled {
    fn new(writes: &[Write], place: Place) -> Self {
        let db = DeterministicDb::open_small(Arc::new(SimulatedStorage::new(1)), tiny()).unwrap();
        let old = (db.snapshot(), Model::new());
        let mut filled = Self { db, model: Model::new(), old };
        for (at, write) in writes.iter().enumerate() {
            let value = |length: &usize| vec![at as u8; *length];
            match write {
                Write::One(key, length) => filled.write(key, length.as_ref().map(value)),
                Write::Batch(changes) => {
                    let mut batch = WriteBatch::new();
                    for (key, length) in changes {
                        match length.as_ref().map(value) {
                            Some(value) => {
                                batch.put(key.clone(), value.clone());
                                filled.model.insert(key.clone(), value);
                            }
                            None => {
                                batch.delete(key.clone());
                                filled.model.remove(key);
                            }
                        }
                    }
                    filled.db.write(batch).unwrap();
                }
                Write::Flush if place == Place::Both => filled.db.flush().unwrap(),
                Write::Flush => {}
                Write::Snapshot => filled.old = (filled.db.snapshot(), filled.model.clone()),
            }
        }
        if place == Place::Files {
            filled.db.flush().unwrap();
        }
        filled
    }

    fn write(&mut self, key: &[u8], value: Option<Vec<u8>>) {
        match value {
            Some(value) => {
                self.db.put(key, &value).unwrap();
                self.model.insert(key.to_vec(), value);
            }
            None => {
                self.db.delete(key).unwrap();
                self.model.remove(key);
            }
        }
    }

    fn check(&mut self, (within, of_old, moves, rest, sides): &Scan, place: Place) -> Result<(), TestCaseError> {
        let old = &self.old.0;
        let iter = match (within, of_old) {
            (Within::All, true) => old.iter(),
            (Within::All, false) => self.db.iter(),
            (Within::Range(start, end), true) => old.range((start.clone(), end.clone())),
            (Within::Range(start, end), false) => self.db.range((start.clone(), end.clone())),
            (Within::Prefix(prefix), true) => old.prefix(prefix),
            (Within::Prefix(prefix), false) => self.db.prefix(prefix),
        };
        let mut iter = iter.unwrap();
        let mut expected = Expected::new(within.pairs(if *of_old { &self.old.1 } else { &self.model }));
        for a_move in moves {
            let first_at = |key: &Vec<u8>| expected.pairs.partition_point(|(other, _)| other < key);
            match a_move {
                Move::Next => prop_assert_eq!(iter.next().transpose().unwrap(), expected.next()),
                Move::NextBack => prop_assert_eq!(iter.next_back().transpose().unwrap(), expected.next_back()),
                Move::Seek(key) => {
                    iter.seek(key).unwrap();
                    expected.sought(Some(first_at(key)));
                }
                Move::SeekForPrev(key) => {
                    iter.seek_for_prev(key).unwrap();
                    expected.sought(expected.pairs.partition_point(|(other, _)| other <= key).checked_sub(1));
                }
                Move::SeekFirst => {
                    iter.seek_first().unwrap();
                    expected.sought(Some(0));
                }
                Move::SeekLast => {
                    iter.seek_last().unwrap();
                    expected.sought(expected.pairs.len().checked_sub(1));
                }
                Move::Step => {
                    iter.step().unwrap();
                    expected.step(true);
                }
                Move::StepBack => {
                    iter.step_back().unwrap();
                    expected.step(false);
                }
                Move::Refresh => {
                    iter.refresh().unwrap();
                    expected = Expected::new(within.pairs(&self.model));
                }
                Move::Stir(key) => {
                    self.write(key, Some(b"new".to_vec()));
                    if place != Place::Memory {
                        self.db.flush().unwrap();
                    }
                }
            }
            let standing = iter.pair().map(|(key, value)| (key.to_vec(), value.to_vec()));
            prop_assert_eq!(standing.as_ref(), expected.standing(), "after {:?}", a_move);
        }
        take_rest(iter, *rest, sides, &mut expected)
    }
}

/// A key, and its value unless only keys are read.
type Given = alluvium::Result<(Vec<u8>, Option<Vec<u8>>)>;

/// Reads the remaining pairs in the way that `rest` says, from the sides in turn.
fn take_rest(iter: Iter, rest: Rest, sides: &[bool], expected: &mut Expected) -> Result<(), TestCaseError> {
    let mut rest: Box<dyn DoubleEndedIterator<Item = Given>> = match rest {
        Rest::Pairs => Box::new(iter.map(|pair| pair.map(|(key, value)| (key, Some(value))))),
        Rest::Keys => Box::new(iter.keys().map(|key| key.map(|key| (key, None)))),
        Rest::Pinned => Box::new(iter.pinned().map(|pair| pair.map(|(key, value)| (key, Some(value.into_vec()))))),
    };
    for from_front in sides.iter().cycle() {
        let (found, wanted) =
            if *from_front { (rest.next(), expected.next()) } else { (rest.next_back(), expected.next_back()) };
        match (found.transpose().unwrap(), wanted) {
            (Some((key, value)), Some(wanted)) => {
                prop_assert_eq!(&key, &wanted.0);
                prop_assert_eq!(value.unwrap_or_else(|| wanted.1.clone()), wanted.1);
            }
            (None, None) => break,
            (found, wanted) => prop_assert_eq!(found.map(|pair| pair.0), wanted.map(|pair| pair.0)),
        }
    }
    prop_assert!(rest.next().is_none() && rest.next_back().is_none(), "an iterator whose ends met returned a pair");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: crate::support::setting("ALLUVIUM_WALKS", 150) as u32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn scans_of_every_range_agree_with_the_documentation(
        writes in vec(write(), 0..120),
        scans in vec(scan(), 1..8),
    ) {
        for place in [Place::Memory, Place::Files, Place::Both] {
            let mut filled = Filled::new(&writes, place);
            for scan in &scans {
                filled.check(scan, place).map_err(|error| TestCaseError::fail(format!("{place:?}, {scan:?}: {error}")))?;
            }
        }
    }
}

/// `refresh` releases the old snapshot: its pin, and the versions that only it needed.
#[test]
fn a_refreshed_iterator_releases_its_old_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    db.put("a", "old").unwrap();
    let mut iter = db.range("a".."c").unwrap();
    iter.seek("a").unwrap();
    db.put("a", "new").unwrap();
    db.put("b", "new").unwrap();
    db.put("c", "outside").unwrap();
    assert_eq!((iter.value(), db.stats().snapshots), (Some(&b"old"[..]), 1));
    iter.refresh().unwrap();
    assert_eq!((iter.valid(), iter.key(), iter.value(), db.stats().snapshots), (false, None, None, 1));
    let pairs: Vec<Pair> = iter.by_ref().map(Result::unwrap).collect();
    assert_eq!(pairs, [(b"a".to_vec(), b"new".to_vec()), (b"b".to_vec(), b"new".to_vec())]);
    db.close().unwrap();
    assert!(matches!(iter.refresh(), Err(alluvium::Error::Closed)));
}

/// A pinned value stays valid whatever could remove its page.
#[test]
fn a_pinned_value_outlives_eviction_its_file_and_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let key = |number: u32| format!("key{number:04}");
    for number in 0..400 {
        db.put(key(number), vec![number as u8; 1000]).unwrap();
    }
    db.flush().unwrap();
    let snapshot = db.snapshot();
    // The first read brings each page into the cache.
    let pinned: Vec<Pinned> = (0..400).map(|number| db.get_pinned(key(number)).unwrap().unwrap()).collect();
    let scanned: Vec<Pinned> = snapshot.iter().unwrap().pinned().map(|pair| pair.unwrap().1).collect();
    let backward: Vec<Pinned> = db.iter().unwrap().pinned().rev().map(|pair| pair.unwrap().1).collect();
    assert!(pinned.iter().all(Pinned::is_held));
    assert!(scanned.iter().chain(&backward).any(Pinned::is_held));
    assert_eq!(snapshot.get_pinned("key").unwrap(), None);
    drop(snapshot);
    for round in 0..5_u8 {
        for number in 0..400 {
            db.put(key(number), vec![round; 900]).unwrap();
        }
        db.compact().unwrap();
    }
    assert_eq!(*db.get_pinned(key(7)).unwrap().unwrap(), [4; 900]);
    db.close().unwrap();
    drop(directory);
    let others = std::thread::spawn(move || {
        for (number, value) in pinned.iter().enumerate() {
            assert_eq!(**value, [number as u8; 1000]);
            assert_eq!((value, value), (&scanned[number], &backward[399 - number]));
        }
    });
    others.join().unwrap();
}

/// Values that are in no page, or that would hold too much of one, are copied. `get_pinned` always agrees with `get`,
/// also between gets that put values into the item cache.
#[test]
fn pinned_gets_agree_with_gets() {
    let storage = Arc::new(SimulatedStorage::new(3));
    let db = DeterministicDb::open_small(storage, tiny().memory_budget(1 << 20)).unwrap();
    let mut random = crate::support::Random(3);
    let key = |number: u64| format!("key{number:04}");
    for round in 0..2_000 {
        let number = random.below(1500);
        match random.below(600) {
            0..50 => db.delete(key(number)).unwrap(),
            50 => db.put(key(number), random.bytes(300 << 10)).unwrap(),
            _ => db.put(key(number), vec![round as u8; random.below(900) as usize]).unwrap(),
        }
        if round % 500 == 499 {
            db.flush().unwrap();
            db.put(key(3), random.bytes(700)).unwrap();
            let small = db.get_pinned(key(3)).unwrap().unwrap();
            assert!(!small.is_held(), "a new value is in memory, but the pinned one holds a page");
            let mut held = 0;
            for number in (0..1500).chain(0..1500) {
                let got = if random.one_in(2) { db.get(key(number)).unwrap() } else { None };
                let pinned = db.get_pinned(key(number)).unwrap();
                let got = got.or_else(|| db.get(key(number)).unwrap());
                held += u32::from(pinned.as_ref().is_some_and(Pinned::is_held));
                let short = pinned.as_ref().is_some_and(|pinned| pinned.len() < 4096 / 16 && pinned.is_held());
                assert!(!short, "a page is held for a small value");
                assert_eq!(pinned.map(Pinned::into_vec), got, "{number} in round {round}");
            }
            assert!(held > 0);
        }
    }
}
