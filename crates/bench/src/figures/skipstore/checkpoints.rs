//! Table 4: updates and as many gets, with checkpoints of what waits in memory every so many operations. Engines without
//! buffers are run once, and have the same result at every place.

use super::{Bench, DATA, KEYS, Place, counted, engines, panel, rate};
use crate::engine::{EngineOptions, Factory, LevelKnobs, Result};
use crate::figures::host::Ran;
use crate::figures::{Figure, rules};
use crate::session::Step;
use crate::settings::Settings;
use crate::workload::Mix;

/// A million operations between checkpoints, in hundredths: the paper's 1, 2, 5, 10, 15 and 20 minutes; `None`: only when
/// the files that are kept have too many bytes.
const EVERY: [Option<u64>; 7] = [Some(34), Some(68), Some(170), Some(340), Some(510), Some(680), None];
/// The name of the last one.
pub const NONE: &str = "none";
/// All operations, in the same unit: more than two of the longest intervals.
const OPERATIONS: u64 = 1400;
const UNIT: u64 = 10_000;
/// From this interval on a checkpoint hardly costs anything.
const CHEAP_FROM: u64 = 170;
const OF_NONE: f64 = 0.98;

/// Table 4.
pub const CHECKPOINTS: Figure = Figure {
    name: "skipstore-table-4",
    source: "SkipStore, table 4",
    claim: "from 1.7 million operations (5 minutes) on, checkpoints cost at most 2% of the throughput at half gets",
    draw: |figure, stage, engines| {
        let bench = Bench { stage, engines, data: DATA };
        let places = places(&bench);
        let series = bench.every(|factory| Ok(by_interval(&bench, factory, |_| Vec::new())?.concat()))?;
        let operations = "operations a second";
        let throughput = panel(("throughput", "operations between checkpoints", operations), &places, &series, rate);
        let ours = engines::as_ours(&throughput);
        let cheap = EVERY.iter().zip(&places).filter(|(every, _)| every.is_some_and(|every| every >= CHEAP_FROM));
        let rulings = cheap.map(|(_, (place, _))| rules::rises(&ours, NONE, place, OF_NONE)).collect();
        let conditions = conditions(&bench);
        Ok(bench.drawing(figure, conditions, vec![throughput], rulings))
    },
};

/// Operations in proportion to the keys.
fn scaled(bench: &Bench<'_>, units: u64) -> u64 {
    bench.pairs(units * UNIT * super::PAIR_BYTES)
}

/// The places of figures by the operations between checkpoints.
pub fn places(bench: &Bench<'_>) -> Vec<Place> {
    let place = |every: &Option<u64>| {
        let at = every.unwrap_or(2 * EVERY[EVERY.len() - 2].unwrap_or(0));
        let name = every.map_or(NONE.to_string(), |every| scaled(bench, every).to_string());
        (name, at as f64)
    };
    EVERY.iter().map(place).collect()
}

/// Runs the operations at every place, and more steps behind them. Returns the outcomes of the steps of each place.
pub fn by_interval(
    bench: &Bench<'_>,
    factory: &dyn Factory,
    behind: impl Fn(&Settings) -> Vec<Step>,
) -> Result<Vec<Vec<Ran>>> {
    let run = |every: Option<u64>| {
        let settings = bench.settings(factory);
        // Every second operation is a put.
        let checkpoint_every = every.map(|every| (scaled(bench, every) / 2).max(1));
        let levels = LevelKnobs { checkpoint_every, ..settings.engine.levels };
        let settings = Settings { engine: EngineOptions { levels, ..settings.engine }, ..settings };
        let mix = Mix { read: 50, overwrite: 50, choice: Some(KEYS), ..Mix::default() };
        let mut steps = vec![counted(&settings, scaled(bench, OPERATIONS), "half gets".into(), mix)];
        steps.extend(behind(&settings));
        bench.run(factory, &settings, steps)
    };
    if engines::has_buffers(bench.stage, bench.engines, factory) {
        return EVERY.into_iter().map(run).collect();
    }
    Ok(vec![run(None)?; EVERY.len()])
}

/// How checkpoints were made.
pub fn conditions(bench: &Bench<'_>) -> Vec<String> {
    vec![
        format!("{} operations at each place, half of them gets", scaled(bench, OPERATIONS)),
        format!("{NONE}: only when the files that are kept have too many bytes; our store cannot do without"),
    ]
}
