//! The log: per-thread chunks of one mapped segment file (SplinterDB §5, per-thread write-ahead logs; cLSM §4, recovery
//! sorts records that are out of order).
//!
//! Any thread may call anything; a `LogWriter` belongs to one thread at a time. `make_ready` and `finish` are for the
//! log threads. The modules:
//!
//! - `writer`: the write path; no lock, and a system call only at the end of a chunk.
//! - `segment`: a mapped file and the owners of its chunks.
//! - `maintenance`: makes the next segment ready; seals retired segments; recycling. `sizing`: how large segments are.
//! - `shadow`: the newest part of the log, in files that are never synced; `writeback` copies it to the segments.
//! - `group_sync`: one sync, or one write, for many writers; closing.
//! - `files`: making and reusing files. `basics`: names, sizes, owners of chunks, groups of waiting threads.
//! - `new_segment`: makes segments and names them in the manifest. `halt`: what stops the log. `poison`: the mark of a
//!   failed sync.
//! - `recovery`: reads the log back; needs no `Log`. `tail`: the same while it is written.
//! - `salvage`: reads as much as possible, for `verify` and repair.
//!
//! Invariants, in addition to those of the modules:
//! 1. The states of a segment are current (or dedicated), retiring, sealed, free or removed; they change under the
//!    state lock. Every sealed record is in a segment that is current, dedicated or retiring, or in one that was synced
//!    after its last record was sealed (the state *sealed*). So a sync that waits until all numbers `<= n` are sealed
//!    and *then* lists and syncs the current, dedicated and retiring segments has made all records `<= n` durable.
//! 2. The order of locks is making, sealing, sync, state. No thread waits for the disk under the state lock.
//! 3. `synced` and the marks only rise, and are written only after the sync has returned.

mod basics;
mod files;
mod group_sync;
mod halt;
#[allow(clippy::module_inception)]
mod log;
mod log_task;
mod maintenance;
mod new_segment;
mod poison;
pub mod recovery;
pub mod salvage;
mod segment;
mod settings;
mod shadow;
mod sizing;
mod tail;
mod writer;

pub use basics::names::{POISON, Role, file_name, parse_file_name};
pub use log::Log;
pub use log_task::LogTask;
pub use poison::read_poison;
pub use recovery::{Access, LogContents, Recovered, RecoveryInput, Tail, missing_edits, recover};
pub use settings::{LogIdentity, LogOptions, LogResources, NameSegment, WakeLog};
pub use writer::LogWriter;

#[cfg(test)]
mod tests;
