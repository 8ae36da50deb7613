//! FloDB ("Unlocking Memory in Persistent Key-Value Stores", EuroSys 2017), figures 3 (with 4) and 9 to 16: the two-level
//! memory component by threads, by scans and by size. Figures 5, 7, 8 and 17 concern the memory component alone: `cargo
//! bench --bench flodb`.
//!
//! The paper has 300 GB of 8-byte keys with 256-byte values, 20 cores and memory components up to 192 GB; everything is
//! far smaller here. Besides the chosen engines, the same store with a skiplist alone is measured.

mod scans;
mod sizes;
mod threads;

pub use scans::{SCAN_RATIO, SCANS};
pub use sizes::{LATENCY, MEMORY_SIZE, SKEWED};
pub use threads::{MIXED, ONE_WRITER, READS, WRITES};

use super::drawing::{Drawing, Line, Panel, Ruling};
use super::host::Ran;
use super::stage::Stage;
use super::{Figure, rules};
use crate::SingleLevel;
use crate::engine::{EngineOptions, Factory, Result};
use crate::keys::Order;
use crate::outcome::Outcome;
use crate::session::Step;
use crate::settings::Settings;
use crate::workload::{Arrival, Job, Mix, Workload};

const KEYS: u64 = 1_000_000;
const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 256;
const PAIR_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;
const MEMORY: u64 = 256 << 20;
const SINGLE: &str = "single-level";
/// Writers share the cores with background work: with fewer cores than this, no claim about them can be checked.
const WRITERS_CORES_MIN: usize = 4;

/// Title, meaning of x, meaning of y.
type Texts<'a> = (&'a str, &'a str, &'a str);
/// A panel's texts, and the height of its points.
type View<'a> = (Texts<'a>, fn(&Outcome) -> Option<f64>);
/// A point's name and position.
type Place = (String, f64);

fn settings() -> Settings {
    let engine = EngineOptions { memory: Some(MEMORY), ..EngineOptions::default() };
    Settings { num: Some(KEYS), key_size: KEY_BYTES, value_size: VALUE_BYTES, engine, ..Settings::default() }
}

/// Random or in key order; each key once.
fn fill(name: &str, order: Order) -> Workload {
    Workload { name: name.into(), job: Job::Fill { order, arrival: Arrival::Ascending } }
}

/// Timed runs by threads, on a store that was loaded in this order.
fn loaded(factory: &dyn Factory, stage: &Stage<'_>, order: Order, workloads: &[(usize, Workload)]) -> Result<Vec<Ran>> {
    let settings = stage.settings(settings());
    let mut steps = vec![Step { settings: settings.clone(), workload: fill("load", order) }];
    steps.extend(workloads.iter().map(|(threads, workload)| stage.timed(&settings, *threads, workload.clone())));
    stage.run_behind_load(factory, steps)
}

/// A mix by threads.
fn by_threads<const N: usize>(
    views: [View<'_>; N],
    engines: &[&dyn Factory],
    stage: &Stage<'_>,
    (order, mix): (Order, &Mix),
) -> Result<[Panel; N]> {
    let threads = stage.threads();
    let workload =
        |threads: &usize| (*threads, Workload { name: format!("{threads} threads"), job: Job::Mix(mix.clone()) });
    let workloads: Vec<_> = threads.iter().map(workload).collect();
    let places: Vec<Place> = threads.iter().map(|threads| (threads.to_string(), *threads as f64)).collect();
    panels(views, engines, &places, |factory| loaded(factory, stage, order, &workloads))
}

/// Our best is at least this factor above the best of others.
fn against(panel: &Panel, factor: f64) -> Vec<Ruling> {
    ["rocksdb", "leveldb", SINGLE].map(|other| rules::best_ahead_of(panel, other, factor)).into()
}

/// Views of the same runs. Each has a line for every engine, and one for the single-level store.
fn panels<const N: usize>(
    views: [View<'_>; N],
    engines: &[&dyn Factory],
    places: &[Place],
    ran: impl Fn(&dyn Factory) -> Result<Vec<Ran>>,
) -> Result<[Panel; N]> {
    let mut panels =
        views.map(|((title, x, y), _)| Panel { title: title.into(), x: x.into(), y: y.into(), ..Panel::default() });
    for engine in engines.iter().copied().chain([&SingleLevel as &dyn Factory]) {
        let ran = ran(engine)?;
        for (panel, (_, height)) in panels.iter_mut().zip(views) {
            let places = places.iter().map(|(name, x)| (&name[..], *x));
            panel.lines.push(Line::of(engine.name(), places, &ran, height));
        }
    }
    Ok(panels)
}

fn rate(outcome: &Outcome) -> Option<f64> {
    Some(outcome.ops_per_s)
}

fn drawing(figure: &Figure, stage: &Stage<'_>, panels: Vec<Panel>, rulings: Vec<Ruling>) -> Drawing {
    let keys = stage.num.unwrap_or(KEYS);
    let conditions = vec![
        format!(
            "{keys} keys of 8 bytes with values of 256 bytes: {} MB (the paper: 300 GB)",
            keys * PAIR_BYTES / 1_000_000
        ),
        "memory: 256 MiB per engine, or eight times the memory component if its size is given".to_string(),
        format!("{} cores (the paper: 20), {} s per point", stage.cores, stage.duration.as_secs_f64()),
    ];
    Drawing::of(figure, conditions, panels, rulings)
}

#[cfg(test)]
mod tests;
