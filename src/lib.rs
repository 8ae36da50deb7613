//! Alluvium is an embedded, persistent, ordered key-value store. It stores pairs of byte strings in a directory, in the
//! byte order of their keys.
//!
//! [`Db`] is an open store. It has point reads and writes, atomic batches ([`WriteBatch`]), snapshots ([`Snapshot`]),
//! iterators in both directions ([`Iter`]), atomic read-modify-write operations and serializable transactions
//! ([`Db::transact`]). All its methods may be called from any thread. One process at a time may write to a store; others
//! may read it with [`ReadOnlyDb`].
//!
//! A write that has returned survives the death of the process. After a power loss the store is as it was at one moment,
//! with everything that was synced; [`Durability`] and [`Db::sync`] control that. Every method returns [`Error`] on
//! failure; its text says what failed, where, and what to do.
//!
//! ```
//! use alluvium::{Db, Options, WriteBatch};
//!
//! # fn main() -> alluvium::Result<()> {
//! let path = std::env::temp_dir().join(format!("alluvium-crate-{}", std::process::id()));
//! let db = Db::open(&path, Options::default())?;
//! db.put("river/danube", "Black Sea")?;
//!
//! let mut batch = WriteBatch::new(); // applied completely or not at all
//! batch.put("river/elbe", "North Sea").put("river/rhine", "North Sea");
//! db.write(batch)?;
//!
//! assert_eq!(db.get("river/elbe")?.as_deref(), Some("North Sea".as_bytes()));
//! for pair in db.prefix("river/")? {
//!     let (key, value) = pair?;
//!     println!("{} flows to the {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
//! }
//! db.close()?;
//! # Db::destroy(&path)
//! # }
//! ```
//!
//! # Where to read on
//!
//! - [`Options`] has the settings of a store, [`WriteOptions`] those of a write, [`limits`] the largest sizes.
//! - [`storage`] is the interface to files and to the clock, for programs that replace it.
//! - In the repository: `README.md` (an overview), `docs/guarantees.md` (what is promised, and the tests for it),
//!   `ARCHITECTURE.md` (the modules, and the paths of a put and a get), `docs/concurrency.md`, `docs/recovery.md` and
//!   `docs/format/` (the files, byte by byte).
//!
//! # Features
//!
//! - `async`: `AsyncDb`, whose methods are futures.
//! - `metrics`: `Db::publish_metrics` passes the figures of a store to the crate `metrics`.
//! - `tracing`: `TracingListener` passes the events of a store to the crate `tracing`.
//! - `zstd`: `Compression::Zstd`.
//! - `testing`: the simulated disk, and other interfaces that only tests use. They may change at any time.
//! - `planted-bugs`, `model-checking`: deliberate bugs, and locks that a model checker schedules, for the tests of this repository.

#[cfg(feature = "async")]
mod aio;
mod branch;
mod cache;
mod changes;
mod db;
mod disk;
mod engine;
mod filter;
mod format;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod internals;
mod io;
mod log;
mod manifest;
mod memory;
mod merge;
mod util;
mod value;

#[cfg(feature = "async")]
pub use aio::{
    AsyncChanges, AsyncDb, AsyncKeyspace, AsyncSnapshot, AsyncStagedBatch, AsyncStagedKeyspace, AsyncTransaction,
    AsyncTransactionKeyspace, Scan, StagedScan, TransactionScan,
};
#[cfg(feature = "tracing")]
pub use db::TracingListener;
pub use db::{
    BackgroundKind, BackgroundPause, BackgroundTask, BackupInfo, BackupOptions, BackupReport, BackupVerification,
    Backups, BatchKeyspace, BranchFile, Call, Cancellation, Change, ChangeRetention, Changes, CheckProgress,
    CheckpointOptions, CheckpointReport, CommittedWrite, CompactOptions, CompactProgress, CompactReport, Compression,
    ConvertReport, Db, Depth, DiskComponent, Durability, Event, EventListener, Goal, Ingest, IngestReport, Iter,
    KeyRange, Keys, Keyspace, KeyspaceChange, KeyspaceOptions, Latencies, Latency, LevelFilters, LevelStats,
    LevelsOptions, LiveStats, Loss, LostKeys, MemoryComponent, Operation, Operations, Options, Pinned, PinnedPairs,
    ReadOnlyDb, Readable, RemoveReport, RepairReport, Resources, ResourcesBuilder, RestoreReport, Savepoint, Snapshot,
    StagedBatch, StagedIter, StagedKeys, StagedKeyspace, Stats, Swap, TransactOptions, Transaction, TransactionIter,
    TransactionKeys, TransactionKeyspace, Verification, VerifyReport, WriteBatch, WriteOptions,
};
pub use merge::{CompactionFilter, FilterDecision, FilterPair, MergeOperator};
pub use util::fork::ForkCount;
pub use util::{Error, Result};

/// Merge operators for common purposes, and one that is made of a function; see [`MergeOperator`].
pub mod merge_operators {
    pub use crate::merge::operator::{Add, Append, Associative, BitOr, Max, Min, named};
}

/// The interface between a store and its environment: files, locks and the clock.
///
/// [`Db::open`] uses [`PosixStorage`](storage::PosixStorage). A program may implement [`Storage`](storage::Storage)
/// itself and pass it to [`Db::open_with`]. A storage is one directory with plain file names. All its methods may be
/// called from any thread, and their errors contain the path and the operation.
pub mod storage {
    #[cfg(any(test, feature = "testing"))]
    pub use crate::io::simulated;
    pub use crate::io::{
        AlignedBuffer, Clock, Life, LockGuard, LockMode, LockPart, MappedFile, MemoryStorage, OpenMode, PendingReads,
        PosixStorage, ReadDone, ReadRequest, Storage, StorageFile, SystemClock,
    };
}

/// The largest keys, values and batches. A larger one is an [`Error::InvalidArgument`].
///
/// ```
/// use alluvium::{Error, limits};
/// let db = alluvium::Db::open_temporary(alluvium::Options::default())?;
/// db.put(vec![7; limits::KEY_BYTES_MAX], "the longest key")?;
/// let longer = vec![7; limits::KEY_BYTES_MAX + 1];
/// assert!(matches!(db.put(longer, ""), Err(Error::InvalidArgument(_))));
/// # Ok::<(), alluvium::Error>(())
/// ```
pub mod limits {
    pub use crate::util::limits::{BATCH_BYTES_MAX, FREEING_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
}

/// The types that any thread may use and own, checked by the compiler.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    const fn is_sent<T: Send>() {}
    is_shared::<Db>();
    is_shared::<ReadOnlyDb>();
    is_shared::<Snapshot>();
    is_shared::<Transaction>();
    is_shared::<Savepoint>();
    is_shared::<Iter>();
    is_shared::<Keys>();
    is_shared::<PinnedPairs>();
    is_sent::<TransactionIter<'_>>();
    is_sent::<TransactionKeys<'_>>();
    is_shared::<StagedBatch>();
    is_sent::<StagedIter<'_>>();
    is_sent::<StagedKeys<'_>>();
    is_shared::<Pinned>();
    is_shared::<WriteBatch>();
    is_shared::<Operations<'_>>();
    is_shared::<Options>();
    is_shared::<WriteOptions>();
    is_shared::<TransactOptions>();
    is_shared::<CompactOptions>();
    is_shared::<CheckpointOptions>();
    is_shared::<CheckpointReport>();
    is_shared::<BackupOptions>();
    is_shared::<Backups>();
    is_shared::<Cancellation>();
    is_sent::<Ingest>();
    is_shared::<BackgroundPause>();
    is_shared::<Resources>();
    is_shared::<ResourcesBuilder>();
    is_shared::<Stats>();
    is_shared::<Error>();
    is_shared::<storage::PosixStorage>();
    is_shared::<storage::MemoryStorage>();
    #[cfg(feature = "async")]
    {
        is_shared::<AsyncDb>();
        is_shared::<AsyncKeyspace>();
        is_shared::<AsyncSnapshot>();
        is_shared::<AsyncTransaction>();
        is_shared::<AsyncTransactionKeyspace<'_>>();
        is_sent::<Scan>();
        is_sent::<TransactionScan<'_>>();
    }
};

/// Makes the README's example a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
