//! The results in the terminal: a table for each workload, a row per engine.

use crate::engines::OURS;
use crate::record::Conditions;
use crate::summary::{Group, Ratio, Series};
use crate::text::{count, figures, figures_or_dash};
use alluvium_bench::Settings;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

const HEADINGS: [&str; 15] = [
    "engine",
    "ops/s",
    "ours is",
    "CPU us",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "max ms",
    "write amp",
    "log amp",
    "space amp",
    "RSS MiB",
    "settle s",
    "other load",
    "runs",
];

/// All tables, with their common conditions above them.
pub fn render(groups: &[Group<'_>]) -> String {
    let mut text = String::new();
    let mut last: Option<&Conditions> = None;
    for group in groups {
        if last != Some(&group.conditions) {
            text.push_str(&format!("\n{}\n", describe(&group.conditions)));
            last = Some(&group.conditions);
        }
        text.push_str(&format!("\n{}\n{}\n", group.workload, table(group)));
    }
    text
}

/// The conditions in a sentence.
pub fn describe(conditions: &Conditions) -> String {
    let Conditions { num, threads, memory_mib, sync, key_size, key_prefix, seek_nexts, value_size, limit, .. } =
        conditions;
    let default = Settings::default().seek_nexts;
    let scans = if *seek_nexts != default { format!(", seeks + {seek_nexts}") } else { String::new() };
    let shared = if *key_prefix > 0 { format!(" ({key_prefix} of them the same in all)") } else { String::new() };
    let memory = match (memory_mib, limit.as_str()) {
        (0, "none") => "default options, all of the machine's memory".to_owned(),
        (0, limit) => format!("default options, memory limited ({limit})"),
        (mib, "none") => format!("{mib} MiB of memory for each engine (not enforced)"),
        (mib, _) => format!("{mib} MiB of memory for each engine (page cache included)"),
    };
    format!(
        "{} pairs of {key_size}{shared} and {value_size} bytes, {threads} thread{}, {memory}, {}{scans}",
        count(*num as f64),
        if *threads == 1 { "" } else { "s" },
        if *sync { "every write synced" } else { "log on, not synced" }
    )
}

fn table(group: &Group<'_>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(HEADINGS);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let ours = group.of(OURS);
    for series in &group.series {
        table.add_row(row(series, ours));
    }
    table
}

fn row(series: &Series<'_>, ours: Option<&Series<'_>>) -> Vec<String> {
    let median = |figure: fn(&alluvium_bench::Outcome) -> f64| series.median(|record| figure(&record.outcome));
    let some = |figure: fn(&alluvium_bench::Outcome) -> Option<f64>| {
        figures_or_dash(series.median_of_some(|record| figure(&record.outcome)))
    };
    let ratio = ours.filter(|_| series.engine != OURS).and_then(|ours| ours.speed_ratio(series));
    let load = series.worst(|record| record.other_load_percent);
    vec![
        series.engine.to_owned(),
        count(median(|outcome| outcome.ops_per_s)),
        ratio.map_or_else(String::new, times),
        figures(median(|outcome| outcome.cpu_us_per_op)),
        figures(median(|outcome| outcome.p50_us)),
        figures(median(|outcome| outcome.p99_us)),
        figures(median(|outcome| outcome.p999_us)),
        figures(series.worst(|record| record.outcome.max_ms)),
        some(|outcome| outcome.write_amp),
        some(|outcome| outcome.log_amp),
        figures(median(|outcome| outcome.space_amp)),
        format!("{:.0}", series.worst(|record| record.outcome.peak_rss_mb)),
        figures(median(|outcome| outcome.settle_s)),
        format!("{load:.0}%{}", if series.is_disturbed() { " !" } else { "" }),
        series.records.len().to_string(),
    ]
}

/// A ratio with its spread, if there is one: "6.0x (5.8–6.6)".
pub fn times(ratio: Ratio) -> String {
    match ratio.repeats {
        1 => format!("{}x", figures(ratio.median)),
        _ => format!("{}x ({}–{})", figures(ratio.median), figures(ratio.low), figures(ratio.high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::summary::groups;
    use alluvium_bench::Outcome;

    #[test]
    fn a_table_has_medians_ratios_and_marks() {
        let record = |engine: &str, repeat, ops_per_s, disturbed| {
            let outcome = Outcome {
                engine: engine.into(),
                workload: "fillrandom".into(),
                threads: 1,
                ops_per_s,
                write_amp: Some(2.25),
                ..Outcome::default()
            };
            Record { outcome, repeat, disturbed, path: "fillrandom".into(), load: 5_000_000, ..Record::default() }
        };
        let records = [
            record("alluvium", 1, 600_000.0, false),
            record("alluvium", 2, 660_000.0, false),
            record("rocksdb", 1, 200_000.0, false),
            record("rocksdb", 2, 200_000.0, true),
        ];
        let text = render(&groups(&records, &["alluvium", "rocksdb"]));
        for part in ["5.00M pairs", "1 thread,", "fillrandom", "630k", "200k", "3.15x (3.00–3.30)", "2.25", "0% !"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert_eq!(text.matches(" !").count(), 1);
    }
}
