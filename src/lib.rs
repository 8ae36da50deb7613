//! Alluvium: an embedded, persistent, ordered key-value store.

#[cfg(feature = "async")]
mod aio;
mod branch;
mod cache;
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
pub use aio::{AsyncDb, AsyncSnapshot, Scan};
pub use db::{
    BackgroundKind, BackgroundPause, BackgroundTask, BranchFile, Cancellation, Change, CheckProgress, CompactOptions,
    CompactProgress, CompactReport, Compression, Db, Depth, Durability, Goal, Iter, Keys, LevelStats, LiveStats,
    LogMemory, Loss, LostKeys, MemoryComponent, Options, Pinned, PinnedPairs, ReadOnlyDb, RepairReport, Savepoint,
    Snapshot, Stats, Swap, TransactOptions, Transaction, TransactionIter, TransactionKeys, Verification, VerifyReport,
    WriteBatch, WriteOptions,
};
pub use util::fork::ForkCount;
pub use util::{Error, Result};

/// The storage below a store, for those who bring their own (`Db::open_with`).
pub mod storage {
    #[cfg(any(test, feature = "testing"))]
    pub use crate::io::simulated;
    pub use crate::io::{
        AlignedBuffer, Clock, Life, LockGuard, LockMode, LockPart, MappedFile, OpenMode, PendingReads, PosixStorage,
        ReadDone, ReadRequest, SharedMemory, Storage, StorageFile, SystemClock,
    };
}

/// The largest keys, values and batches.
pub mod limits {
    pub use crate::util::limits::{BATCH_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
}

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
