//! A set of numbers as ranges. Plain data.

use std::collections::BTreeMap;

/// See the module. Neighbouring ranges are joined.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds `first` to `last`.
    pub(crate) fn add(&mut self, first: u64, last: u64) {
        let (mut first, mut last) = (first, last);
        // Whatever touches the new range is swallowed by it.
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

    /// The last number of the range that holds `number`.
    pub(crate) fn end_of(&self, number: u64) -> Option<u64> {
        let (_, &last) = self.0.range(..=number).next_back()?;
        (last >= number).then_some(last)
    }

    /// What is missing between `first` and `last`.
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
    use super::Ranges;

    #[test]
    fn ranges_join_and_gaps_show() {
        let mut ranges = Ranges::default();
        for (first, last) in [(5, 7), (1, 1), (9, 9), (8, 8), (20, 30), (2, 3), (6, 25)] {
            ranges.add(first, last);
        }
        assert_eq!(ranges.gaps(1, 40), [(4, 4), (31, 40)]);
        assert_eq!((ranges.max(), ranges.end_of(4), ranges.end_of(5)), (Some(30), None, Some(30)));
        assert_eq!(Ranges::default().gaps(3, 4), [(3, 4)]);
        assert_eq!(ranges.gaps(5, 9), []);
    }
}
