//! Kanda ("LSM-Based Key-Value Store", 2019), tables 1 to 3, figures 1 to 5 and those without a number: the tiered levels
//! under one laptop's workloads.
//!
//! The paper names neither the sizes of keys and values nor the numbers of its runs and levels: 4 bytes each are assumed
//! here, and the store's own tiered preset. Each table is measured with the store's default buffer and with a small one,
//! which has about as many entries as the paper's. The text has the numbers of tables 1 to 3, which are drawn as an engine
//! of their own; figures 3 to 5 and those without a number have no numbers in the text, so only their shape is judged.

mod filter;
mod fractions;
mod loads;
mod lookups;
pub(super) mod marks;
mod mix;
mod runs;
mod skew;
mod threads;

pub use filter::FILTER;
pub use fractions::FRACTIONS;
pub use loads::LOADS;
pub use lookups::LOOKUPS;
pub use mix::MIX;
pub use runs::RUNS;
pub use skew::SKEW;
pub use threads::THREADS;

use super::Figure;
use super::drawing::{Drawing, Line, Panel, Point, Ruling};
use super::host::Ran;
use super::stage::Stage;
use crate::choice::Choice;
use crate::engine::{Component, EngineOptions, Factory, LevelKnobs, Result};
use crate::keys::Order;
use crate::outcome::Outcome;
use crate::session::Step;
use crate::settings::Settings;
use crate::workload::{Arrival, Job, Mix, Workload};

const KEY_BYTES: usize = 4;
const VALUE_BYTES: usize = 4;
/// What a store takes at most if it is told nothing, on a machine of the paper's size or more.
const MEMORY: u64 = 1 << 30;
/// A buffer with about as many entries as the paper's (`buffer_condition`): 72 bytes each, of node and index.
const SMALL_BUFFER: u64 = 56 << 10;
/// The line with the paper's numbers.
const PAPER: &str = "paper";
const MILLION: u64 = 1_000_000;
/// The keys of most figures.
const KEYS: u64 = MILLION;
const GETS: &str = "look-ups a second";
const INSERTS: &str = "inserts a second";
/// The marks of the course for an SSD, by which the paper judges its store (section 4.2).
const COURSE_UPDATES: f64 = 100_000.0;
const COURSE_READS: f64 = 5_000.0;

/// The size of the memory component that takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Buffer {
    /// About the paper's 800 entries.
    Small,
    /// The engine's own.
    Usual,
}

impl Buffer {
    const ALL: [Self; 2] = [Self::Small, Self::Usual];

    fn bytes(self) -> Option<u64> {
        (self == Self::Small).then_some(SMALL_BUFFER)
    }

    /// The title of a panel.
    fn titled(self, what: &str) -> String {
        let name = if self == Self::Small { "small buffer" } else { "default buffer" };
        format!("{what}, {name}")
    }
}

/// A store to load.
#[derive(Clone, Copy, Debug)]
struct Load {
    keys: u64,
    buffer: Buffer,
    levels: LevelKnobs,
}

/// What is done to a loaded store: a name, a number of threads, the operations.
type Work = (String, usize, Mix);

impl Load {
    fn new(keys: u64, buffer: Buffer) -> Self {
        Self { keys, buffer, levels: LevelKnobs::default() }
    }

    fn settings(&self, stage: &Stage<'_>) -> Settings {
        let engine = EngineOptions {
            memory: Some(MEMORY),
            write_buffer: self.buffer.bytes(),
            component: Some(Component::Tiered),
            levels: self.levels,
            ..EngineOptions::default()
        };
        let of_figure = Settings { key_size: KEY_BYTES, value_size: VALUE_BYTES, engine, ..Settings::default() };
        // Some figures have several numbers of keys, which follow from the user's.
        Settings { num: Some(self.keys), ..stage.settings(of_figure) }
    }

    /// The load of a new store, in random order.
    fn load(&self, stage: &Stage<'_>) -> Step {
        // Neighbours in number are neighbours in key order, as with the paper's integers.
        let job = Job::Fill { order: Order::Sequential, arrival: Arrival::Shuffled };
        let workload = Workload { name: format!("load of {}", self.keys), job };
        Step { settings: self.settings(stage), workload }
    }

    /// The works, each for the stage's time.
    fn timed(&self, stage: &Stage<'_>, works: Vec<Work>) -> Vec<Step> {
        let settings = self.settings(stage);
        let step = |(name, threads, mix)| stage.timed(&settings, threads, Workload { name, job: Job::Mix(mix) });
        works.into_iter().map(step).collect()
    }

    /// Loads, then does the works one after the other. The first outcome is the load's.
    fn run(&self, stage: &Stage<'_>, factory: &dyn Factory, works: Vec<Work>) -> Result<Vec<Ran>> {
        let mut steps = vec![self.load(stage)];
        steps.extend(self.timed(stage, works));
        stage.run(factory, steps)
    }
}

/// Gets of loaded keys, and of absent ones between them; uniformly chosen, by one thread.
fn hits_and_misses() -> Vec<Work> {
    let uniform = |mix| Mix { choice: Some(Choice::Uniform), ..mix };
    let hits = uniform(Mix { read: 1, ..Mix::default() });
    let misses = uniform(Mix { miss: 1, ..Mix::default() });
    vec![("hits".into(), 1, hits), ("misses".into(), 1, misses)]
}

/// A point's name and position.
type Place = (String, f64);

/// One engine's outcomes, one for each point.
struct Series {
    engine: String,
    ran: Vec<Ran>,
}

/// Runs `point`, which returns as many outcomes as there are titles, for every place and engine. Returns the series of
/// each title.
fn every<const N: usize, T>(
    engines: &[&dyn Factory],
    places: &[T],
    point: impl Fn(&dyn Factory, &T) -> Result<Vec<Ran>>,
) -> Result<[Vec<Series>; N]> {
    let mut all: [Vec<Series>; N] = std::array::from_fn(|_| Vec::new());
    for factory in engines {
        let engine = factory.name();
        all.iter_mut().for_each(|series| series.push(Series { engine: engine.into(), ran: Vec::new() }));
        for place in places {
            let ran = point(*factory, place)?;
            for (series, ran) in all.iter_mut().filter_map(|series| series.last_mut()).zip(ran) {
                series.ran.push(ran);
            }
        }
    }
    Ok(all)
}

/// A line for each engine, then the paper's.
fn panel(
    (title, x, y): (String, &str, &str),
    places: &[Place],
    series: &[Series],
    paper: Option<Line>,
    height: impl Fn(&Outcome) -> Option<f64>,
) -> Panel {
    let places = || places.iter().map(|(name, x)| (&name[..], *x));
    let line = |series: &Series| Line::of(&series.engine, places(), &series.ran, &height);
    let lines = series.iter().map(line).chain(paper).collect();
    Panel { title, x: x.into(), y: y.into(), x_measured: false, lines }
}

/// The paper's numbers at those places that are measured here; `None` if there are fewer than two.
fn paper_line(places: &[Place], numbers: &[(&str, f64)]) -> Option<Line> {
    let number = |name: &str| numbers.iter().find(|(at, _)| *at == name).map(|(_, number)| *number);
    let points: Vec<Point> = places.iter().filter_map(|(name, x)| Some(Point::at(name, *x, number(name)?))).collect();
    (points.len() > 1).then(|| Line { engine: PAPER.into(), points })
}

fn rate(outcome: &Outcome) -> Option<f64> {
    Some(outcome.ops_per_s)
}

/// Operations per second of a load, the time until background work was done included.
fn settled_rate(outcome: &Outcome) -> Option<f64> {
    Some(outcome.ops as f64 / (outcome.elapsed_s + outcome.settle_s).max(1e-9))
}

/// The runs that a look-up may meet: those whose key range has the key, each behind a filter. `None` if the engine does
/// not tell.
fn runs_met(outcome: &Outcome) -> Option<f64> {
    let probes: u64 = outcome.levels.iter().map(|level| level.probes).sum();
    (!outcome.levels.is_empty()).then_some(probes as f64)
}

/// A number of keys as a point's name.
fn number(keys: u64) -> String {
    if keys >= MILLION && keys.is_multiple_of(MILLION) {
        format!("{} million", keys / MILLION)
    } else {
        keys.to_string()
    }
}

/// The entries of a small buffer, as the loads of these series show.
fn buffer_condition(series: &[Series]) -> Option<String> {
    let loads = || series.iter().flat_map(|series| series.ran.iter().flatten());
    let buffers: u64 = loads().filter_map(|outcome| outcome.buffers_written).sum();
    let entries: u64 = loads().filter(|outcome| outcome.buffers_written.is_some()).map(|outcome| outcome.ops).sum();
    let each = entries.checked_div(buffers)?;
    Some(format!("small buffer: {} KiB, {each} entries of ours on average (the paper: 800)", SMALL_BUFFER >> 10))
}

fn drawing(
    figure: &Figure,
    stage: &Stage<'_>,
    mut conditions: Vec<String>,
    panels: Vec<Panel>,
    rulings: Vec<Ruling>,
) -> Drawing {
    let component = stage.component.unwrap_or(Component::Tiered);
    conditions.extend([
        format!("keys and values of {KEY_BYTES} bytes each, which is assumed: the paper does not say"),
        format!("component of ours: {}; {} MiB of memory per engine", component.name(), stage.memory.unwrap_or(MEMORY) >> 20),
        format!(
            "{} cores (the paper: a laptop of 2012 with 4 threads and 8 GB), {} s per point, except loads",
            stage.cores,
            stage.duration.as_secs_f64()
        ),
        "the course expects 100 thousand to 1 million updates and 1 to 5 thousand reads a second of an SSD, 1 to 10 thousand \
         and 20 to 100 of a hard disk (section 4.2)"
            .into(),
    ]);
    Drawing::of(figure, conditions, panels, rulings)
}
