//! Table 4: updates and as many gets, with checkpoints of what waits in memory every so many operations. Engines without
//! buffers are run once, and have the same result at every place.

use super::{Bench, DATA, KEYS, Place, Series, counted, engines, panel, rate};
use crate::engine::{EngineOptions, Factory, LevelKnobs, Result};
use crate::figures::host::Ran;
use crate::figures::{Figure, rules};
use crate::settings::Settings;
use crate::workload::Mix;

/// A million operations between checkpoints, in hundredths: the paper's 1, 2, 5, 10, 15 and 20 minutes; `None`: only when
/// the files that are kept have too many bytes.
const EVERY: [Option<u64>; 7] = [Some(34), Some(68), Some(170), Some(340), Some(510), Some(680), None];
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
        let places: Vec<Place> = EVERY.iter().map(|every| place(&bench, *every)).collect();
        let series: Vec<Series> = engines
            .iter()
            .map(|factory| Ok(Series { engine: factory.name().into(), ran: by_interval(&bench, *factory)? }))
            .collect::<Result<_>>()?;
        let operations = "operations a second";
        let throughput = panel(("throughput", "operations between checkpoints", operations), &places, &series, rate);
        let ours = engines::as_ours(&throughput);
        let none = places[EVERY.len() - 1].0.clone();
        let cheap = EVERY.iter().zip(&places).filter(|(every, _)| every.is_some_and(|every| every >= CHEAP_FROM));
        let rulings = cheap.map(|(_, (place, _))| rules::rises(&ours, &none, place, OF_NONE)).collect();
        let conditions = vec![
            format!("{} operations at each place, half of them gets", scaled(&bench, OPERATIONS)),
            "the last place: checkpoints only by the bytes of the files that are kept".into(),
        ];
        Ok(bench.drawing(figure, conditions, vec![throughput], rulings))
    },
};

/// Operations in proportion to the keys.
fn scaled(bench: &Bench<'_>, units: u64) -> u64 {
    bench.pairs(units * UNIT * super::PAIR_BYTES)
}

fn place(bench: &Bench<'_>, every: Option<u64>) -> Place {
    let at = every.unwrap_or(2 * EVERY[EVERY.len() - 2].unwrap_or(0));
    let name = every.map_or("none".to_string(), |every| scaled(bench, every).to_string());
    (name, at as f64)
}

fn by_interval(bench: &Bench<'_>, factory: &dyn Factory) -> Result<Vec<Ran>> {
    let run = |every: Option<u64>| {
        let settings = bench.settings(factory);
        // Every second operation is a put.
        let checkpoint_every = every.map(|every| (scaled(bench, every) / 2).max(1));
        let levels = LevelKnobs { checkpoint_every, ..settings.engine.levels };
        let settings = Settings { engine: EngineOptions { levels, ..settings.engine }, ..settings };
        let mix = Mix { read: 50, overwrite: 50, choice: Some(KEYS), ..Mix::default() };
        bench.run(factory, &settings, vec![counted(&settings, scaled(bench, OPERATIONS), "half gets".into(), mix)])
    };
    if engines::skips(bench.stage, bench.engines, factory) {
        return Ok(EVERY.into_iter().map(run).collect::<Result<Vec<_>>>()?.concat());
    }
    let once = run(None)?;
    Ok(EVERY.iter().flat_map(|_| once.clone()).collect())
}
