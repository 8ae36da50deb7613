//! Figure 1: one store, or four side by side.
//!
//! The work has four parts, each with a quarter of the keys, its own popular keys and a quarter of the threads. Either
//! one store has all of it, or four stores of one engine have a part each, with a quarter of the memory and of the
//! background threads.

use super::{Scale, line, panel, run};
use crate::choice::Choice;
use crate::engine::{EngineOptions, Partitions};
use crate::figures::drawing::Drawing;
use crate::figures::{Figure, rules};
use crate::settings::Settings;
use crate::workload::Mix;

const COUNT: u64 = 4;
const SCALE: Scale =
    Scale { keys: 400_000, key_bytes: 40, value_bytes: 1024, memory: 1 << 30, paper: "four production logs" };

/// Figure 1.
pub const PARTITIONS: Figure = Figure {
    name: "clsm-1",
    source: "cLSM, figure 1",
    claim: "one big store passes competitors with four partitions of a quarter of the threads each by 25%",
    draw: |figure, stage, engines| {
        // Production logs have 85 to 95% reads (section 5.2).
        let mix = Mix { read: 90, overwrite: 10, choice: Some(Choice::Zipfian), ranges: COUNT, ..Mix::default() };
        // Each part has its own threads, so the number of threads is a multiple of four.
        let all: Vec<usize> = [4, 8, 16].into_iter().filter(|n| *n <= 8 || stage.threads().contains(n)).collect();
        let points: Vec<(usize, Mix)> = all.iter().map(|threads| (*threads, mix.clone())).collect();
        let mut lines = Vec::new();
        for engine in engines {
            for partitions in [None, Some(Partitions { count: COUNT, keys: SCALE.keys(stage) })] {
                let settings = SCALE.settings(stage);
                let options = EngineOptions { partitions, ..settings.engine };
                let name = partitions.map_or_else(|| engine.name().to_string(), |_| by_four(engine.name()));
                let ran = run(stage, *engine, &Settings { engine: options, ..settings }, &name, &points)?;
                lines.push(line(&name, &all, &ran));
            }
        }
        let panel = panel("production-like reads and writes", lines);
        let rulings = ["rocksdb", "leveldb"].map(|rival| rules::best_ahead_of(&panel, &by_four(rival), 1.25));
        let rulings = rulings.into_iter().chain([rules::best_ahead_of(&panel, &by_four(rules::OURS), 1.0)]).collect();
        let mut conditions = SCALE.conditions(stage);
        conditions
            .push("90% gets, 10% puts, YCSB's zipfian within each quarter of the keys; \"x4\": four stores".into());
        Ok(Drawing::of(figure, conditions, vec![panel], rulings))
    },
};

fn by_four(engine: &str) -> String {
    format!("{engine} x{COUNT}")
}
