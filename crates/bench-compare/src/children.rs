//! A host of figures: every series of steps runs in its own child process, so that an engine that dies affects no
//! other.

use crate::compare::BACKGROUND_THREADS;
use crate::engines::{self, HARNESS_BYTES, OURS};
use crate::job::Job;
use crate::launch::{Ended, Launcher};
use alluvium_bench::engine::Result;
use alluvium_bench::figures::{Death, Host, Ran};
use alluvium_bench::{Factory, Step};
use std::cell::RefCell;
use std::path::Path;

/// The smallest size for which engines with a file of fixed size are opened: figures insert for a time, not by number.
const DATA_BYTES_MIN: u64 = 1 << 30;

/// Starts children and records which died.
pub struct Children<'a> {
    launcher: &'a Launcher,
    died: RefCell<Vec<String>>,
}

impl<'a> Children<'a> {
    /// Started by this launcher.
    pub fn new(launcher: &'a Launcher) -> Self {
        Self { launcher, died: RefCell::default() }
    }

    /// The deaths since the last call, as text for people.
    pub fn died(&self) -> Vec<String> {
        self.died.take()
    }

    fn job(&self, engine: &str, directory: &Path, steps: &[Step]) -> Job {
        let settings = steps.first().map(|step| &step.settings);
        let memory = settings.and_then(|settings| settings.engine.memory);
        let bytes = settings.map_or(0, |settings| {
            settings.fill_keys().unwrap_or(0).saturating_mul((settings.key_size + settings.value_size) as u64)
        });
        Job {
            engine: engine.to_owned(),
            directory: directory.to_owned(),
            memory: memory.unwrap_or(u64::MAX),
            data_bytes: bytes.max(DATA_BYTES_MIN),
            background_threads: BACKGROUND_THREADS,
            steps: steps.iter().map(|step| with_budget(engine, step)).collect(),
        }
    }
}

/// Engines of the comparison reserve memory for the harness themselves. Those that only figures use take what they are given
/// for their budget, so they are given what ours would have. (*Otherwise:* a store with the skiplist alone had as much more
/// for its cache, and was ahead of two levels where data just exceeds memory.)
fn with_budget(engine: &str, step: &Step) -> Step {
    let mut step = step.clone();
    if engines::find(engine).is_none() {
        let memory = &mut step.settings.engine.memory;
        *memory = memory.map(|bytes| bytes.saturating_sub(HARNESS_BYTES).max(bytes / 2));
    }
    step
}

impl Host for Children<'_> {
    fn run(&self, factory: &dyn Factory, directory: &Path, steps: &[Step]) -> Result<Vec<Ran>> {
        steps.iter().try_for_each(|step| step.settings.validate())?;
        let mut ran: Vec<Ran> = Vec::new();
        let ended = self.launcher.run(&self.job(factory.name(), directory, steps), &mut |measured| {
            ran.push(Ok(measured.outcome));
            Ok(())
        });
        let (why, peak_bytes) = match ended {
            Ok(()) => return Ok(ran),
            Err(Ended::Died { why, peak_bytes }) => (why, peak_bytes),
            Err(Ended::Failed(error)) => (format!("gave up, {error}"), None),
        };
        // If all steps are done and only the end of the process was abnormal, the last step is discarded.
        ran.truncate(steps.len().saturating_sub(1));
        let workload = steps.get(ran.len()).map_or_else(String::new, |step| step.workload.name.clone());
        let death = Death { workload, before: false, why, peak_bytes };
        let fails = if factory.name() == OURS { " (a failure of the claim)" } else { "" };
        self.died.borrow_mut().push(format!("{} in {}{fails}", factory.name(), death.workload));
        eprintln!("{} in {} {death}", factory.name(), death.workload);
        ran.push(Err(death.clone()));
        ran.resize(steps.len(), Err(Death { before: true, ..death }));
        Ok(ran)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Measured, Message};
    use crate::machine::cgroup::Parent;
    use alluvium_bench::{Alluvium, EngineOptions, Outcome, Settings, SingleLevel, catalogue};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A program that reads a job, reports as many workloads, and then does as `end` says.
    fn launcher_of(folder: &Path, workloads: u64, end: &str, limits: Option<Parent>) -> Launcher {
        let mut script = "#!/bin/sh\ncat > /dev/null\n".to_owned();
        for ops in 0..workloads {
            let outcome = Outcome { ops, ..Outcome::default() };
            let message = Message::Measured(Box::new(Measured { outcome, ..Measured::default() }));
            script += &format!("echo '{}'\n", serde_json::to_string(&message).unwrap());
        }
        let program = folder.join("child");
        fs::write(&program, script + end).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Launcher::of(program, limits)
    }

    fn steps(names: &[&str]) -> Vec<Step> {
        let engine = EngineOptions { memory: Some(32 << 20), ..EngineOptions::default() };
        let settings = Settings { num: Some(100), engine, ..Settings::default() };
        let step =
            |name: &&str| Step { workload: catalogue::named(name, &settings).unwrap(), settings: settings.clone() };
        names.iter().map(step).collect()
    }

    #[test]
    fn what_was_done_stays_and_what_was_not_says_how_it_died() {
        let folder = tempfile::tempdir().unwrap();
        let ran = |workloads, end| {
            let launcher = launcher_of(folder.path(), workloads, end, None);
            let children = Children::new(&launcher);
            let ran = children.run(&Alluvium, &folder.path().join("store"), &steps(&["load", "a", "c"])).unwrap();
            (ran, children.died())
        };
        let (whole, died) = ran(3, "echo '{\"message\":\"finished\"}'\n");
        assert!(whole.len() == 3 && whole.iter().all(Ran::is_ok) && died.is_empty(), "{whole:?}");
        // Aborted, and killed from outside.
        for (end, why) in [("kill -ABRT $$\n", "SIGABRT"), ("kill -KILL $$\n", "SIGKILL"), ("exit 3\n", "status: 3")] {
            let (ran, died) = ran(1, end);
            assert_eq!(ran.iter().map(Ran::is_ok).collect::<Vec<_>>(), [true, false, false]);
            let (first, second) = (ran[1].as_ref().unwrap_err(), ran[2].as_ref().unwrap_err());
            assert!(first.to_string().starts_with("died: its process ended") && first.why.contains(why), "{first}");
            assert_eq!((first.before, second.before, second.workload.as_str()), (false, true, "a"));
            assert_eq!(second.to_string(), "died before, in a");
            assert_eq!(died, ["alluvium in a (a failure of the claim)"]);
        }
        let (told, _) = ran(0, "echo '{\"message\":\"failed\",\"error\":\"no room\"}'\n");
        assert_eq!(told[0].as_ref().unwrap_err().to_string(), "died: gave up, no room");
        // Everything was reported, but the process ended abnormally.
        let (ran, _) = ran(3, "exit 1\n");
        assert_eq!(ran.iter().map(Ran::is_ok).collect::<Vec<_>>(), [true, true, false]);
    }

    /// On the real kernel, if it permits: three times the memory that an engine has.
    #[test]
    fn the_kernel_s_limit_is_named_with_the_peak() {
        let folder = tempfile::tempdir().unwrap();
        let parent = match Parent::permitted() {
            Ok(parent) => parent,
            Err(why) => return println!("skipped: {why}"),
        };
        // Without a newline `tail` keeps everything.
        let launcher =
            launcher_of(folder.path(), 1, "head -c 200000000 /dev/zero | tail > /dev/null\nexit 1\n", Some(parent));
        let children = Children::new(&launcher);
        let ran = children.run(&SingleLevel, &folder.path().join("store"), &steps(&["load", "c"])).unwrap();
        let death = ran[1].as_ref().unwrap_err();
        assert_eq!(death.why, "killed at its memory limit of 32 MiB");
        assert!(death.peak_bytes.is_none_or(|peak| (16 << 20..=32 << 20).contains(&peak)), "{death:?}");
        assert_eq!(children.died(), ["single-level in c"]);
    }

    #[test]
    fn an_engine_that_only_figures_use_has_the_budget_of_ours() {
        let folder = tempfile::tempdir().unwrap();
        let launcher = launcher_of(folder.path(), 0, "", None);
        let budget = |engine: &str, memory: u64| {
            let mut steps = steps(&["load"]);
            steps[0].settings.engine.memory = Some(memory);
            let job = Children::new(&launcher).job(engine, folder.path(), &steps);
            assert_eq!(job.memory, memory);
            job.steps[0].settings.engine.memory
        };
        // Ours reserves it itself.
        assert_eq!(budget(OURS, 256 << 20), Some(256 << 20));
        assert_eq!(budget("single-level", 256 << 20), Some((256 << 20) - HARNESS_BYTES));
        assert_eq!(budget("single-level", 32 << 20), Some(16 << 20));
    }

    #[test]
    fn what_cannot_be_is_an_error_and_no_death() {
        let launcher = Launcher::of("nowhere".into(), None);
        let mut steps = steps(&["load"]);
        steps[0].settings.threads = 0;
        let error = Children::new(&launcher).run(&Alluvium, Path::new("nowhere"), &steps).unwrap_err();
        assert!(error.to_string().contains("threads"), "{error}");
    }
}
