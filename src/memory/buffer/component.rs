//! The kinds of memory component. Plain data, any thread.

/// How the memory component stores the keys of new writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryComponent {
    /// FloDB's two levels: the Membuffer takes writes and updates in place, and sorting is delayed until it is needed.
    /// The default.
    #[default]
    TwoLevel,
    /// One level, as in cLSM and in Kanda's memory runs: every write searches its position in a skiplist, and an update
    /// adds a version.
    Skiplist,
}
