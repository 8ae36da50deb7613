//! The kinds of entries, with the values they have on disk.

/// What an entry says about its key. The values are part of the on-disk formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// The key has this value.
    Put = 1,
    /// The key is gone (a tombstone).
    Delete = 2,
    /// Every key of a range is gone. Never an entry among others: range tombstones stand beside the entries.
    RangeDelete = 3,
    /// An operand to be folded into the value below.
    Merge = 4,
    /// The key's value lies in a value file; the entry holds a reference to it.
    ValueReference = 5,
    /// A number that carries no data.
    Void = 6,
    /// Several operations under one number.
    Batch = 7,
}

impl Kind {
    /// The kind with this on-disk value, or `None` where no version of the format knows it.
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
