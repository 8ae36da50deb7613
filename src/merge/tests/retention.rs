//! Retention against its purpose: every reader sees the same before and after, in one pass and in many.

use super::{Random, sorted};
use crate::merge::vec_cursor::{VecCursor, VecEntry};
use crate::merge::{EntryRef, Retention, VersionFilter, VisibleCursor};
use crate::util::{Kind, SequenceNumber};

fn filtered(entries: &[VecEntry], pins: &[u64], bottom: bool) -> Vec<VecEntry> {
    let retention = Retention::new(pins.iter().copied().map(SequenceNumber).collect());
    let mut filter = VersionFilter::new(&retention, bottom);
    let mut kept = Vec::new();
    let mut keep = |entry: EntryRef<'_>| {
        kept.push(VecEntry::from(entry));
        Ok(())
    };
    entries.iter().for_each(|entry| filter.push(entry.as_ref(), &mut keep).unwrap());
    filter.finish(&mut keep).unwrap();
    kept
}

/// What a reader at `at` sees: number and value of each live key.
fn seen(entries: &[VecEntry], at: SequenceNumber) -> Vec<VecEntry> {
    let mut cursor = VisibleCursor::new(VecCursor::new(entries.to_vec()), at, Vec::new(), None);
    let mut seen = Vec::new();
    cursor.seek_first().unwrap();
    while cursor.valid() {
        seen.push(cursor.entry().into());
        cursor.next().unwrap();
    }
    seen
}

/// As `seen`, for the entries of one key, without a cursor.
fn seen_of_key(versions: &[VecEntry], at: u64) -> Option<&VecEntry> {
    versions.iter().find(|entry| entry.number.0 <= at).filter(|entry| entry.kind != Kind::Delete)
}

fn assert_same_of_key(before: &[VecEntry], after: &[VecEntry], pins: &[u64]) {
    for at in pins.iter().copied().chain([u64::MAX]) {
        let (was, is) = (seen_of_key(before, at), seen_of_key(after, at));
        assert_eq!(was, is, "at {at} with pins {pins:?}: {before:?} became {after:?}");
    }
}

fn assert_same(before: &[VecEntry], after: &[VecEntry], pins: &[u64]) {
    for at in pins.iter().copied().map(SequenceNumber).chain([SequenceNumber::MAX]) {
        assert_eq!(seen(before, at), seen(after, at), "at {at} with pins {pins:?}: {before:?} became {after:?}");
    }
}

fn members(bits: u32) -> impl Iterator<Item = u64> {
    (0..32).filter(move |bit| bits >> bit & 1 == 1)
}

/// All histories of one key with numbers up to `last`: each number is absent, a put or a tombstone.
fn chains(last: u32) -> impl Iterator<Item = Vec<VecEntry>> {
    (0..3_u32.pow(last)).map(move |code| {
        let digit = |number: u32| code / 3_u32.pow(number - 1) % 3;
        let versions = (1..=last).rev().filter_map(|number| match digit(number) {
            0 => None,
            1 => Some(VecEntry::new("key", number.into(), Kind::Put, format!("{number}"))),
            _ => Some(VecEntry::new("key", number.into(), Kind::Delete, "")),
        });
        versions.collect()
    })
}

#[test]
fn one_pass_over_every_small_chain_changes_no_answer() {
    for chain in chains(5) {
        for bits in 0..1 << 7 {
            let pins: Vec<u64> = members(bits).collect();
            for bottom in [false, true] {
                assert_same_of_key(&chain, &filtered(&chain, &pins, bottom), &pins);
            }
        }
    }
}

/// Exactly the versions that the rule requires are retained. The rule is stated here with plain loops.
#[test]
fn one_pass_retains_exactly_what_the_rule_says() {
    for chain in chains(5) {
        for bits in 0..1 << 7 {
            let pins: Vec<u64> = members(bits).collect();
            for bottom in [false, true] {
                let mut expected = Vec::new();
                for (index, entry) in chain.iter().enumerate() {
                    let newer = index.checked_sub(1).map(|index| chain[index].number.0);
                    let wanted = newer.is_none_or(|newer| pins.iter().any(|&pin| entry.number.0 <= pin && pin < newer));
                    let dead = bottom && entry.kind == Kind::Delete && !pins.iter().any(|&pin| pin < entry.number.0);
                    if pins.contains(&0) || wanted && !dead {
                        expected.push(entry.clone());
                    }
                }
                assert_eq!(filtered(&chain, &pins, bottom), expected, "pins {pins:?} bottom {bottom}");
            }
        }
    }
}

/// Two bundles of adjacent age are filtered separately, the older one perhaps at the bottom. Then snapshots are
/// released and taken (new ones only at or above every existing number), then both bundles are filtered together.
#[test]
fn partial_passes_and_then_a_full_pass_change_no_answer() {
    for chain in chains(4) {
        for (first_bits, split, old_bottom) in
            (0..1 << 6).flat_map(|bits| (1..4).flat_map(move |split| [(bits, split, false), (bits, split, true)]))
        {
            let first: Vec<_> = members(first_bits).collect();
            let (new, old): (Vec<_>, Vec<_>) = chain.iter().cloned().partition(|entry| entry.number.0 > split);
            let mut parts = filtered(&new, &first, false);
            parts.extend(filtered(&old, &first, old_bottom));
            assert_same_of_key(&chain, &parts, &first);
            // A snapshot taken after the first passes is at or above all of their numbers: 4 or 5.
            for second_bits in (0..1 << 6).filter(|bits| bits & !first_bits & 0b1111 == 0) {
                let second: Vec<_> = members(second_bits).collect();
                assert_same_of_key(&chain, &parts, &second);
                assert_same_of_key(&chain, &filtered(&parts, &second, true), &second);
            }
        }
    }
}

/// A long history: versions arrive, snapshots are taken and released, any run of adjacent bundles is merged. The model
/// keeps every version ever written. Each live snapshot and the newest reader must see the same in both.
#[test]
fn a_long_history_of_bundles_changes_no_answer() {
    for seed in 0..100 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut all: Vec<VecEntry> = Vec::new();
        // Oldest first.
        let mut bundles: Vec<Vec<VecEntry>> = Vec::new();
        let mut pins: Vec<u64> = Vec::new();
        let mut last = 0;
        for _ in 0..60 {
            match random.below(4) {
                0 => {
                    let mut memory = Vec::new();
                    for _ in 0..random.below(12) {
                        last += 1;
                        let kind = random.kind();
                        memory.push(VecEntry::new(random.key(5), last, kind, format!("{last}")));
                    }
                    all.extend(memory.iter().cloned());
                    bundles.push(filtered(&sorted(memory), &pins, bundles.is_empty()));
                }
                1 => pins.push(last),
                2 if !pins.is_empty() => {
                    let index = random.below(pins.len() as u64) as usize;
                    pins.swap_remove(index);
                }
                _ if !bundles.is_empty() => {
                    let from = random.below(bundles.len() as u64) as usize;
                    let to = from + 1 + random.below((bundles.len() - from) as u64) as usize;
                    let merged = sorted(bundles[from..to].concat());
                    // A snapshot may be in progress; then ZERO is a pin.
                    let mut taken = pins.clone();
                    if random.below(8) == 0 {
                        taken.push(0);
                    }
                    bundles.splice(from..to, [filtered(&merged, &taken, from == 0)]);
                }
                _ => {}
            }
            assert_same(&sorted(all.clone()), &sorted(bundles.concat()), &pins);
        }
        let whole = filtered(&sorted(bundles.concat()), &[], true);
        assert_eq!(
            whole,
            seen(&sorted(all), SequenceNumber::MAX),
            "without snapshots more than the live versions remain"
        );
    }
}

#[test]
fn unexpected_kinds_are_retained_with_everything_older() {
    let chain = [
        VecEntry::new("a", 5, Kind::Put, "5"),
        VecEntry::new("a", 4, Kind::Batch, "4"),
        VecEntry::new("a", 3, Kind::Delete, ""),
        VecEntry::new("a", 2, Kind::Put, "2"),
        VecEntry::new("b", 2, Kind::Delete, ""),
        VecEntry::new("b", 1, Kind::Put, "1"),
    ];
    assert_eq!(filtered(&chain, &[], true), chain[..4]);
}

#[test]
fn the_empty_key_and_repeated_entries() {
    let chain = [
        VecEntry::new("", 2, Kind::Put, "newer source"),
        VecEntry::new("", 2, Kind::Put, "older source"),
        VecEntry::new("", 1, Kind::Put, "1"),
    ];
    assert_eq!(filtered(&chain, &[2], false), chain[..1]);
    assert_eq!(filtered(&chain, &[1], false), [chain[0].clone(), chain[2].clone()]);
}
