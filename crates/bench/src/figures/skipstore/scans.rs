//! Section 6.2.3: scans of 1 to 100 pairs among updates. The text has the gain on RocksDB, 1.86 to 2.8 times, and no figure.

use super::{Bench, DATA, GB, KEYS, LEVELED, Place, ahead, levels, panel, updates, warm_up};
use crate::figures::Figure;
use crate::outcome::Outcome;
use crate::workload::{Job, Mix, Workload};

/// Percentages of scans; the others update.
const SHARES: [u32; 3] = [80, 90, 100];
const PAIRS: (u64, u64) = (1, 100);
/// What is updated before the first scan, so that items are where compactions put them.
const UPDATED: u64 = 5 * GB;

/// The scans.
pub const SCANS: Figure = Figure {
    name: "skipstore-scans",
    source: "SkipStore, section 6.2.3",
    claim: "scans are 1.86 to 2.8 times as fast as RocksDB's, because many items are in buffers; here: no slower than in \
            leveled levels",
    draw: |figure, stage, engines| {
        let bench = Bench { stage, engines, data: DATA };
        let places = SHARES.map(|share| -> Place { (format!("{share}%"), f64::from(share)) });
        let series = bench.every(|factory| {
            let settings = bench.settings(factory);
            let step = |scans: u32| {
                let choice = Some(KEYS);
                let mix = Mix { scan: scans, overwrite: 100 - scans, scan_pairs: PAIRS, choice, ..Mix::default() };
                stage.timed(&settings, 1, Workload { name: format!("{scans}% scans"), job: Job::Mix(mix) })
            };
            let mut steps = vec![updates(&settings, bench.pairs(UPDATED)), warm_up(&settings)];
            steps.extend(SHARES.map(step));
            Ok(bench.run(factory, &settings, steps)?.into_iter().skip(2).collect())
        })?;
        let running = |outcome: &Outcome| Some(outcome.ops_per_s);
        let scans = panel(("scans and updates", "scans", "operations a second"), &places, &series, running);
        let pairs = panel(("pairs", "scans", "pairs a second"), &places, &series, |outcome| Some(outcome.pairs_per_s));
        let from_memory = ("pairs from what compactions left in memory", "scans", "percent of the pairs");
        let from_memory = panel(from_memory, &places, &series, levels::scanned_percent);
        let rulings = ahead(&scans, &places, LEVELED, 1.0);
        let (low, high) = PAIRS;
        let mut conditions = vec![format!(
            "scans of {low} to {high} pairs from zipfian keys, {} s at each share, behind {} of updates",
            stage.duration.as_secs_f64(),
            bench.place(UPDATED).0
        )];
        conditions.extend(levels::conditions(&series));
        Ok(bench.drawing(figure, conditions, vec![scans, pairs, from_memory], rulings))
    },
};
