//! Reads the log back (`docs/recovery.md`, R), before the store is open; changes no byte of the log.
//!
//! `recover` reads and checks every record and decides which count. The caller makes the edit durable in the manifest before it
//! creates the next generation, adopts the segments or lets anyone see the store. The records themselves it takes from
//! `LogContents`, a range of numbers at a time, so that it decides how many are in memory at once.
//!
//! Invariants:
//! 1. A generation that an edit covers is read only through that edit. At most one generation, the newest, has none.
//! 2. Segments are synced before they are read, so what is decided here is durable before the edit that relies on it.
//!    A log that a failed sync has poisoned is read past the page cache, which may hold bytes that the disk has not.
//! 3. In the same life a chunk ends at its first bad header, and then nothing that parses may stand behind that; a
//!    good header with a bad body is no torn record either, since the header is sealed after the body.
//! 4. What is decided, and which error is told, does not depend on how many threads read.
//! 5. Memory: a chunk for each thread, and a few bytes for each record (`numbers`).

mod check;
mod chunk;
mod contents;
mod input;
mod missing;
mod numbers;
mod old_segment;
mod recover;
mod rule;
mod scan;
#[cfg(test)]
mod tests;

pub use contents::LogContents;
pub use input::{Access, RecoveryInput};
pub use old_segment::OldSegment;
pub use recover::{Recovered, recover};
