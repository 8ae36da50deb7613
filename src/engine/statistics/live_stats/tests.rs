//! Statistics are written when they change, and read back unchanged.

use super::*;
use crate::db::Db;
use crate::engine::types::options::Options;
use crate::io::PosixStorage;
use crate::io::simulated::SimulatedStorage;

const SECOND: Duration = Duration::from_secs(1);
const NOON: Duration = Duration::from_secs(1_700_000_000);

/// Statistics with different values in all fields. A new field does not compile before it is added here.
fn full() -> Stats {
    let level = |height| LevelStats {
        height,
        nodes: 2,
        bundles: 3,
        branches: 4,
        bytes: 5,
        entries: 6,
        runs: 7,
        probes: 8,
        tombstones: 9,
        cache_misses: 10,
    };
    let task = |kind, node, to| BackgroundTask {
        kind,
        node,
        height: node.map(|_| 0),
        from: b"from".to_vec(),
        to,
        bytes_done: 10,
        bytes_total: 20,
        bytes_written: 30,
        runs_for: Duration::from_millis(40),
        paused: node.is_some(),
    };
    Stats {
        // Not in the file.
        disk_component: "",
        last_number: 101,
        synced_number: 102,
        incorporated_number: 103,
        levels: vec![level(1), level(0)],
        branch_files: 104,
        branch_bytes: 105,
        value_files: 106,
        log_bytes: 107,
        log_shadow_bytes: 108,
        log_shadows_refused: 109,
        compaction_filter_removed: 190,
        compaction_filter_replaced: 191,
        compaction_filter_panics: 192,
        compaction_filter_refused: 193,
        compaction_filter_repeated: 194,
        log_discarded_writes: 144,
        memory_entries: 110,
        memory_bytes: 111,
        generations: 112,
        cache_bytes: 113,
        cache_hits: 114,
        cache_misses: 115,
        items: 133,
        item_hits: 134,
        memory_budget: 116,
        snapshots: 117,
        oldest_snapshot: Some(Duration::from_millis(118)),
        writes: 119,
        user_bytes: 120,
        logged_bytes: 121,
        incorporated_bytes: 122,
        compacted_bytes: 123,
        scan_compacted_bytes: 124,
        incorporations: 125,
        jobs: 126,
        debt_bytes: 127,
        splits: 135,
        joins: 136,
        live_rewrites: 137,
        ingested_bytes: 195,
        ingests: 196,
        change_bytes: 197,
        changes_after: 198,
        changes_lost: 199,
        reused_bytes: 138,
        garbage_bytes: 139,
        garbage_slowed_writes: 140,
        garbage_slowed_ns: 141,
        conflicts: 142,
        retried_updates: 143,
        skipped: [150, 151, 152, 153, 154, 155, 156],
        buffer_bytes: 157,
        parent_bytes: 158,
        buffered_bytes: 159,
        transition_bytes: 160,
        checkpoint_bytes: 161,
        buffered_rows: 162,
        quiet_compacted_bytes: 163,
        quiet_credit_bytes: 164,
        cache_leaf_bytes: 165,
        cache_index_bytes: 166,
        cache_filter_bytes: 167,
        searches: [168, 169, 170, 171, 172, 173, 174, 175],
        rows_ahead: 176,
        read_waits: 177,
        read_wait_ns: 178,
        slowed_writes: 128,
        slowed_ns: 129,
        stalled_writes: 130,
        stalled_ns: 131,
        longest_delay_ns: 132,
        running: vec![
            task(BackgroundKind::Merge, Some(0), Some(b"to".to_vec())),
            task(BackgroundKind::KeepSpace, None, None),
        ],
        background_write_limit: Some(0),
        background_paused: true,
        ballast_bytes: 133,
        disk_full: true,
        failure: Some("the disk died".into()),
    }
}

#[test]
fn all_statistics_are_read_back() {
    for stats in [full(), Stats::default(), Stats { disk_full: true, ..Stats::default() }] {
        let bytes = image_of(stats.clone()).encode();
        assert_eq!(stats_of(StatsImage::decode(&bytes).unwrap()), stats);
    }
    for (at, kind) in KINDS.into_iter().enumerate() {
        assert_eq!(kind as usize, at);
    }
}

/// A reader and a writer of different versions share the statistics that both know.
#[test]
fn unknown_and_missing_counters_are_skipped() {
    let mut image = image_of(full());
    image.counters.push(5);
    image.tasks[1].figures[0] = KINDS.len() as u64;
    let newer = stats_of(image.clone());
    assert_eq!(newer.running.len(), 1, "a task of an unknown kind");
    assert_eq!(Stats { running: full().running, ..newer }, full());
    image.counters.truncate(LEADING + 2);
    let older = stats_of(image);
    assert_eq!((older.last_number, older.synced_number, older.incorporated_number), (101, 102, 0));
}

#[test]
fn statistics_are_written_about_once_a_second_and_only_if_changed() {
    let disk = SimulatedStorage::new(1);
    let publisher = Publisher::default();
    let written = || {
        let bytes = read_file(&disk).unwrap()?;
        StatsImage::decode(&bytes).map(|image| (image.written_at, stats_of(image)))
    };
    assert!(!publisher.is_due(SECOND * 5) && !publisher.is_due(SECOND * 6 - Duration::from_millis(1)));
    assert!(publisher.is_due(SECOND * 6));
    assert_eq!(written(), None);
    publisher.publish(&disk, full(), NOON, (SECOND * 6, Duration::ZERO));
    assert_eq!(written(), Some((NOON.as_millis() as u64, full())));
    assert!(!publisher.is_due(SECOND * 6) && publisher.is_due(SECOND * 7));
    // A snapshot that got older is no change; a changed failure is.
    let older = Stats { oldest_snapshot: Some(SECOND), ..full() };
    publisher.publish(&disk, older.clone(), NOON + SECOND, (SECOND * 7, SECOND));
    assert_eq!(written(), Some((NOON.as_millis() as u64, full())));
    assert!(
        !publisher.is_due(SECOND * 106) && publisher.is_due(SECOND * 107),
        "writing must take at most a hundredth of the time"
    );
    let failed = Stats { failure: None, ..older };
    publisher.publish(&disk, failed.clone(), NOON + SECOND, (SECOND * 107, Duration::ZERO));
    assert_eq!(written(), Some(((NOON + SECOND).as_millis() as u64, failed)));
    publisher.withdraw(&disk);
    assert!(written().is_none() && disk.list().unwrap().is_empty());
}

#[test]
fn a_failed_write_removes_the_file_and_is_retried() {
    for fault in ["(create nth=1) -> eio", "(create nth=1) -> enospc", "(write nth=1) -> eio"] {
        let disk = SimulatedStorage::new(2);
        disk.inject(fault);
        let publisher = Publisher::default();
        publisher.publish(&disk, full(), NOON, (SECOND, Duration::ZERO));
        assert!(disk.list().unwrap().is_empty(), "{fault}");
        publisher.publish(&disk, full(), NOON, (SECOND * 2, Duration::ZERO));
        assert_eq!(disk.list().unwrap(), ["STATS"], "{fault}");
    }
}

/// A killed writer leaves its file, which readers must not take for current. *Otherwise:* a store that no process has
/// open seems to run a merge for ever.
#[test]
fn the_file_of_a_killed_writer_is_ignored_and_removed_by_the_next_opening() {
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::new(directory.path());
    Db::open(directory.path(), Options::default()).unwrap().close().unwrap();
    let bytes = image_of(full()).encode();
    let leave = || std::fs::write(directory.path().join(STATS), &bytes).unwrap();
    leave();
    assert_eq!(read(&storage).unwrap(), None);
    assert_eq!(Db::verify_closed(directory.path(), crate::Depth::Deep, &mut |_| ()).unwrap().damage.len(), 0);
    assert!(!Db::repair(directory.path(), &mut |_| ()).unwrap().changed);
    let db = Db::open(directory.path(), Options::default()).unwrap();
    assert!(!directory.path().join(STATS).exists());
    assert_eq!(read(&storage).unwrap(), None, "the new writer has published nothing yet");
    // As if the new writer had published it.
    leave();
    assert_eq!(read(&storage).unwrap().unwrap().stats, full());
    for damage in [&bytes[..40], b"", b"something else"] {
        std::fs::write(directory.path().join(STATS), damage).unwrap();
        assert_eq!(read(&storage).unwrap(), None);
    }
    db.close().unwrap();
    let nothing = tempfile::tempdir().unwrap();
    assert!(matches!(Db::live_stats(nothing.path()), Err(Error::NoStore { .. })));
}
