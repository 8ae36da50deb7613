//! Figures 7 and 8: YCSB by the size of memory. The paper includes KVell, which keeps an index of all keys in memory
//! and becomes very slow if that does not fit. KVell is not available here, so the claim about it is not checked.
//!
//! The other half can be checked: there is no such drop here. By misses alone, a store that finds a tenth of its data
//! in memory instead of a half has less than twice the work.

use super::{Data, LARGE, Runs, SMALL, by_number, cores, drawing, rate, run};
use crate::engine::{Factory, Result};
use crate::figures::drawing::Drawing;
use crate::figures::stage::Stage;
use crate::figures::{Figure, rules};

/// Insertions, a mix, queries, scans.
const PHASES: [&str; 4] = ["load", "a", "c", "e"];
/// Multiples of the smallest memory: 10, 25 and 50% of the data.
const STEPS: [f64; 3] = [1.0, 2.5, 5.0];

/// Figure 7.
pub const SMALL_VALUES: Figure = Figure {
    name: "splinterdb-7",
    source: "SplinterDB, figure 7",
    claim: "YCSB by memory, 100 B values: no cliff; at a quarter of the data 2.5 times KVell on queries, almost as fast on loads",
    draw: |figure, stage, engines| draw(figure, stage, engines, &SMALL, [("c", 2.5), ("load", 0.8)]),
};

/// Figure 8.
pub const LARGE_VALUES: Figure = Figure {
    name: "splinterdb-8",
    source: "SplinterDB, figure 8",
    claim: "YCSB by memory, 1 KiB values: no cliff; KVell loads faster, but queries at 55 to 77% and scans at less",
    draw: |figure, stage, engines| draw(figure, stage, engines, &LARGE, [("c", 1.3), ("e", 1.3)]),
};

fn draw(
    figure: &Figure,
    stage: &Stage<'_>,
    engines: &[&dyn Factory],
    data: &Data,
    kvell: [(&str, f64); 2],
) -> Result<Drawing> {
    let least = data.memory(stage);
    let sizes = STEPS.map(|times| (least as f64 * times) as u64);
    let mebibytes = sizes.map(|bytes| bytes >> 20);
    let mut all: [Vec<Runs>; PHASES.len()] = Default::default();
    for factory in engines {
        all.iter_mut().for_each(|runs| runs.push(Runs { engine: factory.name().into(), ran: Vec::new() }));
        for memory in sizes {
            let stage = Stage { memory: Some(memory), ..*stage };
            let ran = run(*factory, &stage, &data.settings(&stage, cores(&stage)), &PHASES)?;
            for (runs, ran) in all.iter_mut().filter_map(|runs| runs.last_mut()).zip(ran.ran) {
                runs.ran.push(ran);
            }
        }
    }
    let [first, middle, last] = mebibytes.map(|size| size.to_string());
    let (mut panels, mut rulings) = (Vec::new(), Vec::new());
    for (phase, runs) in PHASES.into_iter().zip(&all) {
        let texts = (phase, "memory, MiB", "operations a second");
        let panel = by_number(texts, &mebibytes, runs, |outcome| Some(rate(outcome)));
        rulings.push(rules::rises(&panel, &last, &first, 0.5));
        let mark = [("load", 6.0), ("c", 2.0), ("e", 1.0)].into_iter().find(|(name, _)| *name == phase);
        rulings.extend(mark.map(|(_, factor)| rules::ahead_at(&panel, &first, "rocksdb", factor)));
        let against = kvell.iter().filter(|(name, _)| *name == phase);
        rulings.extend(against.map(|(_, factor)| rules::ahead_at(&panel, &middle, "kvell", *factor)));
        panels.push(panel);
    }
    let conditions = vec![data.condition(stage), format!("and 2.5 and 5 times that; {} threads", cores(stage))];
    Ok(drawing(figure, stage, conditions, panels, rulings))
}
