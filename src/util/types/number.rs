//! Types for numbers that must not be mixed up: sequence numbers, file numbers, the database id. Any thread.

use std::fmt;

/// The position of a write in the one total order of the store; dense, starting at 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(pub u64);

impl SequenceNumber {
    /// Before every write.
    pub const ZERO: Self = Self(0);
    /// After every write: a read at `MAX` sees the newest version.
    pub const MAX: Self = Self(u64::MAX >> 8);

    /// The next number.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a file of the store. Never reused, whatever the kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(pub u64);

impl fmt::Display for FileNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

/// Drawn at random when a store is created. Part of every file's checksums, so that a file of another store is never
/// accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseId(pub u64);

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Assigns file numbers. Shared by everything that creates files. Any thread.
#[derive(Debug, Default)]
pub struct FileNumbers(crate::util::sync::AtomicU64);

impl FileNumbers {
    /// The first assigned number is `next`.
    pub fn new(next: FileNumber) -> Self {
        Self(crate::util::sync::AtomicU64::new(next.0))
    }

    /// A number that no file has.
    pub fn take(&self) -> FileNumber {
        FileNumber(self.0.fetch_add(1, crate::util::sync::Ordering::Relaxed))
    }

    /// Every number from this one on is unused; recorded as `next_file` by manifest edits.
    pub fn next(&self) -> FileNumber {
        FileNumber(self.0.load(crate::util::sync::Ordering::Relaxed))
    }
}
