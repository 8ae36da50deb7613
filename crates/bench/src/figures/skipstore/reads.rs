//! Figure 10: updates with 10 to 90% gets: throughput, and the latency of gets without a cache of single pairs, with one
//! of a fiftieth of the data, and with larger ones at half gets.
//!
//! The paper's caches come on top of a store's own memory, the same for both stores; so they do here. RocksDB has its row
//! cache of that size; Alluvium divides the larger budget itself.

use super::{Bench, Data, GB, KEYS, Place, ROCKSDB, Series, ahead, below, counted, panel, rate, warm_up};
use crate::engine::{EngineOptions, Factory, Result};
use crate::figures::Figure;
use crate::figures::host::Ran;
use crate::outcome::Outcome;
use crate::settings::Settings;
use crate::workload::Mix;

/// The paper: 50 GB with 2 GB of memory, of which caches of 1 to 5 GB can hardly be a part.
const DATA: Data = Data { bytes: 5 * GB, memory_part: 25 };
/// Percentages of gets.
const GETS: [u32; 5] = [10, 30, 50, 70, 90];
const HALF: u32 = 50;
/// The cache of most points, and the larger ones, in fiftieths of the data: 1, 3 and 5 GB in the paper.
const FIFTIETHS: [u64; 3] = [1, 3, 5];
/// The operations at each point have as many pairs as this.
const USED: u64 = GB;
/// "from 66.5 to -6 percent".
const RATE: f64 = 0.94;
/// "about 7 to 21 percent higher".
const LATENCY_WITHOUT: f64 = 1.21;
/// "less than 2 percent".
const LATENCY_CACHED: f64 = 1.02;
/// "less than 1 percent".
const LATENCY_HALF: f64 = 1.01;

/// Figure 10.
pub const READS: Figure = Figure {
    name: "skipstore-10",
    source: "SkipStore, figure 10",
    claim: "throughput from 1.665 down to 0.94 of RocksDB's as gets rise to 90%; gets take at most 1.21 of its time, 1.02 \
            behind a cache of a fiftieth of the data",
    draw: |figure, stage, engines| {
        let bench = Bench { stage, engines, data: DATA };
        let places = GETS.map(|share| -> Place { (format!("{share}%"), f64::from(share)) });
        let sizes = FIFTIETHS.map(|fiftieths| -> Place { (format!("{fiftieths}/50"), fiftieths as f64) });
        let without = bench.every(|factory| gets(&bench, factory, 0, &GETS))?;
        let cached = bench.every(|factory| gets(&bench, factory, FIFTIETHS[0], &GETS))?;
        let larger = bench.every(|factory| {
            let one = |fiftieths| gets(&bench, factory, fiftieths, &[HALF]);
            Ok(FIFTIETHS.into_iter().map(one).collect::<Result<Vec<_>>>()?.concat())
        })?;
        let of_gets = |title: &str, across: &str, places: &[Place], series: &[Series]| {
            panel((title, across, "us"), places, series, |outcome: &Outcome| outcome.get_mean_us)
        };
        let throughput = panel(("throughput", "gets", "operations a second"), &places, &without, rate);
        let cached_rate = panel(("throughput with a cache", "gets", "operations a second"), &places, &cached, rate);
        let latency = of_gets("latency of gets without a cache", "gets", &places, &without);
        let cached = of_gets("latency of gets with a cache", "gets", &places, &cached);
        let larger = of_gets("latency of half gets by the cache", "of the data", &sizes, &larger);
        let mut rulings = ahead(&throughput, &places, ROCKSDB, RATE);
        rulings.extend(below(&latency, &places, ROCKSDB, LATENCY_WITHOUT));
        rulings.extend(below(&cached, &places, ROCKSDB, LATENCY_CACHED));
        rulings.extend(below(&larger, &sizes, ROCKSDB, LATENCY_HALF));
        let conditions = vec![
            format!("as many operations at each point as {} have pairs; the paper: 50 GB of data", bench.place(USED).0),
            format!("a cache of a fiftieth is {} MiB more memory for every engine", cache_bytes(&bench, 1) >> 20),
        ];
        let panels = vec![throughput, cached_rate, latency, cached, larger];
        Ok(bench.drawing(figure, conditions, panels, rulings))
    },
};

fn cache_bytes(bench: &Bench<'_>, fiftieths: u64) -> u64 {
    bench.bytes() * fiftieths / 50
}

/// Gets among updates at these percentages, one after the other on one warm store, with a cache of so many fiftieths of the
/// data.
fn gets(bench: &Bench<'_>, factory: &dyn Factory, fiftieths: u64, shares: &[u32]) -> Result<Vec<Ran>> {
    let settings = bench.settings(factory);
    let items = cache_bytes(bench, fiftieths);
    let engine = EngineOptions {
        memory: Some(bench.memory() + items),
        item_cache: (items > 0).then_some(items),
        ..settings.engine
    };
    let settings = Settings { engine, ..settings };
    let step = |gets: &u32| {
        let mix = Mix { read: *gets, overwrite: 100 - gets, choice: Some(KEYS), ..Mix::default() };
        counted(&settings, bench.pairs(USED), format!("{gets}% gets"), mix)
    };
    let steps = std::iter::once(warm_up(&settings)).chain(shares.iter().map(step)).collect();
    Ok(bench.run(factory, &settings, steps)?.into_iter().skip(1).collect())
}
