//! Ingest: sorted pairs that enter the disk component without having been in log and memory (`docs/concurrency.md`, I;
//! `docs/recovery.md`, I).

mod in_memory;
pub(crate) mod ingestion;
mod report;

pub use report::IngestReport;
