//! A set of numbers, stored as ranges. Plain data.

use std::collections::BTreeMap;

/// A set of numbers. Adjacent ranges are joined.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberRanges(BTreeMap<u64, u64>);

impl NumberRanges {
    /// Adds the numbers from `first` to `last`, both included.
    pub(crate) fn add(&mut self, first: u64, last: u64) {
        let (mut first, mut last) = (first, last);
        // Ranges that touch the new range are joined with it.
        while let Some((&from, &to)) = self.0.range(..=last.saturating_add(1)).next_back()
            && to.saturating_add(1) >= first
        {
            (first, last) = (first.min(from), last.max(to));
            self.0.remove(&from);
        }
        self.0.insert(first, last);
    }

    /// The greatest number.
    pub(crate) fn max(&self) -> Option<u64> {
        self.0.last_key_value().map(|(_, last)| *last)
    }

    /// The last number of the range that contains `number`.
    pub(crate) fn end_of(&self, number: u64) -> Option<u64> {
        let (_, &last) = self.0.range(..=number).next_back()?;
        (last >= number).then_some(last)
    }

    /// The missing numbers between `first` and `last`, as ranges.
    pub(crate) fn gaps(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let (mut gaps, mut at) = (Vec::new(), first);
        while at <= last {
            if let Some(end) = self.end_of(at) {
                at = end + 1;
                continue;
            }
            let next = self.0.range(at..).next().map_or(last + 1, |(from, _)| *from).min(last + 1);
            gaps.push((at, next - 1));
            at = next;
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::NumberRanges;

    #[test]
    fn adjacent_ranges_are_joined_and_gaps_are_listed() {
        let mut ranges = NumberRanges::default();
        for (first, last) in [(5, 7), (1, 1), (9, 9), (8, 8), (20, 30), (2, 3), (6, 25)] {
            ranges.add(first, last);
        }
        assert_eq!(ranges.gaps(1, 40), [(4, 4), (31, 40)]);
        assert_eq!((ranges.max(), ranges.end_of(4), ranges.end_of(5)), (Some(30), None, Some(30)));
        assert_eq!(NumberRanges::default().gaps(3, 4), [(3, 4)]);
        assert_eq!(ranges.gaps(5, 9), []);
    }
}
