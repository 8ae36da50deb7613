//! The overwrite ratio of a leaf: the share of newer data that overwrites older data, as merges of the whole leaf
//! measure it. Counts of bytes cannot distinguish an update from a new key. The ratio says how much garbage a tree has,
//! and where. The ratio is stored with the node while the store is open. After an opening it is 0. Plain data; any
//! thread.

/// A share of entries, in 1/1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverwriteRatio(u16);

const WHOLE: u64 = 1024;

impl OverwriteRatio {
    /// Measured by a merge of a whole leaf that dropped `garbage` entries; `newer` of its entries were not in its
    /// oldest run. (Entries and not bytes: a merge of small files writes fewer bytes than it reads, whatever is in
    /// them.) `None` if there was nothing newer.
    pub fn measured(newer: u64, garbage: u64) -> Option<Self> {
        let share = u128::from(garbage.min(newer)) * u128::from(WHOLE) / u128::from(newer.max(1));
        (newer > 0).then_some(Self(share as u16))
    }

    /// The ratio after one more measurement, which counts as much as all before it.
    pub fn and(self, measured: Self) -> Self {
        Self((self.0 + measured.0) / 2)
    }

    /// The mean of several; 0 of none.
    pub fn mean(all: impl ExactSizeIterator<Item = Self>) -> Self {
        let count = all.len().max(1);
        Self((all.map(|each| usize::from(each.0)).sum::<usize>() / count) as u16)
    }

    /// How many of `newer` bytes are probably garbage, or make some.
    pub fn of(self, newer: u64) -> u64 {
        (u128::from(newer) * u128::from(self.0) / u128::from(WHOLE)) as u64
    }
}
