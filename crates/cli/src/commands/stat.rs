//! `stat`: prints the tree level by level, then the statistics of the store and those that a writing process has
//! published. Of a file system in the store it prints the superblock.

use crate::arguments::{Common, Stat};
use crate::commands::file_system::{add_section, with_store};
use crate::commands::{prometheus, stat_watch};
use crate::failure::Failure;
use crate::output::Output;
use crate::report::{Report, align_right, grouped, size, table};
use alluvium::{BackgroundTask, Db, LevelStats, LiveStats, Stats};
use comfy_table::Table;
use serde_json::{Value, json};

/// Prints the statistics.
pub fn run(common: &Common, arguments: &Stat) -> Result<(), Failure> {
    let common = &with_store(common, &arguments.of)?;
    if let Some(interval) = arguments.watch {
        return stat_watch::run(common, interval, arguments.times.unwrap_or(u64::MAX));
    }
    let db = common.open_to_read()?;
    let (opened, keyspaces) = (db.stats(), db.keyspace_names()?.len() as u64);
    let live = Db::live_stats(common.directory()?)?;
    let stats = joined(opened, live.as_ref());
    if arguments.prometheus {
        let text = prometheus::text(common.directory()?, &stats, live.as_ref().map(|live| live.age), keyspaces);
        let mut output = Output::new();
        output.line(text.map_err(|error| prometheus::failure(&error))?.trim_end())?;
        return output.finish();
    }
    let mut report = statistics(&stats);
    report.count("keyspaces", if keyspaces > 0 { "keyspaces besides the default one" } else { "" }, keyspaces);
    add_section(&mut report, &db)?;
    writer(&mut report, live.as_ref());
    if common.json {
        return report.print(true);
    }
    let mut output = Output::new();
    if stats.levels.is_empty() {
        output.line("The disk component is empty: all data is in memory and in the log.")?;
    } else if stats.disk_component == "trunk" {
        output.line(tree(&stats.levels))?;
    } else {
        output.line(format!("Levels, {}:", stats.disk_component))?;
        output.line(levels(&stats.levels))?;
    }
    output.line(report.table())?;
    output.finish()
}

/// Statistics of the store as opened now, and those that only the writer knows, as of their publication.
fn joined(opened: Stats, live: Option<&LiveStats>) -> Stats {
    let Some(live) = live else { return opened };
    let mut joined = live.stats.clone();
    joined.last_number = opened.last_number;
    joined.synced_number = opened.synced_number;
    joined.incorporated_number = opened.incorporated_number;
    joined.disk_component = opened.disk_component;
    joined.levels = with_misses(opened.levels, &live.stats.levels);
    joined.branch_files = opened.branch_files;
    joined.branch_bytes = opened.branch_bytes;
    joined.value_files = opened.value_files;
    joined.log_bytes = opened.log_bytes;
    joined.log_shadow_bytes = opened.log_shadow_bytes;
    joined.log_discarded_writes = opened.log_discarded_writes;
    joined.ballast_bytes = opened.ballast_bytes;
    joined
}

/// The levels as opened now, with what the writer missed in its cache.
fn with_misses(opened: Vec<LevelStats>, live: &[LevelStats]) -> Vec<LevelStats> {
    let of_height = |height| live.iter().find(|level| level.height == height);
    let with = |mut level: LevelStats| {
        level.cache_misses = of_height(level.height).map_or(level.cache_misses, |level| level.cache_misses);
        level
    };
    opened.into_iter().map(with).collect()
}

/// The writer: process id, age of its statistics, and running tasks.
fn writer(report: &mut Report, live: Option<&LiveStats>) {
    let Some(LiveStats { stats, process, age, .. }) = live else {
        report.member("writer", Value::Null);
        return;
    };
    let (process, age) = (*process, age.as_secs_f64());
    let running: Vec<_> = stats.running.iter().map(task_json).collect();
    let published = json!({
        "process": process,
        "age_s": age,
        "background_write_limit": stats.background_write_limit,
        "background_paused": stats.background_paused,
        "disk_full": stats.disk_full,
        "running": running,
    });
    report.add("writer", "open for writing", published, format!("process {process}, as of {age:.1} s ago"));
    for (label, text) in writer_counters(stats) {
        report.text(label, text);
    }
    for task in &stats.running {
        report.text("running now", task.to_string());
    }
}

/// The writer's counters since it opened the store, as text for people.
fn writer_counters(stats: &Stats) -> Vec<(&'static str, String)> {
    let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
    let (looked, writes) = (stats.cache_hits + stats.cache_misses, grouped(stats.writes));
    let mut rows = vec![("written by users", size(stats.user_bytes))];
    if stats.user_bytes > 0 {
        rows.push(("write amplification", format!("{:.2}", stats.write_amplification())));
    }
    if looked > 0 {
        rows.push(("page cache hit", format!("{:.1}%", stats.cache_hits as f64 / looked as f64 * 100.0)));
    }
    let kinds = [stats.cache_leaf_bytes, stats.cache_index_bytes, stats.cache_filter_bytes];
    if kinds.iter().any(|bytes| *bytes > 0) {
        let rest = size(stats.cache_bytes.saturating_sub(kinds.iter().sum()));
        let [leaves, index, filters] = kinds.map(size);
        let text = format!("{leaves}, {index}, {filters}, {rest}");
        rows.push(("cached leaves; index, fences; filters, maplets; rest", text));
    }
    if stats.read_waits > 0 {
        let each = stats.read_wait_ns as f64 / 1e3 / stats.read_waits as f64;
        rows.push(("reads that waited for the disk", format!("{}, {each:.0} us each", grouped(stats.read_waits))));
    }
    if stats.searches.iter().any(|count| *count > 0) {
        let counts = stats.searches.map(grouped).join(", ");
        rows.push(("searches by runs: 1, 2, 3, 4, 5-6, 7-8, 9-16, more", counts));
    }
    if stats.rows_ahead > 0 {
        rows.push(("pairs that scans read ahead", grouped(stats.rows_ahead)));
    }
    let tree_work = [
        ("leaves split", stats.splits),
        ("nodes joined", stats.joins),
        ("files rewritten to drop dead data", stats.live_rewrites),
    ];
    rows.extend(tree_work.into_iter().filter(|(_, count)| *count > 0).map(|(label, count)| (label, grouped(count))));
    if stats.ingests > 0 {
        rows.push(("ingested", format!("{} in {} ingests", size(stats.ingested_bytes), grouped(stats.ingests))));
    }
    if stats.changes_lost > 0 {
        rows.push(("kept changes given up", format!("{} times", grouped(stats.changes_lost))));
    }
    if stats.reused_bytes > 0 {
        rows.push(("reused unchanged by merges", size(stats.reused_bytes)));
    }
    let for_reads =
        [("merged for scans", stats.scan_compacted_bytes), ("rewritten in quiet times", stats.quiet_compacted_bytes)];
    rows.extend(for_reads.into_iter().filter(|(_, bytes)| *bytes > 0).map(|(label, bytes)| (label, size(bytes))));
    if stats.skipped[1..].iter().any(|count| *count > 0) {
        let counts = stats.skipped.map(grouped);
        rows.push(("entries by levels skipped, from 0", counts.join(", ")));
    }
    let buffers =
        [("left in memory by merges", stats.buffered_bytes), ("written by checkpoints of it", stats.checkpoint_bytes)];
    rows.extend(buffers.into_iter().filter(|(_, bytes)| *bytes > 0).map(|(label, bytes)| (label, size(bytes))));
    let delays = [
        ("writes slowed", stats.slowed_writes, stats.slowed_ns),
        ("writes slowed for garbage", stats.garbage_slowed_writes, stats.garbage_slowed_ns),
        ("writes that waited for memory", stats.stalled_writes, stats.stalled_ns),
    ];
    for (label, count, time) in delays.into_iter().filter(|(_, count, _)| *count > 0) {
        rows.push((label, format!("{} of {writes}, {:.0} ms in total", grouped(count), milliseconds(time))));
    }
    if stats.longest_delay_ns > 0 {
        rows.push(("longest delay of a write", format!("{:.1} ms", milliseconds(stats.longest_delay_ns))));
    }
    let conflicts = [("transactions that conflicted", stats.conflicts), ("updates retried", stats.retried_updates)];
    rows.extend(conflicts.into_iter().filter(|(_, count)| *count > 0).map(|(label, count)| (label, grouped(count))));
    if let Some(limit) = stats.background_write_limit {
        rows.push(("background write limit", format!("{}/s", size(limit))));
    }
    for (holds, label, text) in [
        (stats.background_paused, "background work", "merges are paused"),
        (stats.disk_full, "disk", "full: puts are rejected"),
    ] {
        if holds {
            rows.push((label, text.into()));
        }
    }
    rows
}

/// A running task as JSON.
pub fn task_json(task: &BackgroundTask) -> Value {
    let key = |key: &[u8]| key.escape_ascii().to_string();
    json!({
        "kind": task.kind.to_string(),
        "node": task.node,
        "height": task.height,
        "from": key(&task.from),
        "to": task.to.as_deref().map(key),
        "bytes_done": task.bytes_done,
        "bytes_total": task.bytes_total,
        "bytes_written": task.bytes_written,
        "runs_for_s": task.runs_for.as_secs_f64(),
        "paused": task.paused,
    })
}

/// The tree as a table, root first.
fn tree(levels: &[LevelStats]) -> Table {
    let mut table =
        table(&["level", "nodes", "bundles", "branches", "entries", "tombstones", "size", "runs", "probes"]);
    for level in levels {
        let name = match level.height {
            0 => "0 (leaves)".to_string(),
            height if height + 1 == levels.len() as u32 => format!("{height} (root)"),
            height => height.to_string(),
        };
        table.add_row([
            name,
            grouped(level.nodes),
            grouped(level.bundles),
            grouped(level.branches),
            grouped(level.entries),
            grouped(level.tombstones),
            size(level.bytes),
            level.runs.to_string(),
            level.probes.to_string(),
        ]);
    }
    align_right(&mut table, 1);
    table
}

/// The levels of a leveled or tiered store, the newest first.
fn levels(levels: &[LevelStats]) -> Table {
    let mut table = table(&["level", "runs", "files", "entries", "tombstones", "size"]);
    for (at, level) in levels.iter().enumerate() {
        table.add_row([
            at.to_string(),
            level.runs.to_string(),
            grouped(level.branches),
            grouped(level.entries),
            grouped(level.tombstones),
            size(level.bytes),
        ]);
    }
    align_right(&mut table, 1);
    table
}

/// A level of the tree as JSON.
pub fn level_json(level: &LevelStats) -> Value {
    json!({
        "height": level.height,
        "nodes": level.nodes,
        "bundles": level.bundles,
        "branches": level.branches,
        "entries": level.entries,
        "tombstones": level.tombstones,
        "bytes": level.bytes,
        "runs": level.runs,
        "probes": level.probes,
        "cache_misses": level.cache_misses,
    })
}

/// All statistics. Counters that only cover this short-lived process appear only in JSON.
fn statistics(stats: &Stats) -> Report {
    let mut report = Report::new();
    let (waits, keeps) = (stats.buffer_bytes > 0, stats.change_bytes > 0);
    let credit = if stats.quiet_credit_bytes > 0 { "may be rewritten in quiet times" } else { "" };
    report
        .member("component", stats.disk_component.into())
        .member("levels", stats.levels.iter().map(level_json).collect())
        .count("branch_files", "branch files", stats.branch_files)
        .size("branch_bytes", "bytes in branch files", stats.branch_bytes)
        .count("value_files", "value files", stats.value_files)
        .size("log_bytes", "bytes of log", stats.log_bytes)
        .size("log_shadow_bytes", "bytes of the log's shadows", stats.log_shadow_bytes)
        .size("change_bytes", if keeps { "bytes of kept changes" } else { "" }, stats.change_bytes)
        .count("changes_after", if keeps { "changes kept after number" } else { "" }, stats.changes_after)
        .size("ballast_bytes", "disk space reserved as ballast", stats.ballast_bytes)
        .count("last_number", "newest sequence number", stats.last_number)
        .count("synced_number", "synced through sequence number", stats.synced_number)
        .count("incorporated_number", "incorporated through sequence number", stats.incorporated_number)
        .count("approximate_keys", "keys, about", stats.approximate_keys())
        .count("memory_entries", "entries in memory", stats.memory_entries)
        .size("memory_bytes", "bytes in memory", stats.memory_bytes)
        .count("generations", "memory generations", stats.generations)
        .size("cache_bytes", "page cache in use", stats.cache_bytes)
        .count("items", "values in the item cache", stats.items)
        .size("memory_budget", "memory budget", stats.memory_budget)
        .size("debt_bytes", "background work due", stats.debt_bytes)
        .size("garbage_bytes", "probably garbage", stats.garbage_bytes);
    report
        .count("cache_hits", "", stats.cache_hits)
        .count("cache_misses", "", stats.cache_misses)
        .size("cache_leaf_bytes", "", stats.cache_leaf_bytes)
        .size("cache_index_bytes", "", stats.cache_index_bytes)
        .size("cache_filter_bytes", "", stats.cache_filter_bytes)
        .count("item_hits", "", stats.item_hits)
        .member("searches", stats.searches.to_vec().into())
        .count("rows_ahead", "", stats.rows_ahead)
        .count("read_waits", "", stats.read_waits)
        .count("read_wait_ns", "", stats.read_wait_ns)
        .count("snapshots", "", stats.snapshots)
        .member("oldest_snapshot_s", stats.oldest_snapshot.map(|age| age.as_secs_f64()).into())
        .count("writes", "", stats.writes)
        .size("user_bytes", "", stats.user_bytes)
        .size("logged_bytes", "", stats.logged_bytes)
        .size("incorporated_bytes", "", stats.incorporated_bytes)
        .size("compacted_bytes", "", stats.compacted_bytes)
        .size("scan_compacted_bytes", "", stats.scan_compacted_bytes)
        .size("quiet_compacted_bytes", "", stats.quiet_compacted_bytes)
        .size("quiet_credit_bytes", credit, stats.quiet_credit_bytes)
        .decimal("write_amplification", "", stats.write_amplification())
        .count("incorporations", "", stats.incorporations)
        .size("ingested_bytes", "", stats.ingested_bytes)
        .count("ingests", "", stats.ingests)
        .count("changes_lost", "", stats.changes_lost)
        .count("jobs", "", stats.jobs)
        .count("splits", "", stats.splits)
        .count("joins", "", stats.joins)
        .count("live_rewrites", "", stats.live_rewrites)
        .size("reused_bytes", "", stats.reused_bytes)
        .member("skipped", stats.skipped.to_vec().into())
        .size("buffer_bytes", if waits { "waiting in memory" } else { "" }, stats.buffer_bytes)
        .size("parent_bytes", if waits { "files kept for it" } else { "" }, stats.parent_bytes)
        .size("buffered_bytes", "", stats.buffered_bytes)
        .size("transition_bytes", "", stats.transition_bytes)
        .size("checkpoint_bytes", "", stats.checkpoint_bytes)
        .count("buffered_rows", "", stats.buffered_rows)
        .count("slowed_writes", "", stats.slowed_writes)
        .count("slowed_ns", "", stats.slowed_ns)
        .count("garbage_slowed_writes", "", stats.garbage_slowed_writes)
        .count("garbage_slowed_ns", "", stats.garbage_slowed_ns)
        .count("stalled_writes", "", stats.stalled_writes)
        .count("stalled_ns", "", stats.stalled_ns)
        .count("longest_delay_ns", "", stats.longest_delay_ns)
        .count("conflicts", "", stats.conflicts)
        .count("retried_updates", "", stats.retried_updates)
        .count("compaction_filter_removed", "", stats.compaction_filter_removed)
        .count("compaction_filter_replaced", "", stats.compaction_filter_replaced)
        .count("compaction_filter_panics", "", stats.compaction_filter_panics)
        .count("compaction_filter_refused", "", stats.compaction_filter_refused)
        .count("compaction_filter_repeated", "", stats.compaction_filter_repeated)
        .count("log_shadows_refused", "", stats.log_shadows_refused)
        .count("log_discarded_writes", "", stats.log_discarded_writes);
    let label = if stats.failure.is_some() { "failure" } else { "" };
    report.add("failure", label, stats.failure.clone().into(), stats.failure.clone().unwrap_or_default());
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: the delays of a live store's writes were only in the JSON output.
    #[test]
    fn write_delays_are_shown_as_text() {
        let idle = writer_counters(&Stats::default());
        assert_eq!(idle.len(), 1, "{idle:?}");
        let mut stats = Stats::default();
        (stats.user_bytes, stats.incorporated_bytes, stats.writes) = (1000, 1200, 9);
        (stats.slowed_writes, stats.slowed_ns, stats.longest_delay_ns) = (3, 2_000_000, 1_500_000);
        (stats.garbage_slowed_writes, stats.garbage_slowed_ns) = (2, 1_000_000);
        (stats.splits, stats.joins, stats.live_rewrites, stats.reused_bytes) = (7, 5, 1, 2048);
        (stats.quiet_compacted_bytes, stats.scan_compacted_bytes) = (4096, 1 << 20);
        (stats.cache_hits, stats.cache_misses) = (3, 1);
        (stats.cache_leaf_bytes, stats.cache_index_bytes, stats.cache_filter_bytes) = (8192, 4096, 0);
        stats.cache_bytes = 14 << 10;
        (stats.searches, stats.rows_ahead) = ([2000, 1, 0, 0, 0, 0, 0, 3], 1500);
        (stats.read_waits, stats.read_wait_ns) = (4, 500_000);
        (stats.conflicts, stats.retried_updates) = (6, 1234);
        (stats.background_paused, stats.disk_full, stats.background_write_limit) = (true, true, Some(1 << 20));
        let rows = writer_counters(&stats).into_iter().map(|(label, text)| format!("{label}: {text}\n"));
        let expected = "written by users: 1000 B\nwrite amplification: 1.20\npage cache hit: 75.0%\n\
            cached leaves; index, fences; filters, maplets; rest: 8.0 KiB, 4.0 KiB, 0 B, 2.0 KiB\nreads that waited for the disk: 4, 125 us each\n\
            searches by runs: 1, 2, 3, 4, 5-6, 7-8, 9-16, more: 2,000, 1, 0, 0, 0, 0, 0, 3\npairs that scans read ahead: 1,500\n\
            leaves split: 7\nnodes joined: 5\nfiles rewritten to drop dead data: 1\nreused unchanged by merges: 2.0 KiB\n\
            merged for scans: 1.0 MiB\nrewritten in quiet times: 4.0 KiB\nwrites slowed: 3 of 9, 2 ms in total\nwrites slowed for garbage: 2 of 9, 1 ms in total\nlongest delay of a write: 1.5 ms\n\
            transactions that conflicted: 6\nupdates retried: 1,234\nbackground write limit: 1.0 MiB/s\n\
            background work: merges are paused\ndisk: full: puts are rejected\n";
        assert_eq!(rows.collect::<String>(), expected);
    }

    #[test]
    fn levels_come_root_first_and_figures_in_both_forms() {
        let level = |height, nodes| {
            let mut level = LevelStats::default();
            (level.height, level.nodes, level.bytes) = (height, nodes, 4096);
            level
        };
        let mut stats = Stats::default();
        (stats.levels, stats.branch_files) = (vec![level(1, 1), level(0, 8)], 12_345);
        let text = tree(&stats.levels).to_string();
        assert!(text.find("1 (root)") < text.find("0 (leaves)"), "{text}");
        let report = statistics(&stats);
        assert_eq!(report.json()["levels"][1]["nodes"], 8);
        assert_eq!(report.json()["branch_files"], 12_345);
        assert!(report.json()["failure"].is_null());
        (stats.joins, stats.garbage_bytes, stats.garbage_slowed_ns) = (3, 4, 5);
        let rows = statistics(&stats).json();
        assert_eq!(
            (&rows["joins"], &rows["garbage_bytes"], &rows["garbage_slowed_ns"]),
            (&json!(3), &json!(4), &json!(5))
        );
        assert!(report.table().to_string().contains("12,345"));
    }

    #[test]
    fn what_waits_in_memory_is_shown_only_if_there_is_some() {
        let shown = |buffer_bytes| {
            let mut stats = Stats::default();
            (stats.buffer_bytes, stats.parent_bytes) = (buffer_bytes, 2 * buffer_bytes);
            statistics(&stats).table().to_string().contains("waiting in memory")
        };
        assert_eq!([0, 4096].map(shown), [false, true]);
    }

    /// The levels of the reader that `stat` is were shown, which has missed nothing.
    #[test]
    fn misses_are_those_of_the_writer() {
        let level = |height, branches, cache_misses| {
            let mut level = LevelStats::default();
            (level.height, level.branches, level.cache_misses) = (height, branches, cache_misses);
            level
        };
        let (opened, live) = ([level(1, 2, 0), level(0, 7, 0)], [level(2, 1, 9), level(0, 6, 5)]);
        assert_eq!(with_misses(opened.into(), &live), [level(1, 2, 0), level(0, 7, 5)]);
    }
}
