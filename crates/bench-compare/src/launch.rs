//! Runs a job in its own child process, which is limited to its memory before it starts to work. Reads its reports line
//! by line.

use crate::engines::library;
use crate::job::{Job, Measured, Message};
use crate::machine::cgroup::{Cgroup, Parent};
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Why a job was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The reason that the child, or its reader, reported.
    Failed(String),
    /// The child died.
    Died {
        /// The cause.
        why: String,
        /// The peak memory of its group.
        peak_bytes: Option<u64>,
    },
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Failed(why) | Self::Died { why, .. }) = self;
        f.write_str(why)
    }
}

/// How children are started.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// This program.
    program: PathBuf,
    /// Where memory limits can be created; `None` if nowhere.
    limits: Option<Parent>,
}

impl Launcher {
    /// For children of this program, with memory limits if `limits` says where.
    ///
    /// # Errors
    /// The program cannot be found.
    pub fn new(limits: Option<Parent>) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| format!("cannot find this program's file: {error}"))?;
        Ok(Self::of(program, limits))
    }

    /// For children of another program that speaks the same protocol.
    pub fn of(program: PathBuf, limits: Option<Parent>) -> Self {
        Self { program, limits }
    }

    /// Does a job, and passes on each measurement as it arrives.
    ///
    /// # Errors
    /// A job that failed, a child that died, and whatever `measured` returns.
    pub fn run(&self, job: &Job, measured: &mut dyn FnMut(Measured) -> Result<(), String>) -> Result<(), Ended> {
        let name = format!("{}-{}", std::process::id(), job.engine);
        let limited = self.limits.as_ref().map(|limits| limits.limit(&name, job.memory)).transpose();
        let group = limited.map_err(Ended::Failed)?;
        let mut child = Command::new(&self.program)
            .arg("child")
            .envs(library::path().map(|path| (library::VARIABLE, path)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Ended::Failed(format!("a child process: {error}")))?;
        let told = converse(&mut child, job, group.as_ref(), measured);
        if told.is_err() {
            // It may still be working, which is useless now, or may be gone already.
            let _ = child.kill();
        }
        let status = child.wait().map_err(|error| Ended::Failed(format!("the child process: {error}")))?;
        // Removes what a child that died left; a child that ended normally left nothing.
        let _ = std::fs::remove_dir_all(&job.directory);
        let killed = group.as_ref().is_some_and(Cgroup::has_killed);
        let why = match told {
            Ok(true) if status.success() => return Ok(()),
            Err(error) if !killed => return Err(Ended::Failed(error)),
            _ if killed => format!("killed at its memory limit of {} MiB", job.memory >> 20),
            _ => format!("its process ended, {status}"),
        };
        Err(Ended::Died { why, peak_bytes: group.as_ref().and_then(Cgroup::peak) })
    }
}

/// Sends the job and reads the answers; true if the child reported that it was done.
fn converse(
    child: &mut Child,
    job: &Job,
    group: Option<&Cgroup>,
    measured: &mut dyn FnMut(Measured) -> Result<(), String>,
) -> Result<bool, String> {
    if let Some(group) = group {
        group.admit(child.id())?;
    }
    let text = serde_json::to_string(job).map_err(|error| error.to_string())?;
    // The child begins when it has read the whole job, so all work happens under the limit.
    let Some(mut input) = child.stdin.take() else { return Err("the child has no input".to_owned()) };
    // A child that cannot read it is gone, or reports why.
    let _ = input.write_all(text.as_bytes());
    drop(input);
    let Some(output) = child.stdout.take() else { return Err("the child has no output".to_owned()) };
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| format!("the child's output: {error}"))?;
        match Message::parse(&line) {
            Some(Message::Measured(told)) => measured(*told)?,
            Some(Message::Finished) => return Ok(true),
            Some(Message::Failed { error }) => return Err(error),
            // An engine's library printed it.
            None => eprintln!("{line}"),
        }
    }
    Ok(false)
}
