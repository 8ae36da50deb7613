//! Errors of the caller that the interface forbids. They are reported instead of being undefined behaviour.
//!
//! Every misuse prints one line on standard error, up to a limit, and the call does nothing. If the function can fail,
//! it returns the same text as its error. With `ALLUVIUM_MISUSE=abort` the first misuse aborts the process, so that a
//! debugger or a core dump shows the place.

use std::fmt;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The most lines that one process prints.
const LINES_MAX: u32 = 100;

/// The broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// A pointer is NULL that must not be.
    Null(&'static str),
    /// The pointer is not one to an object of this kind that this library created.
    WrongKind(&'static str),
    /// The object was already destroyed, or the database closed.
    Ended(&'static str),
    /// Another thread, or the caller of this callback, is using the object.
    Busy(&'static str),
    /// An unpositioned iterator was asked for its entry, or to step.
    NoEntry,
    /// Another rule; the text describes it.
    Other(String),
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null(what) => write!(f, "{what} is NULL"),
            Self::WrongKind(kind) => write!(f, "the pointer is not a {kind} of this library"),
            Self::Ended("leveldb_t") => write!(f, "the leveldb_t was already closed"),
            Self::Ended(kind) => write!(f, "the {kind} was already destroyed"),
            Self::Busy(kind) => write!(f, "the {kind} is in use by another thread or by the caller of this callback"),
            Self::NoEntry => write!(f, "the iterator is not positioned on an entry; call leveldb_iter_valid first"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// Prints one line on standard error. A closed or full standard error is ignored; `eprintln` would panic.
pub fn print_line(line: fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("alluvium: {line}\n").as_bytes());
}

/// Reports a misuse in a function.
pub fn report(function: &str, misuse: &impl fmt::Display) {
    static LINES: AtomicU32 = AtomicU32::new(0);
    static ABORTS: OnceLock<bool> = OnceLock::new();
    let line = LINES.fetch_add(1, Ordering::Relaxed);
    if line < LINES_MAX {
        print_line(format_args!("{function}: {misuse}"));
    } else if line == LINES_MAX {
        print_line(format_args!("{LINES_MAX} misuses of the LevelDB interface; no more are reported"));
    }
    if *ABORTS.get_or_init(|| std::env::var_os("ALLUVIUM_MISUSE").is_some_and(|value| value == "abort")) {
        std::process::abort();
    }
}
