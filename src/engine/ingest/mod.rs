//! Ingest: sorted pairs that enter the disk component without having been in log and memory (`docs/concurrency.md`, I;
//! `docs/recovery.md`, I).

pub(crate) mod deleted_ranges;
mod in_memory;
pub(crate) mod ingestion;
mod key_spans;
mod report;

pub use report::IngestReport;
