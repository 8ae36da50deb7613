//! Figures 5 to 7: throughput by threads.

use super::{POPULAR, Scale, WRITERS_CORES_MIN};
use crate::choice::Choice;
use crate::engine::{Factory, Result};
use crate::figures::drawing::{Drawing, Line, Panel, Point, Ruling};
use crate::figures::stage::Stage;
use crate::figures::{Figure, rules};
use crate::outcome::Outcome;
use crate::workload::Mix;

const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 256;
const SCALE: Scale =
    Scale { keys: 1_000_000, key_bytes: KEY_BYTES, value_bytes: VALUE_BYTES, memory: 256 << 20, paper: "150 GB" };

/// Figure 5: writes.
pub const WRITES: Figure = Figure {
    name: "clsm-5",
    source: "cLSM, figure 5",
    claim: "uniform puts scale with threads (2.5 times, saturated at 8) and pass the closest competitor by 80%",
    draw: |figure, stage, engines| {
        let mix = Mix { overwrite: 1, choice: Some(Choice::Uniform), ..Mix::default() };
        let (by_threads, by_latency) = panels("puts", &mix, stage, engines, |outcome| outcome.ops_per_s)?;
        let rulings = vec![
            rules::scales(&by_threads, 2.5, stage.cores, WRITERS_CORES_MIN),
            rules::stays_flat(&by_threads, "rocksdb", 1.33, stage.cores, WRITERS_CORES_MIN),
            rules::stays_flat(&by_threads, "leveldb", 1.33, stage.cores, WRITERS_CORES_MIN),
            rules::ahead_of_all(&by_threads, 1.8),
        ];
        Ok(drawing(figure, stage, vec![by_threads, by_latency], rulings))
    },
};

/// Figure 6: reads.
pub const READS: Figure = Figure {
    name: "clsm-6",
    source: "cLSM, figure 6",
    claim: "gets, 90% on 10% popular blocks, scale with the cores and peak at 2.3 times the closest competitor",
    draw: |figure, stage, engines| {
        let mix = Mix { read: 1, choice: Some(POPULAR), ..Mix::default() };
        let (by_threads, by_latency) = panels("gets", &mix, stage, engines, |outcome| outcome.ops_per_s)?;
        let near_linear = (0.7 * stage.cores as f64 * 100.0).round() / 100.0;
        let rulings =
            vec![rules::scales(&by_threads, near_linear, stage.cores, 2), rules::ahead_of_all(&by_threads, 2.3)];
        Ok(drawing(figure, stage, vec![by_threads, by_latency], rulings))
    },
};

/// Figure 7: both at once, and scans with puts.
pub const MIXED: Figure = Figure {
    name: "clsm-7",
    source: "cLSM, figure 7",
    claim: "gets and puts 1:1, and scans of 10 to 20 pairs with as many pairs put, scale; competitors are over 60% behind",
    draw: |figure, stage, engines| {
        let reads = Mix { read: 1, overwrite: 1, choice: Some(POPULAR), ..Mix::default() };
        let (reads, reads_latency) = panels("gets and puts", &reads, stage, engines, |outcome| outcome.ops_per_s)?;
        // A scan has 15 pairs on average, so 15 puts keep the pairs in balance; throughput counts pairs (section 5.1).
        let scans = Mix { scan: 1, overwrite: 15, scan_pairs: (10, 20), choice: Some(POPULAR), ..Mix::default() };
        let accessed = |outcome: &Outcome| {
            let puts = outcome.user_bytes_written as f64 / (KEY_BYTES + VALUE_BYTES) as f64;
            (puts + outcome.pairs_scanned as f64) / outcome.elapsed_s.max(1e-9)
        };
        let (scans, _) = panels("scans and puts", &scans, stage, engines, accessed)?;
        let rulings = vec![
            rules::scales(&reads, 2.5, stage.cores, WRITERS_CORES_MIN),
            rules::ahead_of_all(&reads, 1.6),
            rules::scales(&scans, 2.5, stage.cores, WRITERS_CORES_MIN),
            rules::ahead_of_all(&scans, 1.6),
        ];
        Ok(drawing(figure, stage, vec![reads, reads_latency, scans], rulings))
    },
};

/// Throughput by threads, and the 90th percentile of latency by throughput (the paper's panels a and b).
fn panels(
    title: &str,
    mix: &Mix,
    stage: &Stage<'_>,
    engines: &[&dyn Factory],
    rate: impl Fn(&Outcome) -> f64,
) -> Result<(Panel, Panel)> {
    let (mut by_threads, mut by_latency) = (Vec::new(), Vec::new());
    for engine in engines {
        let points = stage.threads().into_iter().map(|threads| (threads, mix.clone())).collect::<Vec<_>>();
        let ran = SCALE.behind_load(stage, *engine, title, &points)?;
        let names: Vec<String> = stage.threads().iter().map(usize::to_string).collect();
        let places = names.iter().zip(stage.threads()).map(|(name, threads)| (&name[..], threads as f64));
        by_threads.push(Line::of(engine.name(), places, &ran, |outcome| Some(rate(outcome))));
        let points = names.iter().zip(&ran).map(|(name, ran)| match ran {
            Ok(outcome) => Point::at(name, rate(outcome), outcome.p90_us),
            Err(death) => Point::dead(name, None, death),
        });
        by_latency.push(Line { engine: engine.name().to_string(), points: points.collect() });
    }
    let panel = |title: String, (x, x_measured): (&str, bool), y: &str, lines| Panel {
        title,
        x: x.into(),
        y: y.into(),
        x_measured,
        lines,
    };
    Ok((
        panel(title.to_string(), ("threads", false), "operations a second", by_threads),
        panel(
            format!("{title}: latency"),
            ("operations per second; a point's name is its number of threads", true),
            "90th percentile, microseconds",
            by_latency,
        ),
    ))
}

fn drawing(figure: &Figure, stage: &Stage<'_>, panels: Vec<Panel>, rulings: Vec<Ruling>) -> Drawing {
    Drawing::of(figure, SCALE.conditions(stage), panels, rulings)
}
