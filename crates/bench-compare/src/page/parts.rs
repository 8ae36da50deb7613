//! The page around the plots: the head, conditions, tables, settings.

use super::escape::escape;
use crate::engines::OURS;
use crate::machine::about::Machine;
use crate::record::Conditions;
use crate::summary::{Group, Series};
use crate::table;
use crate::text::{count, figures, figures_or_dash};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The page's title.
pub const TITLE: &str = "Alluvium and other stores";

/// The color of an engine, by its index in the list of all.
pub fn class(engine: &str) -> &'static str {
    const CLASSES: [&str; 8] = ["e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7"];
    let place = crate::engines::names().iter().position(|name| *name == engine).unwrap_or(CLASSES.len() - 1);
    CLASSES[place.min(CLASSES.len() - 1)]
}

/// A legend of the colors.
pub fn legend<'a>(engines: impl Iterator<Item = &'a str>) -> String {
    let items: String =
        engines.map(|engine| format!("<li class=\"{}\">{}</li>", class(engine), escape(engine))).collect();
    format!("<ul class=\"legend\">{items}</ul>\n")
}

/// The head of the page.
pub fn header(groups: &[Group<'_>], machine: &Machine, commit: &str) -> String {
    let repeats = groups.iter().flat_map(|group| &group.series).map(|series| series.records.len()).max().unwrap_or(0);
    let records = || groups.iter().flat_map(|group| &group.series).flat_map(|series| &series.records);
    let disturbed = records().filter(|record| record.disturbed).count();
    let Machine { processor, cores, memory_mib, kernel } = machine;
    let disturbed = match disturbed {
        0 => "No measurement kept here was disturbed beyond what was permitted.".to_owned(),
        count => format!(
            "{count} of {} measurements were disturbed by other programs in every attempt; an exclamation mark stands \
             by their engines.",
            records().count()
        ),
    };
    format!(
        "<header>\n<h1>{}</h1>\n<p class=\"soft\">Source {}; {}, {cores} cores, {memory_mib} MiB, Linux {}.</p>\n\
         <p>Every engine did the same generated work in a process of its own, under the same limit for all memory, page \
         cache included. Engines took turns; figures are medians of up to {repeats} repetition{}, longest times the worst. \
         Ratios divide ours by theirs of the same repetition, with the least and the most in parentheses. A run ends when \
         background work is quiet: processor time and bytes written include that.</p>\n<p>{disturbed}</p>\n</header>\n",
        escape(TITLE),
        escape(commit),
        escape(processor),
        escape(kernel),
        if repeats == 1 { "" } else { "s" }
    )
}

/// A heading for all workloads with the same conditions.
pub fn conditions(conditions: &Conditions) -> String {
    // The number of threads is shown with each workload.
    let one = Conditions { threads: 1, ..conditions.clone() };
    let words = table::describe(&one).replacen(", 1 thread", "", 1);
    format!("<h2>{}</h2>\n", escape(&words))
}

/// The throughput ratios of ours to each other engine: a row per workload, a column per engine.
pub fn glance(groups: &[Group<'_>]) -> String {
    let rivals: Vec<&str> = crate::engines::names()
        .into_iter()
        .filter(|name| *name != OURS && groups.iter().any(|group| group.of(name).is_some()))
        .collect();
    if rivals.is_empty() || groups.iter().all(|group| group.of(OURS).is_none()) {
        return String::new();
    }
    let heads: String = rivals.iter().map(|rival| format!("<th>{}</th>", escape(rival))).collect();
    let mut text = format!(
        "<h3>Speed of ours by theirs</h3>\n<div class=\"wide\"><table><tr><th>workload, threads</th>{heads}</tr>\n"
    );
    for group in groups {
        let cells: String = rivals.iter().map(|rival| glance_cell(group, rival)).collect();
        let name = escape(&format!("{}, {}", group.workload, group.conditions.threads));
        let _ = writeln!(text, "<tr><td>{name}</td>{cells}</tr>");
    }
    text + "</table></div>\n"
}

fn glance_cell(group: &Group<'_>, rival: &str) -> String {
    let ratio = group.of(OURS).zip(group.of(rival)).and_then(|(ours, theirs)| ours.speed_ratio(theirs));
    let Some(ratio) = ratio else { return "<td>–</td>".to_owned() };
    // A ratio on which the repetitions disagree has no color.
    let class = match ratio {
        ratio if ratio.low > 1.0 => " class=\"better\"",
        ratio if ratio.high < 1.0 => " class=\"worse\"",
        _ => "",
    };
    format!("<td{class}>{}</td>", escape(&table::times(ratio)))
}

/// All figures, as numbers.
pub fn tables(groups: &[Group<'_>]) -> String {
    let mut text = String::from("<h2>All figures</h2>\n");
    for group in groups {
        let heading = format!("{}, {}", group.workload, table::describe(&group.conditions));
        let rows: String = group.series.iter().map(|series| row(series, group.of(OURS))).collect();
        let _ = write!(
            text,
            "<details><summary>{}</summary>\n<div class=\"wide\"><table><tr><th>engine</th><th>ops/s</th><th>ours is</th>\
             <th>CPU us</th><th>p50 us</th><th>p99 us</th><th>p99.9 us</th><th>max ms</th><th>control gap ms</th>\
             <th>write amp</th><th>log amp</th><th>space amp</th><th>RSS MiB</th><th>settle s</th><th>other load</th>\
             <th>runs</th></tr>\n{rows}</table></div></details>\n",
            escape(&heading)
        );
    }
    text
}

fn row(series: &Series<'_>, ours: Option<&Series<'_>>) -> String {
    let median = |figure: fn(&alluvium_bench::Outcome) -> f64| figures(series.median(|record| figure(&record.outcome)));
    let some = |figure: fn(&alluvium_bench::Outcome) -> Option<f64>| {
        figures_or_dash(series.median_of_some(|record| figure(&record.outcome)))
    };
    let ratio = ours.filter(|_| series.engine != OURS).and_then(|ours| ours.speed_ratio(series));
    let load = series.worst(|record| record.other_load_percent);
    let cells = [
        series.engine.to_owned(),
        count(series.median(|record| record.outcome.ops_per_s)),
        ratio.map_or_else(String::new, table::times),
        median(|outcome| outcome.cpu_us_per_op),
        median(|outcome| outcome.p50_us),
        median(|outcome| outcome.p99_us),
        median(|outcome| outcome.p999_us),
        figures(series.worst(|record| record.outcome.max_ms)),
        figures(series.worst(|record| record.outcome.control_gap_ms)),
        some(|outcome| outcome.write_amp),
        some(|outcome| outcome.log_amp),
        median(|outcome| outcome.space_amp),
        format!("{:.0}", series.worst(|record| record.outcome.peak_rss_mb)),
        median(|outcome| outcome.settle_s),
        format!("{load:.0}%{}", if series.is_disturbed() { " !" } else { "" }),
        series.records.len().to_string(),
    ];
    let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
    format!("<tr>{cells}</tr>\n")
}

/// The settings of each engine, once for every different configuration.
pub fn settings(groups: &[Group<'_>]) -> String {
    let mut text = String::from("<h2>Settings of the engines</h2>\n");
    let mut seen: Vec<(&str, &str, &BTreeMap<String, String>)> = Vec::new();
    for series in groups.iter().flat_map(|group| &group.series) {
        for record in &series.records {
            let one = (series.engine, record.version.as_str(), &record.settings);
            if !seen.contains(&one) {
                seen.push(one);
            }
        }
    }
    for (engine, version, settings) in seen {
        let list: String = settings
            .iter()
            .map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value)))
            .collect();
        let heading = escape(&format!("{engine} {version}"));
        let _ = writeln!(text, "<details><summary>{heading}</summary><dl>{list}</dl></details>");
    }
    text
}
