//! Figure 9 by the size of the Memtable: what the memory of the buffer components does there instead. Shown beside the
//! paper's comparison, in which other engines have it as cache.

use super::{AMPLIFIED, Bench, DATA, GB, MEMTABLE_PART, PUTS, Place, engines, panel, rate, updates, write_amp};
use crate::engine::{EngineOptions, Result};
use crate::figures::{Figure, rules};
use crate::settings::Settings;

/// One part in so many of the memory. The first is near the paper's 4 MB at the figure's own size.
const PARTS: [u64; 3] = [5 * MEMTABLE_PART, 2 * MEMTABLE_PART, MEMTABLE_PART];
/// What is updated at each size.
const UPDATED: u64 = 5 * GB;

/// The figure.
pub const MEMTABLES: Figure = Figure {
    name: "skipstore-memtable",
    source: "SkipStore, figure 9, by the size of the Memtable",
    claim: "not in the paper: the bytes of the buffer components as Memtable",
    draw: |figure, stage, engines| {
        let bench = Bench { stage, engines, data: DATA };
        let sizes = PARTS.map(|part| bench.memory() / part);
        let place = |bytes: u64| -> Place { (format!("{} KiB", bytes >> 10), (bytes >> 10) as f64) };
        let places = sizes.map(place);
        let series = bench.every(|factory| {
            let one = |bytes| {
                let settings = bench.settings(factory);
                let engine = EngineOptions { write_buffer: Some(bytes), ..settings.engine };
                let settings = Settings { engine, ..settings };
                bench.run(factory, &settings, vec![updates(&settings, bench.pairs(UPDATED))])
            };
            Ok(sizes.into_iter().map(one).collect::<Result<Vec<_>>>()?.concat())
        })?;
        let puts = panel(("throughput", "Memtable", PUTS), &places, &series, rate);
        let amp = panel(("write amplification", "Memtable", AMPLIFIED), &places, &series, write_amp);
        let rulings = vec![rules::falls(&engines::as_ours(&amp), &places[0].0, &places[PARTS.len() - 1].0)];
        let updated = bench.place(UPDATED).0;
        let conditions = vec![format!("{updated} of updates at each size; the total memory is the same at all")];
        Ok(bench.drawing(figure, conditions, vec![puts, amp], rulings))
    },
};
