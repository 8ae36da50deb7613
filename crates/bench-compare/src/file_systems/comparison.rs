//! What comparisons of file systems have in common: the conditions, a child process for each turn, and the output.

use super::targets::{Face, LayoutName, ROCKSDB, Target, memory_for, results_name};
use crate::arguments::Files;
use crate::compare;
use crate::machine::cgroup::Parent;
use crate::rounds::host::Host;
use crate::rounds::report::Report;
use crate::rounds::turns;
use serde::Serialize;
use std::path::PathBuf;

/// The conditions that all these comparisons have, for the report.
#[derive(Clone, Debug, Serialize)]
pub struct Shared {
    /// How requests reach SkipFS.
    pub face: Face,
    /// Where SkipFS has content.
    pub layout: LayoutName,
    /// Memory of each process.
    pub memory: u64,
    /// How it is limited; `None` if it is not.
    pub limit: Option<&'static str>,
}

impl Shared {
    /// How requests reach SkipFS, for a heading.
    pub fn face(&self) -> &'static str {
        match self.face {
            Face::Library => "the library",
            Face::Mount => "a FUSE mount",
        }
    }

    /// The memory, for a heading.
    pub fn memory(&self) -> String {
        match self.limit {
            Some(_) => format!("{} MiB of memory, page cache included", self.memory >> 20),
            None => format!("{} MiB of memory for stores, no limit", self.memory >> 20),
        }
    }
}

/// A comparison of file systems.
pub struct Comparison<'a> {
    /// The command's name.
    command: &'static str,
    asked: &'a Files,
    names: Vec<&'static str>,
    data_bytes: u64,
    limits: Option<Parent>,
    stores: PathBuf,
    /// Its conditions.
    pub shared: Shared,
}

impl<'a> Comparison<'a> {
    /// Of these file systems, whose files have so many bytes.
    ///
    /// # Errors
    /// A directory that cannot be used; no limits of memory.
    pub fn new(
        command: &'static str,
        asked: &'a Files,
        names: Vec<&'static str>,
        data_bytes: u64,
    ) -> Result<Self, String> {
        let limits = compare::limits(asked.no_limit)?;
        let shared = Shared {
            face: if asked.mount { Face::Mount } else { Face::Library },
            layout: asked.layout,
            memory: memory_for(data_bytes, asked.memory),
            limit: limits.as_ref().map(|limits| limits.kind()),
        };
        let stores = turns::stores(asked.directory.as_deref())?;
        Ok(Self { command, asked, names, data_bytes, limits, stores, shared })
    }

    /// Measures: each turn is a child process with this hidden command, which `job` makes for its file system. Then keeps
    /// and prints the figures. Returns a line about the file systems that failed.
    ///
    /// # Errors
    /// Results that cannot be written.
    pub fn run<Conditions: Serialize, Job: Serialize>(
        &self,
        child: &'static str,
        mut report: Report<Conditions>,
        heading: impl Fn(&Report<Conditions>) -> String,
        job: impl Fn(Target) -> Job,
    ) -> Result<Option<String>, String> {
        let Shared { face, layout, memory, .. } = self.shared;
        let asked = self.asked;
        turns::take(asked.rounds, &self.names, self.command, &self.stores, &mut report, |name, directory| {
            let data_bytes = self.data_bytes;
            let target =
                Target { name: name.to_owned(), face, layout, directory: directory.to_owned(), memory, data_bytes };
            let group = format!("{}-{name}", std::process::id());
            let group = self.limits.as_ref().map(|limits| limits.limit(&group, memory)).transpose()?;
            Host::start_in(child, &job(target), group)?.round()
        });
        report.compare_with(ROCKSDB);
        let name = results_name(self.command, face, layout);
        turns::show(&report, &heading(&report), asked.json, &asked.results, &name)?;
        Ok(report.failures())
    }
}
