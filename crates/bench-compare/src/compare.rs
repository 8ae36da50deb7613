//! `quick` and `full`: from arguments to a plan, all its turns, and results.

use crate::arguments::Run;
use crate::engines::{self, Kind};
use crate::job::{Job, Measured};
use crate::launch::Launcher;
use crate::machine::about::{self, Machine};
use crate::machine::cgroup::Parent;
use crate::machine::stale;
use crate::plan::{self, Chain, Turn};
use crate::record::{Identity, Record};
use crate::results::Results;
use crate::text;
use alluvium_bench::{EngineOptions, Settings, Step, catalogue};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The smallest default memory limit: below it most of an engine's memory is fixed buffers.
const MEMORY_MIN: u64 = 256 << 20;
/// "In memory" is a limit of this many times the data.
const MEMORY_PER_DATA: u64 = 2;
/// Background threads of engines in which they can be set, as in all earlier comparisons.
pub const BACKGROUND_THREADS: usize = 2;

/// The defaults of a command.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name of the results file.
    pub name: &'static str,
    workloads: &'static [&'static str],
    threads: &'static [usize],
    num: u64,
    repeat: u32,
    /// Engines that take part if none are named; all that can, if there are none.
    engines: &'static [&'static str],
    /// Whether every engine has its default options. Memory is limited only if the limit is given.
    default_options: bool,
}

/// The quick run.
pub const QUICK: Preset = Preset {
    name: "quick",
    workloads: &["fillrandom", "readrandom", "readmissing", "seekrandom", "fillseq"],
    threads: &[1],
    num: 500_000,
    repeat: 1,
    engines: &[],
    default_options: false,
};

/// The full comparison. Reads come first, on the store as it was loaded; then the workloads that change it.
pub const FULL: Preset = Preset {
    name: "full",
    workloads: &["fillrandom", "readrandom", "readmissing", "seekrandom", "readseq", "a", "f", "skewed", "fillseq"],
    threads: &[1, 2],
    num: 5_000_000,
    repeat: 3,
    engines: &[],
    default_options: false,
};

/// What a user gets who sets no option, on a machine with free memory.
pub const DEFAULT_OPTIONS: Preset = Preset {
    name: "default-options",
    // Hits and seeks twice: after the load caches are empty, and seeks make the store merge its runs.
    workloads: &[
        "fillrandom",
        "readrandom*1000000",
        "readrandom*1000000",
        "readmissing*1000000",
        "seekrandom*200000",
        "seekrandom*200000",
    ],
    threads: &[1],
    num: 20_000_000,
    repeat: 3,
    engines: &["alluvium", "rocksdb"],
    default_options: true,
};

/// Everything that is decided before a run starts.
struct Plan {
    engines: Vec<&'static Kind>,
    turns: Vec<Turn>,
    settings: Settings,
    limit: String,
    /// All memory of a child's process, where it can be limited.
    memory: u64,
    commit: String,
    stores: PathBuf,
    disturbed: f64,
    attempts: u32,
}

/// Runs; returns the number of turns that failed.
///
/// # Errors
/// Invalid arguments, results that cannot be written.
pub fn run(arguments: &Run, preset: &Preset) -> Result<usize, String> {
    let named: Vec<String> = match arguments.engines.as_slice() {
        [] => preset.engines.iter().map(|name| (*name).to_owned()).collect(),
        given => given.to_vec(),
    };
    let selection = match preset.default_options {
        true if arguments.sync => return Err("with default options nothing is synced by each write".to_owned()),
        true => engines::select_defaults(&named)?,
        false => engines::select(&named, arguments.sync)?,
    };
    for (name, why) in &selection.skipped {
        eprintln!("skipped {name}: {why}");
    }
    if selection.taken.is_empty() {
        return Err("no engine can run".to_owned());
    }
    let limits = match preset.default_options && arguments.memory.is_none() {
        true => None,
        false => limits(arguments.no_limit)?,
    };
    let plan = plan(arguments, preset, selection.taken, limits.as_ref())?;
    let name = format!("{}{}-{}", preset.name, if arguments.sync { "-sync" } else { "" }, plan.commit);
    let mut results = Results::open(&arguments.results, &name, Machine::here())?;
    let launcher = Launcher::new(limits)?;
    stale::remove_stores(&plan.stores);
    eprintln!(
        "{} turns with {} keys, {}, commit {}; results in {}",
        plan.turns.len(),
        text::count(plan.settings.num.unwrap_or(0) as f64),
        match plan.settings.engine.memory {
            Some(bytes) => format!("{} MiB of memory each ({})", bytes >> 20, plan.limit),
            None => format!("default options, memory limit: {}", plan.limit),
        },
        plan.commit,
        results.path().display()
    );
    let mut failed = 0;
    for (at, turn) in plan.turns.iter().enumerate() {
        let chain = plan::path(&turn.chain, turn.chain.len() - 1);
        let engine = plan.engines[turn.engine].name;
        let shown = format!("[{}/{}] {engine}, {chain}, threads {}", at + 1, plan.turns.len(), turn.threads);
        eprintln!("{shown}, repetition {}", turn.repeat);
        // One engine's failure is a result, too; the others continue.
        if let TurnEnd::Failed(error) = take_turn(&plan, turn, &launcher, &mut results)? {
            eprintln!("    FAILED: {error}");
            failed += 1;
        }
    }
    Ok(failed)
}

/// Where memory limits can be created; `None` if nowhere and measuring without is permitted.
pub fn limits(no_limit: bool) -> Result<Option<Parent>, String> {
    match Parent::permitted() {
        Ok(parent) => Ok(Some(parent)),
        Err(why) if no_limit => {
            eprintln!(
                "no memory limits: {why}; engines that read through the page cache use more memory than the others"
            );
            Ok(None)
        }
        Err(why) => Err(format!("cannot limit memory ({why}); --no-limit measures without a limit")),
    }
}

fn plan(
    arguments: &Run,
    preset: &Preset,
    engines: Vec<&'static Kind>,
    limits: Option<&Parent>,
) -> Result<Plan, String> {
    let num = arguments.num.unwrap_or(preset.num);
    let or_preset = |given: &[String], preset: &[&str]| match given {
        [] => preset.iter().map(|name| (*name).to_owned()).collect(),
        given => given.to_vec(),
    };
    let chains = plan::chains(&or_preset(&arguments.workloads, preset.workloads), num)?;
    let threads = if arguments.threads.is_empty() { preset.threads.to_vec() } else { arguments.threads.clone() };
    let data = num.saturating_mul((arguments.key_size + arguments.value_size) as u64);
    let memory = arguments.memory.unwrap_or_else(|| data.saturating_mul(MEMORY_PER_DATA).max(MEMORY_MIN));
    let settings = Settings {
        num: Some(num),
        key_size: arguments.key_size,
        key_prefix: arguments.key_prefix,
        seek_nexts: arguments.seek_nexts,
        value_size: arguments.value_size,
        seed: arguments.seed,
        check: arguments.check,
        engine: EngineOptions {
            memory: (!preset.default_options).then_some(memory),
            sync: arguments.sync,
            ..EngineOptions::default()
        },
        ..Settings::default()
    };
    for threads in &threads {
        Settings { threads: *threads, ..settings.clone() }.validate()?;
    }
    let stores = arguments.directory.clone().unwrap_or_else(std::env::temp_dir);
    if !stores.is_dir() {
        return Err(format!("{} is not a directory for the stores", stores.display()));
    }
    Ok(Plan {
        turns: plan::turns(engines.len(), &chains, &threads, arguments.repeat.unwrap_or(preset.repeat)),
        engines,
        settings,
        limit: match limits {
            None => "none".to_owned(),
            // The options do not say how much memory there is, so the limit does.
            Some(parent) if preset.default_options => format!("{}, {} MiB", parent.kind(), memory >> 20),
            Some(parent) => parent.kind().to_owned(),
        },
        memory,
        commit: about::commit(),
        stores,
        disturbed: arguments.disturbed,
        attempts: arguments.retries + 1,
    })
}

/// How a turn ended. A failed turn does not end the run.
enum TurnEnd {
    Measured,
    Failed(String),
}

/// One turn, repeated while it is disturbed and attempts are left. An error ends the run.
fn take_turn(plan: &Plan, turn: &Turn, launcher: &Launcher, results: &mut Results) -> Result<TurnEnd, String> {
    let mut best: BTreeMap<String, Record> = BTreeMap::new();
    let mut ended = TurnEnd::Measured;
    for attempt in 1..=plan.attempts {
        let chain = missing(plan, turn, results);
        if chain.is_empty() && attempt == 1 {
            eprintln!("    already measured");
        }
        // Results of changed source never count as "already measured": without disturbed steps the turn is over, too.
        if chain.is_empty() || (attempt > 1 && best.is_empty()) {
            break;
        }
        ended = attempt_turn(plan, turn, chain, launcher, &mut Kept { results, best: &mut best })?;
        if matches!(ended, TurnEnd::Failed(_)) {
            break;
        }
    }
    for (_, record) in best {
        results.add(Record { disturbed: true, ..record })?;
    }
    Ok(ended)
}

/// Stores measurements: undisturbed ones in the results; of the others, keeps the least disturbed one.
struct Kept<'a> {
    results: &'a mut Results,
    best: &'a mut BTreeMap<String, Record>,
}

impl Kept<'_> {
    fn keep(&mut self, record: Record, disturbed: f64) -> Result<(), String> {
        if self.results.has(&record.identity()) {
            return Ok(());
        }
        let calm = record.other_load_percent <= disturbed;
        if record.repeat == 1 && !record.path.contains('>') {
            let settings: Vec<String> = record.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
            eprintln!("    version {}; {}", record.version, settings.join(", "));
        }
        eprintln!("    {}{}", text::line(&record), if calm { "" } else { ", disturbed" });
        if calm {
            self.best.remove(&record.path);
            return self.results.add(record);
        }
        let least = self.best.get(&record.path).map_or(f64::INFINITY, |best| best.other_load_percent);
        if record.other_load_percent < least {
            self.best.insert(record.path.clone(), record);
        }
        Ok(())
    }
}

/// Runs a chain once. An error ends the run.
fn attempt_turn(
    plan: &Plan,
    turn: &Turn,
    chain: Chain,
    launcher: &Launcher,
    kept: &mut Kept<'_>,
) -> Result<TurnEnd, String> {
    let job = match job(plan, turn, &chain) {
        Ok(job) => job,
        Err(error) => return Ok(TurnEnd::Failed(error)),
    };
    let (mut step, mut broken) = (0, None);
    let ran = launcher.run(&job, &mut |measured| {
        let record = record(plan, turn, plan::path(&chain, step), measured);
        step += 1;
        kept.keep(record, plan.disturbed).inspect_err(|error| broken = Some(error.clone()))
    });
    match (broken, ran) {
        (Some(error), _) => Err(error),
        (None, Err(ended)) => Ok(TurnEnd::Failed(ended.to_string())),
        (None, Ok(())) => Ok(TurnEnd::Measured),
    }
}

/// The chain up to the last step that is not measured yet.
fn missing(plan: &Plan, turn: &Turn, results: &Results) -> Chain {
    let is_missing = |step: &usize| !results.has(&identity(plan, turn, plan::path(&turn.chain, *step)));
    let last = (0..turn.chain.len()).rev().find(is_missing);
    last.map_or(Vec::new(), |last| turn.chain[..=last].to_vec())
}

fn job(plan: &Plan, turn: &Turn, chain: &[plan::Step]) -> Result<Job, String> {
    let engine = plan.engines[turn.engine].name;
    let settings = Settings { threads: turn.threads, ..plan.settings.clone() };
    let step = |step: &plan::Step| {
        let workload = catalogue::named(&step.workload, &settings).map_err(|error| error.to_string())?;
        Ok(Step { settings: Settings { ops: step.ops, ..settings.clone() }, workload })
    };
    Ok(Job {
        engine: engine.to_owned(),
        directory: plan.stores.join(format!("{}{}-{engine}", stale::PREFIX, std::process::id())),
        memory: plan.memory,
        data_bytes: settings.fill_keys().unwrap_or(0) * (settings.key_size + settings.value_size) as u64,
        background_threads: BACKGROUND_THREADS,
        steps: chain.iter().map(step).collect::<Result<_, String>>()?,
    })
}

fn record(plan: &Plan, turn: &Turn, path: String, measured: Measured) -> Record {
    Record {
        outcome: measured.outcome,
        version: measured.version,
        settings: measured.settings.into_iter().collect(),
        other_load_percent: measured.other_load_percent,
        disturbed: false,
        commit: plan.commit.clone(),
        repeat: turn.repeat,
        path,
        limit: plan.limit.clone(),
        seed: plan.settings.seed,
        load: plan.settings.num.unwrap_or(0),
    }
}

/// The identity of a step's record, before it is measured.
fn identity(plan: &Plan, turn: &Turn, path: String) -> Identity {
    let settings = &plan.settings;
    let mut measured = Measured::default();
    let outcome = &mut measured.outcome;
    plan.engines[turn.engine].name.clone_into(&mut outcome.engine);
    outcome.threads = turn.threads;
    outcome.key_size = settings.key_size;
    outcome.key_prefix = settings.key_prefix;
    outcome.seek_nexts = settings.seek_nexts;
    outcome.value_size = settings.value_size;
    outcome.memory_mb = settings.engine.memory.map(|bytes| bytes as f64 / (1 << 20) as f64);
    outcome.sync = settings.engine.sync;
    record(plan, turn, path, measured).identity()
}

#[cfg(test)]
mod tests;
