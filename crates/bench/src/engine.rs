//! The interface between benchmarks and stores. Alluvium implements it here; other stores implement it in
//! `crates/bench-compare`.

use crate::counter;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Errors of any engine, as text.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// To larger keys.
    Forward,
    /// To smaller keys.
    Backward,
}

/// The counters of an engine since it was opened; `None` if it has none. Harnesses then use the kernel's figures of the
/// process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes written to data files by flushes and compactions, without the log.
    pub data_bytes_written: Option<u64>,
    /// Bytes written to the log.
    pub log_bytes_written: Option<u64>,
    /// Nanoseconds for which writers were slowed or stopped.
    pub stalled_ns: Option<u64>,
    /// Memory components that were full, or flushed, and written to files.
    pub buffers_written: Option<u64>,
    /// Items that compactions placed 0 to 6 levels further than the level that they write to.
    pub skipped: Option<[u64; SKIPS]>,
    /// What compactions left in memory, if the engine does that.
    pub buffered: Option<Buffered>,
}

/// What compactions left in memory: in bytes, but for `scanned`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffered {
    /// Left there instead of being written to files.
    pub left: u64,
    /// Written to say where on the disk it is, so that it can be read again after a crash.
    pub recorded: u64,
    /// Written to files by checkpoints.
    pub checkpointed: u64,
    /// Pairs that scans took from there.
    pub scanned: u64,
}

impl Buffered {
    /// What it has grown by since an earlier time.
    pub fn since(self, before: Self) -> Self {
        Self {
            left: self.left.saturating_sub(before.left),
            recorded: self.recorded.saturating_sub(before.recorded),
            checkpointed: self.checkpointed.saturating_sub(before.checkpointed),
            scanned: self.scanned.saturating_sub(before.scanned),
        }
    }

    /// The sum of two times.
    pub fn and(self, other: Self) -> Self {
        Self {
            left: self.left + other.left,
            recorded: self.recorded + other.recorded,
            checkpointed: self.checkpointed + other.checkpointed,
            scanned: self.scanned + other.scanned,
        }
    }
}

/// The numbers of levels that an item can skip, 0 included.
pub const SKIPS: usize = 7;

/// One level of the structure that keeps the data on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Sorted runs.
    pub runs: u64,
    /// The most filters that a look-up asks here.
    pub probes: u64,
    /// Entries of all runs.
    pub entries: u64,
}

/// The settings that every engine gets when it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineOptions {
    /// Bytes of memory for everything; `None` for the engine's default.
    pub memory: Option<u64>,
    /// Bytes of it for the memory component that takes writes; `None` for the engine's default.
    pub write_buffer: Option<u64>,
    /// Bytes of it for a cache of single pairs, if the engine has one of fixed size. Alluvium divides its caches itself.
    #[serde(default)]
    pub item_cache: Option<u64>,
    /// The most bytes a second that background work may write; `None` for no limit.
    #[serde(default)]
    pub write_limit: Option<u64>,
    /// Whether every write is synced.
    pub sync: bool,
    /// Use a filter for each file, if the engine has something better by default.
    #[serde(default)]
    pub plain_filters: bool,
    /// Bytes of writes that are kept for followers, if the engine can; `None` for none.
    #[serde(default)]
    pub kept_changes: Option<u64>,
    /// Whether data files are compressed, if the engine can.
    #[serde(default)]
    pub compressed: bool,
    /// What keeps the data on disk, if the engine has a choice; `None` for its default.
    #[serde(default)]
    pub component: Option<Component>,
    /// The shape of the levels, if the component has levels.
    #[serde(default)]
    pub levels: LevelKnobs,
    /// The store is one of several side by side; sizes are the totals of all.
    #[serde(default)]
    pub partitions: Option<Partitions>,
}

/// The kinds of structure that keep data on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Component {
    /// The STBε-tree.
    Trunk,
    /// Levels of one run each.
    Leveled,
    /// Levels of several runs.
    Tiered,
    /// Levels of one run each, past some of which items may go at a compaction.
    Skip,
}

impl Component {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trunk => "trunk",
            Self::Leveled => "leveled",
            Self::Tiered => "tiered",
            Self::Skip => "skip",
        }
    }
}

/// The shape of levels; `None` for the component's own number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelKnobs {
    /// The runs of a full level, level 0 included; in a leveled store those of level 0 alone.
    pub runs: Option<u32>,
    /// The percentage of the runs of a full level that one merge takes.
    pub merge_percent: Option<u32>,
    /// Bits of a fingerprint in the filters of every level: one false positive in 2^bits.
    pub filter_bits: Option<u32>,
    /// How many times the bytes of a level the next deeper one may have.
    #[serde(default)]
    pub size_ratio: Option<u32>,
    /// Bytes of the level that level 0 is merged into.
    #[serde(default)]
    pub base_bytes: Option<u64>,
    /// About the size of a file.
    #[serde(default)]
    pub file_bytes: Option<u64>,
    /// The most levels that an item may go past at a compaction, if the component lets items skip levels.
    #[serde(default)]
    pub max_skip: Option<u32>,
    /// Bytes of memory in which such items wait; 0: they wait in files.
    #[serde(default)]
    pub buffer_bytes: Option<u64>,
    /// Puts after which they are written to files, each time; `None`: when the engine thinks fit.
    #[serde(default)]
    pub checkpoint_every: Option<u64>,
}

/// Stores side by side, each with a range of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partitions {
    /// The number of stores.
    pub count: u64,
    /// The key numbers, in key order (`Order::Sequential`), that they share evenly; the last one also takes larger
    /// ones.
    pub keys: u64,
}

impl EngineOptions {
    /// One store's part of a size.
    pub fn each(&self, size: u64) -> u64 {
        size / self.partitions.map_or(1, |partitions| partitions.count.max(1))
    }
}

/// Opens stores of one kind.
pub trait Factory: Send + Sync {
    /// The engine's name in results.
    fn name(&self) -> &str;
    /// Opens the store in an existing directory; creates it if the directory is empty. Dropping the engine closes it.
    fn open(&self, directory: &Path, options: &EngineOptions) -> Result<Box<dyn Engine>>;
    /// Whether a file of the directory belongs to the log, whose space is counted separately.
    fn is_log(&self, _path: &Path) -> bool {
        false
    }
}

/// An open store. Any number of threads may call any method at once.
pub trait Engine: Send + Sync {
    /// Sets a key.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Sets several keys atomically.
    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()>;
    /// Removes a key.
    fn delete(&self, key: &[u8]) -> Result<()>;
    /// Reads a value into `value`, replacing its contents; false if the key is absent.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// Visits at most `limit` pairs, starting at the first at or after (backward: at or before) `from`, or at the end
    /// of the store where the direction starts. Returns their number. Implementations must read keys and values.
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64>;
    /// Reads the value, calls `change` with it (`None` if the key is absent) and, if that returns true, puts the
    /// contents of its second argument. `change` may be called several times. This default is a get and a put and is
    /// not atomic: an engine without its own implementation is wrapped in `Striped`.
    #[allow(clippy::type_complexity)] // An alias would need a lifetime that every implementation then had to name.
    fn update(&self, key: &[u8], change: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> bool) -> Result<()> {
        get_and_put(self, key, change)
    }
    /// Sets an absent key; returns whether it was absent. As atomic as `update`.
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
    /// Adds to a counter (`counter.rs`). As atomic as `update`, or by the engine's own means.
    fn increment(&self, key: &[u8], by: u64) -> Result<()> {
        self.update(key, &mut |old, new| counter::add(old, new, by))
    }
    /// Flushes memory and waits until no background work is left.
    fn settle(&self) -> Result<()>;
    /// Waits until the engine has finished the work that it does only in quiet times, when no write comes.
    fn rest(&self) -> Result<()> {
        Ok(())
    }
    /// Its counters.
    fn figures(&self) -> Figures;
    /// The levels on disk, the newest first; empty if the engine does not tell.
    fn levels(&self) -> Vec<Level> {
        Vec::new()
    }
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
