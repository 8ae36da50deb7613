//! Alluvium: an embedded, persistent, ordered key-value store.
//!
//! [`Db`] opens a store and has all its operations: puts, deletes, atomic [`WriteBatch`]es and read-modify-writes, gets and
//! range scans ([`Iter`]), consistent [`Snapshot`]s, and optimistic [`Transaction`]s. [`Options`] configures a store.
//! [`ReadOnlyDb`] reads a store that another process writes. Keys are ordered bytewise.

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

/// The interface to files, clocks and locks, for storage implementations of the caller (`Db::open_with`).
pub mod storage {
    #[cfg(any(test, feature = "testing"))]
    pub use crate::io::simulated;
    pub use crate::io::{
        AlignedBuffer, Clock, Life, LockGuard, LockMode, LockPart, MappedFile, OpenMode, PendingReads, PosixStorage,
        ReadDone, ReadRequest, SharedMemory, Storage, StorageFile, SystemClock,
    };
}

/// Maximum sizes of keys, values and batches, in bytes.
pub mod limits {
    pub use crate::util::limits::{BATCH_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
}

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
