//! Change files: committed writes in the order of their numbers, for followers (`format/change_file.rs`). One thread writes
//! them, copying what the log has before the log drops it; any thread reads them.
//!
//! Invariants:
//! 1. A file has every write from its `after` to the `through` of its last frame, in order. The next file begins there.
//! 2. Frames are appended whole. What a reader may read ends where the writer says, or, for a reader in another process and
//!    after a crash, in front of the first frame that is not valid.
//! 3. Only durable writes are in a file, whether the file itself is synced or not. So no crash takes a write back that a
//!    follower has seen.

mod names;
mod reader;
mod writer;

pub use names::Names;
pub use reader::{ChangeReader, Frame, claimed_owner};
pub use writer::ChangeWriter;

use crate::util::FileNumber;

const SUFFIX: &str = ".changes";

/// The name of a change file.
pub fn change_file_name(file: FileNumber) -> String {
    format!("{file}{SUFFIX}")
}

/// The number in the name of a change file; `None` if it is another name.
pub fn parse_change_file_name(name: &str) -> Option<FileNumber> {
    let number = FileNumber(name.strip_suffix(SUFFIX)?.parse().ok()?);
    (change_file_name(number) == name).then_some(number)
}

#[cfg(test)]
mod tests;
