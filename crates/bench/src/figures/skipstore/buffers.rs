//! Figure 11, its second part: updates by the size of the buffer components, which is memory that the other engines have as
//! cache.

use super::{AMPLIFIED, Bench, DATA, GB, PUTS, Place, engines, panel, rate, updates, write_amp};
use crate::engine::{EngineOptions, LevelKnobs, Result};
use crate::figures::{Figure, rules};
use crate::settings::Settings;

/// The paper has 16 to 256 MB for 10 GB of keys: one part in so many of the data.
const PARTS: [u64; 5] = [640, 320, 160, 80, 40];
const UPDATED: u64 = 5 * GB;
/// Throughput falls by no step more than this.
const SLACK: f64 = 0.05;

/// The figure.
pub const BUFFERS: Figure = Figure {
    name: "skipstore-11-buffers",
    source: "SkipStore, figure 11, by the size of the buffers",
    claim: "updates are faster with larger buffers",
    draw: |figure, stage, engines| {
        let bench = Bench { stage, engines, data: DATA };
        let sizes = PARTS.map(|part| bench.bytes() / part);
        let places = sizes.map(|bytes| -> Place { (format!("{} KiB", bytes >> 10), (bytes >> 10) as f64) });
        let series = bench.every(|factory| {
            let one = |bytes| {
                let settings = bench.settings(factory);
                let levels = LevelKnobs { buffer_bytes: Some(bytes), ..settings.engine.levels };
                let memory = Some(bench.memory() + bytes);
                let settings = Settings { engine: EngineOptions { memory, levels, ..settings.engine }, ..settings };
                bench.run(factory, &settings, vec![updates(&settings, bench.pairs(UPDATED))])
            };
            Ok(sizes.into_iter().map(one).collect::<Result<Vec<_>>>()?.concat())
        })?;
        let puts = panel(("throughput", "buffers", PUTS), &places, &series, rate);
        let amp = panel(("write amplification", "buffers", AMPLIFIED), &places, &series, write_amp);
        let rulings = vec![
            rules::never_falls(&engines::as_ours(&puts), SLACK),
            rules::falls(&engines::as_ours(&amp), &places[0].0, &places[PARTS.len() - 1].0),
        ];
        let updated = bench.place(UPDATED).0;
        let conditions = vec![format!(
            "{updated} of updates at each size; every engine has the bytes of the buffers on top of its memory"
        )];
        Ok(bench.drawing(figure, conditions, vec![puts, amp], rulings))
    },
};
