//! Alluvium: an embedded, persistent, ordered key-value store.

#[cfg(feature = "async")]
mod aio;
pub mod base;
mod branch;
mod cache;
mod db;
mod disk;
mod filter;
mod format;
pub mod io;
mod log;
mod manifest;
mod memory;
mod merge;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod parts;
mod value;

#[cfg(feature = "async")]
pub use aio::{AsyncDb, AsyncSnapshot, Scan};
pub use base::{Error, Result};
pub use db::{
    BackgroundKind, BackgroundPause, BackgroundTask, BranchFile, Cancellation, Change, CheckProgress, CompactOptions,
    CompactProgress, CompactReport, Compression, Db, Depth, Durability, Goal, Iter, Keys, LevelStats, LiveStats,
    LogMemory, Loss, LostKeys, MemoryComponent, Options, Pinned, PinnedPairs, ReadOnlyDb, RepairReport, Savepoint,
    Snapshot, Stats, Swap, TransactOptions, Transaction, TransactionIter, TransactionKeys, Verification, VerifyReport,
    WriteBatch, WriteOptions,
};

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
