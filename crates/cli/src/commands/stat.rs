//! `stat`: the tree level by level, then the figures of the store, and those that a process that writes to it has told of itself.

use crate::arguments::{Common, Stat};
use crate::commands::watch;
use crate::failure::Failure;
use crate::output::Output;
use crate::report::{Report, align_right, grouped, size, table};
use alluvium::{BackgroundTask, Db, LevelStats, LiveStats, Stats};
use comfy_table::Table;
use serde_json::{Value, json};

/// Prints the figures.
pub fn run(common: &Common, asked: &Stat) -> Result<(), Failure> {
    if let Some(interval) = asked.watch {
        return watch::run(common, interval, asked.times.unwrap_or(u64::MAX));
    }
    let opened = common.open_to_read()?.stats();
    let live = Db::live_stats(common.directory()?)?;
    let stats = joined(opened, live.as_ref());
    let mut report = figures(&stats);
    writer(&mut report, live.as_ref());
    if common.json {
        return report.print(true);
    }
    let mut output = Output::new();
    if stats.levels.is_empty() {
        output.line("The tree is empty: everything is in memory and in the log.")?;
    } else {
        output.line(tree(&stats.levels))?;
    }
    output.line(report.table())?;
    output.finish()
}

/// What the store holds as of now, and what only its writer knows as of when it told it.
fn joined(opened: Stats, live: Option<&LiveStats>) -> Stats {
    let Some(live) = live else { return opened };
    Stats {
        last_number: opened.last_number,
        synced_number: opened.synced_number,
        incorporated_number: opened.incorporated_number,
        levels: opened.levels,
        branch_files: opened.branch_files,
        branch_bytes: opened.branch_bytes,
        value_files: opened.value_files,
        log_bytes: opened.log_bytes,
        log_memory_bytes: opened.log_memory_bytes,
        ballast_bytes: opened.ballast_bytes,
        ..live.stats.clone()
    }
}

/// The writer: who it is, how old its figures are, and what it does.
fn writer(report: &mut Report, live: Option<&LiveStats>) {
    let Some(LiveStats { stats, process, age, .. }) = live else {
        report.member("writer", Value::Null);
        return;
    };
    let (process, age) = (*process, age.as_secs_f64());
    let running: Vec<_> = stats.running.iter().map(task_json).collect();
    let told = json!({
        "process": process,
        "age_s": age,
        "background_write_limit": stats.background_write_limit,
        "background_paused": stats.background_paused,
        "disk_full": stats.disk_full,
        "running": running,
    });
    report.add("writer", "open for writing", told, format!("process {process}, as of {age:.1} s ago"));
    for (label, text) in told_by_writer(stats) {
        report.text(label, text);
    }
    for task in &stats.running {
        report.text("running now", task.to_string());
    }
}

/// What only a writer's counters tell, for people, since it opened the store.
fn told_by_writer(stats: &Stats) -> Vec<(&'static str, String)> {
    let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
    let (looked, writes) = (stats.cache_hits + stats.cache_misses, grouped(stats.writes));
    let mut told = vec![("written by users", size(stats.user_bytes))];
    if stats.user_bytes > 0 {
        told.push(("write amplification", format!("{:.2}", stats.write_amplification())));
    }
    if looked > 0 {
        told.push(("page cache hit", format!("{:.1}%", stats.cache_hits as f64 / looked as f64 * 100.0)));
    }
    let of_tree =
        [("leaves split", stats.splits), ("nodes joined", stats.joins), ("files squeezed", stats.live_rewrites)];
    told.extend(of_tree.into_iter().filter(|(_, count)| *count > 0).map(|(label, count)| (label, grouped(count))));
    if stats.reused_bytes > 0 {
        told.push(("kept as it was by merges", size(stats.reused_bytes)));
    }
    let delays = [
        ("writes slowed", stats.slowed_writes, stats.slowed_ns),
        ("writes slowed for garbage", stats.garbage_slowed_writes, stats.garbage_slowed_ns),
        ("writes that waited for memory", stats.stalled_writes, stats.stalled_ns),
    ];
    for (label, count, time) in delays.into_iter().filter(|(_, count, _)| *count > 0) {
        told.push((label, format!("{} of {writes}, {:.0} ms in all", grouped(count), milliseconds(time))));
    }
    if stats.longest_delay_ns > 0 {
        told.push(("longest delay of a write", format!("{:.1} ms", milliseconds(stats.longest_delay_ns))));
    }
    let overtaken = [("transactions that conflicted", stats.conflicts), ("updates begun again", stats.retried_updates)];
    told.extend(overtaken.into_iter().filter(|(_, count)| *count > 0).map(|(label, count)| (label, grouped(count))));
    if let Some(limit) = stats.background_write_limit {
        told.push(("limit of background writes", format!("{}/s", size(limit))));
    }
    for (holds, label, text) in [
        (stats.background_paused, "background work", "merges are paused"),
        (stats.disk_full, "disk", "full: no puts are taken"),
    ] {
        if holds {
            told.push((label, text.into()));
        }
    }
    told
}

/// A task that runs, for programs.
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

/// The tree, root first.
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

/// A level of the tree, for programs.
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
    })
}

/// All figures; counters that only tell of this short-lived process are for programs only.
fn figures(stats: &Stats) -> Report {
    let mut report = Report::new();
    report
        .member("levels", stats.levels.iter().map(level_json).collect())
        .count("branch_files", "branch files", stats.branch_files)
        .size("branch_bytes", "bytes in branch files", stats.branch_bytes)
        .count("value_files", "value files", stats.value_files)
        .size("log_bytes", "bytes of log", stats.log_bytes)
        .size("log_memory_bytes", "bytes of log in shared memory", stats.log_memory_bytes)
        .size("ballast_bytes", "room kept for a full disk", stats.ballast_bytes)
        .count("last_number", "newest sequence number", stats.last_number)
        .count("synced_number", "synced through", stats.synced_number)
        .count("incorporated_number", "in branch files through", stats.incorporated_number)
        .count("memory_entries", "entries in memory", stats.memory_entries)
        .size("memory_bytes", "bytes in memory", stats.memory_bytes)
        .count("generations", "memory generations", stats.generations)
        .size("cache_bytes", "page cache in use", stats.cache_bytes)
        .count("items", "values cached apart from pages", stats.items)
        .size("memory_budget", "memory budget", stats.memory_budget)
        .size("debt_bytes", "background work waiting", stats.debt_bytes)
        .size("garbage_bytes", "probably garbage", stats.garbage_bytes);
    report
        .count("cache_hits", "", stats.cache_hits)
        .count("cache_misses", "", stats.cache_misses)
        .count("item_hits", "", stats.item_hits)
        .count("snapshots", "", stats.snapshots)
        .member("oldest_snapshot_s", stats.oldest_snapshot.map(|age| age.as_secs_f64()).into())
        .count("writes", "", stats.writes)
        .size("user_bytes", "", stats.user_bytes)
        .size("logged_bytes", "", stats.logged_bytes)
        .size("incorporated_bytes", "", stats.incorporated_bytes)
        .size("compacted_bytes", "", stats.compacted_bytes)
        .size("scan_compacted_bytes", "", stats.scan_compacted_bytes)
        .decimal("write_amplification", "", stats.write_amplification())
        .count("incorporations", "", stats.incorporations)
        .count("jobs", "", stats.jobs)
        .count("splits", "", stats.splits)
        .count("joins", "", stats.joins)
        .count("squeezes", "", stats.live_rewrites)
        .size("kept_bytes", "", stats.reused_bytes)
        .count("slowed_writes", "", stats.slowed_writes)
        .count("slowed_ns", "", stats.slowed_ns)
        .count("garbage_slowed_writes", "", stats.garbage_slowed_writes)
        .count("garbage_slowed_ns", "", stats.garbage_slowed_ns)
        .count("stalled_writes", "", stats.stalled_writes)
        .count("stalled_ns", "", stats.stalled_ns)
        .count("longest_delay_ns", "", stats.longest_delay_ns)
        .count("conflicts", "", stats.conflicts)
        .count("overtaken_updates", "", stats.retried_updates)
        .count("log_memory_refused", "", stats.log_memory_refused);
    let label = if stats.failure.is_some() { "failure" } else { "" };
    report.add("failure", label, stats.failure.clone().into(), stats.failure.clone().unwrap_or_default());
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, what slowed the writes of a live store stood in JSON alone.
    #[test]
    fn people_are_told_what_slows_a_writer() {
        let idle = told_by_writer(&Stats::default());
        assert_eq!(idle.len(), 1, "{idle:?}");
        let mut stats = Stats { user_bytes: 1000, incorporated_bytes: 1200, writes: 9, ..Stats::default() };
        (stats.slowed_writes, stats.slowed_ns, stats.longest_delay_ns) = (3, 2_000_000, 1_500_000);
        (stats.garbage_slowed_writes, stats.garbage_slowed_ns) = (2, 1_000_000);
        (stats.splits, stats.joins, stats.live_rewrites, stats.reused_bytes) = (7, 5, 1, 2048);
        (stats.cache_hits, stats.cache_misses) = (3, 1);
        (stats.conflicts, stats.retried_updates) = (6, 1234);
        (stats.background_paused, stats.disk_full, stats.background_write_limit) = (true, true, Some(1 << 20));
        let told = told_by_writer(&stats).into_iter().map(|(label, text)| format!("{label}: {text}\n"));
        let expected = "written by users: 1000 B\nwrite amplification: 1.20\npage cache hit: 75.0%\n\
            leaves split: 7\nnodes joined: 5\nfiles squeezed: 1\nkept as it was by merges: 2.0 KiB\n\
            writes slowed: 3 of 9, 2 ms in all\nwrites slowed for garbage: 2 of 9, 1 ms in all\nlongest delay of a write: 1.5 ms\n\
            transactions that conflicted: 6\nupdates begun again: 1,234\nlimit of background writes: 1.0 MiB/s\n\
            background work: merges are paused\ndisk: full: no puts are taken\n";
        assert_eq!(told.collect::<String>(), expected);
    }

    #[test]
    fn levels_come_root_first_and_figures_in_both_forms() {
        let level = |height, nodes| LevelStats { height, nodes, bytes: 4096, ..LevelStats::default() };
        let stats = Stats { levels: vec![level(1, 1), level(0, 8)], branch_files: 12_345, ..Stats::default() };
        let text = tree(&stats.levels).to_string();
        assert!(text.find("1 (root)") < text.find("0 (leaves)"), "{text}");
        let report = figures(&stats);
        assert_eq!(report.json()["levels"][1]["nodes"], 8);
        assert_eq!(report.json()["branch_files"], 12_345);
        assert!(report.json()["failure"].is_null());
        let told = Stats { joins: 3, garbage_bytes: 4, garbage_slowed_ns: 5, ..Stats::default() };
        let told = figures(&told).json();
        assert_eq!(
            (&told["joins"], &told["garbage_bytes"], &told["garbage_slowed_ns"]),
            (&json!(3), &json!(4), &json!(5))
        );
        assert!(report.table().to_string().contains("12,345"));
    }
}
