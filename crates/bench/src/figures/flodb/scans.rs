//! Figures 13 and 14: scans beside writes, by threads and by the share of scans.

use super::{PAIR_BYTES, Place, WRITERS_CORES_MIN, against, by_threads, drawing, loaded, panels, rate};
use crate::choice::Choice;
use crate::engine::Factory;
use crate::figures::{Figure, rules};
use crate::keys::Order;
use crate::outcome::Outcome;
use crate::workload::{Job, Mix, Workload};

/// "each scan has a range of 100 keys" (section 5.2).
const SCAN_PAIRS: u64 = 100;

/// Figure 13: scans and writes by threads.
pub const SCANS: Figure = Figure {
    name: "flodb-13",
    source: "FloDB, figure 13",
    claim: "95% updates, 5% scans of 100 keys: ahead of all others, the next best at 43 to 90%",
    draw: |figure, stage, engines| {
        let texts = ("95% updates, 5% scans", "threads", "keys accessed per second");
        let [panel] = by_threads([(texts, keys_accessed)], engines, stage, (Order::Random, &scans(5)))?;
        let mut rulings = against(&panel, 1.1);
        rulings.push(rules::scales(&panel, 2.5, stage.cores, WRITERS_CORES_MIN));
        Ok(drawing(figure, stage, vec![panel], rulings))
    },
};

/// Figure 14: by the share of scans.
pub const SCAN_RATIO: Figure = Figure {
    name: "flodb-14",
    source: "FloDB, figure 14",
    claim: "with more scans the operations a second fall and the keys accessed per second rise",
    draw: |figure, stage, engines| {
        let ratios = [2, 5, 10, 25, 50];
        let places: Vec<Place> = ratios.map(|ratio| (ratio.to_string(), f64::from(ratio))).into();
        let ran = |factory: &dyn Factory| {
            let workload = |ratio| Workload { name: format!("{ratio}% scans"), job: Job::Mix(scans(ratio)) };
            loaded(factory, stage, Order::Random, &ratios.map(|ratio| (stage.cores, workload(ratio))))
        };
        let operations = ("operations by scans", "scans, %", "operations a second");
        let keys = ("keys by scans", "scans, %", "keys accessed per second");
        let [operations, keys] = panels([(operations, rate), (keys, keys_accessed)], engines, &places, ran)?;
        let rulings = vec![rules::rises(&keys, "2", "50", 1.0), rules::falls(&operations, "2", "50")];
        Ok(drawing(figure, stage, vec![operations, keys], rulings))
    },
};

fn scans(percent: u32) -> Mix {
    let choice = Some(Choice::Uniform);
    Mix { scan: percent, overwrite: 100 - percent, scan_pairs: (SCAN_PAIRS, SCAN_PAIRS), choice, ..Mix::default() }
}

fn keys_accessed(outcome: &Outcome) -> Option<f64> {
    let puts = outcome.user_bytes_written as f64 / PAIR_BYTES as f64;
    Some((puts + outcome.pairs_scanned as f64) / outcome.elapsed_s.max(1e-9))
}
