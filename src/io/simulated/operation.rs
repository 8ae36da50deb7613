//! The kinds of operations that a simulated disk counts, fails and crashes before. Plain data.

use std::fmt;
use std::time::Duration;

/// The kinds of operations. Reading the life or the clock, preparing mapped pages and releasing a lock are not among
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `create_directory`
    CreateDirectory,
    /// `remove_directory`
    RemoveDirectory,
    /// `list`, `directory_exists`
    List,
    /// `open` of a file that exists
    Open,
    /// `open` of a file that does not
    Create,
    /// `map`
    Map,
    /// `length`
    Length,
    /// `read_exact_at`
    Read,
    /// `write_all_at`
    Write,
    /// `set_length`
    SetLength,
    /// `sync` of a file
    Sync,
    /// `sync` of a mapping
    MapSync,
    /// `check_writeback` of a mapping
    CheckWriteback,
    /// `rename`
    Rename,
    /// `link_into`
    Link,
    /// `remove`
    Remove,
    /// `sync_directory`
    SyncDirectory,
    /// `lock`
    Lock,
}

impl Operation {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 18] = [
        Self::CreateDirectory,
        Self::RemoveDirectory,
        Self::List,
        Self::Open,
        Self::Create,
        Self::Map,
        Self::Length,
        Self::Read,
        Self::Write,
        Self::SetLength,
        Self::Sync,
        Self::MapSync,
        Self::CheckWriteback,
        Self::Rename,
        Self::Link,
        Self::Remove,
        Self::SyncDirectory,
        Self::Lock,
    ];

    /// Its word in a fault expression.
    pub fn word(self) -> &'static str {
        match self {
            Self::CreateDirectory => "create-directory",
            Self::RemoveDirectory => "remove-directory",
            Self::List => "list",
            Self::Open => "open",
            Self::Create => "create",
            Self::Map => "map",
            Self::Length => "length",
            Self::Read => "read",
            Self::Write => "write",
            Self::SetLength => "set-length",
            Self::Sync => "sync",
            Self::MapSync => "map-sync",
            Self::CheckWriteback => "check-writeback",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Remove => "remove",
            Self::SyncDirectory => "sync-directory",
            Self::Lock => "lock",
        }
    }

    /// For error messages.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::CreateDirectory => "create directory",
            Self::RemoveDirectory => "remove directory",
            Self::List => "list",
            Self::Open => "open",
            Self::Create => "create",
            Self::Map => "map",
            Self::Length => "read the length of",
            Self::Read => "read",
            Self::Write => "write",
            Self::SetLength => "set the length of",
            Self::Sync | Self::MapSync => "sync",
            Self::CheckWriteback => "write back",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Remove => "remove",
            Self::SyncDirectory => "sync directory",
            Self::Lock => "lock",
        }
    }

    /// By how much the simulated clock advances: about the duration on a flash disk.
    pub(super) fn time(self) -> Duration {
        Duration::from_micros(match self {
            Self::Sync | Self::MapSync | Self::SyncDirectory => 100,
            Self::Read => 40,
            Self::Write => 20,
            _ => 5,
        })
    }

    /// Whether a failure may leave a part of it done, unless the fault says otherwise.
    pub(super) fn has_parts(self) -> bool {
        matches!(self, Self::Write | Self::Sync | Self::MapSync | Self::SyncDirectory)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
