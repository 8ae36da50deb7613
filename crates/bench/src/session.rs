//! A store and the workloads that run on it, each on the state that the previous one left.
//!
//! 1. A session removes only what it created: it refuses a directory that is not empty, unless it is told to use the
//!    store in it; then it removes nothing except through the engine.
//! 2. A fill starts with a new store; the other workloads need a loaded one.

use crate::calibrate;
use crate::counter;
use crate::crash_copy;
use crate::engine::{Engine, Factory, Result};
use crate::field::Field;
use crate::keys::Order;
use crate::measure::{self, Before};
use crate::outcome::Outcome;
use crate::partitioned::Partitioned;
use crate::process;
use crate::progress::Progress;
use crate::run;
use crate::settings::Settings;
use crate::space;
use crate::values::Values;
use crate::workload::{Job, Workload};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A workload with its settings: one of a series on one store. Key and value sizes and the engine's settings are those
/// of the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The settings.
    pub settings: Settings,
    /// The workload.
    pub workload: Workload,
}

/// One engine's store under a series of workloads.
pub struct Session<'a> {
    factory: &'a dyn Factory,
    directory: PathBuf,
    settings: Settings,
    values: Values,
    engine: Option<Box<dyn Engine>>,
    order: Order,
    loaded: u64,
}

impl<'a> Session<'a> {
    /// In a directory that is absent or empty; with `use_existing`, in one that holds a store.
    pub fn new(factory: &'a dyn Factory, directory: impl Into<PathBuf>, settings: Settings) -> Result<Self> {
        settings.validate()?;
        let directory = directory.into();
        let occupied = is_occupied(&directory)?;
        let shown = directory.display();
        let loaded = match (occupied, settings.use_existing) {
            (true, false) => {
                return Err(format!("{shown} is not empty: use another directory, or the existing store").into());
            }
            (false, true) => return Err(format!("there is no store at {shown}").into()),
            (true, true) => settings.num.unwrap_or(Settings::NUM_DEFAULT),
            (false, false) => 0,
        };
        let values = Values::compressing(settings.value_size, settings.value_percent);
        let order = settings.order;
        Ok(Self { factory, directory, settings, values, engine: None, order, loaded })
    }

    /// Keys in the store, as the session knows.
    pub fn loaded(&self) -> u64 {
        self.loaded
    }

    /// The settings that may change between workloads: threads, operations, duration, checks. Key and value sizes
    /// belong to the store and stay.
    pub fn set(&mut self, change: impl FnOnce(&mut Settings)) -> Result<()> {
        let mut settings = self.settings.clone();
        change(&mut settings);
        settings.validate()?;
        let sizes = |of: &Settings| (of.key_size, of.key_prefix, of.value_size);
        if sizes(&settings) != sizes(&self.settings) {
            return Err("sizes of keys and values cannot change within a session".into());
        }
        self.settings = settings;
        Ok(())
    }

    /// Runs a step of a series and measures it.
    pub fn step(&mut self, step: &Step, progress: &dyn Progress) -> Result<Outcome> {
        self.set(|settings| settings.clone_from(&step.settings))?;
        self.run(&step.workload, progress)
    }

    /// Runs a workload and measures it.
    pub fn run(&mut self, workload: &Workload, progress: &dyn Progress) -> Result<Outcome> {
        self.judge(workload)?;
        if workload.job == Job::Recovery {
            return self.recover(workload, progress);
        }
        if let Job::Fill { order, .. } = workload.job {
            if !self.settings.use_existing {
                self.clear()?;
            }
            self.order = order;
            self.loaded = 0;
        }
        self.open()?;
        let Some(engine) = self.engine.as_deref() else { return Err("the store is not open".into()) };
        let total = match workload.job {
            Job::Fill { .. } => self.settings.fill_keys(),
            Job::Mix(_) => self.settings.operations(),
            Job::Recovery | Job::Rest => Some(1),
            Job::FullScan(_) => {
                let each = self.settings.ops.unwrap_or(u64::MAX).min(self.loaded);
                self.settings.duration.is_none().then(|| each * self.settings.threads as u64)
            }
        };
        progress.begin(self.factory.name(), &workload.name, total);
        let keys = self.settings.keys(self.order);
        let harness_ns = calibrate::harness_ns(&self.settings, keys, &self.values, self.loaded, workload)?;
        let before = Before::now(engine);
        let field = Field::new(engine, &self.settings, keys, &self.values, self.loaded, self.loaded);
        let files = || Some(space::of(&self.directory, &|_| false).ok()?.all());
        let ran = run::run(&field, workload, progress, &files)?;
        let loaded = field.claimed();
        // A fill's workers may claim numbers beyond the bound, and then put nothing there.
        self.loaded = if workload.fills() { loaded.min(self.settings.fill_keys().unwrap_or(loaded)) } else { loaded };
        let mut settled = Default::default();
        if self.settings.settle {
            progress.settling();
            settled = run::settle(engine)?;
        }
        progress.end();
        let place = measure::Place {
            factory: self.factory,
            directory: &self.directory,
            settings: &self.settings,
            live_bytes: self.loaded * (self.settings.key_size + self.settings.value_size) as u64,
            keys: self.loaded,
            harness_ns,
        };
        let outcome = before.outcome(engine, &place, workload, ran, settled)?;
        self.check(&outcome, workload)?;
        Ok(outcome)
    }

    /// Opens the store from its files as they are now, without having closed it.
    fn recover(&mut self, workload: &Workload, progress: &dyn Progress) -> Result<Outcome> {
        self.open()?;
        progress.begin(self.factory.name(), &workload.name, Some(1));
        let mut copy = self.directory.clone().into_os_string();
        copy.push(".copy");
        let copy = PathBuf::from(copy);
        crash_copy::make(&self.directory, &copy)?;
        self.clear()?;
        fs::rename(&copy, &self.directory).map_err(|error| named(&copy, &error))?;
        let (started, read_before) = (Instant::now(), process::device_bytes());
        self.open()?;
        let Some(engine) = self.engine.as_deref() else { return Err("the store is not open".into()) };
        let mut key = vec![0; self.settings.key_size];
        self.settings.keys(self.order).write(0, &mut key);
        let found = engine.get(&key, &mut Vec::new())?;
        let elapsed_s = started.elapsed().as_secs_f64();
        let read = read_before.zip(process::device_bytes()).map(|(before, after)| after.read - before.read);
        progress.end();
        let outcome = Outcome {
            engine: self.factory.name().to_string(),
            workload: workload.name.clone(),
            threads: 1,
            num: self.loaded,
            key_size: self.settings.key_size,
            key_prefix: self.settings.key_prefix,
            seek_nexts: self.settings.seek_nexts,
            value_size: self.settings.value_size,
            ops: 1,
            found: u64::from(found),
            not_found: u64::from(!found),
            elapsed_s,
            ops_per_s: 1.0 / elapsed_s.max(1e-9),
            device_reads_per_op: read.map(|bytes| bytes as f64 / measure::BLOCK_BYTES),
            levels: engine.levels(),
            ..Outcome::default()
        };
        self.check(&outcome, workload)?;
        Ok(outcome)
    }

    /// Closes the store and, unless it existed before, removes it.
    pub fn finish(mut self) -> Result<()> {
        self.engine = None;
        if self.settings.use_existing { Ok(()) } else { self.clear() }
    }

    /// Whether a workload can run now, checked before anything is done for it.
    fn judge(&self, workload: &Workload) -> Result<()> {
        match &workload.job {
            Job::Fill { order: Order::Near { .. }, .. } if self.settings.own_key_bytes() < 8 => {
                Err(format!("{} needs keys of at least 8 bytes", workload.name).into())
            }
            Job::Fill { .. } => Ok(()),
            _ if self.loaded == 0 => Err(format!(
                "{} needs a loaded store: put a fill before it, such as fillrandom,{}",
                workload.name, workload.name
            )
            .into()),
            Job::Recovery if self.settings.use_existing => {
                Err(format!("{} replaces the store's files, so it needs a store of its own", workload.name).into())
            }
            Job::Mix(mix) if mix.increment > 0 && self.settings.value_size != counter::BYTES => {
                Err(format!("{} needs counters: values of {} bytes", workload.name, counter::BYTES).into())
            }
            Job::Mix(mix) if mix.increment > 0 && self.settings.check => {
                Err(format!("{} writes values that cannot be checked", workload.name).into())
            }
            Job::Mix(mix) if mix.weights() == 0 => Err(format!("{} does nothing", workload.name).into()),
            _ => Ok(()),
        }
    }

    /// With checks on, everything that was read must be right.
    fn check(&self, outcome: &Outcome, workload: &Workload) -> Result<()> {
        if !self.settings.check {
            return Ok(());
        }
        let (lost, invented) = match &workload.job {
            Job::Mix(mix) if mix.miss > 0 && mix.read == 0 => (0, outcome.found),
            Job::Mix(mix) if mix.miss + mix.delete > 0 => (0, 0),
            _ => (outcome.not_found, 0),
        };
        if lost + invented + outcome.wrong > 0 {
            return Err(format!(
                "{} on {}: {lost} keys not found, {invented} absent keys found, {} values wrong",
                workload.name, outcome.engine, outcome.wrong
            )
            .into());
        }
        Ok(())
    }

    fn open(&mut self) -> Result<()> {
        if self.engine.is_none() {
            fs::create_dir_all(&self.directory).map_err(|error| named(&self.directory, &error))?;
            let options = &self.settings.engine;
            self.engine = Some(match options.partitions {
                None => self.factory.open(&self.directory, options)?,
                Some(parts) => Box::new(Partitioned::open(self.factory, &self.directory, options, parts)?),
            });
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        self.engine = None;
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(named(&self.directory, &error).into()),
            _ => Ok(()),
        }
    }
}

fn named(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn is_occupied(directory: &Path) -> Result<bool> {
    match fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(named(directory, &error).into()),
    }
}
