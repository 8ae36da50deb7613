//! Where and how large figures are run: what a user may say, and what follows from the machine.

use crate::engine::{EngineOptions, Factory, Result};
use crate::session::Session;
use crate::settings::Settings;
use crate::watch::Watch;
use std::path::Path;
use std::time::Duration;

/// Where figures are run.
pub struct Stage<'a> {
    /// A directory for the stores; each gets one in it and is removed afterwards.
    pub directory: &'a Path,
    /// Keys, instead of the figure's own number.
    pub num: Option<u64>,
    /// Time of a point.
    pub duration: Duration,
    /// Memory of every engine, instead of the figure's own.
    pub memory: Option<u64>,
    /// Threads at most, instead of four times the cores and 16.
    pub threads_max: Option<usize>,
    /// Whether values are checked.
    pub check: bool,
    /// Cores of the machine.
    pub cores: usize,
    /// Who wants to see progress.
    pub watch: &'a dyn Watch,
    /// Told before each store of the engine and its memory, so that the caller can hold the process to it.
    pub hold: &'a dyn Hold,
}

/// Who holds the process to an engine's memory.
pub trait Hold {
    /// The engine's next store may use so many bytes. Nothing of the one before is open any more.
    fn hold(&self, engine: &str, bytes: u64) -> Result<()>;
}

/// Nobody does: engines have what they are set to.
impl Hold for () {
    fn hold(&self, _engine: &str, _bytes: u64) -> Result<()> {
        Ok(())
    }
}

impl<'a> Stage<'a> {
    /// Figures' own sizes, a few seconds a point.
    pub fn new(directory: &'a Path, watch: &'a dyn Watch) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let duration = Duration::from_secs(3);
        Self { directory, num: None, duration, memory: None, threads_max: None, check: false, cores, watch, hold: &() }
    }

    /// 1, 2, 4 and so on: the paper's numbers of threads, as far as they say something here.
    pub fn threads(&self) -> Vec<usize> {
        let most = self.threads_max.unwrap_or((self.cores * 4).min(16)).max(1);
        std::iter::successors(Some(1), |threads| Some(threads * 2)).take_while(|threads| *threads <= most).collect()
    }

    /// Bytes of memory that the machine has; a gigabyte where it does not tell.
    pub fn machine_memory(&self) -> u64 {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.map_or(1 << 30, |kibibytes| kibibytes << 10)
    }

    /// A session on a fresh store. The figure says what it would take; the user's word stands above it.
    pub fn session<'f>(&self, factory: &'f dyn Factory, settings: Settings) -> Result<Session<'f>> {
        let engine = EngineOptions { memory: self.memory.or(settings.engine.memory), ..settings.engine };
        self.session_of(factory, Settings { num: self.num.or(settings.num), engine, ..settings })
    }

    /// The same for a figure that has taken the user's numbers into account.
    pub fn session_of<'f>(&self, factory: &'f dyn Factory, settings: Settings) -> Result<Session<'f>> {
        if let Some(memory) = settings.engine.memory {
            self.hold.hold(factory.name(), memory)?;
        }
        Session::new(factory, self.directory.join(factory.name()), Settings { check: self.check, ..settings })
    }
}
