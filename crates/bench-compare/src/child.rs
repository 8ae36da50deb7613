//! The hidden command `child`: reads a job from standard input, does it, and reports each workload on standard output.

use crate::engines::{self, KindFactory};
use crate::job::{Job, Measured, Message};
use crate::machine::load::Meter;
use alluvium_bench::engine::Result;
use alluvium_bench::{Factory, Session, SingleLevel, Unlogged};
use std::io::{Read, Write};

/// Runs; an error is also sent as a message.
pub fn run() -> Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let job: Job = serde_json::from_str(&text).map_err(|error| format!("the job on standard input: {error}"))?;
    die_with_parent();
    raise_file_limit();
    let result = work(&job, &mut |message| tell(&message));
    if let Err(error) = &result {
        tell(&Message::Failed { error: error.to_string() })?;
    }
    result
}

fn tell(message: &Message) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, message)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Does the job.
fn work(job: &Job, tell: &mut dyn FnMut(Message) -> Result<()>) -> Result<()> {
    let kind = engines::find(&job.engine).map(|kind| KindFactory::new(kind, job.data_bytes, job.background_threads));
    let factory: &dyn Factory = match &kind {
        Some(kind) => kind,
        // Engines that only figures use are not in the comparison's list.
        None if job.engine == SingleLevel.name() => &SingleLevel,
        None if job.engine == Unlogged.name() => &Unlogged,
        None => return Err(format!("there is no engine \"{}\"", job.engine).into()),
    };
    let first = job.steps.first().ok_or("the job has no steps")?;
    let mut session = Session::new(factory, &job.directory, first.settings.clone())?;
    for step in &job.steps {
        let meter = Meter::start();
        let outcome = session.step(step, &())?;
        let other_load_percent = meter.other_percent();
        let about = kind.as_ref().map(KindFactory::about).unwrap_or_default();
        let (version, settings) = (about.version, about.settings);
        tell(Message::Measured(Box::new(Measured { outcome, version, settings, other_load_percent })))?;
    }
    session.finish()?;
    tell(Message::Finished)
}

/// Without the parent nothing reads the results, and the next run's engines would run beside this process.
pub fn die_with_parent() {
    use rustix::process::{Signal, set_parent_process_death_signal};
    // If the kernel refuses, the closed standard output ends this process at the next workload.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// Some engines keep a file open for every few megabytes of data.
pub fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Otherwise an engine that needs more reports that itself.
    let _ = setrlimit(Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_bench::{EngineOptions, Settings, Step, catalogue};

    fn job(directory: &std::path::Path, workloads: &[(&str, Option<u64>)]) -> Job {
        let engine = EngineOptions { memory: Some(128 << 20), ..EngineOptions::default() };
        let settings = Settings { num: Some(2000), check: true, engine, ..Settings::default() };
        let step = |(name, ops): &(&str, Option<u64>)| Step {
            workload: catalogue::named(name, &settings).unwrap(),
            settings: Settings { ops: *ops, ..settings.clone() },
        };
        Job {
            engine: "alluvium".into(),
            directory: directory.join("store"),
            memory: 128 << 20,
            data_bytes: 2000 * 108,
            background_threads: 2,
            steps: workloads.iter().map(step).collect(),
        }
    }

    #[test]
    fn a_chain_is_measured_step_by_step_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let job = job(directory.path(), &[("fillrandom", None), ("readrandom", Some(500)), ("seekrandom", Some(50))]);
        let mut messages = Vec::new();
        work(&job, &mut |message| {
            messages.push(message);
            Ok(())
        })
        .unwrap();
        assert_eq!(messages.pop(), Some(Message::Finished));
        let measured: Vec<Measured> = messages
            .into_iter()
            .map(|message| match message {
                Message::Measured(measured) => *measured,
                other => unreachable!("{other:?}"),
            })
            .collect();
        let ops: Vec<u64> = measured.iter().map(|measured| measured.outcome.ops).collect();
        assert_eq!(ops, [2000, 500, 50]);
        assert_eq!(measured[1].outcome.found, 500);
        assert!(measured.iter().all(|measured| !measured.version.is_empty() && !measured.settings.is_empty()));
        assert!(!job.directory.exists());
    }

    #[test]
    fn a_job_that_cannot_be_done_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let mut nobody = |_| -> Result<()> { unreachable!("nothing was measured") };
        let unknown = Job { engine: "oracle".into(), ..job(directory.path(), &[("fillseq", None)]) };
        assert!(work(&unknown, &mut nobody).unwrap_err().to_string().contains("oracle"));
        let unloaded = job(directory.path(), &[("readrandom", None)]);
        assert!(work(&unloaded, &mut nobody).is_err());
        assert!(work(&job(directory.path(), &[]), &mut nobody).is_err());
    }
}
