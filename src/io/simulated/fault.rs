//! Faults to come, written as expressions. Plain data; `faults` decides when they apply, `disk` what they do.
//!
//! ```text
//! faults     = fault { (";" | end of line) fault }
//! fault      = "(" operations { selector } ")" "->" effect
//! operations = "any" | operation { "," operation }           the words of `Operation::word`
//! selector   = "name=" text | "name~" text                   the file's name equals or contains this bare word or
//!                                                            "quoted" text
//!            | "nth=" n [ ".." [ n ] ]                       which matching operations, counted from 1: one, all from
//!                                                            one on, or all from one through another; otherwise all
//!            | "p=" fraction                                 of these only this fraction, chosen by the disk's seed
//! effect     = error [ "part=" ("none" | "some" | "all") ]   eio, enospc, emfile, eacces ...; how much is done anyway.
//!                                                            By default some, as the seed decides, of writes and
//!                                                            syncs, and none of other operations
//!            | "crash"       the process dies just before the operation
//!            | "flip"        read, write: one bit changes on the way
//!            | "rot"         one bit of the named file changes at rest
//!            | "misdirect"   read, write: goes to another offset or another file; sync: one sector does
//!            | "stale"       read: returns the state before the last sync; write: reported as done, but not done;
//!                            sync: reported as done, but some of it is not done
//!            | "write-back"  before the operation some dirty data reaches the disk, in any order, names too
//!            | "evict"       before the operation the page cache drops what it can: data that a sync lost disappears
//!            | "slow=" n ("us" | "ms" | "s")                 the simulated clock advances by this much more
//! ```
//!
//! For instance `(sync name=MANIFEST nth=2) -> eio`, `(any nth=17..) -> enospc`, `(read,write name~.branch p=0.01) ->
//! misdirect`. A slow disk is `(sync,map-sync,sync-directory) -> slow=5ms; (read,write) -> slow=200us`. If several
//! faults apply to one operation, the first error counts, and the other effects still happen.

use super::operation::Operation;
use std::fmt;
use std::time::Duration;

/// One fault. Made by `parse`; `Display` prints it so that it parses to an equal one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kinds of operations that it applies to; none means all.
    pub operations: Vec<Operation>,
    /// Which files.
    pub name: NamePattern,
    /// The first matching operation that it applies to, counted from 1.
    pub from: u64,
    /// The last one, if there is one.
    pub through: Option<u64>,
    /// To how many of a million matching operations it applies.
    pub per_million: u32,
    /// What it does.
    pub effect: Effect,
}

/// Which files a fault applies to. Operations on the directory have an empty name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePattern {
    /// All.
    Any,
    /// The one of this name.
    Is(String),
    /// Those whose name contains this text.
    Contains(String),
}

impl NamePattern {
    /// Whether it applies to a file.
    pub(super) fn fits(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Is(text) => name == text,
            Self::Contains(text) => name.contains(text.as_str()),
        }
    }
}

/// What a fault does. See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// An error, though a part of the operation may be done.
    Fail(Errno, Option<Part>),
    /// The process dies.
    Crash,
    /// A bit changes on the way.
    Flip,
    /// A bit changes at rest.
    Rot,
    /// It goes to another place.
    Misdirect,
    /// An old version stays, or comes back.
    Stale,
    /// Dirty data reaches the disk.
    WriteBack,
    /// The page cache is evicted.
    Evict,
    /// It takes longer.
    Slow(Duration),
}

impl Effect {
    /// Whether it can apply to this kind of operation.
    pub(super) fn applies_to(self, operation: Operation) -> bool {
        match self {
            Self::Flip => matches!(operation, Operation::Read | Operation::Write),
            Self::Misdirect | Self::Stale => {
                use Operation::{MapSync, Read, Sync, Write};
                matches!(operation, Read | Write | Sync | MapSync)
            }
            _ => true,
        }
    }
}

/// How much of a failing operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Nothing.
    None,
    /// As the seed decides: nothing, all, or a part.
    Some,
    /// All of it.
    All,
}

/// An error of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// The name and number of each.
pub(super) const ERRNOS: [(&str, i32); 12] = [
    ("eio", libc::EIO),
    ("enospc", libc::ENOSPC),
    ("edquot", libc::EDQUOT),
    ("emfile", libc::EMFILE),
    ("enfile", libc::ENFILE),
    ("eacces", libc::EACCES),
    ("eperm", libc::EPERM),
    ("erofs", libc::EROFS),
    ("enoent", libc::ENOENT),
    ("exdev", libc::EXDEV),
    ("enomem", libc::ENOMEM),
    ("etimedout", libc::ETIMEDOUT),
];

impl Errno {
    /// As the system would return it.
    pub fn error(self) -> std::io::Error {
        std::io::Error::from_raw_os_error(self.0)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = ERRNOS.iter().find(|(_, number)| *number == self.0);
        f.write_str(known.map_or("eio", |(word, _)| word))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        if self.operations.is_empty() {
            f.write_str("any")?;
        }
        for (at, operation) in self.operations.iter().enumerate() {
            write!(f, "{}{operation}", if at == 0 { "" } else { "," })?;
        }
        match &self.name {
            NamePattern::Any => {}
            NamePattern::Is(text) => write!(f, " name={}", Text(text))?,
            NamePattern::Contains(text) => write!(f, " name~{}", Text(text))?,
        }
        match (self.from, self.through) {
            (1, None) => {}
            (from, None) => write!(f, " nth={from}..")?,
            (from, Some(through)) if from == through => write!(f, " nth={from}")?,
            (from, Some(through)) => write!(f, " nth={from}..{through}")?,
        }
        if self.per_million < 1_000_000 {
            let digits = format!("{:06}", self.per_million);
            write!(f, " p=0.{}", digits.trim_end_matches('0'))?;
        }
        write!(f, ") -> {}", self.effect)
    }
}

/// A name, without quotes if it parses that way.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() && self.0.chars().all(is_bare) {
            f.write_str(self.0)
        } else {
            write!(f, "\"{}\"", self.0)
        }
    }
}

/// Whether a name with this letter needs no quotes.
pub(super) fn is_bare(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-')
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail(errno, None) => write!(f, "{errno}"),
            Self::Fail(errno, Some(part)) => write!(f, "{errno} part={part}"),
            Self::Crash => f.write_str("crash"),
            Self::Flip => f.write_str("flip"),
            Self::Rot => f.write_str("rot"),
            Self::Misdirect => f.write_str("misdirect"),
            Self::Stale => f.write_str("stale"),
            Self::WriteBack => f.write_str("write-back"),
            Self::Evict => f.write_str("evict"),
            Self::Slow(time) => {
                let micros = time.as_micros();
                match micros {
                    _ if micros.is_multiple_of(1_000_000) => write!(f, "slow={}s", micros / 1_000_000),
                    _ if micros.is_multiple_of(1000) => write!(f, "slow={}ms", micros / 1000),
                    _ => write!(f, "slow={micros}us"),
                }
            }
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Some => "some",
            Self::All => "all",
        })
    }
}
