//! Layer 7: the public types. Each is a thin handle on the machinery in `engine`.

mod changes;
mod closed;
#[allow(clippy::module_inception)]
mod db;
#[cfg(any(test, feature = "testing"))]
mod deterministic;
pub(crate) mod iter;
mod iter_adapters;
mod keyspace;
mod keyspaces;
mod maintenance;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "async")]
mod nonblocking;
mod open_store;
#[cfg(test)]
mod page_reads_tests;
mod read_only;
mod readable;
pub(crate) mod snapshot;
mod staged_batch;
pub(crate) mod transaction;
mod within;

pub use crate::branch::Compression;
pub use crate::engine::ingest::IngestReport;
pub use crate::engine::latency::{Call, Latencies, Latency};
pub use crate::engine::read::pinned_value::Pinned;
pub use crate::engine::resources::resources::{Resources, ResourcesBuilder};
pub use crate::engine::scheduler::pause::BackgroundPause;
pub use crate::engine::tools::backup::{
    BackupInfo, BackupOptions, BackupReport, BackupVerification, Backups, RemoveReport, RestoreReport,
};
pub use crate::engine::tools::checkpoint::{CheckpointOptions, CheckpointReport};
pub use crate::engine::types::batch::{Operation, Operations, WriteBatch};
pub use crate::engine::types::change::{Change, Swap};
pub use crate::engine::types::compaction::{Cancellation, CompactOptions, CompactProgress, CompactReport, Goal};
pub use crate::engine::types::conversion::ConvertReport;
#[cfg(feature = "tracing")]
pub use crate::engine::types::events::TracingListener;
pub use crate::engine::types::events::{Event, EventListener};
pub use crate::engine::types::key_range::KeyRange;
pub use crate::engine::types::options::{
    ChangeRetention, DiskComponent, Durability, LevelFilters, LevelsOptions, MemoryComponent, Options, WriteOptions,
};
pub use crate::engine::types::repair_report::{Loss, LostKeys, RepairReport};
pub use crate::engine::types::stats::{BackgroundKind, BackgroundTask, BranchFile, LevelStats, LiveStats, Stats};
pub use crate::engine::types::verification::{CheckProgress, Depth, Verification, VerifyReport};
pub use changes::{Changes, CommittedWrite, KeyspaceChange};
pub use db::Db;
#[cfg(any(test, feature = "testing"))]
pub use deterministic::{DeterministicDb, LogOnlyWriter, open_small, open_tuned};
pub use iter::Iter;
pub use iter_adapters::{Keys, PinnedPairs};
pub use keyspace::{Ingest, Keyspace, KeyspaceOptions};
pub use read_only::ReadOnlyDb;
pub use readable::Readable;
pub use snapshot::Snapshot;
pub use staged_batch::{StagedBatch, StagedIter, StagedKeys, StagedKeyspace};
pub use transaction::{Savepoint, TransactOptions, Transaction, TransactionIter, TransactionKeys, TransactionKeyspace};
pub use within::BatchKeyspace;
