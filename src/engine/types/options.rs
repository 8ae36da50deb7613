//! What a user may choose. Every field has a default that suits a laptop as well as a server.

use crate::branch::Compression;
pub use crate::memory::MemoryComponent;
use std::time::Duration;

/// The name of the only order of keys, as the manifest stores it.
pub(crate) const COMPARATOR: &str = "bytewise";

/// When a write counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Once it is in the kernel's hands: nothing is lost when the process dies; a power loss takes at most what the sync
    /// interval allows.
    #[default]
    Buffered,
    /// Once it is on the disk. Waiting writers share one sync. What writes nothing (an update that keeps its value, an empty batch, a
    /// transaction that only reads) syncs nothing: what it read may be less durable than itself; `Db::sync` makes it as durable.
    Sync,
    /// Once it is in memory: the log holds only that there was a write. Lost with the process unless flushed before.
    Unlogged,
}

/// Where a write is in the kernel's hands before it is on the disk. Either way nothing that was acknowledged is lost with the
/// process, and a power loss takes the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogMemory {
    /// In the log's files, mapped: each page faults again whenever the kernel has written it back.
    File,
    /// Shared memory where it is certain to outlive the process (on Linux: as root and in no container), else the file. As with
    /// `SharedMemory`, a copy of the directory of a store that was killed does not open but with `force_cut`.
    #[default]
    Auto,
    /// In shared memory (`/dev/shm`), which is written to the log's files at each sync: the fastest. Whoever asks for it vouches
    /// that it outlives the process, which it does not where a container brings a `/dev/shm` of its own, or where the user's
    /// is cleared at logout. After a kill the store opens only where that memory is, or with `force_cut`. Where there is none or it
    /// is full, the log's files are used, as `Stats` tells (`log_memory_bytes`, `log_memory_refused`).
    SharedMemory,
}

/// How to open a store.
///
/// ```
/// use alluvium::Options;
/// let options = Options { memory_budget: Some(256 << 20), ..Options::default() };
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes for everything the store keeps in memory: Memtables, log mapping, page cache, filters, build buffers. `None`
    /// takes half of the machine's or the container's memory. At least 256 KiB, at most 64 TiB; below some 128 MiB the
    /// buffers of background work, which have fixed sizes, pass it.
    pub memory_budget: Option<u64>,
    /// What a write without options of its own gets.
    pub durability: Durability,
    /// How often buffered writes are synced in the background: what a power loss can take at most. `None` or zero: only by
    /// `sync`.
    pub sync_interval: Option<Duration>,
    /// How new branch files are compressed.
    pub compression: Compression,
    /// Whether to make a store where there is none.
    pub create_if_missing: bool,
    /// Threads that merge in the background, at most 64; `None` derives them from the machine's cores. Three more write full memory out
    /// and keep the log.
    pub background_threads: Option<usize>,
    /// How old a snapshot may become, those of iterators and transactions included, before its reads fail with `Error::SnapshotExpired`
    /// and what it kept is given up. `None`: as old as its owner likes; `Stats::oldest_snapshot` shows one that was forgotten.
    pub snapshot_age_limit: Option<Duration>,
    /// Bytes a second that merges and the writing out of full memory may write together, so that they leave the rest of the disk to
    /// others; what writers wait for goes first. Writers are slowed to what it carries, smoothly: what each byte of theirs costs
    /// there is `Stats::write_amplification`, and a store with a limit below what is written to it, times that, is as slow. `None`: no
    /// limit. The log does not count. `Db::set_background_write_limit` changes it.
    pub background_write_limit: Option<u64>,
    /// Bytes that one memory generation takes of new writes before it is written out; up to three are in memory. More takes larger
    /// bursts at full speed and merges less; out of it come fewer and longer runs. At most a sixth of `memory_budget`. `None`
    /// takes a twelfth up to 32 MiB, and up to 64 MiB where that is a sixty-fourth.
    pub write_buffer: Option<u64>,
    /// How memory keeps the keys of new writes.
    pub memory_component: MemoryComponent,
    /// Whether reads ask one maplet at each node of the tree which files may have a key, instead of a filter for each file. Without
    /// them a store is a few percent smaller and loads write a little less; gets of absent keys take two to five times as long.
    pub maplets: bool,
    /// Recover as after a power loss even if the log was written in this life of the machine, or its shared memory is gone.
    pub force_cut: bool,
    /// Where writes go before they are on the disk.
    pub log_memory: LogMemory,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_budget: None,
            durability: Durability::Buffered,
            sync_interval: Some(Duration::from_millis(100)),
            compression: Compression::None,
            create_if_missing: true,
            background_threads: None,
            snapshot_age_limit: None,
            background_write_limit: None,
            write_buffer: None,
            memory_component: MemoryComponent::TwoLevel,
            maplets: true,
            force_cut: false,
            log_memory: LogMemory::Auto,
        }
    }
}

/// How one write is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// `None` takes the store's.
    pub durability: Option<Durability>,
}

impl WriteOptions {
    /// On the disk when the call returns.
    pub fn sync() -> Self {
        Self { durability: Some(Durability::Sync) }
    }
}
