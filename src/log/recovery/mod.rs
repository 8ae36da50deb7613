//! Reads the log back (`docs/recovery.md`, R), before the store is open.
//!
//! `recover` reads and checks every record and decides which count. The caller makes the edit durable in the manifest
//! before it creates the next log epoch, adopts the segments or lets anyone see the store. It takes the records
//! themselves from `LogContents`, a range of numbers at a time, so that it controls how many are in memory at once.
//!
//! Invariants:
//! 1. A log epoch that an edit covers is read only through that edit. At most one log epoch, the newest, has none.
//! 2. Nothing is written before everything was checked, so a failed opening changes nothing. Then what only shadows
//!    have is copied to their segments, and these are synced: the data behind a decision is durable before the edit
//!    that relies on it. A log that a failed sync has poisoned is read past the page cache, which may hold bytes that
//!    the disk does not.
//! 3. In the same life a chunk ends at its first bad header, and no valid header may follow. A good header with a bad
//!    body is no torn record either, since the header is sealed after the body.
//! 4. Neither the decision nor the reported error depends on the number of threads that read.
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
mod tail;
#[cfg(test)]
mod tests;
mod write_back;

pub use check::Show;
pub use contents::LogContents;
pub use input::{Access, RecoveryInput};
pub use missing::missing_edits;
pub use old_segment::OldSegment;
pub use recover::{Recovered, recover};
pub use scan::SegmentFile;
pub use tail::{LiveSegment, Tail, TailRange};
