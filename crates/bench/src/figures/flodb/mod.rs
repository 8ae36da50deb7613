//! FloDB ("Unlocking Memory in Persistent Key-Value Stores", EuroSys 2017), figures 9 and 13 to 16: the two-level
//! memory component by threads, by scans and by size. Figures 8 and 17 concern the memory component alone: `cargo bench
//! --bench flodb`.
//!
//! The paper has 300 GB of 8-byte keys with 256-byte values, 20 cores and memory components up to 192 GB; everything is
//! far smaller here. Besides the chosen engines, the same store with a skiplist alone is measured.

use super::drawing::{Drawing, Line, Panel, Ruling};
use super::host::Ran;
use super::stage::Stage;
use super::{Figure, rules};
use crate::SingleLevel;
use crate::choice::Choice;
use crate::engine::{EngineOptions, Factory, Result};
use crate::keys::Order;
use crate::outcome::Outcome;
use crate::session::Step;
use crate::settings::Settings;
use crate::workload::{Arrival, Job, Mix, Workload};
use std::time::Duration;

const KEYS: u64 = 1_000_000;
const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 256;
const PAIR_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;
const MEMORY: u64 = 256 << 20;
/// "each scan has a range of 100 keys" (section 5.2).
const SCAN_PAIRS: u64 = 100;
/// Section 5.4.
const SKEW: Choice = Choice::Hot { operations_percent: 98, keys_percent: 2, block: 1 };
const SINGLE: &str = "single-level";
/// Writers share the cores with background work: with fewer cores than this, no claim about them can be checked.
const WRITERS_CORES_MIN: usize = 4;

/// Figure 9: writes by threads.
pub const WRITES: Figure = Figure {
    name: "flodb-9",
    source: "FloDB, figure 9",
    claim: "write-only, half inserts, half deletes: 1.9 to 3.5 times the next best, the disk saturated by one thread",
    draw: |figure, stage, engines| {
        let mix = Mix { insert: 1, delete: 1, ..Mix::default() };
        let texts = ("inserts and deletes", "threads", "operations a second");
        let panel = by_threads(texts, engines, stage, &mix, |outcome| outcome.ops_per_s)?;
        let rulings = against(&panel, 1.9);
        Ok(drawing(figure, stage, vec![panel], rulings))
    },
};

/// Figure 13: scans and writes by threads.
pub const SCANS: Figure = Figure {
    name: "flodb-13",
    source: "FloDB, figure 13",
    claim: "95% updates, 5% scans of 100 keys: ahead of all others, the next best at 43 to 90%",
    draw: |figure, stage, engines| {
        let texts = ("95% updates, 5% scans", "threads", "keys accessed per second");
        let panel = by_threads(texts, engines, stage, &scans(5), keys_accessed)?;
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
            loaded(factory, stage, &ratios.map(|ratio| (stage.cores, workload(ratio))))
        };
        let texts = ("operations by scans", "scans, %", "operations a second");
        let operations = panel(texts, engines, &places, ran, |outcome| outcome.ops_per_s)?;
        let texts = ("keys by scans", "scans, %", "keys accessed per second");
        let keys = panel(texts, engines, &places, ran, keys_accessed)?;
        let rulings = vec![rules::rises(&keys, "2", "50", 1.0), rules::falls(&operations, "2", "50")];
        Ok(drawing(figure, stage, vec![operations, keys], rulings))
    },
};

/// Figure 15: a burst of writes by the size of the memory component.
pub const MEMORY_SIZE: Figure = Figure {
    name: "flodb-15",
    source: "FloDB, figure 15",
    claim: "a ten-second burst of writes: throughput rises with the memory component's size, where single-level stores' falls; \
            2.3 times the next best at every size",
    draw: |figure, stage, engines| {
        let sizes = write_buffers(stage);
        let ran = |factory: &dyn Factory| {
            let point = |size: &u64| {
                let settings = stage.settings(Settings { num: Some(1000), ..sized(*size) });
                let job = Job::Mix(Mix { insert: 1, ..Mix::default() });
                let workload = Workload { name: format!("burst, {} MiB", size >> 20), job };
                let mut step = stage.timed(&settings, stage.cores, workload);
                // The burst alone, without the background work that it leaves.
                (step.settings.duration, step.settings.settle) = (Some(burst(stage)), false);
                last(stage.run(factory, vec![Step { settings, workload: fill("first keys") }, step])?)
            };
            sizes.iter().map(point).collect()
        };
        let texts = ("burst", "memory component, MiB", "puts a second");
        let panel = panel(texts, engines, &by_size(&sizes), ran, |outcome| outcome.ops_per_s)?;
        let (first, last) = (mebibytes(sizes[0]), mebibytes(sizes[sizes.len() - 1]));
        let mut rulings = vec![rules::rises(&panel, &first, &last, 1.0)];
        rulings.extend(sizes.iter().map(|size| rules::ahead_at(&panel, &mebibytes(*size), SINGLE, 1.0)));
        rulings.extend(sizes.iter().map(|size| rules::ahead_at(&panel, &mebibytes(*size), "rocksdb", 2.3)));
        Ok(drawing(figure, stage, vec![panel], rulings))
    },
};

/// Figure 16: skewed reads and writes by the size of the memory component.
pub const SKEWED: Figure = Figure {
    name: "flodb-16",
    source: "FloDB, figure 16",
    claim: "half reads, half updates, 98% of them on 2% of the keys: updates in place keep the popular keys in memory, 8 times the \
            next best on average",
    draw: |figure, stage, engines| {
        let sizes = write_buffers(stage);
        let mix = Mix { read: 1, overwrite: 1, choice: Some(SKEW), ..Mix::default() };
        let ran = |factory: &dyn Factory| {
            let point = |size: &u64| {
                let settings = stage.settings(sized(*size));
                let workload = Workload { name: format!("98/2, {} MiB", size >> 20), job: Job::Mix(mix.clone()) };
                let step = stage.timed(&settings, stage.cores, workload);
                last(stage.run(factory, vec![Step { settings, workload: fill("load") }, step])?)
            };
            sizes.iter().map(point).collect()
        };
        let texts = ("98% on 2%", "memory component, MiB", "operations a second");
        let panel = panel(texts, engines, &by_size(&sizes), ran, |outcome| outcome.ops_per_s)?;
        let mut rulings = vec![rules::best_ahead_of(&panel, SINGLE, 5.0)];
        rulings.push(rules::best_ahead_of(&panel, "splinterdb", 3.0));
        rulings.push(rules::best_ahead_of(&panel, "rocksdb", 8.0));
        Ok(drawing(figure, stage, vec![panel], rulings))
    },
};

/// Our best is at least this factor above the best of others.
fn against(panel: &Panel, factor: f64) -> Vec<Ruling> {
    ["rocksdb", "leveldb", SINGLE].map(|other| rules::best_ahead_of(panel, other, factor)).into()
}

fn scans(percent: u32) -> Mix {
    let choice = Some(Choice::Uniform);
    Mix { scan: percent, overwrite: 100 - percent, scan_pairs: (SCAN_PAIRS, SCAN_PAIRS), choice, ..Mix::default() }
}

fn keys_accessed(outcome: &Outcome) -> f64 {
    let puts = outcome.user_bytes_written as f64 / PAIR_BYTES as f64;
    (puts + outcome.pairs_scanned as f64) / outcome.elapsed_s.max(1e-9)
}

fn settings() -> Settings {
    let engine = EngineOptions { memory: Some(MEMORY), ..EngineOptions::default() };
    Settings { num: Some(KEYS), key_size: KEY_BYTES, value_size: VALUE_BYTES, engine, ..Settings::default() }
}

/// With a memory component of this size, and memory in proportion.
fn sized(write_buffer: u64) -> Settings {
    let memory = (write_buffer * 8).max(MEMORY.min(write_buffer * 32));
    let engine = EngineOptions { memory: Some(memory), write_buffer: Some(write_buffer), ..EngineOptions::default() };
    Settings { engine, ..settings() }
}

/// Sizes of the memory component: from 16 MiB to 4 GiB, as long as the machine has eight times as much memory, or
/// fractions of the memory that the user gave.
fn write_buffers(stage: &Stage<'_>) -> Vec<u64> {
    match stage.memory {
        Some(memory) => [64, 16, 8].map(|part| memory / part).into(),
        None => {
            let most = stage.machine_memory() / 8;
            (0..5).map(|step| (16 << 20) << (2 * step)).filter(|size| *size <= most.max(64 << 20)).collect()
        }
    }
}

/// The paper's ten seconds if a point has three.
fn burst(stage: &Stage<'_>) -> Duration {
    stage.duration * 10 / 3
}

fn mebibytes(size: u64) -> String {
    if size < 1 << 20 { format!("{} KiB", size >> 10) } else { (size >> 20).to_string() }
}

fn fill(name: &str) -> Workload {
    let job = Job::Fill { order: Order::Random, arrival: Arrival::Ascending };
    Workload { name: name.into(), job }
}

/// Timed runs by threads, on a store that was loaded in random order.
fn loaded(factory: &dyn Factory, stage: &Stage<'_>, workloads: &[(usize, Workload)]) -> Result<Vec<Ran>> {
    let settings = stage.settings(settings());
    let mut steps = vec![Step { settings: settings.clone(), workload: fill("load") }];
    steps.extend(workloads.iter().map(|(threads, workload)| stage.timed(&settings, *threads, workload.clone())));
    stage.run_behind_load(factory, steps)
}

/// The outcome of the step that a series is about.
fn last(mut ran: Vec<Ran>) -> Result<Ran> {
    ran.pop().ok_or_else(|| "a series without an outcome".into())
}

/// A point's name and position.
type Place = (String, f64);

fn by_size(sizes: &[u64]) -> Vec<Place> {
    sizes.iter().map(|size| (mebibytes(*size), (*size >> 20) as f64)).collect()
}

fn by_threads(
    texts: (&str, &str, &str),
    engines: &[&dyn Factory],
    stage: &Stage<'_>,
    mix: &Mix,
    rate: impl Fn(&Outcome) -> f64,
) -> Result<Panel> {
    let threads = stage.threads();
    let workload =
        |threads: &usize| (*threads, Workload { name: format!("{threads} threads"), job: Job::Mix(mix.clone()) });
    let workloads: Vec<_> = threads.iter().map(workload).collect();
    let places: Vec<Place> = threads.iter().map(|threads| (threads.to_string(), *threads as f64)).collect();
    panel(texts, engines, &places, |factory| loaded(factory, stage, &workloads), rate)
}

/// A line for every engine, and one for the single-level store.
fn panel(
    (title, x, y): (&str, &str, &str),
    engines: &[&dyn Factory],
    places: &[Place],
    ran: impl Fn(&dyn Factory) -> Result<Vec<Ran>>,
    rate: impl Fn(&Outcome) -> f64,
) -> Result<Panel> {
    let mut lines = Vec::new();
    for engine in engines.iter().copied().chain([&SingleLevel as &dyn Factory]) {
        let places = places.iter().map(|(name, x)| (&name[..], *x));
        lines.push(Line::of(engine.name(), places, &ran(engine)?, |outcome| Some(rate(outcome))));
    }
    Ok(Panel { title: title.into(), x: x.into(), y: y.into(), x_measured: false, lines })
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
