//! A job in a child process of its own: held to its memory from its first byte of work on, heard line by line.

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
    /// The child, or who heard it, says why.
    Failed(String),
    /// The child died.
    Died {
        /// What of.
        why: String,
        /// The most memory that its group used.
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
    /// Where memory limits can be made; `None`: nowhere.
    limits: Option<Parent>,
}

impl Launcher {
    /// Of children of this program, held to a limit where `limits` says where.
    ///
    /// # Errors
    /// Where the program cannot be found.
    pub fn new(limits: Option<Parent>) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| format!("this program's own file: {error}"))?;
        Ok(Self::of(program, limits))
    }

    /// Of children of another program that hears jobs and tells of them.
    pub fn of(program: PathBuf, limits: Option<Parent>) -> Self {
        Self { program, limits }
    }

    /// Does a job, passing on each measurement as it comes.
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
            // It may still be at work; what it does is of no use now. It may also be gone already.
            let _ = child.kill();
        }
        let status = child.wait().map_err(|error| Ended::Failed(format!("the child process: {error}")))?;
        // What a child that died left behind; a child that ended well left nothing.
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

/// Sends the job and hears the answers; true where the child said that it was done.
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
    // The child begins when the job's end is there, so nothing is done outside of the limit.
    let Some(mut input) = child.stdin.take() else { return Err("the child has no input".to_owned()) };
    // A child that cannot hear it is gone, or says why: its output and its end tell.
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
