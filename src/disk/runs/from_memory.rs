//! The input of an incorporation. One thread.

use crate::merge::{Cursor, RangeTombstones};
use crate::util::SequenceNumber;

/// What moves from memory into the disk component.
pub struct FromMemory<'a> {
    /// Every entry up to `through` that the disk component lacks, except those of older generations.
    pub entries: &'a mut dyn Cursor,
    /// The range tombstones that belong to the same numbers.
    pub tombstones: &'a RangeTombstones,
    /// The last number among them, or one after it.
    pub through: SequenceNumber,
    /// Whether no older generation is in memory.
    pub is_oldest: bool,
}
