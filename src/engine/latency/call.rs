//! The kinds of calls whose latency is measured. Plain data.

use std::fmt;

/// A kind of call; see `Latencies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// A read of one key: `get` and its variants, `contains_key`, also at a snapshot or inside a transaction.
    Get,
    /// A put, delete, merge or range delete, or a whole batch of them.
    Write,
    /// A read-modify-write of one key: `update`, `compare_and_swap`, `put_if_absent`, `take`.
    Update,
    /// The commit of a transaction, without the reads before it.
    Commit,
    /// Making the log durable. Several writers may wait for one sync.
    Sync,
}

impl Call {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Get, Self::Write, Self::Update, Self::Commit, Self::Sync];

    /// Its place in `ALL`.
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Get => "get",
            Self::Write => "write",
            Self::Update => "update",
            Self::Commit => "commit",
            Self::Sync => "sync",
        })
    }
}
