//! The log: per-thread chunks of one mapped segment file (SplinterDB §4, per-thread
//! write-ahead logs; cLSM §4, records out of order that recovery puts right).
//!
//! Any thread may call anything; a `LogWriter` belongs to one thread at a time. `make_ready` and `finish` are for
//! the log keepers' threads. The parts:
//!
//! - `writer`: the write path, no lock and no system call but at the end of a chunk.
//! - `segment`: a mapped file and who owns which chunk of it.
//! - `maintenance`: makes the next segment and pages ahead ready; seals retired segments; recycling.
//! - `shadow`: segments in shared memory; `write_out` brings them to their files, `shadow_reader` reads them back.
//! - `group_sync`: one `fdatasync` for many.
//! - `files`: names, making and reusing files.
//! - `making`: makes and names segments. `stopping`: what stops the log. `poison`: the mark of a failed sync.
//! - `recovery`: reads everything back; needs no `Log`.
//! - `salvage`: reads what can be read, for `verify` and repair.
//!
//! Invariants, beside those of the parts:
//! 1. A segment goes through current (or dedicated), retiring, sealed, free or gone, under the state lock. Every
//!    record sealed anywhere is in a segment that is current, dedicated or retiring, or in one that was synced after
//!    its last record was sealed (the state *sealed*). So a sync that waits until all numbers `<= n` are sealed and
//!    *then* lists and syncs current, dedicated and retiring segments has made all records `<= n` durable.
//! 2. Order of locks: making, sealing, sync, state. Nothing waits for the disk under the state lock.
//! 3. Numbers known as synced (`synced`, marks) only rise, and are written only after the sync returned.

mod chunk_owners;
mod files;
mod group_sync;
#[allow(clippy::module_inception)]
mod log;
mod log_task;
mod maintenance;
mod making;
mod poison;
pub mod recovery;
pub mod salvage;
mod segment;
mod settings;
mod shadow;
mod stopping;
mod writer;

pub use files::{POISON, Role, file_name, parse_file_name};
pub use log::Log;
pub use log_task::LogTask;
pub use poison::read_poison;
pub use recovery::{Access, LogContents, Recovered, RecoveryInput, recover};
pub use settings::{LogIdentity, LogOptions, NameSegment};
pub use shadow::remove_all as remove_shadows;
pub use writer::LogWriter;

#[cfg(test)]
mod tests;
