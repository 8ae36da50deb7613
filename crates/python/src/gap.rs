//! Where an iterator stands: between two pairs, not on one, as plyvel's do.

/// A place between two pairs, or at an end of the range.
#[derive(Clone, Debug)]
pub enum Gap {
    /// Before the first pair.
    Start,
    /// Behind the last.
    Stop,
    /// Right before a key.
    Before(Vec<u8>),
    /// Right behind one.
    After(Vec<u8>),
}

/// Which way a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To larger keys.
    Forward,
    /// To smaller ones.
    Backward,
}

impl Way {
    /// The way that an iterator goes.
    pub fn new(reverse: bool) -> Self {
        if reverse { Self::Backward } else { Self::Forward }
    }

    /// The other one.
    pub fn turned(self) -> Self {
        Self::new(self == Self::Forward)
    }

    /// Where a walk over everything begins.
    pub fn beginning(self) -> Gap {
        match self {
            Self::Forward => Gap::Start,
            Self::Backward => Gap::Stop,
        }
    }

    /// The gap that a step over a key leads to.
    pub fn past(self, key: &[u8]) -> Gap {
        match self {
            Self::Forward => Gap::After(key.to_vec()),
            Self::Backward => Gap::Before(key.to_vec()),
        }
    }
}
