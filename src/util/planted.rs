//! Bugs on purpose, for `scripts/planted-bugs.sh`: for each promise of the store at least one that breaks it, to show that the
//! tests which are to notice can fail (`docs/guarantees.md` has the list). Any thread.
//!
//! Without the feature `planted-bugs`, `is` is a constant and nothing of this is in the build. With it, the environment variable
//! `ALLUVIUM_PLANTED` chooses one bug by its name for the life of the process; none is the store as it should be.

use super::SequenceNumber;

/// The bugs, each named by what goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Promise 1: a write takes its number before the latch of its key, so numbers do not follow the order of effects (W3).
    NumberBeforeLatch,
    /// Promise 1: gets ask the oldest memory generation first (G4).
    OldestGenerationFirst,
    /// Promise 1: what an incorporation brings stays in the item cache as it was (`cache/item_cache.rs`, 1).
    ItemNotForgotten,
    /// Promise 1: a reader adds what it found to the item cache, whatever has changed meanwhile (`cache/item_cache.rs`, 2).
    ItemAddedLate,
    /// Promise 1: a block's number is not cleared before the block is filled anew (`memory/version.rs`, 1).
    BlockNumberKept,
    /// Promise 1: a reader does not compare the number after it copied a value (`memory/version.rs`, 2).
    ValueNotCheckedAgain,
    /// Promise 1: a reader does not ask whether the block that it looked at still is its node's newest (`memory/version.rs`, 2).
    NewestNotReadAgain,
    /// Promise 1: a maplet lacks a key of each column that it was made of anew (`branch/maplet_file.rs`).
    MapletLacksAKey,
    /// Promise 1: a merge at a leaf drops tombstones though the leaf's oldest bundle takes no part (`disk/trunk/jobs/merge.rs`, 3).
    TombstoneDroppedEarly,
    /// Promise 1: a flush to a child counts as one to the child's neighbour, too (`disk/trunk/tree/node.rs`, 3).
    FlushedForNeighbour,
    /// Promise 1: joined leaves keep a file that reaches where it was active no more (`disk/trunk/tree/neighbours.rs`, 1).
    JoinRevivesDeletes,
    /// Promise 1: an update does not look whether somebody has written its key since it read (P1).
    UpdateUnchecked,
    /// Promise 1: an update does not look whether a memory generation has gone to the tree since it read (P1).
    RetiredUnchecked,
    /// Promise 2: a transaction does not look whether a key that it read was written since (P1).
    ReadsUnchecked,
    /// Promise 2: a transaction does not mind that its ranges were written while it was validated (P2).
    RangesUnchecked,
    /// Promise 2: a transaction does not wait for the writers that may not have seen its watch (`engine/write/range_conflicts.rs`, 1).
    WatchWithoutGrace,
    /// Promise 2: the entries of a batch forget it before it is committed (`memory/version.rs`, 3).
    BatchForgottenFirst,
    /// Promise 2: a batch's entries become visible one after the other (B2).
    BatchEntryByEntry,
    /// Promise 2: a batch has one record for each operation, so a crash tears it.
    BatchInParts,
    /// Promise 3: a snapshot does not wait until every number up to its own is placed (S1).
    SnapshotDoesNotWait,
    /// Promise 3: incorporation and compaction do not ask for pins (S2).
    PinsForgotten,
    /// Promise 3: a get does not wait for who holds its key's latch while a snapshot is being taken (S3).
    GetDoesNotWait,
    /// Promise 3: a writer reads the pins before it takes its number (S5).
    PinsBeforeNumber,
    /// Promise 3: versions are reclaimed by pins that were read before the number up to which they hold (S2).
    ReclaimPinsFirst,
    /// Promise 3: a drain does not wait for another one that has nodes of its partition (`memory/membuffer.rs`, 2).
    DrainDoesNotWait,
    /// Promise 3: a feed's count is stored before the slot that it covers (`memory/insert_queue.rs`, 1).
    FeedCountFirst,
    /// Promise 4: an announcement has no fence behind it, so its thread may miss that a log segment was retired (L2).
    AnnounceWithoutFence,
    /// Promise 4: a write goes to the newest memory generation, whatever its number (G1).
    NewestGenerationTaken,
    /// Promise 4: a write returns before its record is sealed; that happens with the thread's next write (W2).
    AcknowledgedBeforeSealed,
    /// Promise 4: recovery does not look for what the log has in shared memory (M2).
    LogMemoryForgotten,
    /// Promise 5: a sync does not sync the log's segments (D4).
    SyncWithoutLog,
    /// Promise 5: branch files become durable ahead of the log (D1).
    IncorporatedAheadOfLog,
    /// Promise 5: after a power loss a gap in the log is skipped as after a kill, not the end.
    GapSkippedAfterPowerLoss,
    /// Promise 6: checksums of branch pages are not compared.
    PageChecksumIgnored,
    /// Promise 6: checksums of log records' bodies are not compared.
    RecordChecksumIgnored,
    /// Promise 7: a failure of unknown effect is told once and forgotten.
    FailureForgotten,
    /// Promise 8: writers neither slow down nor wait where memory generations pile up.
    GenerationsWithoutBound,
    /// Promise 8: the page cache gives nothing up.
    CacheWithoutBound,
    /// Promise 8: branch files are never closed before they are removed.
    FilesNeverClosed,
    /// Promise 9: a writer takes the writer's lock shared.
    WriterLockShared,
    /// Promise 10: a manifest of a newer version is read as one of this.
    NewerManifestRead,
}

#[cfg(feature = "planted-bugs")]
const ALL: [(&str, Bug); 41] = [
    ("number-before-latch", Bug::NumberBeforeLatch),
    ("oldest-generation-first", Bug::OldestGenerationFirst),
    ("item-not-forgotten", Bug::ItemNotForgotten),
    ("item-added-late", Bug::ItemAddedLate),
    ("block-number-kept", Bug::BlockNumberKept),
    ("value-not-checked-again", Bug::ValueNotCheckedAgain),
    ("newest-not-read-again", Bug::NewestNotReadAgain),
    ("maplet-lacks-a-key", Bug::MapletLacksAKey),
    ("tombstone-dropped-early", Bug::TombstoneDroppedEarly),
    ("flushed-for-neighbour", Bug::FlushedForNeighbour),
    ("join-revives-deletes", Bug::JoinRevivesDeletes),
    ("update-unchecked", Bug::UpdateUnchecked),
    ("retired-unchecked", Bug::RetiredUnchecked),
    ("reads-unchecked", Bug::ReadsUnchecked),
    ("ranges-unchecked", Bug::RangesUnchecked),
    ("watch-without-grace", Bug::WatchWithoutGrace),
    ("batch-forgotten-first", Bug::BatchForgottenFirst),
    ("batch-entry-by-entry", Bug::BatchEntryByEntry),
    ("batch-in-parts", Bug::BatchInParts),
    ("snapshot-does-not-wait", Bug::SnapshotDoesNotWait),
    ("get-does-not-wait", Bug::GetDoesNotWait),
    ("pins-before-number", Bug::PinsBeforeNumber),
    ("reclaim-pins-first", Bug::ReclaimPinsFirst),
    ("drain-does-not-wait", Bug::DrainDoesNotWait),
    ("feed-count-first", Bug::FeedCountFirst),
    ("pins-forgotten", Bug::PinsForgotten),
    ("announce-without-fence", Bug::AnnounceWithoutFence),
    ("newest-generation-taken", Bug::NewestGenerationTaken),
    ("acknowledged-before-sealed", Bug::AcknowledgedBeforeSealed),
    ("log-memory-forgotten", Bug::LogMemoryForgotten),
    ("sync-without-log", Bug::SyncWithoutLog),
    ("incorporated-ahead-of-log", Bug::IncorporatedAheadOfLog),
    ("gap-skipped-after-power-loss", Bug::GapSkippedAfterPowerLoss),
    ("page-checksum-ignored", Bug::PageChecksumIgnored),
    ("record-checksum-ignored", Bug::RecordChecksumIgnored),
    ("failure-forgotten", Bug::FailureForgotten),
    ("generations-without-bound", Bug::GenerationsWithoutBound),
    ("cache-without-bound", Bug::CacheWithoutBound),
    ("files-never-closed", Bug::FilesNeverClosed),
    ("writer-lock-shared", Bug::WriterLockShared),
    ("newer-manifest-read", Bug::NewerManifestRead),
];

/// Whether this bug is in the store.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn is(_: Bug) -> bool {
    false
}

/// Whether this bug is in the store.
#[cfg(feature = "planted-bugs")]
pub fn is(bug: Bug) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let name = std::env::var("ALLUVIUM_PLANTED").ok().filter(|name| !name.is_empty())?;
        let found = ALL.iter().find(|(known, _)| *known == name);
        assert!(found.is_some(), "ALLUVIUM_PLANTED={name}: known are {:?}", ALL.map(|(name, _)| name));
        found.map(|(_, bug)| *bug)
    });
    *chosen == Some(bug)
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PUT_OFF: std::cell::Cell<Option<SequenceNumber>> = const { std::cell::Cell::new(None) };
}

/// `AcknowledgedBeforeSealed`: keeps the number of the record that this thread should seal now.
#[inline(always)]
#[cfg_attr(not(feature = "planted-bugs"), expect(unused_variables, reason = "only the feature puts anything off"))]
pub fn put_off(number: SequenceNumber) {
    #[cfg(feature = "planted-bugs")]
    PUT_OFF.set(Some(number));
}

/// The number that this thread put off.
#[inline(always)]
pub fn take_put_off() -> Option<SequenceNumber> {
    #[cfg(feature = "planted-bugs")]
    return PUT_OFF.take();
    #[cfg(not(feature = "planted-bugs"))]
    None
}
