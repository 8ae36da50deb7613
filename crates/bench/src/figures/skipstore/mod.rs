//! SkipStore ("Building an Efficient Put-Intensive Key-Value Store with Skip-Tree", 2017), figures 2, 3, 9, 10 and 11,
//! tables 3 and 4, the scans of section 6.2.3 and the recovery of 6.2.4: levels that items may skip, against leveled levels and RocksDB.
//!
//! All engines have the geometry of the paper's RocksDB 4.6.1: a Memtable of 4 MB, files of 2 MB, a first level of 10 MB,
//! a ratio of 10, seven levels at most; and the same memory for everything. One writer, keys of YCSB's size, values of
//! 1 KB. The paper updates 200 GB; here it is a tenth, or a part of that if the user names fewer keys: every size of a
//! figure is in proportion to its keys, but for the geometry.
//!
//! The engine `alluvium-skip` has the levels that skip. Where it is not asked for, `alluvium` has them; where it is,
//! `alluvium` has a trunk. All times include those until background work is done, as long as nothing else is said.

mod amplification;
mod buffers;
mod checkpoints;
mod distribution;
mod engines;
mod levels;
mod memtables;
mod purposes;
mod reads;
mod recovery;
mod scans;
mod skips;
mod sums;
mod updates;

pub use amplification::{AMPLIFICATION, COMPRESSED};
pub use buffers::BUFFERS;
pub use checkpoints::CHECKPOINTS;
pub use distribution::DISTRIBUTION;
pub use memtables::MEMTABLES;
pub use purposes::PURPOSES;
pub use reads::READS;
pub use recovery::RECOVERY;
pub use scans::SCANS;
pub use skips::SKIPPED;
pub use updates::{LIMITED, UPDATES};

use super::Figure;
use super::drawing::{Drawing, Line, Panel, Ruling};
use super::host::Ran;
use super::rules;
use super::stage::Stage;
use crate::choice::Choice;
use crate::engine::{EngineOptions, Factory, LevelKnobs, Result};
use crate::keys::Order;
use crate::outcome::Outcome;
use crate::session::Step;
use crate::settings::Settings;
use crate::workload::{Arrival, Job, Mix, Workload};

/// "user" and a number.
const KEY_BYTES: usize = 24;
const VALUE_BYTES: usize = 1024;
const PAIR_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;
const GB: u64 = 1_000_000_000;
const MEMTABLE_BYTES: u64 = 4 << 20;
/// The largest Memtable is one part in so many of the memory: two thirds of what Alluvium permits, since the harness has some.
const MEMTABLE_PART: u64 = 12;
const FILE_BYTES: u64 = 2 << 20;
const BASE_BYTES: u64 = 10 << 20;
const SIZE_RATIO: u32 = 10;
/// One part in so many of the data is memory in which items wait that skip levels, as in the paper: 256 MB for 10 GB of keys.
/// It is a part of the memory that all engines have.
const BUFFER_PART: u64 = 40;
/// Every engine works as designed with this: Memtables, filters, buffers of merges, some cache.
const MEMORY_MIN: u64 = 96 << 20;
/// The paper says "Zipf" and YCSB, whose zipfian this is.
const KEYS: Choice = Choice::Scrambled;
const LEVELED: &str = "alluvium-leveled";
const ROCKSDB: &str = "rocksdb";
const PUTS: &str = "updates a second";
const AMPLIFIED: &str = "bytes of flush and compaction per user byte";

/// What a figure loads, and the memory for it.
#[derive(Clone, Copy, Debug)]
struct Data {
    /// Bytes of keys and values, unless the user has a number of keys.
    bytes: u64,
    /// One part in so many of it is memory.
    memory_part: u64,
}

/// The data of most figures.
const DATA: Data = Data { bytes: 2 * GB, memory_part: 8 };

/// A figure that is being run.
struct Bench<'a> {
    stage: &'a Stage<'a>,
    engines: &'a [&'a dyn Factory],
    data: Data,
}

/// A point's name and position.
type Place = (String, f64);

/// One engine's outcomes, one for each point.
struct Series {
    engine: String,
    ran: Vec<Ran>,
}

impl Bench<'_> {
    fn keys(&self) -> u64 {
        self.stage.num.unwrap_or(self.data.bytes / PAIR_BYTES).max(1)
    }

    /// What is loaded.
    fn bytes(&self) -> u64 {
        self.keys() * PAIR_BYTES
    }

    /// Whether the figure has its own size.
    fn is_whole(&self) -> bool {
        self.keys() >= self.data.bytes / PAIR_BYTES
    }

    fn memory(&self) -> u64 {
        self.stage.memory.unwrap_or((self.bytes() / self.data.memory_part).max(MEMORY_MIN))
    }

    /// The memory in which items wait that skip levels.
    fn buffers(&self) -> u64 {
        self.bytes() / BUFFER_PART
    }

    /// The geometry's, unless the memory is too small for it.
    fn memtable(&self) -> u64 {
        MEMTABLE_BYTES.min(self.memory() / MEMTABLE_PART)
    }

    /// As many pairs as have this many bytes, or the same part of the user's number of keys.
    fn pairs(&self, bytes: u64) -> u64 {
        (u128::from(self.keys()) * u128::from(bytes) / u128::from(self.data.bytes)).max(1) as u64
    }

    /// This many bytes, scaled like the pairs, as a point.
    fn place(&self, bytes: u64) -> Place {
        let gigabytes = (self.pairs(bytes) * PAIR_BYTES) as f64 / GB as f64;
        let rounded = (gigabytes * 1000.0).round() / 1000.0;
        let name = if rounded >= 0.5 { format!("{rounded} GB") } else { format!("{:.1} MB", gigabytes * 1000.0) };
        (name, gigabytes)
    }

    fn settings(&self, factory: &dyn Factory) -> Settings {
        let levels = LevelKnobs {
            size_ratio: Some(SIZE_RATIO),
            base_bytes: Some(BASE_BYTES),
            file_bytes: Some(FILE_BYTES),
            buffer_bytes: Some(self.buffers()),
            ..LevelKnobs::default()
        };
        let engine = EngineOptions {
            memory: Some(self.memory()),
            write_buffer: Some(self.memtable()),
            component: Some(engines::component(self.engines, factory)),
            levels,
            ..EngineOptions::default()
        };
        let of_figure = Settings { key_size: KEY_BYTES, value_size: VALUE_BYTES, engine, ..Settings::default() };
        Settings { num: Some(self.keys()), ..self.stage.settings(of_figure) }
    }

    /// Runs `point`, which returns one outcome for each place, for every engine.
    fn every(&self, point: impl Fn(&dyn Factory) -> Result<Vec<Ran>>) -> Result<Vec<Series>> {
        let series = |factory: &&dyn Factory| Ok(Series { engine: factory.name().into(), ran: point(*factory)? });
        self.engines.iter().map(series).collect()
    }

    /// Runs steps on a new store; without the outcome of the load, which is the first.
    fn run(&self, factory: &dyn Factory, settings: &Settings, mut steps: Vec<Step>) -> Result<Vec<Ran>> {
        let job = Job::Fill { order: Order::Random, arrival: Arrival::Ascending };
        let load = Workload { name: format!("load of {}", self.keys()), job };
        steps.insert(0, Step { settings: settings.clone(), workload: load });
        // Otherwise every step would draw the keys of the one before.
        steps.iter_mut().zip(0..).for_each(|(step, at)| step.settings.seed += at);
        self.stage.run_behind_load(factory, steps)
    }

    fn drawing(
        &self,
        figure: &Figure,
        mut conditions: Vec<String>,
        panels: Vec<Panel>,
        mut rulings: Vec<Ruling>,
    ) -> Drawing {
        let (memory, loaded, whole) =
            (self.memory(), self.place(self.data.bytes).0, self.data.bytes as f64 / GB as f64);
        let part = if self.is_whole() { String::new() } else { format!(", scaled down from {whole} GB") };
        conditions.extend([
            format!("{} keys of {KEY_BYTES} bytes with {VALUE_BYTES} bytes, {loaded}{part}; one thread", self.keys()),
            format!(
                "Memtable {} MiB, files {} MiB, first level {} MiB, ratio {SIZE_RATIO}; {} MiB of memory per engine",
                self.memtable() >> 20,
                FILE_BYTES >> 20,
                BASE_BYTES >> 20,
                memory >> 20
            ),
            "keys drawn by YCSB's scrambled zipfian, 0.99, if nothing else is said".into(),
            engines::condition(self.stage, self.engines),
        ]);
        rulings.extend(engines::lives(self.engines, &panels));
        Drawing::of(figure, conditions, panels, rulings)
    }
}

/// This many operations of a mix.
fn counted(settings: &Settings, operations: u64, name: String, mix: Mix) -> Step {
    let settings = Settings { ops: Some(operations), ..settings.clone() };
    Step { settings, workload: Workload { name, job: Job::Mix(mix) } }
}

/// Updates of loaded keys, as YCSB draws them.
fn updates(settings: &Settings, operations: u64) -> Step {
    let mix = Mix { overwrite: 1, choice: Some(KEYS), ..Mix::default() };
    counted(settings, operations, format!("{operations} updates"), mix)
}

/// Zipfian gets, enough to fill the memory. Some engines cache what they write, others only what was read.
fn warm_up(settings: &Settings) -> Step {
    let mix = Mix { read: 1, choice: Some(KEYS), ..Mix::default() };
    counted(settings, (settings.engine.memory.unwrap_or(0) / PAIR_BYTES).max(1), "warm-up".into(), mix)
}

/// A line for each engine.
fn panel(
    (title, x, y): (&str, &str, &str),
    places: &[Place],
    series: &[Series],
    height: impl Fn(&Outcome) -> Option<f64>,
) -> Panel {
    let places = || places.iter().map(|(name, x)| (&name[..], *x));
    let lines = series.iter().map(|series| Line::of(&series.engine, places(), &series.ran, &height)).collect();
    Panel { title: title.into(), x: x.into(), y: y.into(), x_measured: false, lines }
}

/// At every place ours is at most `factor` times another engine's, less being better.
fn below(panel: &Panel, places: &[Place], other: &str, factor: f64) -> Vec<Ruling> {
    let seen = engines::as_ours(panel);
    places.iter().map(|(place, _)| rules::below_at(&seen, place, other, factor)).collect()
}

/// At every place ours is at least `factor` times another engine's.
fn ahead(panel: &Panel, places: &[Place], other: &str, factor: f64) -> Vec<Ruling> {
    let seen = engines::as_ours(panel);
    places.iter().map(|(place, _)| rules::ahead_at(&seen, place, other, factor)).collect()
}

/// Operations per second, with the time until background work was done.
fn rate(outcome: &Outcome) -> Option<f64> {
    Some(outcome.ops as f64 / (outcome.elapsed_s + outcome.settle_s).max(1e-9))
}

/// Without the log.
fn write_amp(outcome: &Outcome) -> Option<f64> {
    outcome.write_amp
}

/// The mean time that the one writer waits for an operation, in microseconds; background work afterwards not included.
fn latency_us(outcome: &Outcome) -> Option<f64> {
    Some(outcome.elapsed_s * 1e6 / outcome.ops.max(1) as f64)
}
