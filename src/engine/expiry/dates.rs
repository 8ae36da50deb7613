//! When the numbers of writes were taken: dates, each of which is that of all numbers up to one that have no earlier date. Plain
//! data; one thread at a time.
//!
//! Dates are milliseconds since 1970. Invariant: both numbers and dates ascend.

use crate::util::SequenceNumber;
use std::collections::BTreeMap;

/// Of dates that are this many times as old as they are far apart, some are dropped.
const PRECISION: u64 = 512;

/// A date, milliseconds since 1970.
pub(crate) type Date = u64;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Dates {
    numbers: BTreeMap<Date, SequenceNumber>,
    /// What the catalog does not have yet: `None` removes a date.
    unsaved: BTreeMap<Date, Option<SequenceNumber>>,
}

impl Dates {
    /// Adds what the catalog has.
    pub(super) fn load(&mut self, saved: impl IntoIterator<Item = (Date, SequenceNumber)>) {
        self.numbers.extend(saved);
    }

    /// All numbers up to this one were taken by this date, which is not before the last one.
    pub(super) fn note(&mut self, number: SequenceNumber, date: Date) {
        debug_assert!(date >= self.last());
        if self.newest() < number {
            self.insert(date, number);
        }
    }

    /// The last date.
    pub(super) fn last(&self) -> Date {
        self.numbers.last_key_value().map_or(0, |(date, _)| *date)
    }

    /// The newest number that has a date.
    pub(super) fn newest(&self) -> SequenceNumber {
        self.numbers.last_key_value().map_or(SequenceNumber::ZERO, |(_, number)| *number)
    }

    /// The last number that was taken by a date.
    pub(super) fn through(&self, date: Date) -> SequenceNumber {
        self.numbers.range(..=date).next_back().map_or(SequenceNumber::ZERO, |(_, number)| *number)
    }

    /// The first date after one.
    pub(super) fn after(&self, date: Date) -> Option<Date> {
        self.numbers.range(date.saturating_add(1)..).next().map(|(date, _)| *date)
    }

    /// The first date.
    pub(super) fn first(&self) -> Option<Date> {
        self.numbers.first_key_value().map(|(date, _)| *date)
    }

    /// Drops the dates up to one.
    pub(super) fn forget(&mut self, through: Date) {
        let old: Vec<_> = self.numbers.range(..=through).map(|(date, _)| *date).collect();
        old.into_iter().for_each(|date| self.remove(date));
    }

    /// Drops dates that are close to each other beside their age, so that few remain however long they are needed: what was
    /// written by a dropped date has the next one.
    pub(super) fn thin(&mut self, now: Date) {
        let dates: Vec<_> = self.numbers.keys().copied().collect();
        let mut kept: Option<Date> = None;
        for pair in dates.windows(2) {
            let (date, next) = (pair[0], pair[1]);
            let is_close = kept.is_some_and(|kept| (next - kept) * PRECISION <= now.saturating_sub(next));
            if is_close {
                self.remove(date);
            } else {
                kept = Some(date);
            }
        }
    }

    /// What the catalog does not have yet.
    pub(super) fn unsaved(&self) -> impl Iterator<Item = (Date, Option<SequenceNumber>)> + '_ {
        self.unsaved.iter().map(|(date, number)| (*date, *number))
    }

    /// The catalog has everything now.
    pub(super) fn note_saved(&mut self) {
        self.unsaved.clear();
    }

    fn insert(&mut self, date: Date, number: SequenceNumber) {
        self.numbers.insert(date, number);
        self.unsaved.insert(date, Some(number));
    }

    fn remove(&mut self, date: Date) {
        self.numbers.remove(&date);
        self.unsaved.insert(date, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noted(pairs: &[(u64, Date)]) -> Dates {
        let mut dates = Dates::default();
        pairs.iter().for_each(|(number, date)| dates.note(SequenceNumber(*number), *date));
        dates
    }

    #[test]
    fn numbers_have_the_first_date_by_which_they_were_taken() {
        let mut dates = noted(&[(5, 100), (5, 110), (9, 200), (20, 300)]);
        assert_eq!([99, 100, 199, 250, 400].map(|date| dates.through(date).0), [0, 5, 5, 9, 20]);
        assert_eq!((dates.after(0), dates.after(100), dates.after(300)), (Some(100), Some(200), None));
        dates.forget(200);
        assert_eq!((dates.through(250).0, dates.through(300).0), (0, 20));
        assert_eq!(Vec::from_iter(dates.unsaved()), [(100, None), (200, None), (300, Some(SequenceNumber(20)))]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Thinning makes nothing expire early, and late by a small part of its age.
        #[test]
        fn thinning_keeps_ages_about_right(steps in prop::collection::vec(1u64..2000, 1..800), wait in 0u64..1_000_000) {
            let (mut dates, mut all, mut date) = (Dates::default(), Vec::new(), 0);
            for (number, step) in steps.into_iter().enumerate() {
                date += step;
                dates.note(SequenceNumber(number as u64 + 1), date);
                all.push(date);
                if number % 16 == 0 {
                    dates.thin(date);
                }
            }
            let now = date + wait;
            dates.thin(now);
            for (at, date) in all.iter().copied().enumerate() {
                let found = dates.numbers.iter().find(|(_, number)| number.0 > at as u64).map(|(date, _)| *date);
                let found = found.expect("the newest date stays");
                prop_assert!(found >= date && (found - date) * PRECISION <= now - date.min(now), "{date}: {found} at {now}");
            }
        }
    }

    #[test]
    fn few_dates_remain() {
        let mut dates = Dates::default();
        for at in 1..200_000u64 {
            dates.note(SequenceNumber(at), at * 10);
            if at % 64 == 0 {
                dates.thin(at * 10);
            }
        }
        // About PRECISION for each factor of e between the age of the newest and of the oldest.
        assert!(dates.numbers.len() < 12_000, "{}", dates.numbers.len());
    }
}
