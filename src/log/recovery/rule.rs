//! The rule by which the numbers of a generation are told: applied, skipped, discarded, or missing though they must
//! be there (`protocol.md`, The log and Recovery). Pure: numbers in, decisions out.
//!
//! Invariants:
//! 1. Numbers come in rising order, each at most once.
//! 2. A number up to the durable mark must be there in every life: the mark is left only after every number up to it
//!    was sealed and synced.
//! 3. Once there is a cut nothing behind it is applied.

use crate::base::SequenceNumber;
use crate::format::manifest_edit::LogRecovered;

/// How a generation is read.
#[derive(Clone, Copy, Debug)]
pub enum Rule<'a> {
    /// The machine and the mount live on: a gap is a write that nobody was told of.
    SameLife,
    /// Only synced bytes count: the first gap is the cut.
    PowerLoss,
    /// An earlier recovery has decided.
    Recovered(&'a LogRecovered),
}

/// What to do with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Apply it.
    Wanted,
    /// It is in branch files already.
    Incorporated,
    /// It is behind the cut, or was skipped by an earlier recovery.
    Discarded,
}

/// A number that must be there and is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing(pub SequenceNumber);

/// The numbers of one generation as they come.
#[derive(Debug)]
pub struct Expectation<'a> {
    rule: Rule<'a>,
    incorporated: u64,
    durable: u64,
    expected: u64,
    cut: Option<u64>,
    skipped: Vec<(SequenceNumber, SequenceNumber)>,
}

impl<'a> Expectation<'a> {
    /// For a generation that starts at `first`; every number up to `durable` must be there, but those up to
    /// `incorporated` may be gone.
    pub fn new(rule: Rule<'a>, first: SequenceNumber, incorporated: SequenceNumber, durable: SequenceNumber) -> Self {
        let expected = first.0.max(incorporated.0 + 1);
        let (incorporated, durable) = (incorporated.0, durable.0);
        Self { rule, incorporated, durable, expected, cut: None, skipped: Vec::new() }
    }

    /// Whether a record that cannot be believed may be the work of a crash.
    pub fn may_be_torn(&self, number: SequenceNumber) -> bool {
        match self.rule {
            Rule::SameLife => false,
            Rule::PowerLoss => number.0 > self.durable.max(self.incorporated),
            Rule::Recovered(recovered) => number > recovered.cut || is_skipped(recovered, number.0),
        }
    }

    /// Decides on the record with number `first` (to `last`, for a run), and on the gap in front of it.
    pub fn reach(&mut self, first: SequenceNumber, last: SequenceNumber) -> Result<Verdict, Missing> {
        if last.0 <= self.incorporated {
            return Ok(Verdict::Incorporated);
        }
        if let Rule::Recovered(recovered) = self.rule
            && (first > recovered.cut || is_skipped(recovered, first.0))
        {
            return Ok(Verdict::Discarded);
        }
        if self.cut.is_none() && first.0 > self.expected {
            self.gap(first.0 - 1)?;
        }
        Ok(if self.cut.is_some() { Verdict::Discarded } else { Verdict::Wanted })
    }

    /// The record that was last reached is there, up to `last`. Not called, it counts as missing.
    pub fn accept(&mut self, last: SequenceNumber) {
        self.expected = self.expected.max(last.0 + 1);
    }

    /// The numbers from the expected one to `last` are not there.
    fn gap(&mut self, last: u64) -> Result<(), Missing> {
        let first = self.expected;
        match self.rule {
            Rule::Recovered(recovered) => {
                let mut number = first;
                while number <= last.min(recovered.cut.0) {
                    let range = recovered.skipped.iter().find(|(from, to)| (from.0..=to.0).contains(&number));
                    let Some((_, to)) = range else { return Err(Missing(SequenceNumber(number))) };
                    number = to.0 + 1;
                }
            }
            _ if first <= self.durable => return Err(Missing(SequenceNumber(first))),
            Rule::SameLife => self.skip(first, last),
            Rule::PowerLoss => {
                self.cut = Some(first - 1);
                return Ok(());
            }
        }
        self.expected = last + 1;
        Ok(())
    }

    fn skip(&mut self, first: u64, last: u64) {
        match self.skipped.last_mut() {
            Some((_, to)) if to.0 + 1 == first => *to = SequenceNumber(last),
            _ => self.skipped.push((SequenceNumber(first), SequenceNumber(last))),
        }
    }

    /// The cut and the numbers skipped below it, once there are no more records.
    pub fn finish(mut self) -> Result<(SequenceNumber, Vec<(SequenceNumber, SequenceNumber)>), Missing> {
        if let Rule::Recovered(recovered) = self.rule {
            if self.expected <= recovered.cut.0 {
                self.gap(recovered.cut.0)?;
            }
            return Ok((recovered.cut, recovered.skipped.clone()));
        }
        if self.cut.is_none() && self.expected <= self.durable {
            return Err(Missing(SequenceNumber(self.expected)));
        }
        let cut = self.cut.unwrap_or(self.expected - 1);
        self.skipped.retain(|(first, _)| first.0 <= cut);
        Ok((SequenceNumber(cut), self.skipped))
    }
}

fn is_skipped(recovered: &LogRecovered, number: u64) -> bool {
    recovered.skipped.iter().any(|(first, last)| (first.0..=last.0).contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(number: u64) -> SequenceNumber {
        SequenceNumber(number)
    }

    /// Feeds numbers one by one; returns what was wanted, and the outcome.
    #[allow(clippy::type_complexity)]
    fn run(
        rule: Rule<'_>,
        first: u64,
        incorporated: u64,
        durable: u64,
        numbers: &[u64],
    ) -> Result<(Vec<u64>, u64, Vec<(u64, u64)>), Missing> {
        let mut expectation = Expectation::new(rule, n(first), n(incorporated), n(durable));
        let mut wanted = Vec::new();
        for &number in numbers {
            if expectation.reach(n(number), n(number))? == Verdict::Wanted {
                wanted.push(number);
                expectation.accept(n(number));
            }
        }
        let (cut, skipped) = expectation.finish()?;
        Ok((wanted, cut.0, skipped.into_iter().map(|(first, last)| (first.0, last.0)).collect()))
    }

    #[test]
    fn in_the_same_life_gaps_are_skipped() {
        let gaps = run(Rule::SameLife, 1, 0, 0, &[1, 3, 6]);
        assert_eq!(gaps, Ok((vec![1, 3, 6], 6, vec![(2, 2), (4, 5)])));
        assert_eq!(run(Rule::SameLife, 1, 0, 0, &[]), Ok((vec![], 0, vec![])));
        assert_eq!(run(Rule::SameLife, 5, 0, 4, &[]), Ok((vec![], 4, vec![])));
    }

    #[test]
    fn after_power_loss_the_first_gap_is_the_cut() {
        assert_eq!(run(Rule::PowerLoss, 1, 0, 0, &[1, 2, 4, 5]), Ok((vec![1, 2], 2, vec![])));
        assert_eq!(run(Rule::PowerLoss, 1, 0, 2, &[1, 2, 4, 5]), Ok((vec![1, 2], 2, vec![])));
        assert_eq!(run(Rule::PowerLoss, 10, 0, 0, &[12]), Ok((vec![], 9, vec![])));
    }

    #[test]
    fn a_gap_at_or_below_the_mark_is_corruption_in_every_life() {
        for rule in [Rule::SameLife, Rule::PowerLoss] {
            assert_eq!(run(rule, 1, 0, 3, &[1, 2, 4, 5]), Err(Missing(n(3))));
            assert_eq!(run(rule, 1, 0, 9, &[1, 2, 3]), Err(Missing(n(4))));
            assert_eq!(run(rule, 1, 3, 3, &[1, 4, 5]).unwrap().0, [4, 5]);
        }
    }

    #[test]
    fn incorporated_numbers_may_be_gone_or_there() {
        for rule in [Rule::SameLife, Rule::PowerLoss] {
            assert_eq!(run(rule, 1, 5, 4, &[2, 6, 7]), Ok((vec![6, 7], 7, vec![])));
            assert_eq!(run(rule, 1, 5, 5, &[]), Ok((vec![], 5, vec![])));
        }
    }

    #[test]
    fn an_earlier_recovery_is_believed() {
        let recovered = LogRecovered { generation: 1, cut: n(7), skipped: vec![(n(5), n(5))], next_number: n(20) };
        let rule = Rule::Recovered(&recovered);
        let ranges = vec![(5, 5)];
        assert_eq!(run(rule, 1, 3, 0, &[3, 4, 6, 7, 9]), Ok((vec![4, 6, 7], 7, ranges.clone())));
        // A record that was missing then, for lack of its value file, is missing for ever.
        assert_eq!(run(rule, 1, 3, 0, &[4, 5, 6, 7]), Ok((vec![4, 6, 7], 7, ranges)));
        assert_eq!(run(rule, 1, 3, 0, &[4, 7]), Err(Missing(n(6))));
        assert_eq!(run(rule, 1, 3, 0, &[4, 6]), Err(Missing(n(7))));
        assert_eq!(run(rule, 1, 7, 0, &[]).unwrap().0, [0; 0]);
    }

    #[test]
    fn torn_records_are_forgiven_only_above_what_is_durable() {
        let torn = |rule, number| Expectation::new(rule, n(1), n(5), n(8)).may_be_torn(n(number));
        assert!(!torn(Rule::SameLife, 99));
        assert!(torn(Rule::PowerLoss, 9) && !torn(Rule::PowerLoss, 8) && !torn(Rule::PowerLoss, 4));
    }
}
