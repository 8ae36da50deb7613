//! What a read-modify-write does to a key.

/// What becomes of a key: the answer of the function that `Db::update_with` calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// This is its new value.
    Put(Vec<u8>),
    /// It goes. Where it is absent, nothing is written.
    Delete,
    /// It stays as it is; nothing is written.
    Keep,
}

/// What came of `Db::compare_and_swap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The key had the value that was expected, and has the new one.
    Done,
    /// The key has another value, or none, and keeps it.
    Differs(Option<Vec<u8>>),
}

impl Swap {
    /// Whether the swap happened.
    pub fn is_done(&self) -> bool {
        *self == Self::Done
    }
}
