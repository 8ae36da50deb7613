//! Planted bugs, for `scripts/planted-bugs.sh`: at least one for each promise of the store, to show that the tests of that promise
//! can fail (`docs/guarantees.md` has the list). Any thread.
//!
//! `planted!` marks the places. Without the feature `planted-bugs` it is the correct code alone, and nothing of this file is in the
//! build. With the feature, the environment variable `ALLUVIUM_PLANTED` chooses one bug for the life of the process, by its name in
//! kebab case; without the variable the store is correct.

/// Correct code, and what a planted bug does instead. Three forms:
///
/// ```text
/// planted!(correct, Bug::Name => wrong)       // an expression; with the bug, the other expression
/// planted!(Bug::Name => { statements });      // nothing; with the bug, the statements
/// planted!(Bug::Name => let early = value);   // nothing; `early` is `Some(value)` with the bug, else `None`, for a wrong expression below
/// ```
#[cfg(not(feature = "planted-bugs"))]
macro_rules! planted {
    (Bug::$bug:ident => let $name:ident = $value:expr) => {};
    (Bug::$bug:ident => $wrong:block) => {};
    ($correct:expr, Bug::$bug:ident => $wrong:expr) => {
        $correct
    };
}

/// Correct code, and what a planted bug does instead: the form without the feature has the description.
#[cfg(feature = "planted-bugs")]
macro_rules! planted {
    (Bug::$bug:ident => let $name:ident = $value:expr) => {
        let $name = $crate::util::planted::is($crate::util::planted::Bug::$bug).then(|| $value);
    };
    (Bug::$bug:ident => $wrong:block) => {
        if $crate::util::planted::is($crate::util::planted::Bug::$bug) $wrong
    };
    ($correct:expr, Bug::$bug:ident => $wrong:expr) => {
        if $crate::util::planted::is($crate::util::planted::Bug::$bug) { $wrong } else { $correct }
    };
}

pub(crate) use planted;

#[cfg(feature = "planted-bugs")]
pub(crate) use chosen::*;

#[cfg(feature = "planted-bugs")]
mod chosen {
    use crate::util::SequenceNumber;

    macro_rules! bugs {
        ($($(#[$doc:meta])* $name:ident,)*) => {
            /// The bugs, each named by what goes wrong.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub(crate) enum Bug {
                $($(#[$doc])* $name,)*
            }

            const ALL: &[Bug] = &[$(Bug::$name),*];
        };
    }

    bugs! {
        /// Promise 1: a write takes its number before the latch of its key, so numbers do not follow the order of effects (W3).
        NumberBeforeLatch,
        /// Promise 1: gets read the oldest memory generation first (G4).
        OldestGenerationFirst,
        /// Promise 1: an incorporation leaves outdated values in the item cache (`cache/item_cache.rs`, 1).
        ItemNotInvalidated,
        /// Promise 1: a reader adds what it found to the item cache although the tree has changed meanwhile (`cache/item_cache.rs`, 2).
        ItemAddedLate,
        /// Promise 1: a block's number is not cleared before the block is reused (`memory/entry/version.rs`, 1).
        BlockNumberNotCleared,
        /// Promise 1: a reader does not compare the number again after it copied a value (`memory/entry/version.rs`, 2).
        ValueNotCheckedAgain,
        /// Promise 1: a reader does not check that the block it read still is its node's newest (`memory/entry/version.rs`, 2).
        NewestNotReadAgain,
        /// Promise 1: a writer does not look whether its keyspace was dropped (`engine/types/keyspace_info.rs`, 2).
        DropUnchecked,
        /// Promise 3: what has expired by now has expired for older snapshots, too (E1).
        MomentForAll,
        /// Promise 3: merges drop what has expired by now, whatever snapshots there are (E2).
        ExpiredUnderSnapshots,
        /// Promise 1: a fold takes the place of what another thread has written since (`memory/table/folding.rs`).
        FoldUnchecked,
        /// Promise 1: what an operand is folded onto leaves the chain before it (`memory/table/folding.rs`, 2).
        OperandAlone,
        /// Promise 1: a rebuilt maplet lacks one key of each column (`branch/maplet/build.rs`).
        MapletLacksAKey,
        /// Promise 3: a range delete does not wait for the writers that may have missed it (`engine/write/range_conflicts.rs`).
        RangeDeleteWithoutGrace,
        /// Promise 3: writers do not wait for a range delete of their keys (`engine/write/range_conflicts.rs`).
        RangeDeleteUnseen,
        /// Promise 3: an update does not notice a range delete after its check (`engine/write/commit.rs`).
        RangeDeletesUncounted,
        /// Promise 1: a merge at a leaf drops tombstones although the leaf's oldest bundle takes no part (`disk/trunk/jobs/merge.rs`, 3).
        TombstoneDroppedEarly,
        /// Promise 1: a merge of some runs of a tiered level takes the newest ones (`disk/levels/plan/candidates.rs`).
        NewestRunsFirst,
        /// Promise 1: a key goes past a level that has an older version of it (`disk/levels/jobs/absence.rs`, 1).
        VersionConstraint,
        /// Checkpoints: the log segments are linked, too, so they change with the store (`engine/tools/checkpoint/mod.rs`, 2).
        CheckpointLinksLog,
        /// Checkpoints: the manifest gets its name before the files that it names are there (`engine/tools/checkpoint/mod.rs`, 3).
        CheckpointPublishedFirst,
        /// Checkpoints: what is in memory is not incorporated first.
        CheckpointWithoutSwitch,
        /// Backups: a description gets its name before the names of its files are durable (A2).
        BackupNamesUnsynced,
        /// Backups: a file of the same name and length counts as the same file (A3).
        BackupSharesByNumber,
        /// Backups: a removal keeps only the files of the newest backup (A6).
        BackupRemovesShared,
        /// Backups: files are removed before the removal of their descriptions is durable (A6).
        BackupRemovalUnsynced,
        /// Backups: a restored store gets its manifest before its files (A9).
        RestorePublishedFirst,
        /// Backups: a restore and a verification do not compare checksums (A9).
        RestoreUnchecked,
        /// Promise 4: a merge drops a file that has entries which are only in memory.
        LostParent,
        /// Promise 4: a replay removes from memory all keys in the range of a merge, and not those that it consumed.
        ReplayByRange,
        /// Promise 1: a merge drops a tombstone although what it hides waits in memory.
        TombstoneOverBuffer,
        /// Promise 1: a flush to a child counts as a flush to the child's neighbour, too (`disk/trunk/tree/node.rs`, 3).
        FlushedForNeighbour,
        /// Promise 1: joined leaves keep a file beyond the range in which it was active (`disk/trunk/tree/neighbours.rs`, 1).
        JoinRevivesDeletes,
        /// Promise 1: an update does not check whether its key was written since it read (P1).
        UpdateUnchecked,
        /// Promise 1: an update does not check whether a memory generation was incorporated since it read (P1).
        IncorporationUnchecked,
        /// Promise 2: a transaction does not check whether a key that it read was written since (P1).
        ReadsUnchecked,
        /// Promise 2: a transaction ignores writes to its ranges during its validation (P2).
        RangesUnchecked,
        /// Promise 2: a transaction does not wait for the writers that may have missed its registered ranges
        /// (`engine/write/range_conflicts.rs`, 1).
        RangesWithoutGrace,
        /// Promise 2: the entries of a batch lose their link to it before it is committed (`memory/entry/version.rs`, 3).
        BatchClearedFirst,
        /// Promise 2: a batch's entries become visible one after the other (B2).
        BatchEntryByEntry,
        /// Promise 2: a batch has one record for each operation, so a crash tears it.
        BatchInParts,
        /// Promise 3: a compaction filter is asked about pairs that a snapshot can read (F1).
        FilteredUnderSnapshots,
        /// Promise 1: what a compaction filter removes leaves no tombstone, so an older version comes back (F2).
        FilteredWithoutTombstone,
        /// Promise 3: a merge that has filtered is published although a snapshot was taken meanwhile (F4).
        SnapshotsDuringFilter,
        /// Promise 1: an update does not notice that a compaction filter has changed what it read (F5).
        FilterUnchecked,
        /// Promise 3: a snapshot does not wait for an ingest with a lower number (I3).
        GateUnseen,
        /// Promise 1: writers of keys in the range of an ingest do not wait for it (I1).
        IngestUnannounced,
        /// Promise 1: an ingest becomes part of the tree although memory has older versions of its keys (I2).
        IngestOverMemory,
        /// Promise 2: the owner of a staged batch finds an older of its writes to a key.
        StagedOldest,
        /// Promise 2: the range deletes of a staged batch are not in its files (I7).
        StagedRangesLost,
        /// Change stream: an incorporation drops segments of the log that were not copied (J2).
        ChangesNotCopied,
        /// Change stream: an incorporation drops segments of the log before the copy is durable (J2).
        ChangesUnsynced,
        /// Change stream: a chunk is not read again although its writer has not left it (J3).
        ChunkDoneEarly,
        /// Change stream: an opening counts the pairs of an ingest that never took effect (J7).
        IngestCountedEarly,
        /// Change stream: a checkpoint takes the numbers that its store has taken since (P8).
        CopyReusesNumbers,
        /// Promise 3: a snapshot does not wait until every number up to its own is placed (S1).
        SnapshotDoesNotWait,
        /// Promise 3: incorporation and compaction ignore snapshots (S2).
        SnapshotsIgnored,
        /// Promise 3: a get does not wait for the holder of its key's latch while a snapshot is being taken (S3).
        GetDoesNotWait,
        /// Promise 3: a writer reads the snapshots' numbers before it takes its own number (S5).
        SnapshotsBeforeNumber,
        /// Promise 3: a snapshot that begins does not stop a thread that lowers the bound of the pins (S8).
        SnapshotsBeganUnseen,
        /// Promise 3: version cleanup reads the snapshots' numbers before the number up to which they must hold (S2).
        CleanupSnapshotsFirst,
        /// Promise 3: a drain does not wait for another drain that has nodes of its partition (`memory/buffer/membuffer.rs`, 2).
        DrainDoesNotWait,
        /// Promise 3: an insert queue's count is stored before the slot that it covers (`memory/buffer/insert_queue.rs`, 1).
        QueueCountFirst,
        /// Promise 4: an announcement has no fence behind it, so its thread may miss that a log segment was retired (L2).
        AnnounceWithoutFence,
        /// Promise 4: a write goes to the newest memory generation, whatever its number (G1).
        NewestGenerationTaken,
        /// Promise 4: closing does not wait for writes that have begun (X1).
        ClosingDoesNotWait,
        /// Promise 4: a write returns before its record is sealed; the thread's next write seals it (W2).
        AcknowledgedBeforeSealed,
        /// Promise 4: recovery does not read shadows (H2).
        ShadowIgnored,
        /// Promise 4: recovery counts what only a shadow has, and does not copy it to the segment (H3).
        ShadowNotCopied,
        /// Promise 4: where mappings are not trusted, a write returns before the kernel has its record.
        ReturnedBeforeWritten,
        /// Promise 5: the marks of a shadow count in every life (H2).
        ShadowMarksTrusted,
        /// Promise 5: writeback does not ask whether the system failed to write a shadow back (H6).
        WritebackErrorIgnored,
        /// Promise 5: a sync does not sync the log's segments (D4).
        SyncWithoutLog,
        /// Promise 5: branch files become durable ahead of the log (D1).
        IncorporatedAheadOfLog,
        /// Promise 5: after a power loss a gap in the log is skipped as after a kill; it must be the end.
        GapSkippedAfterPowerLoss,
        /// Promise 6: checksums of branch pages are not compared.
        PageChecksumIgnored,
        /// Promise 6: checksums of log records' bodies are not compared.
        RecordChecksumIgnored,
        /// Promise 7: a failure of unknown effect is reported once, and the store goes on.
        FailureIgnored,
        /// Promise 8: writers neither slow down nor wait where memory generations pile up.
        GenerationsWithoutBound,
        /// Promise 8: the page cache evicts nothing.
        CacheWithoutBound,
        /// Promise 8: branch files are never closed before they are removed.
        FilesNeverClosed,
        /// Promise 9: a writer takes the writer's lock shared.
        WriterLockShared,
        /// Promise 10: a manifest of a newer version is read as one of this version.
        NewerManifestRead,
    }

    /// `NumberBeforeLatch` is `number-before-latch`.
    fn kebab(bug: Bug) -> String {
        let mut name = String::new();
        for letter in format!("{bug:?}").chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    /// Whether this bug is in the store.
    pub(crate) fn is(bug: Bug) -> bool {
        static CHOSEN: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
        let chosen = CHOSEN.get_or_init(|| {
            let name = std::env::var("ALLUVIUM_PLANTED").ok().filter(|name| !name.is_empty())?;
            let found = ALL.iter().copied().find(|bug| kebab(*bug) == name);
            assert!(found.is_some(), "ALLUVIUM_PLANTED={name}: known are {:?}", ALL.iter().map(|bug| kebab(*bug)));
            found
        });
        *chosen == Some(bug)
    }

    thread_local! {
        static UNSEALED: std::cell::Cell<Option<SequenceNumber>> = const { std::cell::Cell::new(None) };
    }

    /// `AcknowledgedBeforeSealed`: keeps the number of the record that this thread should seal now.
    pub(crate) fn leave_unsealed(number: SequenceNumber) {
        UNSEALED.set(Some(number));
    }

    /// The number of the record that this thread left unsealed.
    pub(crate) fn take_unsealed() -> Option<SequenceNumber> {
        UNSEALED.take()
    }

    /// `OldestGenerationFirst`: the element that is as far from the end of `all` as `one` is from its start.
    pub(crate) fn mirrored<'a, T>(all: &'a [T], one: &'a T) -> &'a T {
        let at = all.iter().position(|other| std::ptr::eq(other, one));
        at.map_or(one, |at| &all[all.len() - 1 - at])
    }
}
