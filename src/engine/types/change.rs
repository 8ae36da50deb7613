//! Decision and outcome of a read-modify-write.

/// What `Db::update_with` does to a key. The caller's function returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets the key to this value.
    Put(Vec<u8>),
    /// Deletes the key. Nothing is written if the key is absent.
    Delete,
    /// Leaves the key as it is. Nothing is written.
    Keep,
}

/// Outcome of `Db::compare_and_swap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The key had the expected value. It has the new value now.
    Done,
    /// The key has a different value, given here, or is absent (`None`). Nothing was written.
    Differs(Option<Vec<u8>>),
}

impl Swap {
    /// Whether the new value was written.
    pub fn is_done(&self) -> bool {
        *self == Self::Done
    }
}
