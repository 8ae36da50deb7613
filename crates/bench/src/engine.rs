//! What a benchmark needs of a store. Alluvium implements it here; rivals implement it in `crates/bench-compare`.

use crate::counter;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Errors of any engine, for people.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// To larger keys.
    Forward,
    /// To smaller keys.
    Backward,
}

/// What an engine tells of itself since it was opened; `None` where it cannot tell. Harnesses fill the gaps from the
/// kernel's figures of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes written to data files: flushes and compactions, the log apart.
    pub data_bytes_written: Option<u64>,
    /// Bytes written to the log.
    pub log_bytes_written: Option<u64>,
    /// Time that writers were slowed or stopped, nanoseconds.
    pub stalled_ns: Option<u64>,
}

/// What every engine is told when it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineOptions {
    /// Bytes of memory for everything the engine keeps; `None`: its own choice.
    pub memory: Option<u64>,
    /// Bytes of the memory component that takes writes, in it; `None`: the engine's own choice.
    pub write_buffer: Option<u64>,
    /// Whether every write waits for the disk.
    pub sync: bool,
    /// Whether the log goes to shared memory first, where the engine leaves that open; `None`: its own choice.
    #[serde(default)]
    pub shared_log: Option<bool>,
    /// Ask a filter for each file, where the engine has something better by default.
    #[serde(default)]
    pub plain_filters: bool,
    /// The store is one of several side by side; sizes are those of all together.
    #[serde(default)]
    pub partitions: Option<Partitions>,
}

/// Stores side by side, each with a range of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partitions {
    /// How many.
    pub count: u64,
    /// The numbers of keys in key order (`Order::Sequential`) that they share evenly; the last takes larger ones, too.
    pub keys: u64,
}

impl EngineOptions {
    /// The part of a size that one store has.
    pub fn each(&self, size: u64) -> u64 {
        size / self.partitions.map_or(1, |partitions| partitions.count.max(1))
    }
}

/// Opens stores of one kind.
pub trait Factory: Send + Sync {
    /// What the engine is called in results.
    fn name(&self) -> &str;
    /// Opens the store in a directory that exists, or makes it where the directory is empty. Dropping the engine closes it.
    fn open(&self, directory: &Path, options: &EngineOptions) -> Result<Box<dyn Engine>>;
    /// Whether a file of the directory belongs to the log: its space is counted apart.
    fn is_log(&self, _path: &Path) -> bool {
        false
    }
}

/// An open store. Every method may be called from any thread at once.
pub trait Engine: Send + Sync {
    /// Sets a key.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Sets several keys, all or none.
    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()>;
    /// Removes a key.
    fn delete(&self, key: &[u8]) -> Result<()>;
    /// Reads a value into `value`, replacing what it holds; false where the key is absent.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// Visits at most `limit` pairs, the first at or behind (backward: at or before) `from`, or from the end of the store
    /// that the direction starts with; returns how many. Keys and values must be read, not only passed.
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64>;
    /// Reads the value, calls `change` with it (`None` where the key is absent) and, where that is true, puts what it leaves in
    /// its second argument. `change` may be called several times. This one is a get and a put, which others may come between:
    /// an engine that has nothing better stands behind `Striped`.
    #[allow(clippy::type_complexity)] // An alias would need a lifetime that every implementation then had to name.
    fn update(&self, key: &[u8], change: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> bool) -> Result<()> {
        get_and_put(self, key, change)
    }
    /// Sets a key that is absent; whether it was. As atomic as `update`.
    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let mut absent = false;
        self.update(key, &mut |old, new| {
            absent = old.is_none();
            if absent {
                new.clear();
                new.extend_from_slice(value);
            }
            absent
        })?;
        Ok(absent)
    }
    /// Adds to a counter (`counter.rs`). As atomic as `update`, or by what the engine has for it.
    fn increment(&self, key: &[u8], by: u64) -> Result<()> {
        self.update(key, &mut |old, new| counter::add(old, new, by))
    }
    /// Writes what is in memory to data files and waits until background work has nothing left to do.
    fn settle(&self) -> Result<()>;
    /// Its figures.
    fn figures(&self) -> Figures;
}

/// An update in two steps.
#[allow(clippy::type_complexity)] // As `Engine::update`.
pub fn get_and_put(
    engine: &(impl Engine + ?Sized),
    key: &[u8],
    change: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> bool,
) -> Result<()> {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let found = engine.get(key, &mut old)?;
    if change(found.then_some(&old[..]), &mut new) { engine.put(key, &new) } else { Ok(()) }
}
