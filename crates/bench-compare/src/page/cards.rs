//! The plots of one workload, and those over several numbers of threads.

use super::escape::escape;
use super::lines::{Axes, Line};
use super::parts::{class, legend};
use super::{bars, lines, stalls};
use crate::engines::OURS;
use crate::summary::{Group, Series};
use crate::table::times;
use crate::text::{count, figures, figures_or_dash};
use alluvium_bench::catalogue;
use std::fmt::Write;

/// Percentiles with a label on the axis of latencies.
const PERCENTS: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];
/// An amplification of this many times the median fills a row.
const MEDIANS_MAX: f64 = 4.0;
/// Where the axis ends, in nines.
const NINES_MAX: f64 = 5.5;

/// A card: a heading, a drawing, and a caption.
fn card(heading: &str, drawing: &str, caption: &str) -> String {
    format!(
        "<figure class=\"card\"><h4>{}</h4>\n{drawing}<figcaption>{}</figcaption></figure>\n",
        escape(heading),
        escape(caption)
    )
}

/// The plots of a workload.
pub fn workload(group: &Group<'_>) -> String {
    let threads = group.conditions.threads;
    let meaning = catalogue::NAMES.iter().find(|(name, _)| *name == group.workload).map_or("", |(_, meaning)| meaning);
    let mut text = format!(
        "<h3>{}, {threads} thread{}</h3>\n<p class=\"soft\">{}</p>\n<div class=\"cards\">\n",
        escape(group.workload),
        if threads == 1 { "" } else { "s" },
        escape(meaning)
    );
    text.push_str(&speed(group));
    text.push_str(&processor(group));
    text.push_str(&over_time(group));
    text.push_str(&latency(group));
    if group.series.iter().any(|series| series.median_of_some(|record| record.outcome.write_amp).is_some()) {
        text.push_str(&amplification(group));
    }
    text.push_str("</div>\n");
    text
}

/// A bar for each engine.
fn rows(group: &Group<'_>, row: impl Fn(&Series<'_>) -> (String, Vec<f64>)) -> Vec<bars::Row> {
    let rows = group.series.iter().map(|series| {
        let (label, parts) = row(series);
        let mark = if series.is_disturbed() { " !" } else { "" };
        bars::Row { name: format!("{}{mark}", series.engine), class: class(series.engine), label, parts }
    });
    rows.collect()
}

fn speed(group: &Group<'_>) -> String {
    let ours = group.of(OURS);
    let rows = rows(group, |series| {
        let rate = series.median(|record| record.outcome.ops_per_s);
        let ratio = ours.filter(|_| series.engine != OURS).and_then(|ours| ours.speed_ratio(series));
        let label = ratio
            .map_or_else(|| format!("{}/s", count(rate)), |ratio| format!("{}/s; ours {}", count(rate), times(ratio)));
        (label, vec![rate])
    });
    card("Speed", &bars::draw(&rows, "operations a second"), "Operations per second. Longer is better.")
}

fn processor(group: &Group<'_>) -> String {
    let rows = rows(group, |series| {
        let all = series.median(|record| record.outcome.cpu_us_per_op);
        let run = series.median(|record| record.outcome.cpu_us_per_op_run).min(all);
        (format!("{} us", figures(all)), vec![run, all - run])
    });
    let drawing = bars::draw(&rows, "processor time per operation");
    card(
        "Processor time",
        &drawing,
        "Microseconds per operation, all threads; pale: while settling. Shorter is better.",
    )
}

fn over_time(group: &Group<'_>) -> String {
    let rows: Vec<stalls::Row<'_>> = group
        .series
        .iter()
        .filter_map(|series| {
            let typical = series.typical()?;
            Some(stalls::Row {
                name: series.engine,
                class: class(series.engine),
                samples: &typical.outcome.series,
                longest_ms: series.worst(|record| record.outcome.max_ms),
            })
        })
        .collect();
    let drawing = stalls::draw(&rows, "throughput over time");
    let caption = "Throughput over each engine's own run (the repetition nearest to the median); the line is the least \
                   within each short time, so a gap down to the ground is a stall.";
    card("Over time", &drawing, caption)
}

/// The position of a percentile: every nine has the same width.
fn nines(percent: f64) -> f64 {
    let rest = 1.0 - percent / 100.0;
    let nines = if rest > 0.0 { -rest.log10() } else { NINES_MAX };
    (nines / NINES_MAX).clamp(0.0, 1.0)
}

fn latency(group: &Group<'_>) -> String {
    let lines: Vec<Line> = group
        .series
        .iter()
        .filter_map(|series| {
            let typical = series.typical()?;
            let points = typical.outcome.latency.iter().map(|point| (nines(point.percent), point.us)).collect();
            Some(Line { name: series.engine.to_owned(), class: class(series.engine), points })
        })
        .collect();
    let mut marks: Vec<(f64, String)> =
        PERCENTS.iter().map(|percent| (nines(*percent), format!("{percent}%"))).collect();
    marks.push((1.0, "longest".to_owned()));
    let axes = Axes { title: "latency by percentile", unit: "us", marks, logarithmic: true, write: count, dots: false };
    let names = legend(group.series.iter().map(|series| series.engine));
    let caption = "Latency in microseconds by percentile. Lower is better.";
    card("Latency", &format!("{names}{}", lines::draw(&lines, &axes)), caption)
}

fn amplification(group: &Group<'_>) -> String {
    let written = rows(group, |series| {
        let write = series.median_of_some(|record| record.outcome.write_amp);
        let log = series.median_of_some(|record| record.outcome.log_amp);
        let label = format!("data {}, log {}", figures_or_dash(write), figures_or_dash(log));
        (label, vec![write.unwrap_or(0.0), log.unwrap_or(0.0)])
    });
    let space = rows(group, |series| {
        let space = series.median(|record| record.outcome.space_amp);
        (figures(space), vec![space])
    });
    let written = bars::draw_cut(&written, "bytes written per user byte", MEDIANS_MAX);
    let space = bars::draw_cut(&space, "bytes of files per user byte", MEDIANS_MAX);
    let words = "Bytes written to data files per user byte, after settling; pale: to the log. Shorter is better; bars longer than four medians are cut.";
    card("Write amplification", &written, words)
        + &card("Space amplification", &space, "Bytes of data files per live user byte. Shorter is better.")
}

/// Throughput by threads, a drawing for each workload that was measured with several numbers of them.
pub fn scaling(groups: &[Group<'_>]) -> String {
    let mut text = String::new();
    let mut drawn: Vec<&str> = Vec::new();
    for group in groups {
        let same: Vec<&Group<'_>> = groups.iter().filter(|other| other.path == group.path).collect();
        if same.len() > 1 && !drawn.contains(&group.path) {
            drawn.push(group.path);
            text.push_str(&scaling_card(&same));
        }
    }
    if text.is_empty() {
        return text;
    }
    format!("<h3>By threads</h3>\n<div class=\"cards\">\n{text}</div>\n")
}

/// Of the same workload with several numbers of threads, in order.
fn scaling_card(same: &[&Group<'_>]) -> String {
    let mut engines: Vec<&str> = Vec::new();
    same.iter().flat_map(|group| &group.series).for_each(|series| {
        if !engines.contains(&series.engine) {
            engines.push(series.engine);
        }
    });
    let most = same.iter().map(|group| group.conditions.threads).max().unwrap_or(1) as f64;
    // A doubling of the threads always has the same width.
    let place = |threads: usize| if most > 1.0 { (threads as f64).ln() / most.ln() } else { 0.0 };
    let lines: Vec<Line> = engines
        .iter()
        .map(|engine| {
            let points = same.iter().filter_map(|group| {
                let rate = group.of(engine)?.median(|record| record.outcome.ops_per_s);
                Some((place(group.conditions.threads), rate))
            });
            Line { name: (*engine).to_owned(), class: class(engine), points: points.collect() }
        })
        .collect();
    let marks =
        same.iter().map(|group| (place(group.conditions.threads), group.conditions.threads.to_string())).collect();
    let axes = Axes {
        title: "operations per second by threads",
        unit: "ops/s",
        marks,
        logarithmic: false,
        write: count,
        dots: true,
    };
    let mut drawing = legend(engines.iter().copied());
    let _ = write!(drawing, "{}", lines::draw(&lines, &axes));
    card(same[0].workload, &drawing, "Operations per second by number of threads.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nine_takes_as_much_room() {
        let step = nines(99.0) - nines(90.0);
        assert!((nines(99.9) - nines(99.0) - step).abs() < 1e-9);
        assert_eq!((nines(0.0), nines(100.0)), (0.0, 1.0));
    }
}
