//! How much of what is new in a leaf takes the place of what was there: the merges of a whole leaf tell. So the garbage of a tree is known
//! about, and where it is, although no count of bytes tells an update from a new key. It is remembered with the node while the
//! store is open; whoever opens one begins with none.

/// A share of entries, in 1/1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redundancy(u16);

const WHOLE: u64 = 1024;

impl Redundancy {
    /// A merge of a whole leaf dropped `garbage` entries; `newer` were not of its oldest run. (Entries, since a merge of small
    /// files takes fewer bytes than these, whatever is in them.) `None` where that says nothing.
    pub fn measured(newer: u64, garbage: u64) -> Option<Self> {
        let share = u128::from(garbage.min(newer)) * u128::from(WHOLE) / u128::from(newer.max(1));
        (newer > 0).then_some(Self(share as u16))
    }

    /// What is known after a measurement: it counts as much as all before.
    pub fn and(self, measured: Self) -> Self {
        Self((self.0 + measured.0) / 2)
    }

    /// The mean of several; none of none.
    pub fn mean(all: impl ExactSizeIterator<Item = Self>) -> Self {
        let count = all.len().max(1);
        Self((all.map(|each| usize::from(each.0)).sum::<usize>() / count) as u16)
    }

    /// How much of `newer` bytes is probably garbage, or makes some.
    pub fn of(self, newer: u64) -> u64 {
        (u128::from(newer) * u128::from(self.0) / u128::from(WHOLE)) as u64
    }
}
