//! The kinds of memory component.

/// How the memory component keeps the keys of new writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryComponent {
    /// FloDB's two levels: a hash table takes the writes and updates them in place; order is made when it is needed. The default.
    #[default]
    TwoLevel,
    /// One level, as in cLSM and Kanda's memory runs: every write searches its place in a skiplist, and an update is a new version.
    Skiplist,
}
