//! `Db::publish_metrics`: the figures of a store for the crate `metrics` (feature `metrics`).

use super::db::Db;
use crate::engine::latency::Latency;
use crate::engine::types::stats::Stats;
use crate::util::Result;
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

/// Of a figure: its name, its meaning, and how it is read.
type Figure = (&'static str, &'static str, fn(&Stats) -> u64);

/// What may rise and fall.
const GAUGES: [Figure; 22] = [
    ("alluvium_keys", "Keys, about.", |stats| stats.approximate_keys()),
    ("alluvium_branch_files", "Branch files.", |stats| stats.branch_files),
    ("alluvium_branch_bytes", "Bytes of branch files.", |stats| stats.branch_bytes),
    ("alluvium_value_files", "Files of large values.", |stats| stats.value_files),
    ("alluvium_log_bytes", "Bytes of the log.", |stats| stats.log_bytes),
    ("alluvium_change_bytes", "Bytes of writes that are kept for followers.", |stats| stats.change_bytes),
    ("alluvium_last_number", "Newest sequence number.", |stats| stats.last_number),
    ("alluvium_synced_number", "Sequence number up to which a power loss loses nothing.", |stats| stats.synced_number),
    ("alluvium_memory_budget_bytes", "The memory budget.", |stats| stats.memory_budget),
    ("alluvium_memtable_bytes", "Memory of the Memtables.", |stats| stats.memory_bytes),
    ("alluvium_memtables", "Memtables.", |stats| stats.generations),
    ("alluvium_cache_bytes", "Memory of the cache.", |stats| stats.cache_bytes),
    ("alluvium_snapshots", "Live snapshots.", |stats| stats.snapshots),
    ("alluvium_debt_bytes", "Background work that is due.", |stats| stats.debt_bytes),
    ("alluvium_garbage_bytes", "Garbage in branch files, about.", |stats| stats.garbage_bytes),
    ("alluvium_ballast_bytes", "Disk space kept for a full disk.", |stats| stats.ballast_bytes),
    ("alluvium_running_tasks", "Background tasks that run at the moment.", |stats| stats.running.len() as u64),
    ("alluvium_disk_full", "Whether the disk is full, so that puts are rejected.", |stats| stats.disk_full.into()),
    ("alluvium_failed", "Whether the store has failed and is read-only.", |stats| stats.failure.is_some().into()),
    ("alluvium_background_paused", "Whether merges are paused.", |stats| stats.background_paused.into()),
    ("alluvium_longest_delay_nanoseconds", "Longest time that a write was slowed or waited.", |stats| {
        stats.longest_delay_ns
    }),
    ("alluvium_oldest_snapshot_milliseconds", "Age of the oldest snapshot; 0 without one.", |stats| {
        stats.oldest_snapshot.map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
    }),
];

/// What only rises while the store is open.
const COUNTERS: [Figure; 21] = [
    ("alluvium_writes_total", "Puts and deletes.", |stats| stats.writes),
    ("alluvium_user_bytes_total", "Bytes of keys and values written.", |stats| stats.user_bytes),
    ("alluvium_logged_bytes_total", "Bytes written to the log.", |stats| stats.logged_bytes),
    ("alluvium_incorporated_bytes_total", "Bytes written by incorporations.", |stats| stats.incorporated_bytes),
    ("alluvium_ingested_bytes_total", "Bytes written by ingests.", |stats| stats.ingested_bytes),
    ("alluvium_compacted_bytes_total", "Bytes written by merges.", |stats| stats.compacted_bytes),
    ("alluvium_incorporations_total", "Memtables incorporated.", |stats| stats.incorporations),
    ("alluvium_ingests_total", "Ingests.", |stats| stats.ingests),
    ("alluvium_jobs_total", "Merges, flushes and splits.", |stats| stats.jobs),
    ("alluvium_cache_hits_total", "Pages found in the cache.", |stats| stats.cache_hits),
    ("alluvium_cache_misses_total", "Pages read from the disk.", |stats| stats.cache_misses),
    ("alluvium_item_hits_total", "Gets answered by the item cache.", |stats| stats.item_hits),
    ("alluvium_slowed_writes_total", "Writes that were slowed.", |stats| stats.slowed_writes),
    ("alluvium_slowed_nanoseconds_total", "Time for which writes were slowed.", |stats| stats.slowed_ns),
    ("alluvium_stalled_writes_total", "Writes that waited for memory.", |stats| stats.stalled_writes),
    ("alluvium_stalled_nanoseconds_total", "Time for which writes waited for memory.", |stats| stats.stalled_ns),
    ("alluvium_conflicts_total", "Transactions that had a conflict.", |stats| stats.conflicts),
    ("alluvium_retried_updates_total", "Updates that were repeated.", |stats| stats.retried_updates),
    ("alluvium_read_waits_total", "Reads that waited for the disk.", |stats| stats.read_waits),
    ("alluvium_read_wait_nanoseconds_total", "Time for which reads waited for the disk.", |stats| stats.read_wait_ns),
    ("alluvium_changes_lost_total", "How often what was kept for followers was given up.", |stats| stats.changes_lost),
];

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
