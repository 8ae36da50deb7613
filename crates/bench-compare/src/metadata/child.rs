//! The hidden command `metadata-child`: one file system's turn.

use crate::file_systems::{FileSystem, Requests, Target, open};
use crate::rounds::gathered::Gathered;
use crate::rounds::host::Round;
use crate::rounds::pairs::scattered;
use crate::rounds::serve::serve;
use alluvium_bench::engine::Result;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// What a child is started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The file system.
    pub target: Target,
    /// Files.
    pub files: u64,
    /// Files of a directory; the last one may have fewer.
    pub per_directory: u64,
}

/// Runs; errors are also sent to the parent.
pub fn run() -> Result<()> {
    serve(turn)
}

/// A turn of the file system. Files are created in their order, directory by directory, and used in a scattered one.
pub fn turn(job: &Job) -> Result<Round> {
    let mut system = open(&job.target)?;
    let mut figures = Gathered::default();
    let count = job.files.div_ceil(job.per_directory);
    let names = (0..count).map(|number| format!("d{number}"));
    let directories: Vec<usize> = names.map(|name| system.requests.make_directory(&name)).collect::<Result<_>>()?;
    let place = |number: u64| (directories[(number / job.per_directory) as usize], format!("f{number}"));
    let scattered = |step| place(scattered(step, job.files));

    phase("create", job.files, &mut system, &mut figures, |requests, step| {
        let (directory, name) = place(step);
        requests.create(directory, &name, &[])
    })?;
    phase("stat", job.files, &mut system, &mut figures, |requests, step| {
        let (directory, name) = scattered(step);
        requests.stat(directory, &name).map(|_| ())
    })?;
    let mut entries = 0;
    let started = Instant::now();
    for directory in &directories {
        entries += system.requests.list(*directory)?;
    }
    figures.set("readdir_rate", entries as f64 / started.elapsed().as_secs_f64());
    if entries != job.files {
        return Err(format!("the directories have {entries} entries instead of {}", job.files).into());
    }
    phase("rename", job.files, &mut system, &mut figures, |requests, step| {
        let (directory, name) = scattered(step);
        requests.rename(directory, &name, &format!("r{name}"))
    })?;
    phase("unlink", job.files, &mut system, &mut figures, |requests, step| {
        let (directory, name) = scattered(step);
        requests.unlink(directory, &format!("r{name}"))
    })?;
    directories.iter().try_for_each(|directory| system.requests.remove_directory(*directory))?;
    system.close()?;
    Ok(figures.0)
}

/// Makes and measures a request for each file.
fn phase(
    name: &str,
    files: u64,
    system: &mut FileSystem,
    figures: &mut Gathered,
    request: impl Fn(&mut dyn Requests, u64) -> Result<()>,
) -> Result<()> {
    let FileSystem { requests, backing } = system;
    let (counts, started) = (backing.counts(), Instant::now());
    (0..files).try_for_each(|step| request(&mut **requests, step))?;
    figures.set(&format!("{name}_rate"), files as f64 / started.elapsed().as_secs_f64());
    if let (Some(now), Some(before)) = (backing.counts(), counts) {
        let counts = now - before;
        figures.set(&format!("{name}_gets"), counts.gets as f64 / files as f64);
        figures.set(&format!("{name}_puts"), counts.puts as f64 / files as f64);
    }
    backing.settle()?;
    figures.set(&format!("{name}_settled_rate"), files as f64 / started.elapsed().as_secs_f64());
    Ok(())
}
