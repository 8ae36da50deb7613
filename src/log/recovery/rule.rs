//! The rule that decides which numbers of a log epoch are applied, skipped, discarded, or missing although they must be
//! there (`docs/recovery.md`, R). Pure: numbers in, decision out.
//!
//! Invariants:
//! 1. A number up to the durable mark must be there in every life: the mark is left only after every number up to it
//!    was sealed and synced.
//! 2. If there is a cut, no number after it is applied.
//! 3. In the same life a missing number was taken by a thread that died before it sealed the record. The thread owned a
//!    chunk in which every record has a smaller number, and the next record would have had this one. A chunk has one
//!    owner. So missing numbers can be matched one to one with chunks that ended below them.

use crate::format::manifest_edit::LogRecovered;
use crate::util::SequenceNumber;

/// How a log epoch is read.
#[derive(Clone, Copy, Debug)]
pub enum Rule<'a> {
    /// The life has not changed: a gap is a write that was not acknowledged.
    SameLife,
    /// Only synced bytes count: the first gap is the cut.
    PowerLoss,
    /// An earlier recovery has decided.
    Recovered(&'a LogRecovered),
}

/// Which numbers of a log epoch must be there and which may be missing.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The first number of the log epoch.
    pub first: SequenceNumber,
    /// Numbers up to this one may be missing.
    pub incorporated: SequenceNumber,
    /// Every other number up to this one must be there.
    pub durable: SequenceNumber,
}

impl Bounds {
    /// The first number that is expected.
    fn expected(&self) -> u64 {
        self.first.0.max(self.incorporated.0 + 1)
    }
}

/// The decision about a log epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Nothing above this number is applied.
    pub cut: SequenceNumber,
    /// Ranges at or below the cut that are not applied either, ascending.
    pub skipped: Vec<(SequenceNumber, SequenceNumber)>,
}

/// A number that must be there and is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The number.
    pub number: SequenceNumber,
    /// Why it must be there.
    pub why: Why,
}

/// Why a number must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was durable, according to a mark or an earlier recovery.
    Durable,
    /// More numbers are missing than threads can have taken (invariant 3).
    TooMany,
}

/// Whether a crash can have left a record that is not valid.
pub fn may_be_torn(rule: &Rule<'_>, bounds: &Bounds, number: SequenceNumber) -> bool {
    match rule {
        Rule::SameLife => false,
        Rule::PowerLoss => number > bounds.durable.max(bounds.incorporated),
        Rule::Recovered(recovered) => number > recovered.cut || is_skipped(&recovered.skipped, number),
    }
}

/// Decides about a log epoch in which the numbers of `present` were found: ranges, ascending and not adjacent.
/// `chunk_ends` are the last numbers of its chunks that had space for another record.
pub fn decide(
    rule: &Rule<'_>,
    bounds: &Bounds,
    present: &[(u64, u64)],
    chunk_ends: &mut [u64],
) -> Result<Decision, Missing> {
    let durable = |number| Missing { number: SequenceNumber(number), why: Why::Durable };
    let top = present.last().map_or(0, |(_, last)| *last).max(bounds.expected() - 1);
    match rule {
        Rule::Recovered(recovered) => {
            // The numbers that it skipped count as present. Those that it discarded after the cut do not count at all.
            let skipped = recovered.skipped.iter().map(|(first, last)| (first.0, last.0));
            let mut there: Vec<(u64, u64)> = present.iter().copied().chain(skipped).collect();
            there.sort_unstable();
            match gaps(&there, bounds.expected(), recovered.cut.0).next() {
                Some((number, _)) => Err(durable(number)),
                None => Ok(Decision { cut: recovered.cut, skipped: recovered.skipped.clone() }),
            }
        }
        Rule::PowerLoss | Rule::SameLife => {
            let mut gaps = gaps(present, bounds.expected(), top.max(bounds.durable.0)).peekable();
            match gaps.peek() {
                Some(&(first, _)) if first <= bounds.durable.0 => return Err(durable(first)),
                Some(&(first, _)) if matches!(rule, Rule::PowerLoss) => {
                    return Ok(Decision { cut: SequenceNumber(first - 1), skipped: Vec::new() });
                }
                _ => {}
            }
            let skipped = match_with_chunks(gaps, chunk_ends)?;
            Ok(Decision { cut: SequenceNumber(top), skipped })
        }
    }
}

/// Invariant 3: the `i`-th missing number needs `i` chunks that ended below it.
fn match_with_chunks(
    gaps: impl Iterator<Item = (u64, u64)>,
    chunk_ends: &mut [u64],
) -> Result<Vec<(SequenceNumber, SequenceNumber)>, Missing> {
    chunk_ends.sort_unstable();
    let (mut skipped, mut missing) = (Vec::new(), 0u64);
    for (first, last) in gaps {
        // Chunks do not end in a gap, so the gap's last number is the hardest to match.
        missing = missing.saturating_add(last - first + 1);
        let chunks = chunk_ends.partition_point(|end| *end < first) as u64;
        if missing > chunks {
            return Err(Missing { number: SequenceNumber(first), why: Why::TooMany });
        }
        skipped.push((SequenceNumber(first), SequenceNumber(last)));
    }
    Ok(skipped)
}

/// The ranges between `from` and `to` that ascending ranges leave out.
fn gaps(ranges: &[(u64, u64)], from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut expected = from;
    let end = (to.saturating_add(1), u64::MAX);
    ranges.iter().copied().chain([end]).filter_map(move |(first, last)| {
        let gap = (expected, first.min(end.0) - 1);
        expected = expected.max(last.saturating_add(1));
        (gap.0 <= gap.1).then_some(gap)
    })
}

/// Whether a number lies in one of the ranges.
pub fn is_skipped(ranges: &[(SequenceNumber, SequenceNumber)], number: SequenceNumber) -> bool {
    let at = ranges.partition_point(|(first, _)| *first <= number);
    at > 0 && number <= ranges[at - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(number: u64) -> SequenceNumber {
        SequenceNumber(number)
    }

    fn bounds(first: u64, incorporated: u64, durable: u64) -> Bounds {
        Bounds { first: n(first), incorporated: n(incorporated), durable: n(durable) }
    }

    /// The cut and the skipped ranges for single numbers, with more chunks than needed; or the number that is missing.
    #[allow(clippy::type_complexity)]
    fn run(
        rule: Rule<'_>,
        first: u64,
        incorporated: u64,
        durable: u64,
        numbers: &[u64],
    ) -> Result<(u64, Vec<(u64, u64)>), u64> {
        let present: Vec<_> = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| (run[0], run[run.len() - 1])).collect();
        let decision = decide(&rule, &bounds(first, incorporated, durable), &present, &mut [0; 100]);
        let decision = decision.map_err(|missing| missing.number.0)?;
        Ok((decision.cut.0, decision.skipped.into_iter().map(|(first, last)| (first.0, last.0)).collect()))
    }

    #[test]
    fn in_the_same_life_gaps_are_skipped() {
        assert_eq!(run(Rule::SameLife, 1, 0, 0, &[1, 3, 6]), Ok((6, vec![(2, 2), (4, 5)])));
        assert_eq!(run(Rule::SameLife, 1, 0, 0, &[]), Ok((0, vec![])));
        assert_eq!(run(Rule::SameLife, 5, 0, 4, &[]), Ok((4, vec![])));
    }

    #[test]
    fn after_power_loss_the_first_gap_is_the_cut() {
        assert_eq!(run(Rule::PowerLoss, 1, 0, 0, &[1, 2, 4, 5]), Ok((2, vec![])));
        assert_eq!(run(Rule::PowerLoss, 1, 0, 2, &[1, 2, 4, 5]), Ok((2, vec![])));
        assert_eq!(run(Rule::PowerLoss, 1, 0, 2, &[1, 2, 3]), Ok((3, vec![])));
        assert_eq!(run(Rule::PowerLoss, 10, 0, 0, &[12]), Ok((9, vec![])));
    }

    #[test]
    fn a_gap_at_or_below_the_mark_is_corruption_in_every_life() {
        for rule in [Rule::SameLife, Rule::PowerLoss] {
            assert_eq!(run(rule, 1, 0, 3, &[1, 2, 4, 5]), Err(3));
            assert_eq!(run(rule, 1, 0, 9, &[1, 2, 3]), Err(4));
            assert_eq!(run(rule, 1, 3, 3, &[1, 4, 5]), Ok((5, vec![])));
        }
    }

    #[test]
    fn incorporated_numbers_may_be_missing() {
        for rule in [Rule::SameLife, Rule::PowerLoss] {
            assert_eq!(run(rule, 1, 5, 4, &[2, 6, 7]), Ok((7, vec![])));
            assert_eq!(run(rule, 1, 5, 5, &[]), Ok((5, vec![])));
        }
    }

    #[test]
    fn the_decision_of_an_earlier_recovery_stands() {
        let recovered = LogRecovered { epoch: 1, cut: n(7), skipped: vec![(n(5), n(5))], next_number: n(20) };
        let rule = Rule::Recovered(&recovered);
        let decided = Ok((7, vec![(5, 5)]));
        assert_eq!(run(rule, 1, 3, 0, &[3, 4, 6, 7, 9]), decided);
        // A record that was missing then, because its value file was, stays missing.
        assert_eq!(run(rule, 1, 3, 0, &[4, 5, 6, 7]), decided);
        assert_eq!(run(rule, 1, 3, 0, &[4, 7]), Err(6));
        assert_eq!(run(rule, 1, 3, 0, &[4, 6]), Err(7));
        assert_eq!(run(rule, 1, 7, 0, &[]), decided);
    }

    #[test]
    fn at_most_one_number_is_missing_for_each_chunk() {
        let decide = |present: &[(u64, u64)], ends: &[u64]| {
            decide(&Rule::SameLife, &bounds(1, 0, 0), present, &mut ends.to_vec())
        };
        let too_many = |number| Err(Missing { number: n(number), why: Why::TooMany });
        // Each in its own chunk, whatever the order of the chunks.
        let two = Decision { cut: n(9), skipped: vec![(n(3), n(3)), (n(6), n(6))] };
        assert_eq!(decide(&[(1, 2), (4, 5), (7, 9)], &[5, 2]), Ok(two.clone()));
        assert_eq!(decide(&[(1, 2), (4, 5), (7, 9)], &[0, 0]), Ok(two));
        // A chunk that ended above a number cannot have been meant for it.
        assert_eq!(decide(&[(1, 2), (4, 5), (7, 9)], &[9, 2]), too_many(6));
        assert_eq!(decide(&[(1, 2), (4, 5), (7, 9)], &[5, 5]), too_many(3));
        // A run of missing numbers was taken by as many threads.
        assert_eq!(decide(&[(1, 2), (6, 6)], &[2, 0]), too_many(3));
        assert_eq!(decide(&[(1, 2), (6, 6)], &[2, 0, 1]), Ok(Decision { cut: n(6), skipped: vec![(n(3), n(5))] }));
    }

    #[test]
    fn what_may_be_torn() {
        let torn = |rule, number| may_be_torn(&rule, &bounds(1, 8, 5), n(number));
        assert!(!torn(Rule::SameLife, 9));
        assert!(torn(Rule::PowerLoss, 9) && !torn(Rule::PowerLoss, 8) && !torn(Rule::PowerLoss, 4));
    }

    #[test]
    fn skipped_ranges_are_found() {
        let ranges = [(n(3), n(3)), (n(7), n(9))];
        let skipped: Vec<u64> = (1..12).filter(|number| is_skipped(&ranges, n(*number))).collect();
        assert_eq!(skipped, [3, 7, 8, 9]);
        assert!(!is_skipped(&[], n(1)));
    }
}
