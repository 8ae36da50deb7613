//! Checks a store after a power cut against the ledger (promise 5).
//!
//! 1. For each writer the store holds exactly a prefix of its writes, and no batch in part.
//! 2. The prefix has every write that was reported as durable.
//! 3. All writers share one prefix of the sequence order. Sequence numbers follow time: a write must not survive if it
//!    began after a lost write had returned, or if its writer had read a lost write. The common key, which all writers
//!    write, has the value of a write that returned after every surviving write of that key had begun.

use super::ledger::{Ledger, WRITERS, unpack};
use super::writer::{COMMON, Write, decode_common};
use alluvium::Db;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The contents that the store must have before the round's writes.
#[derive(Default)]
pub struct Judge {
    seed: u64,
    models: [Model; WRITERS],
    common: Option<(usize, u64)>,
}

/// The counts of one round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    /// Writes that had returned.
    pub acknowledged: u64,
    /// The lost writes among them.
    pub lost: u64,
}

impl Judge {
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Panics if a rule is broken. Otherwise the contents of the store become the base of the next round. With
    /// `kept_all` every write that returned must be there.
    pub fn judge(&mut self, db: &Db, ledger: &Ledger, kept_all: bool) -> Verdict {
        let mut found: Model = db.iter().unwrap().map(|pair| pair.unwrap()).collect();
        let common = found.remove(COMMON).map(|value| decode_common(&value).unwrap());
        let mut verdict = Verdict::default();
        let kept: Vec<RangeInclusive<u64>> = (0..WRITERS)
            .map(|writer| {
                let prefix = format!("writer{writer}-").into_bytes();
                let of_writer: Model = found.extract_if(.., |key, _| key.starts_with(&prefix)).collect();
                self.prefix(ledger, writer, &of_writer)
            })
            .collect();
        assert!(found.is_empty(), "keys that no writer wrote: {:?}", found.keys());
        for (writer, kept) in kept.iter().enumerate() {
            let (synced, acknowledged) = (ledger.synced(writer), ledger.acknowledged(writer));
            let acknowledged = acknowledged.load(Ordering::Acquire);
            let promised = if kept_all { acknowledged } else { synced.load(Ordering::Acquire) };
            assert!(
                *kept.end() >= promised,
                "writer {writer}: the store holds its writes up to {kept:?}, {promised} were promised"
            );
            verdict.acknowledged += acknowledged - ledger.before(writer).load(Ordering::Acquire);
            verdict.lost += acknowledged.saturating_sub(*kept.end());
        }
        check_order(ledger, &kept);
        self.check_common(ledger, &kept, common);
        self.common = common;
        verdict
    }

    /// How many of a writer's writes the store holds. There are several answers if the last writes change nothing (such
    /// as the delete of an absent key). Leaves the model in that state.
    fn prefix(&mut self, ledger: &Ledger, writer: usize, found: &Model) -> RangeInclusive<u64> {
        let model = &mut self.models[writer];
        let wanted = found.iter().fold(0, |sum, pair| sum ^ hash(pair));
        let mut sum = model.iter().fold(0, |sum, pair| sum ^ hash(pair));
        let before = ledger.before(writer).load(Ordering::Acquire);
        let mut kept = None;
        let mut state = model.clone();
        for count in before..=ledger.last(writer) {
            if count > before {
                for (key, value) in Write::new(self.seed, writer, count).operations {
                    if key != COMMON {
                        sum ^= change(&mut state, key, value);
                    }
                }
            }
            if sum != wanted {
                continue;
            }
            match &mut kept {
                None if state == *found => {
                    *model = state.clone();
                    kept = Some(count..=count);
                }
                None => {}
                Some(kept) => *kept = *kept.start()..=count,
            }
        }
        kept.unwrap_or_else(|| {
            panic!(
                "writer {writer}: the store equals no prefix of the writes {before}..={}; {}",
                ledger.last(writer),
                difference(found, &state)
            )
        })
    }

    fn check_common(&self, ledger: &Ledger, kept: &[RangeInclusive<u64>], found: Option<(usize, u64)>) {
        let before = |writer: usize| ledger.before(writer).load(Ordering::Acquire);
        // For each writer, its newest write of the round to the common key that certainly survived.
        let mut newest = (0..WRITERS).filter_map(|writer| {
            let mut counts = (before(writer) + 1..=*kept[writer].start()).rev();
            Some((writer, counts.find(|count| Write::new(self.seed, writer, *count).is_common())?))
        });
        let Some((by, count)) = found else {
            assert!(self.common.is_none() && newest.count() == 0, "the common key is gone");
            return;
        };
        if count <= before(by) {
            assert!(self.common == found, "the common key has an old value: {found:?} instead of {:?}", self.common);
            if let Some((writer, newest)) = newest.next() {
                panic!(
                    "the common key has {found:?} of an earlier round, but write {newest} of writer {writer} survived"
                );
            }
            return;
        }
        assert!(count <= *kept[by].end(), "the common key has {found:?}, but only {:?} survived", kept[by]);
        let ended = ledger.ended(by, count).load(Ordering::Acquire);
        for (writer, newest) in newest {
            let started = ledger.started(writer, newest).load(Ordering::Acquire);
            assert!(
                ended == 0 || started < ended,
                "the common key has {found:?}, which returned before write {newest} of {writer} began; that one survived"
            );
        }
    }
}

/// Point 3 of the module documentation, without the common key.
fn check_order(ledger: &Ledger, kept: &[RangeInclusive<u64>]) {
    let newest = (0..WRITERS)
        .filter(|writer| *kept[*writer].start() > ledger.before(*writer).load(Ordering::Acquire))
        .map(|writer| (ledger.started(writer, *kept[writer].start()).load(Ordering::Acquire), writer))
        .max();
    for (writer, kept_of_writer) in kept.iter().enumerate() {
        let lost = *kept_of_writer.end() + 1;
        if lost <= ledger.acknowledged(writer).load(Ordering::Acquire)
            && let Some((started, by)) = newest
        {
            let ended = ledger.ended(writer, lost).load(Ordering::Acquire);
            assert!(
                ended > started,
                "a hole: write {lost} of writer {writer} returned at {ended} and is lost, but write {} of writer {by}, \
                 which began at {started}, survived",
                kept[by].start()
            );
        }
        for count in ledger.before(writer).load(Ordering::Acquire) + 1..=*kept_of_writer.start() {
            let observed = unpack(ledger.observed(writer, count).load(Ordering::Acquire));
            assert!(
                observed.is_none_or(|(of, seen)| seen <= *kept[of].end()),
                "a hole: write {count} of writer {writer} survived, but not {observed:?}, which it had read"
            );
        }
    }
}

fn hash(pair: (&Vec<u8>, &Vec<u8>)) -> u64 {
    let mut hasher = DefaultHasher::new();
    pair.hash(&mut hasher);
    hasher.finish()
}

/// Applies an operation. Returns the change of the combined hash.
fn change(model: &mut Model, key: Vec<u8>, value: Option<Vec<u8>>) -> u64 {
    let old = match &value {
        Some(value) => model.insert(key.clone(), value.clone()),
        None => model.remove(&key),
    };
    old.map_or(0, |old| hash((&key, &old))) ^ value.map_or(0, |value| hash((&key, &value)))
}

/// Some differences between two maps, shortened.
fn difference(found: &Model, state: &Model) -> String {
    let short =
        |value: Option<&Vec<u8>>| value.map(|value| (value.len(), u64::from_le_bytes(value[..8].try_into().unwrap())));
    let mut keys: Vec<_> = found.keys().chain(state.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let differing = keys.into_iter().filter(|key| found.get(*key) != state.get(*key)).take(5);
    let lines: Vec<String> = differing
        .map(|key| {
            let key_text = String::from_utf8_lossy(key);
            format!("{key_text}: found {:?}, after all writes {:?}", short(found.get(key)), short(state.get(key)))
        })
        .collect();
    lines.join("; ")
}
