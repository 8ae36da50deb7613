//! What a caller did that the interface does not allow, told in words instead of undefined behaviour.
//!
//! Every misuse is one line on the standard error, up to a bound, and the call does nothing; where the function can fail, it fails with the
//! same words. With `ALLUVIUM_MISUSE=abort` the first one ends the process, so that a debugger or a core dump shows where.

use std::fmt;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Lines that one process prints at most.
const LINES_MAX: u32 = 100;

/// Which rule was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// A pointer that must not be NULL is.
    Null(&'static str),
    /// A pointer to something else than an object of this kind that this library made.
    Foreign(&'static str),
    /// The object was destroyed, or the database closed.
    Ended(&'static str),
    /// Another thread, or a callback of this one, is in the middle of changing the object.
    Busy(&'static str),
    /// An iterator that stands on no entry was asked for it, or to move.
    NoEntry,
    /// Something else, in words.
    Other(String),
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null(what) => write!(f, "{what} is NULL"),
            Self::Foreign(kind) => write!(f, "the pointer is no {kind} of this library"),
            Self::Ended("leveldb_t") => write!(f, "the leveldb_t was closed before"),
            Self::Ended(kind) => write!(f, "the {kind} was destroyed before"),
            Self::Busy(kind) => write!(f, "the {kind} is in use by another thread or by a callback's caller"),
            Self::NoEntry => write!(f, "the iterator stands on no entry; see leveldb_iter_valid"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// One line on the standard error. That this may be closed or full is the program's affair: `eprintln` would panic.
pub fn tell(line: fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("alluvium: {line}\n").as_bytes());
}

/// Tells of a misuse in a function.
pub fn report(function: &str, misuse: &impl fmt::Display) {
    static LINES: AtomicU32 = AtomicU32::new(0);
    static ABORTS: OnceLock<bool> = OnceLock::new();
    let line = LINES.fetch_add(1, Ordering::Relaxed);
    if line < LINES_MAX {
        tell(format_args!("{function}: {misuse}"));
    } else if line == LINES_MAX {
        tell(format_args!("{LINES_MAX} misuses of the LevelDB interface; no more are told"));
    }
    if *ABORTS.get_or_init(|| std::env::var_os("ALLUVIUM_MISUSE").is_some_and(|value| value == "abort")) {
        std::process::abort();
    }
}
