//! `stat --prometheus`: the statistics as Prometheus reads them, for the textfile collector of its node exporter or any
//! program that serves text. Sizes are in bytes, times in seconds. What only a writing process knows is there only while
//! one has the store open. Names and units are those of `Db::publish_metrics`, so that one dashboard serves both.

use crate::failure::Failure;
use alluvium::Stats;
use prometheus::core::Collector;
use prometheus::{Counter, Gauge, GaugeVec, Opts, Registry, TextEncoder};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// The prefix of all names.
const PREFIX: &str = "alluvium";
const NANOSECONDS: f64 = 1e9;

/// The text. Every metric has the label `store`, the store's directory. `age` is that of what a writer has published;
/// `None` without a writer.
pub fn text(
    directory: &Path,
    stats: &Stats,
    age: Option<Duration>,
    keyspaces: u64,
) -> std::result::Result<String, prometheus::Error> {
    let labels = HashMap::from([("store".to_owned(), directory.display().to_string())]);
    let metrics = Metrics(Registry::new_custom(Some(PREFIX.to_owned()), Some(labels))?);
    sizes(&metrics, stats, keyspaces)?;
    metrics.gauge("writer_open", "Whether a process has the store open for writing.", f64::from(age.is_some()))?;
    if let Some(age) = age {
        writer_state(&metrics, stats, age)?;
        counters(&metrics, stats)?;
        compaction_filters(&metrics, stats)?;
        reads(&metrics, stats)?;
    }
    TextEncoder::new().encode_to_string(&metrics.0.gather())
}

/// As the failure of a command. The names are fixed, so this does not happen.
pub fn failure(error: &prometheus::Error) -> Failure {
    Failure::Usage(format!("the statistics cannot be printed for Prometheus: {error}"))
}

struct Metrics(Registry);

type Added = std::result::Result<(), prometheus::Error>;

impl Metrics {
    fn add(&self, metric: impl Collector + 'static) -> Added {
        self.0.register(Box::new(metric))
    }

    fn gauge(&self, name: &str, help: &str, value: f64) -> Added {
        let gauge = Gauge::new(name, help)?;
        gauge.set(value);
        self.add(gauge)
    }

    fn counter(&self, name: &str, help: &str, value: f64) -> Added {
        let counter = Counter::new(name, help)?;
        counter.inc_by(value);
        self.add(counter)
    }

    fn labelled(&self, name: &str, help: &str, label: &str, values: &[(String, f64)]) -> Added {
        let gauges = GaugeVec::new(Opts::new(name, help), &[label])?;
        for (of, value) in values {
            gauges.with_label_values(&[of]).set(*value);
        }
        self.add(gauges)
    }
}

/// What the files say, whether or not the store is open.
fn sizes(metrics: &Metrics, stats: &Stats, keyspaces: u64) -> Added {
    let gauges = [
        ("keys", "Keys, about.", stats.approximate_keys()),
        ("keyspaces", "Keyspaces besides the default one.", keyspaces),
        ("branch_files", "Branch files.", stats.branch_files),
        ("branch_bytes", "Bytes of branch files.", stats.branch_bytes),
        ("value_files", "Files of large values.", stats.value_files),
        ("log_bytes", "Bytes of the log.", stats.log_bytes),
        ("log_shadow_bytes", "Bytes of the newest part of the log, in memory.", stats.log_shadow_bytes),
        ("ballast_bytes", "Disk space kept for a full disk; 0 while it is given up.", stats.ballast_bytes),
        ("change_bytes", "Bytes of writes that are kept for followers.", stats.change_bytes),
        ("changes_after_number", "Sequence number after which writes are kept for followers.", stats.changes_after),
        ("last_number", "Newest sequence number.", stats.last_number),
        ("synced_number", "Sequence number up to which a power loss loses nothing.", stats.synced_number),
        ("incorporated_number", "Sequence number up to which all is in branch files.", stats.incorporated_number),
    ];
    gauges.into_iter().try_for_each(|(name, help, value)| metrics.gauge(name, help, value as f64))?;
    // From the deepest level on, which is level 0 of a trunk.
    let levels = |of: fn(&alluvium::LevelStats) -> u64| -> Vec<_> {
        stats.levels.iter().map(|level| (level.height.to_string(), of(level) as f64)).collect()
    };
    let label = "height";
    metrics.labelled(
        "level_bytes",
        "Bytes of a level, by its distance from the deepest one.",
        label,
        &levels(|l| l.bytes),
    )?;
    metrics.labelled("level_entries", "Entries of a level.", label, &levels(|l| l.entries))?;
    metrics.labelled("level_tombstones", "Tombstones of a level.", label, &levels(|l| l.tombstones))?;
    metrics.labelled("level_runs", "Most runs of a level that a scan merges.", label, &levels(|l| l.runs))
}

/// What the writer is doing.
fn writer_state(metrics: &Metrics, stats: &Stats, age: Duration) -> Added {
    let gauges = [
        ("statistics_age_seconds", "Age of what the writer has published.", age.as_secs_f64()),
        ("failed", "Whether the store has failed and is read-only.", f64::from(stats.failure.is_some())),
        ("disk_full", "Whether the disk is full, so that puts are rejected.", f64::from(stats.disk_full)),
        ("background_paused", "Whether merges are paused.", f64::from(stats.background_paused)),
        ("memory_budget_bytes", "The memory budget.", stats.memory_budget as f64),
        ("memtable_bytes", "Memory of the Memtables.", stats.memory_bytes as f64),
        ("memtable_entries", "Entries that are not in branch files yet.", stats.memory_entries as f64),
        ("memtables", "Memtables.", stats.generations as f64),
        ("snapshots", "Live snapshots.", stats.snapshots as f64),
        (
            "oldest_snapshot_age_seconds",
            "Age of the oldest snapshot; 0 without one.",
            stats.oldest_snapshot.unwrap_or_default().as_secs_f64(),
        ),
        ("debt_bytes", "Background work that is due.", stats.debt_bytes as f64),
        ("garbage_bytes", "Garbage in branch files, about.", stats.garbage_bytes as f64),
        (
            "longest_delay_seconds",
            "Longest time that a write was slowed or waited for memory, since the store was opened.",
            stats.longest_delay_ns as f64 / NANOSECONDS,
        ),
    ];
    gauges.into_iter().try_for_each(|(name, help, value)| metrics.gauge(name, help, value))?;
    if let Some(limit) = stats.background_write_limit {
        metrics.gauge("background_write_limit_bytes", "Limit of background writes a second.", limit as f64)?;
    }
    let kinds = [stats.cache_leaf_bytes, stats.cache_index_bytes, stats.cache_filter_bytes];
    let rest = stats.cache_bytes.saturating_sub(kinds.iter().sum());
    let [leaf, index, filter] = kinds;
    let cached = [("leaf", leaf), ("index", index), ("filter", filter), ("other", rest)];
    let cached = cached.map(|(kind, bytes)| (kind.to_owned(), bytes as f64));
    metrics.labelled("cache_bytes", "Memory of the cache, by what it holds.", "kind", &cached)?;
    let mut tasks: Vec<(String, f64)> = Vec::new();
    for task in &stats.running {
        let kind = task.kind.to_string();
        match tasks.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1.0,
            None => tasks.push((kind, 1.0)),
        }
    }
    metrics.labelled("running_tasks", "Background tasks that run at the moment.", "kind", &tasks)
}

/// Counters of writes and background work since the store was opened.
fn counters(metrics: &Metrics, stats: &Stats) -> Added {
    let counts = [
        ("writes_total", "Puts, deletes and merges, those in batches included.", stats.writes),
        ("user_bytes_total", "Bytes of keys and values in these writes.", stats.user_bytes),
        ("logged_bytes_total", "Bytes written to the log.", stats.logged_bytes),
        ("incorporated_bytes_total", "Bytes of branch files written from memory.", stats.incorporated_bytes),
        ("ingested_bytes_total", "Bytes of branch files written by ingests.", stats.ingested_bytes),
        ("compacted_bytes_total", "Bytes of branch files written by merges.", stats.compacted_bytes),
        ("incorporations_total", "Memtables written to branch files.", stats.incorporations),
        ("ingests_total", "Ingests.", stats.ingests),
        ("jobs_total", "Flushes, merges and splits.", stats.jobs),
        ("slowed_writes_total", "Writes slowed because background work was behind.", stats.slowed_writes),
        ("stalled_writes_total", "Writes that waited because memory was full.", stats.stalled_writes),
        ("conflicts_total", "Commits that failed because of a conflict.", stats.conflicts),
        ("retried_updates_total", "Updates that were retried after a race.", stats.retried_updates),
        ("changes_lost_total", "How often what was kept for followers was given up.", stats.changes_lost),
    ];
    counts.into_iter().try_for_each(|(name, help, value)| metrics.counter(name, help, value as f64))?;
    let times = [
        ("slowed_seconds_total", "Time for which writes were slowed.", stats.slowed_ns),
        ("stalled_seconds_total", "Time for which writes waited for memory.", stats.stalled_ns),
    ];
    times.into_iter().try_for_each(|(name, help, value)| metrics.counter(name, help, value as f64 / NANOSECONDS))
}

/// What compaction filters did since the store was opened.
fn compaction_filters(metrics: &Metrics, stats: &Stats) -> Added {
    let counts = [
        ("removed", "Pairs that compaction filters have removed.", stats.compaction_filter_removed),
        ("replaced", "Pairs that compaction filters have given a new value.", stats.compaction_filter_replaced),
        ("panics", "Pairs that stayed because a compaction filter panicked.", stats.compaction_filter_panics),
        ("refused", "Pairs that stayed because their new value was too large.", stats.compaction_filter_refused),
        ("repeated", "Merges that were repeated without compaction filters.", stats.compaction_filter_repeated),
    ];
    counts.into_iter().try_for_each(|(name, help, value)| {
        metrics.counter(&format!("compaction_filter_{name}_total"), help, value as f64)
    })
}

/// Counters of reads since the store was opened.
fn reads(metrics: &Metrics, stats: &Stats) -> Added {
    let counts = [
        ("cache_hits_total", "Lookups of pages that were in the cache.", stats.cache_hits),
        ("cache_misses_total", "Lookups of pages that were not.", stats.cache_misses),
        ("item_hits_total", "Gets that cached values answered.", stats.item_hits),
        ("read_waits_total", "Times that reads waited for the disk.", stats.read_waits),
    ];
    counts.into_iter().try_for_each(|(name, help, value)| metrics.counter(name, help, value as f64))?;
    let waited = stats.read_wait_ns as f64 / NANOSECONDS;
    metrics.counter("read_wait_seconds_total", "Time that reads waited for the disk.", waited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    use prometheus_parse::{Scrape, Value};
    use std::collections::BTreeSet;

    /// The values by name, and by name and label.
    fn parsed(text: &str) -> HashMap<String, f64> {
        let scrape = Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).unwrap();
        let value = |value: &Value| match value {
            Value::Counter(value) | Value::Gauge(value) => *value,
            other => panic!("{other:?}"),
        };
        let name = |sample: &prometheus_parse::Sample| {
            assert_eq!(sample.labels.get("store"), Some("/srv/db"));
            let label = ["kind", "height"].into_iter().find_map(|label| sample.labels.get(label));
            label.map_or(sample.metric.clone(), |label| format!("{}/{label}", sample.metric))
        };
        let samples: HashMap<_, _> = scrape.samples.iter().map(|sample| (name(sample), value(&sample.value))).collect();
        assert_eq!(samples.len(), scrape.samples.len(), "a name is there twice");
        samples
    }

    #[test]
    fn a_parser_reads_the_text() {
        let level = |height, bytes| {
            let mut level = alluvium::LevelStats::default();
            (level.height, level.bytes) = (height, bytes);
            level
        };
        let mut stats = Stats::default();
        stats.levels = vec![level(1, 10), level(0, 99)];
        (stats.writes, stats.slowed_ns, stats.disk_full) = (1 << 40, 1_500_000_000, true);
        (stats.cache_bytes, stats.cache_leaf_bytes) = (50, 20);
        stats.running = vec![alluvium::BackgroundTask::default(); 2];
        let directory = Path::new("/srv/db");
        let found = parsed(&text(directory, &stats, Some(Duration::from_millis(250)), 3).unwrap());
        for (name, value) in [
            ("alluvium_keyspaces", 3.0),
            ("alluvium_level_bytes/0", 99.0),
            ("alluvium_level_bytes/1", 10.0),
            ("alluvium_writer_open", 1.0),
            ("alluvium_statistics_age_seconds", 0.25),
            ("alluvium_disk_full", 1.0),
            ("alluvium_failed", 0.0),
            ("alluvium_writes_total", (1_u64 << 40) as f64),
            ("alluvium_slowed_seconds_total", 1.5),
            ("alluvium_cache_bytes/leaf", 20.0),
            ("alluvium_cache_bytes/other", 30.0),
            ("alluvium_running_tasks/incorporate", 2.0),
        ] {
            assert_eq!(found.get(name), Some(&value), "{name}");
        }
        let closed = parsed(&text(directory, &stats, None, 3).unwrap());
        assert_eq!((closed["alluvium_writer_open"], closed["alluvium_level_bytes/0"]), (0.0, 99.0));
        assert!(!closed.contains_key("alluvium_writes_total"), "counters of this reader mean nothing");
    }

    /// What only one of the two has: what needs no recorder, and what needs the open store.
    const ONLY_HERE: [&str; 8] = [
        "alluvium_keyspaces",
        "alluvium_level_bytes",
        "alluvium_level_entries",
        "alluvium_level_tombstones",
        "alluvium_level_runs",
        "alluvium_writer_open",
        "alluvium_statistics_age_seconds",
        "alluvium_background_write_limit_bytes",
    ];
    const ONLY_IN_THE_CRATE: [&str; 2] = ["alluvium_latency_seconds", "alluvium_measured_calls"];

    /// Regression test: many names and units differed, so that no dashboard served both.
    #[test]
    fn the_feature_metrics_has_the_same_names_and_units() {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let stats = metrics::with_local_recorder(&recorder, || {
            let options = alluvium::Options::new().memory_budget(16 << 20).latencies(true);
            let db = alluvium::Db::open_temporary(options).unwrap();
            for number in 0..100_u32 {
                db.put(number.to_be_bytes(), "silt").unwrap();
            }
            db.flush().unwrap();
            db.settle().unwrap();
            db.publish_metrics("/srv/db").unwrap();
            db.stats()
        });
        let mut of_crate = HashMap::new();
        for (key, _, _, value) in snapshotter.snapshot().into_vec() {
            let (_, key) = key.into_parts();
            if ONLY_IN_THE_CRATE.contains(&key.name()) {
                continue;
            }
            let kind = key.labels().find(|label| label.key() != "store").map(|label| format!("/{}", label.value()));
            let value = match value {
                DebugValue::Counter(value) => value as f64,
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(_) => panic!("{}", key.name()),
            };
            of_crate.insert(format!("{}{}", key.name(), kind.unwrap_or_default()), value);
        }
        let mut here = parsed(&text(Path::new("/srv/db"), &stats, Some(Duration::ZERO), 0).unwrap());
        here.retain(|name, _| !ONLY_HERE.contains(&name.split('/').next().unwrap()));
        // The crate has all kinds of tasks, here are those that run.
        for names in [&mut of_crate, &mut here] {
            names.retain(|name, _| !name.starts_with("alluvium_running_tasks/"));
        }
        let names = |of: &HashMap<String, f64>| of.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names(&of_crate), names(&here));
        for name in ["writes_total", "user_bytes_total", "branch_bytes", "incorporated_bytes_total", "last_number"] {
            let name = format!("alluvium_{name}");
            assert!(of_crate[&name] > 0.0 && of_crate[&name] == here[&name], "{name}");
        }
    }
}
