//! Figure 11: updates to a store that is larger than memory, so that background work dominates. The benchmark is
//! RocksDB's.

use super::{Scale, WRITERS_CORES_MIN, line, panel};
use crate::choice::Choice;
use crate::figures::drawing::Drawing;
use crate::figures::{Figure, rules};
use crate::keys::Order;
use crate::session::Step;
use crate::workload::{Arrival, Job, Mix, Workload};

const SCALE: Scale = Scale {
    keys: 2_000_000,
    key_bytes: 10,
    value_bytes: 400,
    memory: 160 << 20,
    paper: "1 billion pairs, memory components of 128 MB",
};

/// Figure 11.
pub const COMPACTION: Figure = Figure {
    name: "clsm-11",
    source: "cLSM, figure 11",
    claim: "with disk compaction at work most of the time both scale to 16 threads, where ours is level with RocksDB",
    draw: |figure, stage, engines| {
        let threads = stage.threads();
        let fill = Job::Fill { order: Order::Sequential, arrival: Arrival::Ascending };
        let mix = Mix { overwrite: 1, choice: Some(Choice::Uniform), ..Mix::default() };
        let mut lines = Vec::new();
        for engine in engines {
            let settings = SCALE.settings(stage);
            let load = Workload { name: "load in key order".into(), job: fill.clone() };
            let mut steps = vec![Step { settings: settings.clone(), workload: load }];
            steps.extend(threads.iter().map(|threads| {
                let workload = Workload { name: format!("updates, {threads} threads"), job: Job::Mix(mix.clone()) };
                let mut step = stage.timed(&settings, *threads, workload);
                // No waiting between points: background work of one point runs during the next.
                (step.settings.duration, step.settings.settle) = (Some(stage.duration * 2), false);
                step
            }));
            lines.push(line(engine.name(), &threads, &stage.run_behind_load(*engine, steps)?));
        }
        let panel = panel("updates", lines);
        let most = threads.last().map_or(String::new(), usize::to_string);
        let rulings = vec![
            rules::ahead_at(&panel, &most, "rocksdb", 1.0),
            rules::scales(&panel, 2.0, stage.cores, WRITERS_CORES_MIN),
        ];
        let mut conditions = SCALE.conditions(stage);
        conditions.push(
            "loaded in key order, then updated uniformly, twice the time per point, without waiting for background work in between"
                .into(),
        );
        Ok(Drawing::of(figure, conditions, vec![panel], rulings))
    },
};
