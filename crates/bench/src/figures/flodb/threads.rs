//! Figures 9 to 12: throughput by threads.

use super::{WRITERS_CORES_MIN, against, by_threads, drawing, rate};
use crate::choice::Choice;
use crate::figures::{Figure, rules};
use crate::keys::Order;
use crate::workload::{Beside, Mix};

/// Figure 9: writes by threads.
pub const WRITES: Figure = Figure {
    name: "flodb-9",
    source: "FloDB, figure 9",
    claim: "write-only, half inserts, half deletes: 1.9 to 3.5 times the next best, the disk saturated by one thread",
    draw: |figure, stage, engines| {
        let mix = Mix { insert: 1, delete: 1, ..Mix::default() };
        let texts = ("inserts and deletes", "threads", "operations a second");
        let [panel] = by_threads([(texts, rate)], engines, stage, (Order::Random, &mix))?;
        let rulings = against(&panel, 1.9);
        Ok(drawing(figure, stage, vec![panel], rulings))
    },
};

/// Figure 10: gets by threads.
pub const READS: Figure = Figure {
    name: "flodb-10",
    source: "FloDB, figure 10",
    claim: "gets of data loaded in key order scale with threads, as RocksDB's do, which is ahead only beyond 16 threads; \
            LevelDB's do not",
    draw: |figure, stage, engines| {
        let mix = Mix { read: 1, choice: Some(Choice::Uniform), ..Mix::default() };
        let texts = ("gets", "threads", "operations a second");
        let [panel] = by_threads([(texts, rate)], engines, stage, (Order::Sequential, &mix))?;
        let near_linear = (0.7 * stage.cores as f64 * 100.0).round() / 100.0;
        let rulings = vec![
            rules::scales(&panel, near_linear, stage.cores, 2),
            rules::stays_flat(&panel, "leveldb", 1.33, stage.cores, WRITERS_CORES_MIN),
            rules::best_ahead_of(&panel, "leveldb", 1.0),
            rules::best_ahead_of(&panel, "rocksdb", 1.0),
        ];
        let mut drawing = drawing(figure, stage, vec![panel], rulings);
        drawing.conditions.push("the memory holds most of the data (the paper: virtually all gets go to disk)".into());
        Ok(drawing)
    },
};

/// Figure 11: gets, inserts and deletes by threads. As in the paper, all three draw from the same keys, so that half of
/// these are in the store after a while. It begins with all of them, the paper with half.
pub const MIXED: Figure = Figure {
    name: "flodb-11",
    source: "FloDB, figure 11",
    claim: "half gets, a quarter inserts, a quarter deletes: ahead of all others",
    draw: |figure, stage, engines| {
        let mix = Mix { read: 2, overwrite: 1, delete: 1, choice: Some(Choice::Uniform), ..Mix::default() };
        let texts = ("gets, inserts and deletes", "threads", "operations a second");
        let [panel] = by_threads([(texts, rate)], engines, stage, (Order::Random, &mix))?;
        let mut rulings = against(&panel, 1.0);
        rulings.push(rules::scales(&panel, 2.5, stage.cores, WRITERS_CORES_MIN));
        let mut drawing = drawing(figure, stage, vec![panel], rulings);
        drawing.conditions.push(
            "gets, inserts and deletes draw from the loaded keys, all of which are there at first (the paper: half)"
                .into(),
        );
        Ok(drawing)
    },
};

/// Figure 12: one writer beside readers.
pub const ONE_WRITER: Figure = Figure {
    name: "flodb-12",
    source: "FloDB, figure 12",
    claim: "one writer, the other threads read: ahead of all others",
    draw: |figure, stage, engines| {
        let mix = Mix { read: 1, choice: Some(Choice::Uniform), beside: Some(Beside::Writer), ..Mix::default() };
        let all = ("gets beside a writer", "readers", "operations a second, the writer's included");
        let writer = ("the writer", "readers", "puts a second");
        let [panel, writer] = by_threads(
            [
                (all, |outcome| Some(outcome.ops_per_s + outcome.background_ops_per_s)),
                (writer, |outcome| Some(outcome.background_ops_per_s)),
            ],
            engines,
            stage,
            (Order::Random, &mix),
        )?;
        let rulings = against(&panel, 1.0);
        let mut drawing = drawing(figure, stage, vec![panel, writer], rulings);
        drawing.conditions.push("the writer overwrites loaded keys (the paper: inserts and deletes)".into());
        Ok(drawing)
    },
};
