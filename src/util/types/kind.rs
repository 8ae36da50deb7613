//! The kinds of entries, with their on-disk values. Plain data.

/// What an entry means for its key. The values are part of the on-disk formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// The key has this value.
    Put = 1,
    /// The key is deleted (a tombstone).
    Delete = 2,
    /// Every key of a range is deleted. Never an entry among others: range tombstones are stored separately.
    RangeDelete = 3,
    /// A merge operand, to be folded onto the older value.
    Merge = 4,
    /// The key's value is in a value file; the entry contains a reference to it.
    ValueReference = 5,
    /// A number without data.
    Void = 6,
    /// Several operations under one number.
    Batch = 7,
}

impl Kind {
    /// The kind with this on-disk value; `None` if it is unknown.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Put,
            2 => Self::Delete,
            3 => Self::RangeDelete,
            4 => Self::Merge,
            5 => Self::ValueReference,
            6 => Self::Void,
            7 => Self::Batch,
            _ => return None,
        })
    }
}
