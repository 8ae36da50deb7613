//! A log file that an earlier log epoch left.

use crate::util::{FileNumber, SequenceNumber};

/// A log file of an earlier log epoch, or one that nothing needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSegment {
    /// The file's name.
    pub name: String,
    /// The number in its name.
    pub number: FileNumber,
    /// Its log epoch; 0 if it has none.
    pub epoch: u64,
    /// The greatest number in it that was applied; zero if nothing in it is needed.
    pub last: SequenceNumber,
    /// The file's length.
    pub bytes: u64,
    /// Bytes of its records that were applied.
    pub used: u64,
    /// A file in which nothing is needed.
    pub unused: bool,
}
