//! Range tombstones against a plain list of deletions.

use super::Random;
use crate::merge::{RangeTombstone, RangeTombstones, Retention};
use crate::util::SequenceNumber;

fn random(random: &mut Random, count: u64) -> Vec<RangeTombstone> {
    let deletion = |_| {
        let number = SequenceNumber(random.below(9) + 1);
        RangeTombstone { start: random.key(16), end: random.key(16), number }
    };
    (0..count).map(deletion).collect()
}

/// The numbers over a key, newest first, computed directly from the rule.
fn over(deletions: &[RangeTombstone], key: &[u8]) -> Vec<SequenceNumber> {
    let covers = |deletion: &&RangeTombstone| deletion.start[..] <= *key && *key < deletion.end[..];
    let mut numbers: Vec<SequenceNumber> = deletions.iter().filter(covers).map(|deletion| deletion.number).collect();
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    numbers.dedup();
    numbers
}

fn keys() -> impl Iterator<Item = Vec<u8>> {
    let mut random = Random(99);
    (0..60).map(move |_| {
        let mut key = random.key(16);
        match random.below(3) {
            0 => key.push(random.next() as u8),
            1 => drop(key.pop()),
            _ => {}
        }
        key
    })
}

fn assert_canonical(tombstones: &RangeTombstones) {
    let fragments = tombstones.fragments();
    for fragment in fragments {
        assert!(fragment.start < fragment.end && !fragment.numbers.is_empty(), "{fragment:?}");
        assert!(fragment.numbers.is_sorted_by(|newer, older| newer > older), "{fragment:?}");
    }
    for pair in fragments.windows(2) {
        assert!(pair[0].end <= pair[1].start && (pair[0].end < pair[1].start || pair[0].numbers != pair[1].numbers));
    }
}

#[test]
fn fragments_are_equivalent_to_the_deletions() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut seeded = Random(seed);
        let count = seeded.below(12);
        let deletions = random(&mut seeded, count);
        let whole = RangeTombstones::new(deletions.iter().cloned());
        assert_canonical(&whole);
        let (lower, upper) = (seeded.key(16), (seeded.below(2) == 0).then(|| seeded.key(16)));
        let clipped = whole.clip(&lower, upper.as_deref());
        assert_canonical(&clipped);
        let mut back = whole.clone();
        let front = back.split_off_front(&lower);
        // In arbitrary pieces, joined again in any order, some of them twice.
        let (one, other) = deletions.split_at(deletions.len() / 2);
        let parts = [other, one, other].map(|part| RangeTombstones::new(part.iter().cloned()));
        assert_eq!(RangeTombstones::union(&parts), whole);
        assert_eq!(RangeTombstones::union([&back, &front]), whole);
        assert_eq!(RangeTombstones::new(whole.deletions()), whole);
        for key in keys() {
            let expected = over(&deletions, &key);
            assert_eq!(whole.over(&key), expected);
            let inside = key >= lower && upper.as_ref().is_none_or(|upper| key < *upper);
            assert_eq!(clipped.over(&key), if inside { &expected[..] } else { &[] });
            assert_eq!(front.over(&key), if key < lower { &expected[..] } else { &[] });
            for at in (0..11).map(SequenceNumber) {
                let newest = expected.iter().copied().find(|number| *number <= at);
                assert_eq!(whole.covering(&key, at), newest.unwrap_or(SequenceNumber::ZERO));
            }
        }
    }
}

/// At each key, exactly those tombstones are retained that the rule for a chain of tombstones requires.
#[test]
fn retained_tombstones_follow_the_rule() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut seeded = Random(seed);
        let count = seeded.below(12);
        let deletions = random(&mut seeded, count);
        let pins: Vec<SequenceNumber> = (0..seeded.below(4)).map(|_| SequenceNumber(seeded.below(11))).collect();
        let bottom = seeded.below(2) == 0;
        let kept = RangeTombstones::new(deletions.iter().cloned()).retained(&Retention::new(pins.clone()), bottom);
        assert_canonical(&kept);
        for key in keys() {
            let numbers = over(&deletions, &key);
            let wanted = |at: &usize| {
                let number = numbers[*at];
                let newer = at.checked_sub(1).map(|at| numbers[at]);
                let seen = newer.is_none_or(|newer| pins.iter().any(|pin| number <= *pin && *pin < newer));
                let all = pins.contains(&SequenceNumber::ZERO);
                all || seen && (!bottom || pins.iter().any(|pin| *pin < number))
            };
            let expected: Vec<_> = (0..numbers.len()).filter(wanted).map(|at| numbers[at]).collect();
            assert_eq!(kept.over(&key), expected, "pins {pins:?} bottom {bottom} of {numbers:?}");
        }
    }
}
