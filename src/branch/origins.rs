//! Where on the disk the entries of a buffered branch are (SkipStore §5.2.2, the BK-PSST map). Plain data; any thread.
//!
//! An entry keeps its origin while it moves from one buffered branch to another: its parent is always a file.

use crate::format::manifest_edit::{ItemRun, ParentItems};
use crate::util::FileNumber;
use std::collections::BTreeMap;

/// The place of an entry: entry `at`, counted from 0 in entry order, of a branch file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub parent: FileNumber,
    /// The place in it.
    pub at: u64,
}

/// The origins of all entries of a branch, in their order.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    /// With the number of entries of each.
    parents: Vec<(FileNumber, u64)>,
    /// For each entry, its parent's place in `parents`, and its own in the parent.
    places: Vec<(u32, u32)>,
}

impl Origins {
    /// Adds the origin of the next entry. False if it has no place here: a file of more than 2^32 entries.
    pub fn push(&mut self, origin: Origin) -> bool {
        let Ok(at) = u32::try_from(origin.at) else { return false };
        let known = self.parents.iter().rposition(|(parent, _)| *parent == origin.parent);
        let parent = known.unwrap_or_else(|| {
            self.parents.push((origin.parent, 0));
            self.parents.len() - 1
        });
        self.parents[parent].1 += 1;
        self.places.push((parent as u32, at));
        true
    }

    /// The origin of an entry.
    pub fn get(&self, at: u64) -> Option<Origin> {
        let (parent, at) = *self.places.get(usize::try_from(at).ok()?)?;
        Some(Origin { parent: self.parents[parent as usize].0, at: at.into() })
    }

    /// The number of entries.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The parents, each with the number of its entries (SkipStore §5.2.2, `PSST->CC`).
    pub fn parents(&self) -> &[(FileNumber, u64)] {
        &self.parents
    }

    /// Whether an entry is in this file.
    pub fn has(&self, parent: FileNumber) -> bool {
        self.parents.iter().any(|(known, _)| *known == parent)
    }

    /// Bytes of memory, about.
    pub fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<(u32, u32)>() + self.parents.capacity() * size_of::<(FileNumber, u64)>()
    }

    /// The entries of each parent, as the manifest records them. Entries in entry order have ascending places in each
    /// parent.
    pub fn by_parent(&self) -> Vec<ParentItems> {
        let mut found: BTreeMap<FileNumber, (Vec<ItemRun>, u64)> = BTreeMap::new();
        for (parent, at) in &self.places {
            let at = u64::from(*at);
            let (runs, next) = found.entry(self.parents[*parent as usize].0).or_default();
            match runs.last_mut() {
                Some(run) if *next == at => run.count += 1,
                _ => runs.push(ItemRun { skipped: at.saturating_sub(*next), count: 1 }),
            }
            *next = at + 1;
        }
        found.into_iter().map(|(parent, (runs, _))| ParentItems { parent, runs }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_become_runs_of_each_parent() {
        let mut origins = Origins::default();
        for (parent, at) in [(7, 2), (7, 3), (4, 0), (7, 5), (4, 9), (4, 10)] {
            assert!(origins.push(Origin { parent: FileNumber(parent), at }));
        }
        assert_eq!(origins.get(3), Some(Origin { parent: FileNumber(7), at: 5 }));
        assert_eq!((origins.get(6), origins.count()), (None, 6));
        let run = |skipped, count| ItemRun { skipped, count };
        let expected = [
            ParentItems { parent: FileNumber(4), runs: vec![run(0, 1), run(8, 2)] },
            ParentItems { parent: FileNumber(7), runs: vec![run(2, 2), run(1, 1)] },
        ];
        assert_eq!(origins.by_parent(), expected);
        let taken: Vec<u64> = expected[1].places().collect();
        assert_eq!((taken, expected[0].count()), (vec![2, 3, 5], 3));
    }
}
