//! Options of a store and of single writes.

use crate::branch::{BranchForm, Compression};
pub use crate::disk::{DiskComponent, LevelFilters, LevelsOptions};
use crate::engine::resources::resources::Resources;
use crate::engine::types::events::EventListener;
pub use crate::memory::MemoryComponent;
use crate::merge::{CompactionFilter, MergeOperator};
use crate::util::sync::Arc;
use std::time::Duration;

/// The name of the only order of keys, as the manifest stores it.
pub(crate) const COMPARATOR: &str = "bytewise";

/// When a write returns, and what it then survives.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, Durability, Options, WriteOptions};
/// let db = Db::open(directory.path(), Options::new().durability(Durability::Sync))?;
/// db.put("order/7", "paid")?; // on disk when it returns
/// let buffered = WriteOptions::new().durability(Durability::Buffered);
/// db.put_with("visits/7", "12", buffered)?; // with the kernel
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// The write returns once the kernel has it. It survives the death of the process. A power loss can lose the writes
    /// since the last sync, at most those of one `Options::sync_interval`.
    #[default]
    Buffered,
    /// The write returns once it is on disk. Concurrent writers share one sync. A call that writes nothing (an update
    /// that keeps its value, an empty batch, a read-only transaction) syncs nothing, so what it read may be less
    /// durable; `Db::sync` makes that durable too.
    Sync,
    /// The write returns once it is in memory. The log stores only its sequence number. The write is lost if the
    /// process dies before memory is incorporated, by `Db::flush` or in the background.
    Unlogged,
}

impl Durability {
    /// Greater for what survives more.
    pub(crate) fn strength(self) -> u8 {
        match self {
            Self::Unlogged => 0,
            Self::Buffered => 1,
            Self::Sync => 2,
        }
    }
}

/// Options of a store. Every field has a default that suits laptops and servers.
///
/// ```
/// use alluvium::{Options, merge_operators::Add};
/// let options = Options::new().memory_budget(256 << 20).sync_interval(None).merge_operator(Add);
/// assert_eq!(options.memory_budget, Some(256 << 20));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Memory of this store alone, for Memtables, mapped log, page cache, filters and build buffers, in bytes. At least
    /// 256 KiB, at most 64 TiB. Background work has buffers of fixed size, which exceed a budget below about 128 MiB.
    /// `None`: the store shares `resources` with others. If neither names an amount of memory, files are read through the
    /// system's page cache besides, as long as the machine and the process's control groups have memory to spare. With
    /// an amount reads are direct, so that the store takes no more than that.
    pub memory_budget: Option<u64>,
    /// Memory and threads that the store shares with others. `None`: if there is no `memory_budget` either, the store
    /// shares the process's default with all such stores. That is a quarter of the memory of the machine or the
    /// container, at most 1 GiB. Stores on a simulated disk, or without threads, have as much for themselves.
    pub resources: Option<Resources>,
    /// Durability of writes that have no `WriteOptions::durability`.
    pub durability: Durability,
    /// Interval of background syncs of buffered writes: the most that a power loss can lose. `None` or zero: only
    /// `Db::sync` syncs.
    pub sync_interval: Option<Duration>,
    /// Compression of new branch files.
    pub compression: Compression,
    /// Compression of the oldest data: of files in the deepest level of the tree, which have most of the data and are
    /// rewritten least. So new data can be stored fast and old data small. `None`: `compression`. A keyspace with a compression of its own
    /// has that everywhere.
    pub deep_compression: Option<Compression>,
    /// Whether to create the store if it does not exist.
    pub create_if_missing: bool,
    /// `None`: the store shares the background threads of all such stores of the process. As many of them merge as there
    /// are cores, at least two and at most eight, and no store holds more than half of those while others have work.
    /// `Some(n)`: the store has threads of its own, of which n merge, at most 64. In both cases a few more incorporate
    /// full Memtables and maintain the log. Threads are started when they are needed. Those that merge and incorporate
    /// have a lower priority than other threads of the program (5 more in niceness).
    pub background_threads: Option<usize>,
    /// Greatest age of a snapshot, including those of iterators and transactions. Reads at an older snapshot fail with
    /// `Error::SnapshotExpired`, and versions that only it needs are dropped. `None`: snapshots do not expire;
    /// `Stats::oldest_snapshot` shows leaked ones.
    pub snapshot_age_limit: Option<Duration>,
    /// Limit for the background writes of incorporations and merges, in bytes per second. Work that writers wait for
    /// goes first. The log does not count. Writers are slowed smoothly to what the limit allows: each byte that is put
    /// costs `Stats::write_amplification` bytes of background writes. `None`: no limit.
    /// `Db::set_background_write_limit` changes it. `Resources` can limit several stores together.
    pub background_write_limit: Option<u64>,
    /// Size of one memory generation in bytes; up to three are in memory. Larger generations absorb larger bursts at
    /// full speed, need less merging, and produce fewer and longer runs. The first write into a large one makes its index
    /// resident, a quarter of this size. At most a sixth of the budget, and 20.8 GiB. `None` takes a
    /// twelfth of it up to 32 MiB, and a sixty-fourth beyond that up to 64 MiB. Then the first
    /// generation has 32 KiB, and while they fill quickly, each is four times as large as the one before, up to that
    /// size.
    pub write_buffer: Option<u64>,
    /// Data structure of new writes in memory.
    pub memory_component: MemoryComponent,
    /// How the data is kept on disk. `None`: what the store was created with; a new store gets a trunk. Opening a store
    /// with another component than it has is an error; `Db::convert` changes it.
    pub disk_component: Option<DiskComponent>,
    /// In a store with a trunk: whether a read looks up one maplet at each tree node to find the files that may have its key, instead of one
    /// filter for each file. Without maplets a store is a few percent smaller and bulk loads write a little less, but
    /// gets of absent keys take two to five times as long.
    pub maplets: bool,
    /// What `Db::merge` makes of values and operands. The store remembers the operator's name: from its first opening with
    /// one, it is opened for writing with that one only. The operators of `merge_operators` are found by their names, so
    /// later openings need not set them.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// Is asked, while merges rewrite pairs of the default keyspace, whether they stay. The store does not remember it. `None`:
    /// all stay.
    pub compaction_filter: Option<Arc<dyn CompactionFilter>>,
    /// Gets events of the store: merges, stalls, a full disk, failures. `None`: there is none.
    pub listener: Option<Arc<dyn EventListener>>,
    /// Measures how long calls take, for `Db::latencies`. It costs each call two looks at the clock and a lock that is
    /// hardly ever contended.
    pub latencies: bool,
    /// How much of what is written is kept for followers; see `Db::changes`. The store remembers it: later openings that leave it
    /// out keep as much. `None`: what the store remembers; nothing, at first. `ChangeRetention::OFF` ends it.
    /// Under full load writers have about 0.7 times their speed (`docs/performance.md`): all that they write is copied once more, in
    /// order.
    pub change_retention: Option<ChangeRetention>,
    /// Recovers as after a power loss, even if the log was written since the last boot, or its newest part (a file
    /// `*.shadow`) is missing. Buffered writes since the last sync may be lost.
    pub force_cut: bool,
}

impl Options {
    /// How branch files are written.
    pub(crate) fn branch_form(&self) -> BranchForm {
        BranchForm {
            compression: self.compression,
            deep_compression: self.deep_compression.unwrap_or(self.compression),
            fingerprints: self.maplets,
        }
    }

    /// The default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the field `memory_budget`.
    #[must_use]
    pub fn memory_budget(self, bytes: impl Into<Option<u64>>) -> Self {
        Self { memory_budget: bytes.into(), ..self }
    }

    /// Sets the field `resources`.
    #[must_use]
    pub fn resources(self, resources: impl Into<Option<Resources>>) -> Self {
        Self { resources: resources.into(), ..self }
    }

    /// Sets the field `durability`.
    #[must_use]
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Sets the field `sync_interval`.
    #[must_use]
    pub fn sync_interval(self, interval: impl Into<Option<Duration>>) -> Self {
        Self { sync_interval: interval.into(), ..self }
    }

    /// Sets the field `compression`.
    #[must_use]
    pub fn compression(self, compression: Compression) -> Self {
        Self { compression, ..self }
    }

    /// Sets the field `deep_compression`.
    #[must_use]
    pub fn deep_compression(self, compression: impl Into<Option<Compression>>) -> Self {
        Self { deep_compression: compression.into(), ..self }
    }

    /// Sets the field `create_if_missing`.
    #[must_use]
    pub fn create_if_missing(self, create: bool) -> Self {
        Self { create_if_missing: create, ..self }
    }

    /// Sets the field `background_threads`.
    #[must_use]
    pub fn background_threads(self, threads: impl Into<Option<usize>>) -> Self {
        Self { background_threads: threads.into(), ..self }
    }

    /// Sets the field `snapshot_age_limit`.
    #[must_use]
    pub fn snapshot_age_limit(self, age: impl Into<Option<Duration>>) -> Self {
        Self { snapshot_age_limit: age.into(), ..self }
    }

    /// Sets the field `background_write_limit`.
    #[must_use]
    pub fn background_write_limit(self, bytes_per_second: impl Into<Option<u64>>) -> Self {
        Self { background_write_limit: bytes_per_second.into(), ..self }
    }

    /// Sets the field `write_buffer`.
    #[must_use]
    pub fn write_buffer(self, bytes: impl Into<Option<u64>>) -> Self {
        Self { write_buffer: bytes.into(), ..self }
    }

    /// Sets the field `memory_component`.
    #[must_use]
    pub fn memory_component(self, component: MemoryComponent) -> Self {
        Self { memory_component: component, ..self }
    }

    /// Sets the field `disk_component`.
    #[must_use]
    pub fn disk_component(self, component: impl Into<Option<DiskComponent>>) -> Self {
        Self { disk_component: component.into(), ..self }
    }

    /// Sets the field `maplets`.
    #[must_use]
    pub fn maplets(self, maplets: bool) -> Self {
        Self { maplets, ..self }
    }

    /// Sets the field `merge_operator` to this operator, in an `Arc`. A program that has an `Arc` sets the field itself.
    #[must_use]
    pub fn merge_operator(self, operator: impl MergeOperator) -> Self {
        Self { merge_operator: Some(Arc::new(operator)), ..self }
    }

    /// Sets the field `compaction_filter` to this filter, in an `Arc`. A program that has an `Arc` sets the field itself.
    #[must_use]
    pub fn compaction_filter(self, filter: impl CompactionFilter) -> Self {
        Self { compaction_filter: Some(Arc::new(filter)), ..self }
    }

    /// Sets the field `listener` to this one, in an `Arc`. A program that has an `Arc` sets the field itself.
    #[must_use]
    pub fn listener(self, listener: impl EventListener + 'static) -> Self {
        Self { listener: Some(Arc::new(listener)), ..self }
    }

    /// Sets the field `latencies`.
    #[must_use]
    pub fn latencies(self, measure: bool) -> Self {
        Self { latencies: measure, ..self }
    }

    /// Sets the field `change_retention`.
    #[must_use]
    pub fn change_retention(self, retention: impl Into<Option<ChangeRetention>>) -> Self {
        Self { change_retention: retention.into(), ..self }
    }

    /// Sets the field `force_cut`.
    #[must_use]
    pub fn force_cut(self, force: bool) -> Self {
        Self { force_cut: force, ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_budget: None,
            resources: None,
            durability: Durability::Buffered,
            sync_interval: Some(Duration::from_millis(100)),
            compression: Compression::None,
            deep_compression: None,
            create_if_missing: true,
            background_threads: None,
            snapshot_age_limit: None,
            background_write_limit: None,
            write_buffer: None,
            memory_component: MemoryComponent::TwoLevel,
            disk_component: None,
            maplets: true,
            merge_operator: None,
            compaction_filter: None,
            listener: None,
            latencies: false,
            change_retention: None,
            force_cut: false,
        }
    }
}

/// How much of the change stream a store keeps: `Options::change_retention`, `Db::changes`.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{ChangeRetention, Db, Options};
/// use std::time::Duration;
/// let day = ChangeRetention::new(1 << 30).age(Duration::from_secs(24 * 60 * 60));
/// let db = Db::open(directory.path(), Options::new().change_retention(day))?;
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeRetention {
    /// The most bytes that kept writes take on disk. When there are more, the oldest go. 0: none are kept.
    pub bytes: u64,
    /// The age at which writes may go. `None`: they stay as long as there are few enough.
    pub age: Option<Duration>,
}

impl ChangeRetention {
    /// No writes are kept, and those of earlier openings go.
    pub const OFF: Self = Self::new(0);

    /// So many bytes of writes are kept, however old they are.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self { bytes, age: None }
    }

    /// Sets the field `age`.
    #[must_use]
    pub fn age(self, age: impl Into<Option<Duration>>) -> Self {
        Self { age: age.into(), ..self }
    }
}

/// Options of a single write.
///
/// ```
/// use alluvium::{Durability, WriteOptions};
/// assert_eq!(WriteOptions::new().durability(Durability::Sync), WriteOptions::sync());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Durability of this write. `None` takes `Options::durability`.
    pub durability: Option<Durability>,
    /// Whether this write frees space although it puts something, such as a batch that removes much and corrects a count,
    /// or that replaces a value by a shorter one. A full disk takes it as it takes deletes, if its puts are small
    /// (`limits::FREEING_BYTES_MAX`). All such puts together may take a part of the space that is reserved for deletes;
    /// beyond that they fail with `DiskFull`, and the rest stays for deletes. The store does not check that space is
    /// freed. On a full disk deletes free space soon, and a value that is replaced by a shorter one with later merges.
    pub frees_space: bool,
    /// Whether a put that finds the disk full waits before it fails with `DiskFull`: at most five seconds each time, and only as long as
    /// background work may free space. For programs that replace their data on a disk that is mostly free, faster than the
    /// space of what they have deleted comes back. False by default, so that a full disk is reported at once. In a store
    /// without background threads there is nothing to wait for. Large values always wait.
    pub waits_for_space: bool,
}

impl WriteOptions {
    /// The default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Options of a write with `Durability::Sync`.
    #[must_use]
    pub fn sync() -> Self {
        Self::new().durability(Durability::Sync)
    }

    /// Sets the field `durability`.
    #[must_use]
    pub fn durability(self, durability: impl Into<Option<Durability>>) -> Self {
        Self { durability: durability.into(), ..self }
    }

    /// Sets the field `frees_space`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::{WriteBatch, WriteOptions};
    /// let mut batch = WriteBatch::new();
    /// batch.delete_prefix("logs/2019/").put("years", "6");
    /// db.write_with(batch, WriteOptions::new().frees_space(true))?; // on a full disk, too
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn frees_space(self, frees_space: bool) -> Self {
        Self { frees_space, ..self }
    }

    /// Sets the field `waits_for_space`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::WriteOptions;
    /// db.delete_prefix("page/")?; // those of yesterday
    /// db.put_with("page/1", "today", WriteOptions::new().waits_for_space(true))?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn waits_for_space(self, waits_for_space: bool) -> Self {
        Self { waits_for_space, ..self }
    }
}
