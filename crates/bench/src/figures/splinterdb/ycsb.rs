//! Figures 5 and 6 and table 1: YCSB's phases: throughput, I/O amplification, and the latency of insertions.
//!
//! The paper does not say by what it divides the bytes of the device in phases that read, nor which latency metrics
//! table 1 has. Here it is the bytes of keys and values that the user wrote and read, and the mean, three percentiles
//! and the maximum.

use super::super::{Figure, rules};
use super::{Data, LARGE, MOVED, SMALL, by_phase, cores, drawing, rate, run};
use crate::engine::{Factory, Result};
use crate::figures::drawing::{Line, Panel};
use crate::figures::stage::Stage;
use crate::outcome::Outcome;

/// YCSB's own order: phases that insert come late, and scans, which benefit least from a settled tree, last.
const PHASES: [&str; 7] = ["load", "a", "b", "c", "f", "d", "e"];
type Time = fn(&Outcome) -> f64;

/// Latencies of a table's columns, in microseconds.
const METRICS: [(&str, Time); 5] = [
    ("mean", |outcome| outcome.threads as f64 * 1e6 / outcome.ops_per_s.max(1e-9)),
    ("p50", |outcome| outcome.p50_us),
    ("p99", |outcome| outcome.p99_us),
    ("p99.9", |outcome| outcome.p999_us),
    ("longest", |outcome| outcome.max_ms * 1e3),
];

/// Figure 5.
pub const YCSB: Figure = Figure {
    name: "splinterdb-5",
    source: "SplinterDB, figure 5",
    claim: "YCSB: loads are almost 10 times as fast as RocksDB's, A to D and F 40 to 150% faster, E about the same",
    draw: |figure, stage, engines| {
        let (mut panels, mut conditions, mut rulings) = (Vec::new(), Vec::new(), Vec::new());
        for (letter, data) in [("5a", SMALL), ("5b", LARGE)] {
            let runs = all(&data, stage, engines, &PHASES)?;
            let title = format!("{letter}: {}", data.title);
            let panel = by_phase(&title, "operations a second", &PHASES, &runs, |outcome| Some(rate(outcome)));
            rulings.push(rules::ahead_at(&panel, "load", "rocksdb", 6.0));
            rulings.extend(["a", "b", "d", "f"].map(|phase| rules::ahead_at(&panel, phase, "rocksdb", 1.4)));
            rulings.push(rules::ahead_at(&panel, "c", "rocksdb", 2.0));
            rulings.push(rules::ahead_at(&panel, "e", "rocksdb", 1.0));
            panels.push(panel);
            conditions.push(data.condition(stage));
        }
        conditions.push(format!("{} threads", cores(stage)));
        Ok(drawing(figure, stage, conditions, panels, rulings))
    },
};

/// Figure 6.
pub const AMPLIFICATION: Figure = Figure {
    name: "splinterdb-6",
    source: "SplinterDB, figure 6",
    claim: "YCSB, 100 B values: the load's write amplification is about half of the others'",
    draw: |figure, stage, engines| {
        let runs = all(&SMALL, stage, engines, &PHASES)?;
        let texts = ("write amplification", "data bytes per user byte");
        let written = by_phase(texts.0, texts.1, &PHASES, &runs, |outcome| outcome.write_amp);
        let moved = by_phase("I/O amplification", MOVED, &PHASES, &runs, |outcome| outcome.io_amp);
        let mut rulings = vec![rules::below_at(&written, "load", "rocksdb", 0.6)];
        rulings.push(rules::below_at(&written, "load", "splinterdb", 1.1));
        rulings.extend(PHASES.map(|phase| rules::below_at(&moved, phase, "rocksdb", 1.0)));
        let conditions = vec![SMALL.condition(stage), format!("{} threads", cores(stage))];
        Ok(drawing(figure, stage, conditions, vec![written, moved], rulings))
    },
};

/// Table 1.
pub const LATENCY: Figure = Figure {
    name: "splinterdb-table-1",
    source: "SplinterDB, table 1",
    claim: "insertion latency: RocksDB's is at least 3 times SplinterDB's on all metrics",
    draw: |figure, stage, engines| {
        let line = |factory: &&dyn Factory| -> Result<Line> {
            let runs = run(*factory, stage, &SMALL.settings(stage, cores(stage)), &["load"])?;
            let points = METRICS.iter().enumerate().flat_map(|(at, (name, time))| {
                let place = [(*name, at as f64 + 1.0)];
                Line::of(&runs.engine, place, &runs.ran, |outcome| Some(time(outcome))).points
            });
            Ok(Line { points: points.collect(), engine: runs.engine.clone() })
        };
        let lines = engines.iter().map(line).collect::<Result<Vec<Line>>>()?;
        let (title, x, y) = ("insertions".into(), "metric".into(), "microseconds".into());
        let panel = Panel { title, x, y, x_measured: false, lines };
        let rulings = METRICS.map(|(name, _)| rules::below_at(&panel, name, "rocksdb", 1.0 / 3.0)).into();
        let conditions = vec![SMALL.condition(stage), format!("{} threads load", cores(stage))];
        Ok(drawing(figure, stage, conditions, vec![panel], rulings))
    },
};

fn all(data: &Data, stage: &Stage<'_>, engines: &[&dyn Factory], phases: &[&str]) -> Result<Vec<super::Runs>> {
    let settings = data.settings(stage, cores(stage));
    engines.iter().map(|factory| run(*factory, stage, &settings, phases)).collect()
}
