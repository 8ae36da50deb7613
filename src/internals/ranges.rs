//! Runs of sorted entries in branch files, and two ways to read a range of them: merged, as the store does, and one run
//! after the other, as Kanda does (§2.4). For benchmarks.

use super::{BranchPart, Entry, KEYSPACE};
use crate::branch::{Branch, BranchBuilder, BranchCursor, Purpose};
use crate::merge::{Cursor, EntryRef, Limit, MergeCursor};
use crate::util::sync::Arc;
use crate::util::{Kind, Result, SequenceNumber, key};
use std::ops::ControlFlow;
use std::path::Path;

/// Takes a key and its value, or `None` for a tombstone.
pub type VisitRun<'v> = dyn FnMut(&[u8], Option<&[u8]>) + 'v;

/// Runs of one branch file each. Their pages stay in the cache.
pub struct RunsPart {
    runs: Vec<Arc<Branch>>,
    _files: BranchPart,
}

impl RunsPart {
    /// Writes the runs, newest first, each in key order.
    pub fn build(directory: &Path, cache_bytes: usize, runs: &[Vec<Entry>]) -> Result<Self> {
        let files = BranchPart::with_cache(directory, cache_bytes);
        let build = |entries: &Vec<Entry>| {
            let mut builder = BranchBuilder::create(&files.0)?;
            for entry in entries {
                builder.add(entry.as_ref())?;
            }
            Ok(Branch::new(&files.0, builder.finish()?))
        };
        Ok(Self { runs: runs.iter().map(build).collect::<Result<_>>()?, _files: files })
    }

    fn cursors(&self) -> impl Iterator<Item = BranchCursor> {
        self.runs.iter().map(|run| run.cursor(Purpose::Read))
    }

    /// Shows the newest version of each key in `[from, to)`, in key order, unless it is a tombstone.
    pub fn merged(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let mut before: Vec<u8> = Vec::new();
        pass(&mut MergeCursor::new(self.cursors().collect()), from, to, &mut |entry| {
            if entry.key != before {
                before.clear();
                before.extend_from_slice(entry.key);
                if entry.kind != Kind::Delete {
                    visit(entry.key, entry.value);
                }
            }
        })
    }

    /// Shows the entries in `[from, to)` of one run after the other, the newest run first.
    pub fn run_by_run(&self, from: &[u8], to: &[u8], visit: &mut VisitRun<'_>) -> Result<()> {
        for mut cursor in self.cursors() {
            let mut show = |entry: EntryRef<'_>| visit(entry.key, (entry.kind != Kind::Delete).then_some(entry.value));
            pass(&mut cursor, from, to, &mut show)?;
        }
        Ok(())
    }
}

/// An entry that deletes a user key.
pub fn tombstone(user_key: &[u8], number: u64) -> Entry {
    Entry::new(key::encoded(KEYSPACE, user_key), number, Kind::Delete, [])
}

fn pass(cursor: &mut dyn Cursor, from: &[u8], to: &[u8], visit: &mut dyn FnMut(EntryRef<'_>)) -> Result<()> {
    cursor.seek(from, SequenceNumber::MAX)?;
    let limit = Limit::at(to);
    if !cursor.valid() || limit.is_reached(cursor.entry().key) {
        return Ok(());
    }
    // The visitor never breaks.
    let _ = cursor.pass(limit, &mut |entry: EntryRef<'_>| {
        visit(entry);
        ControlFlow::Continue(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::internals::entry;
    use std::collections::BTreeMap;

    /// Both ways see the same pairs: the newest run decides.
    #[test]
    fn both_ways_read_the_same_range() {
        let user_key = |number: u64| number.to_be_bytes();
        // Run 0 is the newest; it deletes every tenth key of those that it has.
        let run = |at: u64| -> Vec<Entry> {
            let keys = (0..3000_u64).filter(|key| key.is_multiple_of(at + 2));
            let of = |key: u64| match (at, key % 10) {
                (0, 0) => tombstone(&user_key(key), 10 - at),
                _ => entry(&user_key(key), 10 - at, &[at as u8]),
            };
            keys.map(of).collect()
        };
        let directory = tempfile::tempdir().unwrap();
        let runs: Vec<Vec<Entry>> = (0..4).map(run).collect();
        let part = RunsPart::build(directory.path(), 1 << 20, &runs).unwrap();
        let bound = |number| key::encoded(KEYSPACE, &user_key(number));
        for (from, to) in [(100, 200), (0, 3000), (2990, 5000), (5000, 6000), (100, 100), (101, 102)] {
            let mut merged = Vec::new();
            let mut show = |key: &[u8], value: &[u8]| merged.push((key.to_vec(), value.to_vec()));
            part.merged(&bound(from), &bound(to), &mut show).unwrap();
            let mut collected: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
            let mut collect = |key: &[u8], value: Option<&[u8]>| {
                collected.entry(key.to_vec()).or_insert_with(|| value.map(<[u8]>::to_vec));
            };
            part.run_by_run(&bound(from), &bound(to), &mut collect).unwrap();
            let live: Vec<_> = collected.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
            assert_eq!(merged, live, "from {from} to {to}");
            let has_key =
                |key: u64| (2..6).any(|divisor| key.is_multiple_of(divisor)) && !key.is_multiple_of(10) && key < 3000;
            assert_eq!(live.len(), (from..to).filter(|key| has_key(*key)).count(), "from {from} to {to}");
        }
    }
}
