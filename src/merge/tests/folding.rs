//! Operands and range tombstones among versions: every reader sees the same before and after passes, and scans show the
//! result of replaying the writes in order.

use super::{Random, sorted};
use crate::merge::operator::{MergeOperator, MergeOperators};
use crate::merge::vec_cursor::{VecCursor, VecEntry};
use crate::merge::{
    EntryRef, MergeCursor, RangeTombstone, RangeTombstones, Retention, Values, VersionFilter, VisibleCursor,
};
use crate::util::sync::Arc;
use crate::util::{Kind, SequenceNumber};
use std::collections::BTreeMap;

/// Appends operands to the value: the result shows lost, repeated and reordered operands.
struct Append {
    joins: bool,
}

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(base.unwrap_or(b"^"));
        operands.iter().for_each(|operand| out.extend_from_slice(operand));
        Ok(())
    }

    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(older);
        out.extend_from_slice(newer);
        self.joins
    }
}

/// Rejects everything. Then nothing may be lost.
struct Refuse;

impl MergeOperator for Refuse {
    fn name(&self) -> &str {
        "refuse"
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(b"half a value");
        Err("never".into())
    }
}

fn operators() -> [Arc<MergeOperators>; 4] {
    [Arc::default(), of(Refuse), of(Append { joins: false }), of(Append { joins: true })]
}

fn of(operator: impl MergeOperator) -> Arc<MergeOperators> {
    MergeOperators::new(Some(Arc::new(operator)))
}

/// Entries in order, and their range tombstones.
#[derive(Clone, Debug, Default, PartialEq)]
struct Data {
    entries: Vec<VecEntry>,
    tombstones: RangeTombstones,
}

impl Data {
    fn of(entries: Vec<VecEntry>, deletions: impl IntoIterator<Item = RangeTombstone>) -> Self {
        Self { entries: sorted(entries), tombstones: RangeTombstones::new(deletions) }
    }

    fn joined<'a>(parts: impl IntoIterator<Item = &'a Data> + Clone) -> Self {
        let entries = parts.clone().into_iter().flat_map(|data| data.entries.clone()).collect();
        let tombstones = RangeTombstones::union(parts.into_iter().map(|data| &data.tombstones));
        Self { entries: sorted(entries), tombstones }
    }

    fn passed(&self, pins: &[u64], bottom: bool, operators: &MergeOperators) -> Self {
        let retention = Retention::new(pins.iter().copied().map(SequenceNumber).collect());
        let filter = VersionFilter::new(&retention, bottom).with_operators(Some(operators));
        let mut filter = filter.with_tombstones(&self.tombstones);
        let mut entries = Vec::new();
        let mut keep = |entry: EntryRef<'_>| {
            entries.push(VecEntry::from(entry));
            Ok(())
        };
        self.entries.iter().for_each(|entry| filter.push(entry.as_ref(), &mut keep).unwrap());
        filter.finish(&mut keep).unwrap();
        assert!(entries.is_sorted_by(|one, other| one.as_ref().order(&other.key, other.number).is_lt()));
        Self { entries, tombstones: self.tombstones.retained(&retention, bottom) }
    }

    /// The result of replaying the writes in order, at a snapshot.
    fn played(&self, at: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut view: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut writes: Vec<(u64, Option<&VecEntry>)> =
            self.entries.iter().map(|entry| (entry.number.0, Some(entry))).collect();
        // Of the writes with one number, the range tombstone comes first.
        writes.extend(self.tombstones.numbers().into_iter().map(|number| (number.0, None)));
        writes.sort_by_key(|(number, entry)| (*number, entry.is_some()));
        for (number, write) in writes.into_iter().filter(|(number, _)| *number <= at) {
            let Some(entry) = write else {
                view.retain(|key, _| !self.tombstones.over(key).contains(&SequenceNumber(number)));
                continue;
            };
            match entry.kind {
                Kind::Put => drop(view.insert(entry.key.clone(), entry.value.clone())),
                Kind::Delete => drop(view.remove(&entry.key)),
                Kind::Merge => {
                    view.entry(entry.key.clone()).or_insert_with(|| b"^".to_vec()).extend_from_slice(&entry.value);
                }
                other => unreachable!("{other:?}"),
            }
        }
        view
    }

    fn cursor(&self, at: u64) -> VisibleCursor<VecCursor> {
        let inner = VecCursor::new(self.entries.clone()).with_tombstones(self.tombstones.clone());
        VisibleCursor::new(inner, SequenceNumber(at), Vec::new(), None).masked(!self.tombstones.is_empty())
    }
}

/// Asserts that the cursor, with this need for values, is on the pair.
fn assert_pair<C: crate::merge::Cursor>(cursor: &VisibleCursor<C>, values: Values, expected: &(Vec<u8>, Vec<u8>)) {
    match values {
        Values::Borrowed => assert_eq!(pair(cursor), *expected),
        Values::Pinned if cursor.entry().kind == Kind::Put && cursor.operands().is_empty() => {
            let held = cursor.pin_value().expect("every value of a vector can be pinned");
            assert_eq!((cursor.entry().key, &*held), (&expected.0[..], &expected.1[..]));
        }
        Values::Pinned => assert_eq!(pair(cursor), *expected),
        Values::Skipped => assert_eq!(cursor.entry().key, expected.0),
    }
}

/// The pair that a visible cursor is on.
fn pair<C: crate::merge::Cursor>(cursor: &VisibleCursor<C>) -> (Vec<u8>, Vec<u8>) {
    let entry = cursor.entry();
    let mut value = if entry.kind == Kind::Delete { b"^".to_vec() } else { entry.value.to_vec() };
    assert!(entry.kind == Kind::Put || entry.kind == Kind::Delete && !cursor.operands().is_empty());
    cursor.operands().iter().for_each(|operand| value.extend_from_slice(operand));
    (entry.key.to_vec(), value)
}

fn assert_same(before: &Data, after: &Data, pins: &[u64]) {
    for at in pins.iter().copied().chain([SequenceNumber::MAX.0]) {
        assert_eq!(before.played(at), after.played(at), "at {at} with pins {pins:?}: {before:?} became {after:?}");
    }
}

/// All histories of one key with numbers up to `last`: at each number nothing, a put, a tombstone, an operand or a
/// range tombstone.
fn chains(last: u32) -> impl Iterator<Item = Data> {
    (0..5_u32.pow(last)).map(move |code| {
        let (mut entries, mut deletions) = (Vec::new(), Vec::new());
        for number in 1..=last {
            let kind = match code / 5_u32.pow(number - 1) % 5 {
                0 => continue,
                1 => Kind::Put,
                2 => Kind::Delete,
                3 => Kind::Merge,
                _ => {
                    let (start, end) = (b"key".to_vec(), b"kez".to_vec());
                    deletions.push(RangeTombstone { start, end, number: SequenceNumber(number.into()) });
                    continue;
                }
            };
            let value = if kind == Kind::Delete { String::new() } else { number.to_string() };
            entries.push(VecEntry::new("key", number.into(), kind, value));
        }
        Data::of(entries, deletions)
    })
}

fn members(bits: u32) -> Vec<u64> {
    (0..32).filter(|bit| bits >> bit & 1 == 1).collect()
}

#[test]
fn one_pass_over_every_small_chain_changes_no_answer() {
    for chain in chains(4) {
        for bits in 0..1 << 6 {
            let pins = members(bits);
            for (bottom, operator) in [false, true].into_iter().flat_map(|bottom| operators().map(|one| (bottom, one)))
            {
                assert_same(&chain, &chain.passed(&pins, bottom, &operator), &pins);
            }
        }
    }
}

/// Without snapshots, at the bottom, with an operator, one put remains for each live key and nothing else.
#[test]
fn the_bottom_without_snapshots_has_only_live_keys() {
    for chain in chains(5) {
        for joins in [false, true] {
            let whole = chain.passed(&[], true, &of(Append { joins }));
            assert!(whole.tombstones.is_empty() && whole.entries.iter().all(|entry| entry.kind == Kind::Put));
            assert_eq!(whole.entries.len(), chain.played(9).len(), "{chain:?} became {whole:?}");
        }
    }
}

/// Above the bottom, operands are folded unless a reader lies between them: at most one version of a key remains for
/// each reader.
#[test]
fn no_more_versions_remain_than_there_are_readers() {
    for chain in chains(5) {
        for pins in [vec![], vec![2], vec![2, 3]] {
            let passed = chain.passed(&pins, false, &of(Append { joins: true }));
            assert!(passed.entries.len() <= pins.len() + 1, "pins {pins:?}: {chain:?} became {passed:?}");
        }
    }
}

/// Two bundles of adjacent age are filtered separately, the older one perhaps at the bottom. Then snapshots are
/// released and taken (new ones only at or above every existing number), then both bundles are filtered together.
#[test]
fn partial_passes_and_then_a_full_pass_change_no_answer() {
    for (count, chain) in chains(4).enumerate() {
        let operator = &operators()[count % 4];
        for (first_bits, split, old_bottom) in
            (0..1 << 5).flat_map(|bits| (1..4).flat_map(move |split| [(bits, split, false), (bits, split, true)]))
        {
            let first = members(first_bits);
            let part = |newer: bool| {
                let own = |number: SequenceNumber| (number.0 > split) == newer;
                let entries = chain.entries.iter().filter(|entry| own(entry.number)).cloned().collect();
                Data::of(entries, chain.tombstones.deletions().filter(|deletion| own(deletion.number)))
            };
            let (new, old) = (part(true), part(false));
            let parts = [new.passed(&first, false, operator), old.passed(&first, old_bottom, operator)];
            let both = Data::joined(&parts);
            assert_same(&chain, &both, &first);
            for second_bits in [0, 1 << 4, 1 << 5, first_bits] {
                let second = members(second_bits);
                assert_same(&chain, &both, &second);
                assert_same(&chain, &both.passed(&second, true, operator), &second);
            }
        }
    }
}

/// Random writes under consecutive numbers.
fn writes(random: &mut Random, last: &mut u64, count: u64, space: u64) -> Data {
    let (mut entries, mut deletions) = (Vec::new(), Vec::new());
    for _ in 0..count {
        *last += 1;
        let kind = match random.below(10) {
            0..3 => Kind::Put,
            3 => Kind::Delete,
            4..8 => Kind::Merge,
            _ => {
                let (start, end) = (random.key(space), random.key(16));
                deletions.push(RangeTombstone { start, end, number: SequenceNumber(*last) });
                continue;
            }
        };
        let value = if kind == Kind::Delete { String::new() } else { format!("{last},") };
        entries.push(VecEntry::new(random.key(space), *last, kind, value));
    }
    Data::of(entries, deletions)
}

/// A long history: writes arrive, snapshots are taken and released, any run of adjacent bundles is filtered.
#[test]
fn a_long_history_of_bundles_changes_no_answer() {
    for seed in 0..80 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let operator = &operators()[seed as usize % 4];
        let mut all = Data::default();
        // Oldest first.
        let mut bundles: Vec<Data> = Vec::new();
        let mut pins: Vec<u64> = Vec::new();
        let mut last = 0;
        for _ in 0..50 {
            match random.below(4) {
                0 => {
                    let count = random.below(12);
                    let memory = writes(&mut random, &mut last, count, 5);
                    all = Data::joined([&all, &memory]);
                    bundles.push(memory.passed(&pins, bundles.is_empty(), operator));
                }
                1 => pins.push(last),
                2 if !pins.is_empty() => drop(pins.swap_remove(random.below(pins.len() as u64) as usize)),
                _ if !bundles.is_empty() => {
                    let from = random.below(bundles.len() as u64) as usize;
                    let to = from + 1 + random.below((bundles.len() - from) as u64) as usize;
                    // A snapshot may be in progress; then ZERO is a pin.
                    let mut taken = pins.clone();
                    if random.below(8) == 0 {
                        taken.push(0);
                    }
                    let merged = Data::joined(&bundles[from..to]).passed(&taken, from == 0, operator);
                    bundles.splice(from..to, [merged]);
                }
                _ => {}
            }
            assert_same(&all, &Data::joined(&bundles), &pins);
        }
    }
}

/// Scans in both directions over several sources, each with its own range tombstones, against the replayed writes.
#[test]
fn random_scans_show_what_was_written() {
    for seed in 0..1500 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let (mut last, sources, space) = (0, random.below(3) + 1, random.below(16) + 1);
        let count = random.below(60);
        let parts: Vec<Data> = (0..sources).map(|_| writes(&mut random, &mut last, count, space)).collect();
        let whole = Data::joined(&parts);
        let at = random.number(last + 1);
        let model: Vec<(Vec<u8>, Vec<u8>)> = whole.played(at.0).into_iter().collect();
        let cursor = |data: &Data| VecCursor::new(data.entries.clone()).with_tombstones(data.tombstones.clone());
        // Newest first.
        let merge = MergeCursor::new(parts.iter().rev().map(cursor).collect());
        let values = [Values::Borrowed, Values::Pinned, Values::Skipped][seed as usize % 3];
        let mut cursor = VisibleCursor::new(merge, at, Vec::new(), None).masked(true).wanting(values);
        let mut stands: Option<usize> = None;
        for _ in 0..60 {
            let key = random.key(16);
            let within = |at: usize| (at < model.len()).then_some(at);
            (stands, _) = match (random.below(8), stands) {
                (0, _) => (within(0), cursor.seek_first().unwrap()),
                (1, _) => (model.len().checked_sub(1), cursor.seek_last().unwrap()),
                (2..5, Some(at)) => (within(at + 1), cursor.next().unwrap()),
                (5..8, Some(at)) => (at.checked_sub(1), cursor.prev().unwrap()),
                (odd, _) if odd % 2 == 1 => {
                    (within(model.partition_point(|pair| pair.0 < key)), cursor.seek(&key).unwrap())
                }
                _ => (model.partition_point(|pair| pair.0 <= key).checked_sub(1), cursor.seek_for_prev(&key).unwrap()),
            };
            assert_eq!(cursor.valid(), stands.is_some());
            if let Some(at) = stands {
                assert_pair(&cursor, values, &model[at]);
            }
        }
    }
}

/// A counter with many operands under one key: one step for each, in both directions.
#[test]
fn many_operands_are_gathered_both_ways() {
    let operand = |number| VecEntry::new("b", number, Kind::Merge, format!("{number},"));
    let mut entries: Vec<_> = (10..500).map(operand).collect();
    entries.extend([VecEntry::new("b", 9, Kind::Put, "base,"), VecEntry::new("a", 1, Kind::Put, "a")]);
    let data = Data::of(entries, []);
    for at in [400, 1000] {
        let expected = data.played(at).remove(&b"b"[..]).unwrap();
        let mut cursor = data.cursor(at);
        cursor.seek_last().unwrap();
        assert_eq!(pair(&cursor).1, expected);
        cursor.prev().unwrap();
        cursor.next().unwrap();
        assert_eq!(pair(&cursor).1, expected);
        cursor.prev().unwrap();
        assert_eq!(pair(&cursor).1, b"a");
    }
}
