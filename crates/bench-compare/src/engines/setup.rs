//! The configuration that every engine gets when it is opened, and what it reports: the same for all, so that none has
//! an advantage.

use alluvium_bench::engine::Result;
use alluvium_bench::{Component, Engine, LevelKnobs};
use std::path::PathBuf;

/// One setting of an engine, as it is printed and kept with the results.
pub type Setting = (String, String);

/// How to open an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// An empty directory of its own.
    pub directory: PathBuf,
    /// All memory that the process may use, page cache included: its cgroup's limit.
    pub memory_bytes: u64,
    /// Bytes of a write buffer; `None` to derive it from the memory.
    pub write_buffer: Option<u64>,
    /// Bytes of the memory for a cache of single pairs, in engines that have one of fixed size.
    pub item_cache: Option<u64>,
    /// The most bytes a second that background work may write, in engines that can be limited.
    pub write_limit: Option<u64>,
    /// Whether Alluvium's data files are compressed. The others are built without a compressor.
    pub compressed: bool,
    /// What keeps Alluvium's data on disk; other engines have no choice.
    pub component: Option<Component>,
    /// The shape of Alluvium's levels, if the component has levels, and of RocksDB's, if it names sizes.
    pub levels: LevelKnobs,
    /// Bytes of keys and values that will be stored.
    pub data_bytes: u64,
    /// Whether every write is synced before it returns.
    pub sync: bool,
    /// Threads for background work, if they can be set.
    pub background_threads: usize,
    /// Of the memory, what the benchmark itself needs: [`HARNESS_BYTES`], or less where it is known.
    pub harness_bytes: u64,
    /// Of the memory, what engines with a block cache need beside it, their write buffers and the kernel's page cache:
    /// [`beside_caches_bytes`], or less where it is known.
    pub beside_caches_bytes: u64,
}

/// How to open an engine with its own default options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// An empty directory of its own, or its store.
    pub directory: PathBuf,
    /// Bytes of keys and values that will be stored, for LMDB, whose map has a fixed size.
    pub data_bytes: u64,
    /// Puts that share a transaction, in engines whose commits are synced by default.
    pub puts_per_transaction: usize,
    /// Whether an engine that has no filters and hardly a cache by default gets both, as its users do: RocksDB.
    pub for_point_reads: bool,
}

/// An open engine.
pub struct Opened {
    /// The open store.
    pub engine: Box<dyn Engine>,
    /// Its version.
    pub version: String,
    /// Its settings.
    pub settings: Vec<Setting>,
}

/// One mebibyte.
pub const MIB: u64 = 1 << 20;

/// How engines without their own read-modify-writes do them.
pub const STRIPED: &str = "get and put under one of 1024 locks, which every write takes";

/// Memory of the harness itself (histograms, the pool of values, the program), and what an engine uses beyond a budget for
/// everything: with one of 76 MiB Alluvium's process has 83 to 90.
pub const HARNESS_BYTES: u64 = 20 * MIB;

/// Of a limit, what the harness needs together with the filters, indexes and tables that engines with a block cache keep
/// outside of it. Below 128 MiB it is more: with 32 MiB RocksDB was killed at a limit of 96 when it was read.
pub fn beside_caches_bytes(memory_bytes: u64) -> u64 {
    if memory_bytes < 128 * MIB { 48 * MIB } else { 32 * MIB }
}

impl Setup {
    /// One of several stores that share the remaining memory and the background threads.
    pub fn part(self, count: u64) -> Self {
        let count = count.max(1);
        let harness_bytes = self.harness_bytes / count;
        let beside_caches_bytes = self.beside_caches_bytes / count;
        let memory_bytes = self.memory_bytes / count;
        let background_threads = (self.background_threads / count as usize).max(1);
        Self {
            harness_bytes,
            beside_caches_bytes,
            memory_bytes,
            background_threads,
            data_bytes: self.data_bytes / count,
            ..self
        }
    }

    /// Half of the memory for caches and buffers, for a block cache. The rest is for write buffers and the kernel's page
    /// cache, which these engines read through and which counts towards the limit, too.
    pub fn cache_bytes(&self) -> u64 {
        self.without(self.beside_caches_bytes).saturating_sub(self.item_cache.unwrap_or(0)) / 2
    }

    /// The default write buffer: 64 MiB as everywhere in this comparison, less if the limit is small.
    pub fn write_buffer_bytes(&self) -> u64 {
        self.write_buffer.unwrap_or_else(|| (self.without(self.beside_caches_bytes) / 8).clamp(MIB, 64 * MIB))
    }

    /// Everything except the harness's memory, for engines with one budget.
    pub fn budget_bytes(&self) -> u64 {
        self.without(self.harness_bytes)
    }

    /// The memory without so much of it, but at least half.
    fn without(&self, bytes: u64) -> u64 {
        self.memory_bytes.saturating_sub(bytes).max(self.memory_bytes / 2)
    }
}

/// A setting with a printable value.
pub fn setting(name: &str, value: impl ToString) -> Setting {
    (name.to_owned(), value.to_string())
}

/// A setting in MiB.
pub fn mib(name: &str, bytes: u64) -> Setting {
    (name.to_owned(), format!("{} MiB", bytes / MIB))
}

/// Opens an engine.
pub type Open = fn(&Setup) -> Result<Opened>;

/// Opens an engine with its default options.
pub type OpenDefault = fn(&Defaults) -> Result<Opened>;

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(memory_bytes: u64) -> Setup {
        Setup {
            directory: PathBuf::from("nowhere"),
            memory_bytes,
            write_buffer: None,
            item_cache: None,
            write_limit: None,
            compressed: false,
            component: None,
            levels: LevelKnobs::default(),
            data_bytes: 0,
            sync: false,
            background_threads: 2,
            harness_bytes: HARNESS_BYTES,
            beside_caches_bytes: beside_caches_bytes(memory_bytes),
        }
    }

    #[test]
    fn parts_of_the_memory_stay_below_the_limit() {
        for memory in [16 * MIB, 100 * MIB, 512 * MIB, 4096 * MIB] {
            let setup = setup(memory);
            assert!(setup.budget_bytes() < memory);
            assert!(setup.cache_bytes() + 3 * setup.write_buffer_bytes() <= memory, "{memory}");
        }
    }

    #[test]
    fn parts_share_what_one_store_would_have() {
        let whole = setup(512 * MIB);
        let part = whole.clone().part(4);
        assert_eq!((4 * part.budget_bytes(), part.background_threads), (whole.budget_bytes(), 1));
        assert_eq!(whole.clone().part(1), whole);
    }

    #[test]
    fn write_buffers_are_64_mib_where_there_is_room() {
        assert_eq!(setup(1024 * MIB).write_buffer_bytes(), 64 * MIB);
        assert_eq!(setup(256 * MIB).write_buffer_bytes(), 28 * MIB);
        let said = Setup { write_buffer: Some(3 * MIB), ..setup(256 * MIB) };
        assert_eq!(said.write_buffer_bytes(), 3 * MIB);
        let with_items = Setup { item_cache: Some(24 * MIB), ..setup(256 * MIB) };
        assert_eq!(with_items.cache_bytes() + 12 * MIB, setup(256 * MIB).cache_bytes());
    }
}
