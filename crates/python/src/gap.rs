//! The position of an iterator: between two pairs, not on one, like plyvel's.

/// A position between two pairs, or at an end of the range.
#[derive(Clone, Debug)]
pub enum Gap {
    /// Before the first pair.
    Start,
    /// After the last pair.
    Stop,
    /// Right before a key.
    Before(Vec<u8>),
    /// Right after a key.
    After(Vec<u8>),
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To larger keys.
    Forward,
    /// To smaller keys.
    Backward,
}

impl Direction {
    /// Returns the direction of an iterator.
    pub fn new(reverse: bool) -> Self {
        if reverse { Self::Backward } else { Self::Forward }
    }

    /// Returns the opposite direction.
    pub fn reversed(self) -> Self {
        Self::new(self == Self::Forward)
    }

    /// Returns the start of a scan over everything.
    pub fn beginning(self) -> Gap {
        match self {
            Self::Forward => Gap::Start,
            Self::Backward => Gap::Stop,
        }
    }

    /// Returns the gap behind a key, in this direction.
    pub fn past(self, key: &[u8]) -> Gap {
        match self {
            Self::Forward => Gap::After(key.to_vec()),
            Self::Backward => Gap::Before(key.to_vec()),
        }
    }
}
