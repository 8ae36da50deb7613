//! Whether the newer versions of every key are in the newer runs, where reads look first. Any thread.

use super::merged;
use crate::branch::{BranchContext, Purpose, file_name};
use crate::disk::runs::run::{self, Run};
use crate::merge::{Cursor, RangeTombstones};
use crate::util::key::wide_head;
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, Result, SequenceNumber};

/// Whether each of the runs, newest first, has only newer numbers in [lower, upper) than the older ones. Then the
/// versions are in order, and nothing need be read.
pub fn is_ordered_by_numbers(runs: &[Arc<Run>], lower: &[u8], upper: Option<&[u8]>) -> bool {
    let mut below = SequenceNumber::ZERO;
    runs.iter().rev().all(|run| {
        let inside = run.parts().iter().filter(|part| run::overlaps(part, lower, upper));
        let (mut least, mut most) = (SequenceNumber::MAX, below);
        for part in inside {
            least = least.min(part.meta().number_min);
            most = most.max(part.meta().number_max);
        }
        let is_newer = least > below;
        below = most;
        is_newer
    })
}

/// Reads what the runs, newest first, have in [lower, upper): the versions of every key and the range tombstones
/// over it. (The relative order of range tombstones does not matter: the newest hides everything older, if no version
/// between them is out of order.)
pub fn check_versions(runs: &[Arc<Run>], lower: &[u8], upper: Option<&[u8]>, context: &BranchContext) -> Result<()> {
    let tombstones = runs.iter().map(|run| run::range_tombstones([run], lower, upper)).collect::<Result<Vec<_>>>()?;
    let mut cursor = merged(runs.iter().rev().cloned().collect(), Purpose::Compaction);
    cursor.seek(lower, SequenceNumber::MAX)?;
    let (mut key, mut newer): (Vec<u8>, usize) = (Vec::new(), 0);
    let mut is_first = true;
    while cursor.valid() {
        let (entry, source) = (cursor.entry(), cursor.source());
        if upper.is_some_and(|upper| *entry.key >= *upper) {
            break;
        }
        let is_same = !is_first && *entry.key == key[..];
        if !is_same {
            key.clear();
            key.extend_from_slice(entry.key);
        }
        let misplaced = match misplaced_tombstone(&tombstones, entry.key, entry.number, source) {
            _ if is_same && source < newer => Some("in a newer run than a newer version".to_owned()),
            tombstone => tombstone,
        };
        if let Some(misplaced) = misplaced {
            let found = format!("version {} of {} {misplaced}", entry.number, entry.key.escape_ascii());
            let part = runs[source].part_of(entry.key, wide_head(entry.key));
            let file = part.map_or(FileNumber(0), |part| part.meta().file);
            let path = context.storage.path_of(&file_name(file));
            return Err(Error::corruption(
                &path,
                0,
                "order of versions",
                "only versions newer than in older runs",
                found,
            ));
        }
        (newer, is_first) = (source, false);
        cursor.next()?;
    }
    Ok(())
}

/// A range tombstone of some run that is on the wrong side of a version in run `at`. A get visits the newer run first
/// and takes its answer for the newest.
fn misplaced_tombstone(of_runs: &[RangeTombstones], key: &[u8], version: SequenceNumber, at: usize) -> Option<String> {
    of_runs.iter().enumerate().find_map(|(run, tombstones)| {
        let over = tombstones.over(key);
        let older = over.last().filter(|oldest| run < at && **oldest <= version);
        let newer = over.first().filter(|newest| run > at && **newest > version);
        older
            .map(|number| format!("in an older run than the older range delete {number}"))
            .or_else(|| newer.map(|number| format!("in a newer run than the newer range delete {number}")))
    })
}
