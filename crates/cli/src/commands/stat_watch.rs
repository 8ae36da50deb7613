//! `stat --watch`: prints a sample of a store's statistics at every interval, even while another process has the store
//! open. If that process publishes its statistics (`Db::live_stats`), the store is not opened, and the sample includes
//! the running background tasks. Otherwise the sample shows what the manifest, the log and the directory contain. Rates
//! cover the time since the previous sample; the first sample has none.

use crate::arguments::Common;
use crate::commands::stat::{level_json, task_json};
use crate::failure::Failure;
use crate::output::Output;
use crate::report::{grouped, size};
use alluvium::{BackgroundTask, Db, LevelStats, Stats};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// A writer publishes about once a second, so two samples may see the same statistics. Then the previous rates still
/// hold.
const SAME: Duration = Duration::from_millis(100);
/// Statistics older than this mean that nothing has changed since: the rates are 0.
const IDLE: Duration = Duration::from_millis(2500);

/// The writer that published the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WriterInfo {
    process: u32,
    age: Duration,
}

/// One sample.
struct Sample {
    /// The time of the statistics.
    at: Instant,
    stats: Stats,
    writer: Option<WriterInfo>,
    /// Branch files in the directory, with their bytes.
    files: BTreeMap<String, u64>,
}

impl Sample {
    fn take(common: &Common) -> Result<Self, Failure> {
        let directory = common.directory()?;
        let live = Db::live_stats(directory)?;
        let (stats, writer) = match live {
            Some(live) => (live.stats, Some(WriterInfo { process: live.process, age: live.age })),
            None => (common.open_to_read()?.stats(), None),
        };
        let now = Instant::now();
        let at = writer.and_then(|writer| now.checked_sub(writer.age)).unwrap_or(now);
        Ok(Self { at, stats, writer, files: branch_files(directory) })
    }

    /// Size of the branch files that the manifest does not name: those being written, and those about to be removed.
    fn unnamed_bytes(&self) -> u64 {
        self.files.values().sum::<u64>().saturating_sub(self.stats.branch_bytes)
    }
}

/// Files that are removed during the listing do not count.
fn branch_files(directory: &Path) -> BTreeMap<String, u64> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.ends_with(".branch").then(|| Some((name, entry.metadata().ok()?.len())))?
        })
        .collect()
}

/// Changes per second since the previous sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rates {
    writes: f64,
    background_bytes: f64,
    /// Rates that only a writer publishes.
    of_writer: Option<WriterRates>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct WriterRates {
    user_bytes: f64,
    slowed_writes: f64,
    /// The part of `slowed_writes` that was slowed because of garbage.
    garbage_slowed_writes: f64,
    /// Transactions that failed, and updates that were retried.
    conflicts: f64,
    /// Background bytes per user byte; `None` if users wrote nothing.
    write_amplification: Option<f64>,
    /// The share of cache lookups that hit; `None` if there were none.
    cache_hits: Option<f64>,
}

impl Rates {
    /// `last` are the rates of the previous sample, if any. Returns `None` as long as no rates are known.
    fn between(before: &Sample, now: &Sample, last: Option<Self>) -> Option<Self> {
        let time = now.at.saturating_duration_since(before.at);
        let seconds = time.as_secs_f64().max(1e-6);
        let rate =
            |figure: fn(&Stats) -> u64| figure(&now.stats).saturating_sub(figure(&before.stats)) as f64 / seconds;
        let writer = match (before.writer, now.writer) {
            (Some(before), Some(now)) if before.process == now.process => now,
            _ => {
                // A file that was created and removed between the samples is missed.
                let grown =
                    |(name, bytes): (&String, &u64)| bytes.saturating_sub(before.files.get(name).copied().unwrap_or(0));
                let written: u64 = now.files.iter().map(grown).sum();
                let writes = rate(|stats| stats.last_number);
                return Some(Self { writes, background_bytes: written as f64 / seconds, of_writer: None });
            }
        };
        if time < SAME {
            return if writer.age < IDLE {
                last
            } else {
                Some(Self { of_writer: Some(WriterRates::default()), ..Self::default() })
            };
        }
        let (user, background) =
            (rate(|stats| stats.user_bytes), rate(|stats| stats.incorporated_bytes + stats.compacted_bytes));
        let (hits, misses) = (rate(|stats| stats.cache_hits), rate(|stats| stats.cache_misses));
        let of_writer = WriterRates {
            user_bytes: user,
            slowed_writes: rate(|stats| stats.slowed_writes),
            garbage_slowed_writes: rate(|stats| stats.garbage_slowed_writes),
            conflicts: rate(|stats| stats.conflicts + stats.retried_updates),
            write_amplification: (user > 0.0).then(|| background / user),
            cache_hits: (hits + misses > 0.0).then(|| hits / (hits + misses)),
        };
        Some(Self { writes: rate(|stats| stats.writes), background_bytes: background, of_writer: Some(of_writer) })
    }
}

/// Prints `times` samples, one per interval.
pub fn run(common: &Common, interval: Duration, times: u64) -> Result<(), Failure> {
    let mut output = Output::new();
    let (mut before, mut rates): (Option<Sample>, Option<Rates>) = (None, None);
    for sample in 0..times {
        if sample > 0 {
            std::thread::sleep(interval);
        }
        let now = Sample::take(common)?;
        rates = before.as_ref().and_then(|before| Rates::between(before, &now, rates));
        output.line(if common.json { json(&now, rates).to_string() } else { text(&now, rates) })?;
        output.flush()?;
        before = Some(now);
    }
    output.finish()
}

/// The summary line, and a line for each notable fact about the writer.
fn text(sample: &Sample, rates: Option<Rates>) -> String {
    let mut text = line(sample, rates);
    let stats = &sample.stats;
    let mut add = |line: String| {
        text.push_str("\n  ");
        text.push_str(&line);
    };
    if let Some(WriterInfo { process, age }) = sample.writer {
        let of = rates.and_then(|rates| rates.of_writer);
        let or_none = |figure: Option<f64>, unit: f64, end| {
            figure.map_or("-".into(), |figure| format!("{:.1}{end}", figure * unit))
        };
        add(format!(
            "process {process}, {:.1} s ago: {}/s from users, write amplification {}, cache {}, hit rate {}, {} writes/s slowed",
            age.as_secs_f64(),
            rate(of.map(|of| of.user_bytes), size),
            or_none(of.and_then(|of| of.write_amplification), 1.0, ""),
            size(stats.cache_bytes),
            or_none(of.and_then(|of| of.cache_hits), 100.0, "%"),
            rate(of.map(|of| of.slowed_writes), grouped),
        ));
        if let Some(of) = of.filter(|of| of.garbage_slowed_writes >= 1.0) {
            let (slowed, garbage) = (grouped(of.garbage_slowed_writes as u64), size(stats.garbage_bytes));
            add(format!("{slowed} writes/s slowed because of garbage, about {garbage} in the tree"));
        }
        if let Some(of) = of.filter(|of| of.conflicts >= 1.0) {
            add(format!(
                "{} transactions or updates/s lost the race to a conflicting write",
                grouped(of.conflicts as u64)
            ));
        }
    }
    if let Some(limit) = stats.background_write_limit {
        add(format!("background writes limited to {}/s", size(limit)));
    }
    if stats.background_paused {
        add("merges are paused".into());
    }
    if stats.disk_full {
        add("the disk is full: puts are rejected".into());
    }
    stats.running.iter().for_each(|task| add(running(task)));
    if let Some(failure) = &stats.failure {
        add(format!("failure: {failure}"));
    }
    text
}

/// A running task and its progress.
fn running(task: &BackgroundTask) -> String {
    let share = (task.bytes_total > 0).then(|| format!(" ({}%)", task.bytes_done * 100 / task.bytes_total));
    format!("running: {task}{}", share.unwrap_or_default())
}

/// A rate per second, or "-" if it is not known.
fn rate(figure: Option<f64>, format: fn(u64) -> String) -> String {
    figure.map_or("-".into(), |figure| format(figure as u64))
}

fn line(sample: &Sample, rates: Option<Rates>) -> String {
    let stats = &sample.stats;
    let level = |level: &LevelStats| {
        let (nodes, bytes) = (level.nodes, size(level.bytes / level.nodes.max(1)));
        format!("{nodes}x{bytes}, {} runs", level.runs)
    };
    let levels: Vec<_> = stats.levels.iter().map(level).collect();
    format!(
        "{} writes/s, {}/s of background; memory {} entries; debt {}; tree {} in {} files [{}]; unnamed {}; log {}",
        rate(rates.map(|rates| rates.writes), grouped),
        rate(rates.map(|rates| rates.background_bytes), size),
        grouped(stats.memory_entries),
        size(stats.debt_bytes),
        size(stats.branch_bytes),
        grouped(stats.branch_files),
        levels.join(" / "),
        size(sample.unnamed_bytes()),
        size(stats.log_bytes),
    )
}

fn json(sample: &Sample, rates: Option<Rates>) -> serde_json::Value {
    let stats = &sample.stats;
    let of = rates.and_then(|rates| rates.of_writer);
    let writer = sample.writer.map(|WriterInfo { process, age }| {
        json!({
            "process": process,
            "age_s": age.as_secs_f64(),
            "user_bytes_per_second": of.map(|of| of.user_bytes),
            "slowed_writes_per_second": of.map(|of| of.slowed_writes),
            "garbage_slowed_writes_per_second": of.map(|of| of.garbage_slowed_writes),
            "conflicts_per_second": of.map(|of| of.conflicts),
            "write_amplification": of.and_then(|of| of.write_amplification),
            "cache_hit_share": of.and_then(|of| of.cache_hits),
            "cache_bytes": stats.cache_bytes,
            "memory_bytes": stats.memory_bytes,
            "slowed_writes": stats.slowed_writes,
            "slowed_ns": stats.slowed_ns,
            "garbage_slowed_writes": stats.garbage_slowed_writes,
            "garbage_slowed_ns": stats.garbage_slowed_ns,
            "conflicts": stats.conflicts,
            "retried_updates": stats.retried_updates,
            "stalled_writes": stats.stalled_writes,
            "longest_delay_ns": stats.longest_delay_ns,
            "background_write_limit": stats.background_write_limit,
            "background_paused": stats.background_paused,
            "disk_full": stats.disk_full,
            "failure": stats.failure,
            "running": stats.running.iter().map(task_json).collect::<Vec<_>>(),
        })
    });
    json!({
        "writes_per_second": rates.map(|rates| rates.writes),
        "background_bytes_per_second": rates.map(|rates| rates.background_bytes),
        "last_number": stats.last_number,
        "memory_entries": stats.memory_entries,
        "debt_bytes": stats.debt_bytes,
        "garbage_bytes": stats.garbage_bytes,
        "branch_bytes": stats.branch_bytes,
        "branch_files": stats.branch_files,
        "unnamed_bytes": sample.unnamed_bytes(),
        "log_bytes": stats.log_bytes,
        "levels": stats.levels.iter().map(level_json).collect::<Vec<_>>(),
        "writer": writer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: Instant, mut stats: Stats, writer: Option<WriterInfo>, files: &[(&str, u64)]) -> Sample {
        let files = files.iter().map(|(name, bytes)| ((*name).to_string(), *bytes)).collect();
        stats.branch_bytes = 100;
        Sample { at, stats, writer, files }
    }

    fn writer_info(process: u32, age_ms: u64) -> Option<WriterInfo> {
        Some(WriterInfo { process, age: Duration::from_millis(age_ms) })
    }

    #[test]
    fn without_a_writer_rates_come_from_sequence_numbers_and_files() {
        let start = Instant::now();
        let numbers = |last_number| {
            let mut stats = Stats::default();
            stats.last_number = last_number;
            stats
        };
        let before = sample(start, numbers(1000), None, &[("000001.branch", 100), ("000002.branch", 40)]);
        let after = start + Duration::from_secs(2);
        let files = [("000002.branch", 60), ("000003.branch", 500)];
        for writer in [None, writer_info(1, 0)] {
            let now = sample(after, numbers(3000), writer, &files);
            let rates = Rates::between(&before, &now, None).unwrap();
            assert!((rates.writes - 1000.0).abs() < 1e-6 && (rates.background_bytes - 260.0).abs() < 1e-6, "{rates:?}");
            assert_eq!((before.unnamed_bytes(), now.unnamed_bytes()), (40, 460));
            let shown = text(&now, Some(rates));
            assert!(shown.starts_with("1,000 writes/s, 260 B/s of background"), "{shown}");
            // Figures that only a writer publishes are unknown until two samples of the same writer exist.
            assert_eq!(shown.contains(": -/s from users"), writer.is_some(), "{shown}");
        }
    }

    #[test]
    fn with_a_writer_rates_come_from_its_counters() {
        let start = Instant::now();
        let stats = |times: u64| {
            let mut stats = Stats::default();
            stats.writes = 100 * times;
            stats.user_bytes = 1000 * times;
            stats.incorporated_bytes = 1500 * times;
            stats.compacted_bytes = 500 * times;
            stats.cache_hits = 30 * times;
            stats.cache_misses = 10 * times;
            stats.slowed_writes = 4 * times;
            stats.garbage_slowed_writes = 3 * times;
            stats.garbage_bytes = 2048;
            stats.conflicts = 4 * times;
            stats.retried_updates = times;
            stats
        };
        let before = sample(start, stats(1), writer_info(7, 300), &[]);
        let now = sample(start + Duration::from_secs(2), stats(3), writer_info(7, 100), &[]);
        let rates = Rates::between(&before, &now, None);
        let of_writer = WriterRates {
            user_bytes: 1000.0,
            slowed_writes: 4.0,
            garbage_slowed_writes: 3.0,
            conflicts: 5.0,
            write_amplification: Some(2.0),
            cache_hits: Some(0.75),
        };
        assert_eq!(rates, Some(Rates { writes: 100.0, background_bytes: 2000.0, of_writer: Some(of_writer) }));
        let shown = text(&now, rates);
        assert!(shown.contains("process 7, 0.1 s ago: 1000 B/s from users, write amplification 2.0"), "{shown}");
        assert!(shown.contains("hit rate 75.0%"), "{shown}");
        assert!(shown.contains("3 writes/s slowed because of garbage, about 2.0 KiB in the tree"), "{shown}");
        assert!(shown.contains("5 transactions or updates/s lost the race"), "{shown}");
        assert_eq!(json(&now, rates)["writer"]["garbage_slowed_writes"], 9);
        // The same statistics twice: not published again yet, so the last rates hold; later, the writer is idle.
        let twice = |age| Rates::between(&now, &sample(now.at, stats(3), writer_info(7, age), &[]), rates);
        assert_eq!(twice(900), rates);
        let idle = twice(3000).unwrap();
        assert_eq!((idle.writes, idle.of_writer), (0.0, Some(WriterRates::default())));
        let still_unknown = Rates::between(&now, &sample(now.at, stats(3), writer_info(7, 900), &[]), None);
        assert_eq!(still_unknown, None);
    }

    /// Regression test: the first sample reported 0 writes per second, whatever the writer did.
    #[test]
    fn the_first_sample_has_no_rates() {
        let mut stats = Stats::default();
        stats.levels = [(1, 1, 3), (0, 2, 8)]
            .map(|(height, nodes, runs)| {
                let mut level = LevelStats::default();
                (level.height, level.nodes, level.runs, level.bytes) = (height, nodes, runs, 4096);
                level
            })
            .to_vec();
        let first = sample(Instant::now(), stats, writer_info(7, 100), &[]);
        let (shown, value) = (text(&first, None), json(&first, None));
        assert!(shown.starts_with("- writes/s, -/s of background;"), "{shown}");
        assert!(shown.contains(": -/s from users") && shown.contains("- writes/s slowed"), "{shown}");
        assert!(shown.contains("[1x4.0 KiB, 3 runs / 2x2.0 KiB, 8 runs]"), "{shown}");
        assert!(value["writes_per_second"].is_null() && value["background_bytes_per_second"].is_null(), "{value}");
        assert!(value["writer"]["user_bytes_per_second"].is_null() && value["writer"]["process"] == 7, "{value}");
        assert_eq!(value["levels"][1]["runs"], 8);
    }

    #[test]
    fn tasks_and_problems_of_a_writer_are_shown() {
        let mut task = BackgroundTask::default();
        (task.kind, task.node, task.height) = (alluvium::BackgroundKind::Merge, Some(3), Some(0));
        (task.from, task.runs_for) = (b"a".to_vec(), Duration::from_millis(1500));
        (task.bytes_done, task.bytes_total, task.bytes_written) = (30, 40, 10);
        let mut stats = Stats::default();
        (stats.running, stats.background_write_limit) = (vec![task], Some(2048));
        (stats.background_paused, stats.disk_full) = (true, true);
        stats.failure = Some("the disk died".into());
        let sample = sample(Instant::now(), stats, writer_info(7, 100), &[]);
        let (shown, value) = (text(&sample, Some(Rates::default())), json(&sample, Some(Rates::default())));
        for part in ["merge at node 3", "(75%)", "limited to 2.0 KiB/s", "paused", "full", "failure: the disk died"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let writer = &value["writer"];
        assert_eq!((&writer["process"], &writer["background_write_limit"]), (&json!(7), &json!(2048)));
        let task = json!({ "kind": "merge", "node": 3, "height": 0, "from": "a", "to": null, "bytes_done": 30, "bytes_total": 40,
            "bytes_written": 10, "runs_for_s": 1.5, "paused": false });
        assert_eq!(writer["running"], json!([task]));
    }
}
