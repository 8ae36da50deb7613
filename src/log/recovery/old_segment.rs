//! A log file that an earlier log epoch left.

use crate::util::{FileNumber, SequenceNumber};

/// A log file of an earlier generation, or one without a use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSegment {
    /// The file's name.
    pub name: String,
    /// The number in its name.
    pub number: FileNumber,
    /// Its generation; 0 where it has none.
    pub epoch: u64,
    /// The greatest number in it that was applied; zero where it holds nothing that is needed.
    pub last: SequenceNumber,
    /// The file's length.
    pub bytes: u64,
    /// Bytes of its records that were applied.
    pub used: u64,
    /// It holds nothing that is needed.
    pub unused: bool,
}
