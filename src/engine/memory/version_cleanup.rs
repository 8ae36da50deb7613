//! Removes versions from memory that no snapshot needs any more (`docs/concurrency.md`, S6). Workers.

use crate::engine::read::read_path::ReadPath;
use crate::engine::scheduler::scheduler::LastCleanup;
use crate::engine::state::latches::Latches;
use crate::util::SequenceNumber;
use crate::util::planted::planted;
use crate::util::sync::Arc;
use std::time::Duration;

/// The shortest time between two cleanups: each visits every key that had old versions.
const INTERVAL: Duration = Duration::from_millis(50);

/// The bookkeeping of the cleanup that is due, if one is: snapshots were released, and memory has retained versions.
pub(crate) fn is_due(read: &ReadPath, last: LastCleanup, now: Duration) -> Option<LastCleanup> {
    read.shared_snapshot.expire(now);
    read.snapshots.expire();
    let changes = read.snapshots.changes();
    let is_due = changes != last.changes && now >= last.next && read.view.load().newest().memtable.has_retained();
    is_due.then(|| LastCleanup { changes, next: now + INTERVAL })
}

/// When a cleanup is due that is not due yet only because of the last one.
pub(crate) fn is_postponed_until(read: &ReadPath, last: LastCleanup, now: Duration) -> Option<Duration> {
    let is_needed = read.snapshots.changes() != last.changes && read.view.load().newest().memtable.has_retained();
    (is_needed && now < last.next).then_some(last.next)
}

/// Removes the versions of the newest generation that no snapshot needs. (Older generations are about to be
/// incorporated as a whole.)
pub(crate) fn run(read: &ReadPath) {
    let newest = Arc::clone(read.view.load().newest());
    // Rule S2.
    planted!(Bug::CleanupSnapshotsFirst => let early = read.snapshots.numbers());
    let through = read.sequencer.last();
    let snapshots = planted!(read.snapshots.numbers(), Bug::CleanupSnapshotsFirst => early.unwrap_or_default());
    if snapshots.first() == Some(&SequenceNumber::ZERO) {
        // A snapshot is being taken. When it is released there is another cleanup.
        return;
    }
    newest.memtable.clean_versions(&snapshots, through, |hash, change| {
        let _latch = read.latches.lock(Latches::index_of(hash));
        change();
    });
}
