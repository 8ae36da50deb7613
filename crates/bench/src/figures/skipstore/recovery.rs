//! Section 6.2.4, and the times of table 4: how long it takes to open a store whose process was killed.
//!
//! After the operations of table 4 a store rests, so that no engine has background work to resume. Then half a Memtable is
//! updated. The store is opened from a copy of its files that is made while it is open, and read from the disk.

use super::checkpoints::{NONE, by_interval, conditions, places};
use super::{Bench, DATA, LEVELED, PAIR_BYTES, Place, ROCKSDB, below, panel, updates};
use crate::figures::Figure;
use crate::outcome::Outcome;
use crate::session::Step;
use crate::settings::Settings;
use crate::workload::{Job, Workload};

/// 4.66 s against RocksDB's 3.25.
const OF_OTHERS: f64 = 1.45;

/// The figure.
pub const RECOVERY: Figure = Figure {
    name: "skipstore-recovery",
    source: "SkipStore, section 6.2.4 and table 4",
    claim: "recovery takes 1.43 times RocksDB's time, and hardly more with fewer checkpoints; without any, almost 50 times \
            as long",
    draw: |figure, stage, engines| {
        let bench = Bench { stage, engines, data: DATA };
        let places = places(&bench);
        let opened = bench.every(|factory| {
            let behind = |settings: &Settings| vec![half_a_memtable(&bench, settings), opening(settings)];
            let ran = by_interval(&bench, factory, behind)?;
            Ok(ran.into_iter().filter_map(|mut steps| steps.pop()).collect())
        })?;
        let across = "operations between checkpoints";
        let time = panel(("time to open", across, "ms"), &places, &opened, |outcome| Some(outcome.elapsed_s * 1e3));
        let blocks = |outcome: &Outcome| outcome.device_reads_per_op;
        let read = panel(("read to open", across, "blocks of 4 KiB"), &places, &opened, blocks);
        let none: Vec<Place> = places.iter().filter(|(name, _)| name == NONE).cloned().collect();
        let mut rulings = below(&time, &places, LEVELED, OF_OTHERS);
        rulings.extend(below(&time, &none, ROCKSDB, OF_OTHERS));
        let mut conditions = conditions(&bench);
        conditions.push(
            "opened until the first get, from a copy of the files of the open store, not in the page cache".into(),
        );
        conditions.push("not judged: a fortieth of the time without any checkpoint".into());
        Ok(bench.drawing(figure, conditions, vec![time, read], rulings))
    },
};

/// Updates that stay in the Memtable.
fn half_a_memtable(bench: &Bench<'_>, settings: &Settings) -> Step {
    let step = updates(settings, (bench.memtable() / 2 / PAIR_BYTES).max(1));
    Step { settings: Settings { settle: false, ..step.settings }, ..step }
}

fn opening(settings: &Settings) -> Step {
    Step { settings: settings.clone(), workload: Workload { name: "recovery".into(), job: Job::Recovery } }
}
