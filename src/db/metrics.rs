//! `Db::publish_metrics`: the figures of a store for the crate `metrics` (feature `metrics`). Any thread.

use super::db::Db;
use crate::engine::latency::Latency;
use crate::engine::types::stats::{BackgroundKind, Stats};
use crate::util::Result;
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use std::time::Duration;

/// Of a figure: its name, its meaning, and how it is read. `alluvium stat --prometheus` has the same names, so that one
/// dashboard serves both: sizes are in bytes, times in seconds, and what only rises ends in `_total`.
type Figure<T> = (&'static str, &'static str, fn(&Stats) -> T);

/// What may rise and fall.
const GAUGES: [Figure<u64>; 22] = [
    ("alluvium_keys", "Keys, about.", |stats| stats.approximate_keys()),
    ("alluvium_branch_files", "Branch files.", |stats| stats.branch_files),
    ("alluvium_branch_bytes", "Bytes of branch files.", |stats| stats.branch_bytes),
    ("alluvium_value_files", "Files of large values.", |stats| stats.value_files),
    ("alluvium_log_bytes", "Bytes of the log.", |stats| stats.log_bytes),
    ("alluvium_log_shadow_bytes", "Bytes of the newest part of the log, in memory.", |stats| stats.log_shadow_bytes),
    ("alluvium_change_bytes", "Bytes of writes that are kept for followers.", |stats| stats.change_bytes),
    ("alluvium_changes_after_number", "Sequence number after which writes are kept for followers.", |stats| {
        stats.changes_after
    }),
    ("alluvium_last_number", "Newest sequence number.", |stats| stats.last_number),
    ("alluvium_synced_number", "Sequence number up to which a power loss loses nothing.", |stats| stats.synced_number),
    ("alluvium_incorporated_number", "Sequence number up to which all is in branch files.", |stats| {
        stats.incorporated_number
    }),
    ("alluvium_memory_budget_bytes", "The memory budget.", |stats| stats.memory_budget),
    ("alluvium_memtable_bytes", "Memory of the Memtables.", |stats| stats.memory_bytes),
    ("alluvium_memtable_entries", "Entries that are not in branch files yet.", |stats| stats.memory_entries),
    ("alluvium_memtables", "Memtables.", |stats| stats.generations),
    ("alluvium_snapshots", "Live snapshots.", |stats| stats.snapshots),
    ("alluvium_debt_bytes", "Background work that is due.", |stats| stats.debt_bytes),
    ("alluvium_garbage_bytes", "Garbage in branch files, about.", |stats| stats.garbage_bytes),
    ("alluvium_ballast_bytes", "Disk space kept for a full disk; 0 while it is given up.", |stats| stats.ballast_bytes),
    ("alluvium_disk_full", "Whether the disk is full, so that puts are rejected.", |stats| stats.disk_full.into()),
    ("alluvium_failed", "Whether the store has failed and is read-only.", |stats| stats.failure.is_some().into()),
    ("alluvium_background_paused", "Whether merges are paused.", |stats| stats.background_paused.into()),
];

/// Times. Those that only rise are gauges, too, because a counter of the crate `metrics` has no fraction.
const SECONDS: [Figure<Duration>; 5] = [
    ("alluvium_longest_delay_seconds", "Longest time that a write was slowed or waited for memory.", |stats| {
        Duration::from_nanos(stats.longest_delay_ns)
    }),
    ("alluvium_oldest_snapshot_age_seconds", "Age of the oldest snapshot; 0 without one.", |stats| {
        stats.oldest_snapshot.unwrap_or_default()
    }),
    ("alluvium_slowed_seconds_total", "Time for which writes were slowed.", |stats| {
        Duration::from_nanos(stats.slowed_ns)
    }),
    ("alluvium_stalled_seconds_total", "Time for which writes waited for memory.", |stats| {
        Duration::from_nanos(stats.stalled_ns)
    }),
    ("alluvium_read_wait_seconds_total", "Time that reads waited for the disk.", |stats| {
        Duration::from_nanos(stats.read_wait_ns)
    }),
];

/// What only rises while the store is open.
const COUNTERS: [Figure<u64>; 23] = [
    ("alluvium_writes_total", "Puts, deletes and merges, those in batches included.", |stats| stats.writes),
    ("alluvium_user_bytes_total", "Bytes of keys and values in these writes.", |stats| stats.user_bytes),
    ("alluvium_logged_bytes_total", "Bytes written to the log.", |stats| stats.logged_bytes),
    ("alluvium_incorporated_bytes_total", "Bytes of branch files written from memory.", |stats| {
        stats.incorporated_bytes
    }),
    ("alluvium_ingested_bytes_total", "Bytes of branch files written by ingests.", |stats| stats.ingested_bytes),
    ("alluvium_compacted_bytes_total", "Bytes of branch files written by merges.", |stats| stats.compacted_bytes),
    ("alluvium_incorporations_total", "Memtables written to branch files.", |stats| stats.incorporations),
    ("alluvium_ingests_total", "Ingests.", |stats| stats.ingests),
    ("alluvium_jobs_total", "Flushes, merges and splits.", |stats| stats.jobs),
    ("alluvium_cache_hits_total", "Lookups of pages that were in the cache.", |stats| stats.cache_hits),
    ("alluvium_cache_misses_total", "Lookups of pages that were not.", |stats| stats.cache_misses),
    ("alluvium_item_hits_total", "Gets that cached values answered.", |stats| stats.item_hits),
    ("alluvium_slowed_writes_total", "Writes slowed because background work was behind.", |stats| stats.slowed_writes),
    ("alluvium_stalled_writes_total", "Writes that waited because memory was full.", |stats| stats.stalled_writes),
    ("alluvium_conflicts_total", "Commits that failed because of a conflict.", |stats| stats.conflicts),
    ("alluvium_retried_updates_total", "Updates that were retried after a race.", |stats| stats.retried_updates),
    ("alluvium_read_waits_total", "Times that reads waited for the disk.", |stats| stats.read_waits),
    ("alluvium_changes_lost_total", "How often what was kept for followers was given up.", |stats| stats.changes_lost),
    ("alluvium_compaction_filter_removed_total", "Pairs that compaction filters have removed.", |stats| {
        stats.compaction_filter_removed
    }),
    ("alluvium_compaction_filter_replaced_total", "Pairs that compaction filters have given a new value.", |stats| {
        stats.compaction_filter_replaced
    }),
    ("alluvium_compaction_filter_panics_total", "Pairs that stayed because a compaction filter panicked.", |stats| {
        stats.compaction_filter_panics
    }),
    ("alluvium_compaction_filter_refused_total", "Pairs that stayed because their new value was too large.", |stats| {
        stats.compaction_filter_refused
    }),
    ("alluvium_compaction_filter_repeated_total", "Merges that were repeated without compaction filters.", |stats| {
        stats.compaction_filter_repeated
    }),
];

/// Memory of the cache, by what it holds.
const CACHE: &str = "alluvium_cache_bytes";
/// Background tasks, by their kind.
const RUNNING: &str = "alluvium_running_tasks";

/// Times of calls, in seconds, if they are measured.
const LATENCY: &str = "alluvium_latency_seconds";
const LATENCY_CALLS: &str = "alluvium_measured_calls";

/// Metrics.
impl Db {
    /// Passes the figures of `stats` to the recorder of the crate `metrics`, as gauges and counters named `alluvium_...` with the
    /// label `store`; of `latencies` as well, if they are measured: quantiles of each kind of call, as `alluvium_latency_seconds` with
    /// the labels `call` and `quantile`. The program calls it as often as it wants new figures, every few seconds say.
    /// Gathering them takes some microseconds, more with many files.
    ///
    /// Names and units are those of `alluvium stat --prometheus`: sizes in bytes, times in seconds. Times that only rise are gauges
    /// named `..._seconds_total`, because counters of that crate are whole numbers.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("river", "silt")?;
    /// db.publish_metrics("rivers")?; // to the recorder that the program has installed
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Closed`.
    pub fn publish_metrics(&self, store: &str) -> Result<()> {
        self.engine.read.check_open()?;
        let stats = self.stats();
        let store = || ("store", store.to_owned());
        for (name, meaning, read) in GAUGES {
            describe_gauge!(name, meaning);
            gauge!(name, &[store()]).set(read(&stats) as f64);
        }
        for (name, meaning, read) in SECONDS {
            describe_gauge!(name, Unit::Seconds, meaning);
            gauge!(name, &[store()]).set(read(&stats).as_secs_f64());
        }
        describe_gauge!(CACHE, Unit::Bytes, "Memory of the cache, by what it holds.");
        for (kind, bytes) in stats.cache_bytes_by_kind() {
            gauge!(CACHE, &[store(), ("kind", kind.to_owned())]).set(bytes as f64);
        }
        describe_gauge!(RUNNING, "Background tasks that run at the moment.");
        for kind in BackgroundKind::ALL {
            // Also where none runs: the recorder keeps the last figure.
            let running = stats.running.iter().filter(|task| task.kind == kind).count();
            gauge!(RUNNING, &[store(), ("kind", kind.to_string())]).set(running as f64);
        }
        for (name, meaning, read) in COUNTERS {
            describe_counter!(name, meaning);
            counter!(name, &[store()]).absolute(read(&stats));
        }
        let Some(latencies) = self.latencies() else { return Ok(()) };
        describe_gauge!(LATENCY, Unit::Seconds, "Time of calls, by kind and quantile.");
        describe_gauge!(LATENCY_CALLS, "Calls that were measured.");
        for Latency { call, count, p50, p90, p99, p999, max, .. } in latencies.iter() {
            let call = || ("call", call.to_string());
            gauge!(LATENCY_CALLS, &[store(), call()]).set(*count as f64);
            for (quantile, time) in [("0.5", p50), ("0.9", p90), ("0.99", p99), ("0.999", p999), ("1", max)] {
                gauge!(LATENCY, &[store(), call(), ("quantile", quantile.to_owned())]).set(time.as_secs_f64());
            }
        }
        Ok(())
    }
}
