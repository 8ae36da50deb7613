//! Figure 9: insertions by one thread with more and more keys in key order among random ones: throughput (9a) and write
//! amplification (9b).
//!
//! The paper measures with and without the log. Here the log is on in every engine, and another line is ours without it. Bytes
//! of the log are excluded from the write amplification.

use super::{MOVED, Runs, SMALL, by_number, drawing, rate, run};
use crate::Unlogged;
use crate::engine::{Factory, Result};
use crate::figures::rules::OURS;
use crate::figures::{Figure, rules};
use crate::outcome::Outcome;

/// Percentages of keys in key order.
const SHARES: [u64; 8] = [0, 25, 50, 75, 90, 95, 99, 100];
/// A step that is worse than the previous one by less than this is noise.
const SLACK: f64 = 0.05;

/// Figure 9.
pub const NEAR_SEQUENTIAL: Figure = Figure {
    name: "splinterdb-9",
    source: "SplinterDB, figure 9",
    claim: "insertions speed up smoothly with the share of sequential keys, by 76%, and write amplification nears 1; RocksDB's is \
            4.1 at 99%",
    draw: |figure, stage, engines| {
        let settings = SMALL.settings(stage, 1);
        let fills = |factory: &&dyn Factory| {
            let fill = |share: &u64| {
                let mut runs = run(*factory, stage, &settings, &[&format!("fillnear:{share}")])?;
                runs.ran.pop().ok_or_else(|| "a fill without an outcome".into())
            };
            Ok(Runs { engine: factory.name().into(), ran: SHARES.iter().map(fill).collect::<Result<_>>()? })
        };
        let unlogged: &dyn Factory = &Unlogged;
        let runs = engines.iter().chain([&unlogged]).map(fills).collect::<Result<Vec<Runs>>>()?;
        let panel = |title, y, height: fn(&Outcome) -> Option<f64>| {
            by_number((title, "sequential keys, %", y), &SHARES, &runs, height)
        };
        let speed = panel("9a: speed", "insertions a second", |outcome| Some(rate(outcome)));
        let written = panel("9b: write amplification", "data bytes per user byte", |outcome| outcome.write_amp);
        let moved = panel("9b: I/O amplification", MOVED, |outcome| outcome.io_amp);
        let rulings = vec![
            rules::never_falls(&speed, SLACK),
            rules::rises(&speed, "0", "100", 1.76),
            rules::near_harmonic_mean(&speed, OURS, ("0", "50", "100"), 0.9),
            rules::near_harmonic_mean(&speed, Unlogged.name(), ("0", "50", "100"), 0.9),
            rules::never_rises(&written, SLACK),
            rules::at_most(&written, "99", 1.3),
            rules::below_at(&written, "99", "rocksdb", 1.3 / 4.1),
            rules::below_at(&moved, "0", "rocksdb", 1.0),
        ];
        let conditions = vec![SMALL.condition(stage), "1 thread inserts; a new store for each point".into()];
        Ok(drawing(figure, stage, conditions, vec![speed, written, moved], rulings))
    },
};
