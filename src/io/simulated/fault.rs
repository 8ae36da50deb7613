//! Which operations there are, how often each was done, and which are to fail. Plain data under the disk's lock.

use std::io::ErrorKind;

/// The kinds of operations. Reading the life, preparing mapped pages and giving back a lock are none.
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
    /// `rename`
    Rename,
    /// `remove`
    Remove,
    /// `sync_directory`
    SyncDirectory,
    /// `lock`
    Lock,
}

impl Operation {
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
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::SyncDirectory => "sync directory",
            Self::Lock => "lock",
        }
    }
}

/// How often a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Once.
    Once,
    /// From the first time on for ever.
    Forever,
}

/// A failure to come.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kinds that it strikes; none means all.
    pub operations: Vec<Operation>,
    /// Only files whose name contains this (the operations on the directory have an empty name).
    pub name_contains: String,
    /// Which of the operations that fit, counted from 1.
    pub nth: u64,
    /// The error.
    pub kind: ErrorKind,
    /// Once or for ever.
    pub times: Times,
}

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Go,
    Fail(ErrorKind),
    Crash,
}

/// All faults and all counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    faults: Vec<Fault>,
    crash_in: Option<u64>,
    counts: [u64; Operation::Lock as usize + 1],
}

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) {
        assert!(fault.nth > 0, "faults count from 1");
        self.faults.push(fault);
    }

    pub(super) fn crash_at(&mut self, nth: u64) {
        assert!(nth > 0, "operations count from 1");
        self.crash_in = Some(nth);
    }

    pub(super) fn clear(&mut self) {
        self.faults.clear();
        self.crash_in = None;
    }

    pub(super) fn count(&self, operation: Operation) -> u64 {
        self.counts[operation as usize]
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Counts an operation and judges it. The first fault that strikes decides; the others count it all the same.
    pub(super) fn judge(&mut self, operation: Operation, name: &str) -> Verdict {
        if let Some(left) = &mut self.crash_in {
            *left -= 1;
            if *left == 0 {
                self.crash_in = None;
                return Verdict::Crash;
            }
        }
        self.counts[operation as usize] += 1;
        let mut verdict = Verdict::Go;
        self.faults.retain_mut(|fault| {
            let fits = (fault.operations.is_empty() || fault.operations.contains(&operation))
                && name.contains(&fault.name_contains);
            if !fits {
                return true;
            }
            if fault.nth > 1 {
                fault.nth -= 1;
                return true;
            }
            if verdict == Verdict::Go {
                verdict = Verdict::Fail(fault.kind);
            }
            fault.times == Times::Forever
        });
        verdict
    }
}
