//! The parent's side of a child process: starts it, asks for rounds, reads their figures. One thread at a time.
//!
//! Invariant: the child is killed and waited for when the value is dropped.

use crate::machine::cgroup::Cgroup;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What a round measured, by name.
pub type Round = BTreeMap<String, f64>;

/// A line from the child.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// A round is done.
    Measured {
        /// Its figures.
        figures: Round,
    },
    /// An error; nothing follows.
    Failed {
        /// Its text.
        error: String,
    },
}

/// A directory for an engine's stores, removed when the value is dropped.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running child.
pub struct Host {
    command: &'static str,
    job: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The memory limit, which is removed after the process.
    group: Option<Cgroup>,
}

impl Host {
    /// Starts this program with a hidden command, for a job. It does nothing until it is asked.
    pub fn start(command: &'static str, job: &impl Serialize) -> Result<Self, String> {
        Self::start_in(command, job, None)
    }

    /// The same in a group with a limit.
    pub fn start_in(command: &'static str, job: &impl Serialize, group: Option<Cgroup>) -> Result<Self, String> {
        Self::of(command, serde_json::to_string(job).map_err(|error| error.to_string())?, group)
    }

    fn of(command: &'static str, job: String, group: Option<Cgroup>) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| format!("cannot find this program's file: {error}"))?;
        let spawned = Command::new(program).arg(command).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| format!("a child process: {error}"))?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the child has no input or output".to_owned());
        };
        // The child begins when it has read the job, so all work happens under the limit.
        if let Some(group) = &group {
            group.admit(child.id())?;
        }
        // A child that cannot read it is gone, which the first round reports.
        let _ = writeln!(input, "{job}");
        Ok(Self { command, job, child, input, output: BufReader::new(output), group })
    }

    /// The same in a new process.
    pub fn restart(mut self) -> Result<Self, String> {
        let (command, job, group) = (self.command, self.job.clone(), self.group.take());
        drop(self);
        Self::of(command, job, group)
    }

    /// One round.
    ///
    /// # Errors
    /// The engine failed, or its process died.
    pub fn round(&mut self) -> Result<Round, String> {
        // A child that is gone has no answer.
        let _ = writeln!(self.input, "round");
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.output.read_line(&mut line).map_err(|error| format!("the child's output: {error}"))?;
            if read == 0 {
                let status = self.child.wait().map_err(|error| format!("the child process: {error}"))?;
                let was_killed = self.group.as_ref().is_some_and(Cgroup::has_killed);
                let limit = if was_killed { ", at its memory limit" } else { "" };
                return Err(format!("its process ended, {status}{limit}"));
            }
            match serde_json::from_str(&line) {
                Ok(Answer::Measured { figures }) => return Ok(figures),
                Ok(Answer::Failed { error }) => return Err(error),
                // An engine's library printed it.
                Err(_) => eprint!("{line}"),
            }
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It is gone already, or waits for a round that will not be asked for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
