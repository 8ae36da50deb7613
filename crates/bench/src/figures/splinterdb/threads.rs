//! Figures 10 and 11: reads (YCSB C) and insertions (YCSB's load) by the number of threads.

use super::{MOVED, Runs, SMALL, by_number, cores, drawing, rate, run, steps};
use crate::catalogue;
use crate::engine::{Factory, Result};
use crate::figures::drawing::Panel;
use crate::figures::host::Ran;
use crate::figures::stage::Stage;
use crate::figures::{Figure, rules};
use crate::outcome::Outcome;

/// Writers share the cores with background work: with fewer cores than this, no claim about them can be checked.
const WRITERS_CORES_MIN: usize = 4;

/// Figure 10.
pub const READS: Figure = Figure {
    name: "splinterdb-10",
    source: "SplinterDB, figure 10",
    claim: "YCSB C scales almost linearly, 18.5 times with 24 threads, with less read from the device than RocksDB",
    draw: |figure, stage, engines| {
        let read = |factory: &dyn Factory| {
            let settings = SMALL.settings(stage, cores(stage));
            let mut steps = steps(stage, &settings, &["load"])?;
            let reads = catalogue::named("c", &settings)?;
            steps.extend(stage.threads().iter().map(|threads| stage.timed(&settings, *threads, reads.clone())));
            stage.run_behind_load(factory, steps)
        };
        let runs = all(engines, read)?;
        let rates = panel("YCSB C", "gets a second", stage, &runs, |outcome| Some(rate(outcome)));
        let blocks = |outcome: &Outcome| outcome.device_reads_per_op;
        let reads = panel("YCSB C: reads", "device blocks per get", stage, &runs, blocks);
        // 18.5 of 24.
        let near_linear = (0.77 * stage.cores as f64 * 100.0).round() / 100.0;
        let most = stage.threads().last().map_or_else(String::new, usize::to_string);
        let rulings = vec![
            rules::scales(&rates, near_linear, stage.cores, 2),
            rules::best_ahead_of(&rates, "rocksdb", 2.0),
            rules::below_at(&reads, &most, "rocksdb", 1.0),
        ];
        Ok(drawing(figure, stage, vec![SMALL.condition(stage)], vec![rates, reads], rulings))
    },
};

/// Figure 11.
pub const INSERTS: Figure = Figure {
    name: "splinterdb-11",
    source: "SplinterDB, figure 11",
    claim: "loads scale almost linearly to 10 threads, where the device is full at an I/O amplification of 7.5; RocksDB's by 2.7",
    draw: |figure, stage, engines| {
        let load = |factory: &dyn Factory| {
            let mut ran = Vec::new();
            for threads in stage.threads() {
                ran.extend(run(factory, stage, &SMALL.settings(stage, threads), &["load"])?.ran);
            }
            Ok(ran)
        };
        let runs = all(engines, load)?;
        let rates = panel("loads", "insertions a second", stage, &runs, |outcome| Some(rate(outcome)));
        let moved = panel("loads: I/O amplification", MOVED, stage, &runs, |outcome| outcome.io_amp);
        let rulings = vec![
            rules::scales(&rates, 2.7, stage.cores, WRITERS_CORES_MIN),
            rules::best_ahead_of(&rates, "rocksdb", 6.0),
            rules::at_most(&moved, "1", 7.5),
        ];
        let store = "a new store for each point".to_string();
        Ok(drawing(figure, stage, vec![SMALL.condition(stage), store], vec![rates, moved], rulings))
    },
};

fn all(engines: &[&dyn Factory], run: impl Fn(&dyn Factory) -> Result<Vec<Ran>>) -> Result<Vec<Runs>> {
    engines.iter().map(|factory| Ok(Runs { engine: factory.name().into(), ran: run(*factory)? })).collect()
}

fn panel(title: &str, y: &str, stage: &Stage<'_>, runs: &[Runs], height: fn(&Outcome) -> Option<f64>) -> Panel {
    let numbers: Vec<u64> = stage.threads().into_iter().map(|threads| threads as u64).collect();
    by_number((title, "threads", y), &numbers, runs, height)
}
