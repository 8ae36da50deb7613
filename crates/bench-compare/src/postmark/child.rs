//! The hidden command `postmark-child`: one file system's turn.

use super::driver::{Done, Driver, Parameters};
use crate::file_systems::{FileSystem, Requests, Target, open};
use crate::rounds::gathered::Gathered;
use crate::rounds::host::Round;
use crate::rounds::serve::serve;
use alluvium_bench::engine::Result;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Phases with transactions, and how many of ten transactions read.
const READ_BIASES: [(&str, u64); 3] = [("reads0", 0), ("reads10", 1), ("reads20", 2)];

/// What a child is started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The file system.
    pub target: Target,
    /// The work.
    pub parameters: Parameters,
}

/// Runs; errors are also sent to the parent.
pub fn run() -> Result<()> {
    serve(turn)
}

/// A turn of the file system.
pub fn turn(job: &Job) -> Result<Round> {
    let mut system = open(&job.target)?;
    let mut driver = Driver::new(job.parameters);
    let mut figures = Gathered::default();
    driver.make_directories(&mut *system.requests)?;
    phase("create", &mut system, &mut figures, |requests| driver.create(requests))?;
    for (name, bias) in READ_BIASES {
        phase(name, &mut system, &mut figures, |requests| driver.transact(requests, bias))?;
    }
    phase("delete", &mut system, &mut figures, |requests| driver.delete(requests))?;
    driver.remove_directories(&mut *system.requests)?;
    system.close()?;
    Ok(figures.0)
}

/// Does and measures a phase, settling included.
fn phase(
    name: &str,
    system: &mut FileSystem,
    figures: &mut Gathered,
    work: impl FnOnce(&mut dyn Requests) -> Result<Done>,
) -> Result<()> {
    let FileSystem { requests, backing } = system;
    let (counts, written, started) = (backing.counts(), backing.written_bytes(), Instant::now());
    let done = work(&mut **requests)?;
    let (worked, counts_now, settling) = (started.elapsed(), backing.counts(), Instant::now());
    backing.settle()?;
    figures.time(&format!("{name}_settle_ns"), settling);
    let settled = started.elapsed();
    let operations = done.operations.max(1) as f64;
    figures.set(&format!("{name}_rate"), done.operations as f64 / worked.as_secs_f64());
    figures.set(&format!("{name}_settled_rate"), done.operations as f64 / settled.as_secs_f64());
    figures.set(&format!("{name}_operations"), done.operations as f64);
    figures.set(&format!("{name}_reads"), done.reads as f64);
    figures.set(&format!("{name}_skipped"), done.skipped as f64);
    if let (Some(now), Some(before)) = (counts_now, counts) {
        let counts = now - before;
        let all = [
            ("gets", counts.gets),
            ("puts", counts.puts),
            ("deletes", counts.deletes),
            ("range_deletes", counts.range_deletes),
            ("scans", counts.scans),
            ("commits", counts.commits),
        ];
        for (what, count) in all {
            figures.set(&format!("{name}_{what}"), count as f64 / operations);
        }
    }
    if let (Some(now), Some(before)) = (backing.written_bytes(), written) {
        let written = now.saturating_sub(before) as f64;
        figures.set(&format!("{name}_written"), written / operations);
        if done.written > 0 {
            figures.set(&format!("{name}_amplification"), written / done.written as f64);
        }
    }
    Ok(())
}
