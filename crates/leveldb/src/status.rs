//! Errors as LevelDB's strings: a code, then what failed, where, and why. Programs compare the codes.

use crate::misuse::Misuse;
use alluvium::Error;
use std::borrow::Cow;
use std::path::PathBuf;

/// Why a call failed.
#[derive(Clone, Debug)]
pub enum Status {
    /// An error of the store.
    Store(Error),
    /// The database is open elsewhere; the path of its lock file.
    Locked(PathBuf),
    /// A required path does not exist and is not created: LevelDB's `NotFound`.
    Missing(PathBuf),
    /// An argument or a state that is never valid: LevelDB's `InvalidArgument`.
    Invalid(String),
    /// The caller broke a rule of the interface.
    Misuse(Misuse),
    /// A bug of this library.
    Bug(Cow<'static, str>),
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<Misuse> for Status {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

impl Status {
    /// Returns the error string for C.
    pub fn message(&self, function: &str) -> String {
        match self {
            Self::Store(Error::InvalidArgument(text)) => format!("Invalid argument: {text}"),
            Self::Store(error) => format!("{}: {error}", code_of(error)),
            // LevelDB's own text.
            Self::Locked(lock) => format!("IO error: lock {}: already held by process", lock.display()),
            Self::Missing(path) => format!("NotFound: {}: No such file or directory", path.display()),
            Self::Invalid(text) => format!("Invalid argument: {text}"),
            Self::Misuse(misuse) => format!("Invalid argument: {function}: {misuse}"),
            Self::Bug(text) => format!("Not implemented: a bug in Alluvium, please report it: {text}"),
        }
    }
}

/// LevelDB's code for an error: its own, if it has that error; otherwise `IO error` for errors that are temporary or
/// need the operator.
fn code_of(error: &Error) -> &'static str {
    match error {
        Error::Corruption { .. } => "Corruption",
        Error::Mismatch { .. } | Error::NoStore { .. } | Error::Closed => "Invalid argument",
        Error::NewerFormat { .. } => "Not implemented",
        _ => "IO error",
    }
}
