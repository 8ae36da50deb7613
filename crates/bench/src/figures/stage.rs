//! Where and at which size figures are run: the user's choices, and what follows from the machine.

use super::host::{Host, Ran};
use crate::engine::{Component, EngineOptions, Factory, Result};
use crate::session::Step;
use crate::settings::Settings;
use crate::workload::Workload;
use std::path::Path;
use std::time::Duration;

/// Where figures are run.
pub struct Stage<'a> {
    /// A directory for the stores; each gets its own in it and is removed afterwards.
    pub directory: &'a Path,
    /// Number of keys, instead of the figure's own.
    pub num: Option<u64>,
    /// Time of a point.
    pub duration: Duration,
    /// Memory of every engine, instead of the figure's own.
    pub memory: Option<u64>,
    /// What keeps the data of our engine on disk, instead of the figure's own or the default.
    pub component: Option<Component>,
    /// Maximum number of threads, instead of four times the cores and 16.
    pub threads_max: Option<usize>,
    /// Whether values are checked.
    pub check: bool,
    /// Cores of the machine.
    pub cores: usize,
    /// Where the engines run.
    pub host: &'a dyn Host,
}

impl<'a> Stage<'a> {
    /// The figures' own sizes, a few seconds per point.
    pub fn new(directory: &'a Path, host: &'a dyn Host) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let duration = Duration::from_secs(3);
        Self {
            directory,
            num: None,
            duration,
            memory: None,
            component: None,
            threads_max: None,
            check: false,
            cores,
            host,
        }
    }

    /// 1, 2, 4 and so on: the paper's numbers of threads, as far as they make sense here.
    pub fn threads(&self) -> Vec<usize> {
        let most = self.threads_max.unwrap_or((self.cores * 4).min(16)).max(1);
        std::iter::successors(Some(1), |threads| Some(threads * 2)).take_while(|threads| *threads <= most).collect()
    }

    /// Bytes of memory of the machine; a gigabyte if that is unknown.
    pub fn machine_memory(&self) -> u64 {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.map_or(1 << 30, |kibibytes| kibibytes << 10)
    }

    /// A figure's default, overridden by the user's choice.
    pub fn settings(&self, settings: Settings) -> Settings {
        let memory = self.memory.or(settings.engine.memory);
        let component = self.component.or(settings.engine.component);
        let engine = EngineOptions { memory, component, ..settings.engine };
        Settings { num: self.num.or(settings.num), engine, ..settings }
    }

    /// A step that ends when the stage's time is over.
    pub fn timed(&self, settings: &Settings, threads: usize, workload: Workload) -> Step {
        Step { settings: Settings { threads, duration: Some(self.duration), ..settings.clone() }, workload }
    }

    /// Runs steps one after the other on a new store, which the first one loads.
    pub fn run(&self, factory: &dyn Factory, mut steps: Vec<Step>) -> Result<Vec<Ran>> {
        steps.iter_mut().for_each(|step| step.settings.check = self.check);
        self.host.run(factory, &self.directory.join(factory.name()), &steps)
    }

    /// The same, without the outcome of the first one.
    pub fn run_behind_load(&self, factory: &dyn Factory, steps: Vec<Step>) -> Result<Vec<Ran>> {
        Ok(self.run(factory, steps)?.into_iter().skip(1).collect())
    }
}
