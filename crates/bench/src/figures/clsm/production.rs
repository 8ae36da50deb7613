//! Figure 10: production workloads. Their logs are not available, so they are generated from the paper's description:
//! 85 to 95% gets, 40-byte keys, values of 1 KB, and a heavy tail, of which "10% of the keys stand for more than 75% of
//! the requests, while the 1-2% most popular keys account for more than 50%" (section 5.2), as with YCSB's zipfian.

use super::{Scale, WRITERS_CORES_MIN, line, panel};
use crate::choice::Choice;
use crate::figures::drawing::Drawing;
use crate::figures::{Figure, rules};
use crate::workload::Mix;

const SCALE: Scale =
    Scale { keys: 300_000, key_bytes: 40, value_bytes: 1024, memory: 2 << 30, paper: "logs of 5 million operations" };
/// Of four representative workloads.
const READS_PERCENT: [u32; 4] = [95, 92, 88, 85];

/// Figure 10.
pub const PRODUCTION: Figure = Figure {
    name: "clsm-10",
    source: "cLSM, figure 10",
    claim: "production workloads, 85 to 95% reads: scales where the others do not, and passes them by 1.5 times",
    draw: |figure, stage, engines| {
        let threads = stage.threads();
        let mix = |read| Mix { read, overwrite: 100 - read, choice: Some(Choice::Zipfian), ..Mix::default() };
        let of_ratio = |read: u32| threads.iter().map(move |threads| (*threads, mix(read)));
        let points: Vec<(usize, Mix)> = READS_PERCENT.into_iter().flat_map(of_ratio).collect();
        let mut panels = READS_PERCENT.map(|read| panel(&format!("{read}% reads"), Vec::new()));
        for engine in engines {
            let ran = SCALE.behind_load(stage, *engine, "production", &points)?;
            for (panel, ran) in panels.iter_mut().zip(ran.chunks(threads.len())) {
                panel.lines.push(line(engine.name(), &threads, ran));
            }
        }
        let ruled =
            |panel| [rules::scales(panel, 2.5, stage.cores, WRITERS_CORES_MIN), rules::ahead_of_all(panel, 1.5)];
        let rulings = panels.iter().flat_map(ruled).collect();
        let mut conditions = SCALE.conditions(stage);
        conditions
            .push("YCSB's zipfian for the paper's heavy tail; the four ratios one after the other on one store".into());
        Ok(Drawing::of(figure, conditions, panels.into(), rulings))
    },
};
