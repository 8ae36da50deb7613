//! The hidden command `keyspaces-child`: one stage of an engine's turn.

use crate::engines::keyspaces::{KeyspaceSetup, KeyspaceStore, NamedKeyspace, OpenKeyspaces, opener};
use crate::rounds::disk::Disk;
use crate::rounds::gathered::Gathered;
use crate::rounds::host::Round;
use crate::rounds::pairs::{fill_value, key, scattered};
use crate::rounds::process::Usage;
use crate::rounds::serve::serve;
use alluvium_bench::engine::Result;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A keyspace besides those that are measured: with it, the store has done everything once before memory is measured.
const FIRST: &str = "first";

/// A part of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// A new store: create the keyspaces, write their pairs, read them, close.
    Create,
    /// Open the store and all keyspaces, read a pair of each, drop half of them, close.
    Reopen,
    /// Open the store and the other half, read a pair of each, close.
    ReopenHalf,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::Create, Self::Reopen, Self::ReopenHalf];
}

/// What a child is started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The engine's name.
    pub engine: String,
    /// The store's directory.
    pub directory: PathBuf,
    /// Memory for the engine.
    pub memory: Option<u64>,
    /// What to do.
    pub stage: Stage,
    /// Number of keyspaces.
    pub keyspaces: u32,
    /// Pairs in each.
    pub pairs: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Seconds to wait before an open store is looked at.
    pub idle: f64,
}

/// Runs; errors are also sent to the parent.
pub fn run() -> Result<()> {
    serve(stage)
}

/// A stage of the job.
pub fn stage(job: &Job) -> Result<Round> {
    let open = opener(&job.engine).ok_or_else(|| format!("{} has no keyspaces here", job.engine))?;
    let mut turn = Turn { job, open, figures: Gathered::default(), value: vec![0; job.value_bytes as usize] };
    match job.stage {
        Stage::Create => turn.create()?,
        Stage::Reopen => turn.reopen()?,
        Stage::ReopenHalf => turn.reopen_half()?,
    }
    Ok(turn.figures.0)
}

struct Turn<'j> {
    job: &'j Job,
    open: OpenKeyspaces,
    figures: Gathered,
    value: Vec<u8>,
}

impl Turn<'_> {
    fn create(&mut self) -> Result<()> {
        fs::create_dir_all(&self.job.directory)?;
        let started = Instant::now();
        let mut store = self.open_with(Vec::new())?;
        self.figures.time("new_ns", started);
        store.create(FIRST)?;
        store.keyspace(FIRST)?.put(b"key", b"value")?;
        self.rest();
        let before = Usage::now()?;
        let started = Instant::now();
        for name in self.names() {
            store.create(&name)?;
        }
        self.figures.time("create_ns", started);
        self.look("created", before)?;
        if self.job.pairs > 0 {
            let started = Instant::now();
            self.write(&*store)?;
            self.figures.time("write_ns", started);
            self.look("written", before)?;
            let started = Instant::now();
            self.read(&*store)?;
            self.figures.time("read_ns", started);
        }
        self.close(store, "close", "closed")
    }

    fn reopen(&mut self) -> Result<()> {
        let before = Usage::now()?;
        let started = Instant::now();
        let mut store = self.open_with(self.names())?;
        self.figures.time("reopen_ns", started);
        self.rest();
        let now = Usage::now()?;
        self.figures.usage("reopened", before, now, 1);
        self.read_one_of_each(&*store, &self.names(), "first_read_ns")?;
        let started = Instant::now();
        for name in self.names().iter().skip(1).step_by(2) {
            store.drop_keyspace(name)?;
        }
        self.figures.time("drop_ns", started);
        self.rest();
        self.count_files("dropped")?;
        self.close(store, "close_dropped", "closed_dropped")
    }

    fn reopen_half(&mut self) -> Result<()> {
        let kept: Vec<String> = self.names().into_iter().step_by(2).collect();
        let started = Instant::now();
        let store = self.open_with(kept.clone())?;
        self.figures.time("reopen_half_ns", started);
        let mut found = store.names()?;
        found.retain(|name| name != FIRST);
        found.sort();
        if found != kept {
            return Err(format!("{} keyspaces are left instead of {}", found.len(), kept.len()).into());
        }
        self.read_one_of_each(&*store, &kept, "half_read_ns")?;
        self.rest();
        self.count_files("half")?;
        self.close(store, "close_half", "closed_half")
    }

    /// The store with these keyspaces and the first one, if it exists.
    fn open_with(&self, mut names: Vec<String>) -> Result<Box<dyn KeyspaceStore>> {
        if !names.is_empty() {
            names.push(FIRST.to_owned());
        }
        let Job { directory, memory, .. } = self.job;
        (self.open)(&KeyspaceSetup { directory: directory.clone(), memory: *memory, names, blobs_from: None })
    }

    fn names(&self) -> Vec<String> {
        (0..self.job.keyspaces).map(|number| format!("keyspace-{number:08}")).collect()
    }

    /// The keyspaces take turns: each gets its first pair, then each its second.
    fn write(&mut self, store: &dyn KeyspaceStore) -> Result<()> {
        let keyspaces = opened(store, &self.names())?;
        for pair in 0..u64::from(self.job.pairs) {
            for (at, keyspace) in keyspaces.iter().enumerate() {
                fill_value(pair ^ (at as u64) << 32, &mut self.value);
                keyspace.put(&key(pair), &self.value)?;
            }
        }
        Ok(())
    }

    /// Reads all pairs in no order, and compares them.
    fn read(&mut self, store: &dyn KeyspaceStore) -> Result<()> {
        let keyspaces = opened(store, &self.names())?;
        let (count, mut found) = (keyspaces.len() as u64, Vec::new());
        let all = count * u64::from(self.job.pairs);
        for step in 0..all {
            let place = scattered(step, all);
            self.read_pair(&*keyspaces[(place % count) as usize], place % count, place / count, &mut found)?;
        }
        Ok(())
    }

    /// Reads the last pair of each of these keyspaces, and compares it.
    fn read_one_of_each(&mut self, store: &dyn KeyspaceStore, names: &[String], figure: &str) -> Result<()> {
        let Some(pair) = u64::from(self.job.pairs).checked_sub(1) else { return Ok(()) };
        let keyspaces = opened(store, names)?;
        let step = u64::from(self.job.keyspaces).div_ceil(names.len() as u64);
        let mut found = Vec::new();
        let started = Instant::now();
        for (at, keyspace) in keyspaces.iter().enumerate() {
            self.read_pair(&**keyspace, at as u64 * step, pair, &mut found)?;
        }
        self.figures.time(figure, started);
        Ok(())
    }

    fn read_pair(&mut self, keyspace: &dyn NamedKeyspace, at: u64, pair: u64, found: &mut Vec<u8>) -> Result<()> {
        let is_there = keyspace.get(&key(pair), found)?;
        fill_value(pair ^ at << 32, &mut self.value);
        if is_there && *found == self.value {
            return Ok(());
        }
        Err(format!("pair {pair} of keyspace {at} is {}", if is_there { "wrong" } else { "missing" }).into())
    }

    /// Memory of each keyspace, and the files.
    fn look(&mut self, prefix: &str, before: Usage) -> Result<()> {
        self.rest();
        let now = Usage::now()?;
        self.figures.usage(prefix, before, now, self.job.keyspaces);
        self.count_files(prefix)
    }

    fn count_files(&mut self, prefix: &str) -> Result<()> {
        let disk = Disk::of(&self.job.directory)?;
        self.figures.disk(prefix, disk);
        self.figures.set(&format!("{prefix}_files"), disk.files as f64);
        Ok(())
    }

    fn close(&mut self, store: Box<dyn KeyspaceStore>, time: &str, files: &str) -> Result<()> {
        let started = Instant::now();
        store.close()?;
        self.figures.time(&format!("{time}_ns"), started);
        self.count_files(files)
    }

    fn rest(&self) {
        std::thread::sleep(Duration::from_secs_f64(self.job.idle));
    }
}

fn opened<'s>(store: &'s dyn KeyspaceStore, names: &[String]) -> Result<Vec<Box<dyn NamedKeyspace + 's>>> {
    names.iter().map(|name| store.keyspace(name)).collect()
}

#[cfg(test)]
mod tests;
