//! Errors as exceptions. The classes are defined in Python (`python/alluvium/_errors.py`).

use alluvium::Error;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Why a call failed.
#[derive(Debug)]
pub enum Failure {
    /// An error of the store.
    Store(Error),
    /// The store was opened for reading only.
    ReadOnly,
    /// The named object is closed.
    Closed(&'static str),
    /// A raw iterator is unpositioned.
    Unpositioned,
    /// The class `Error`, with a message of this package.
    Other(String),
    /// An argument that is never valid.
    Invalid(String),
    /// The store is damaged; all damage that was found.
    Damaged(Vec<String>),
}

/// A result with this error.
pub type Outcome<T> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Closed => Self::Closed("store"),
            other => Self::Store(other),
        }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| failure.into_exception(py).unwrap_or_else(|error| error))
    }
}

impl Failure {
    fn class(&self) -> &'static str {
        match self {
            Self::Store(error) => match error {
                Error::AlreadyOpen { .. } => "AlreadyOpenError",
                Error::ChangesTooOld { .. } => "ChangesTooOldError",
                Error::Conflict { .. } => "ConflictError",
                Error::Corruption { .. } => "CorruptionError",
                Error::DiskFull { .. } => "DiskFullError",
                Error::Forked => "ForkedError",
                Error::InvalidArgument(_) => "InvalidArgumentError",
                Error::Io { .. } => "IOError",
                Error::KeyspaceDropped { .. } => "KeyspaceDroppedError",
                Error::KeyspaceMismatch { .. } => "KeyspaceMismatchError",
                Error::ReadOnly { .. } => "ReadOnlyError",
                _ => "Error",
            },
            Self::ReadOnly => "ReadOnlyError",
            Self::Closed(_) => "ClosedError",
            Self::Unpositioned => "IteratorInvalidError",
            Self::Other(_) => "Error",
            Self::Invalid(_) => "InvalidArgumentError",
            Self::Damaged(_) => "CorruptionError",
        }
    }

    fn message(&self) -> String {
        match self {
            // The library's message, with the name of the Python method.
            Self::Store(Error::Conflict { key, .. }) => format!(
                "another writer has changed \"{}\" since this transaction read it; nothing was written: run the transaction again \
                 (DB.transact does so by itself)",
                key.escape_ascii()
            ),
            Self::Store(error) => error.to_string(),
            Self::ReadOnly => "the store is open for reading only".into(),
            Self::Closed(what) => format!("the {what} is closed"),
            Self::Unpositioned => "the iterator is not positioned on a pair".into(),
            Self::Other(message) | Self::Invalid(message) => message.clone(),
            Self::Damaged(found) => found.join("\n"),
        }
    }

    fn into_exception(self, py: Python<'_>) -> PyResult<PyErr> {
        let exception = py.import("alluvium._errors")?.getattr(self.class())?.call1((self.message(),))?;
        match &self {
            Self::Store(Error::Conflict { key, .. }) => exception.setattr("key", PyBytes::new(py, key))?,
            Self::Store(Error::ChangesTooOld { oldest, .. }) => exception.setattr("oldest", oldest)?,
            Self::Store(Error::Io { source, .. }) => exception.setattr("errno", source.raw_os_error())?,
            _ => {}
        }
        Ok(PyErr::from_value(exception))
    }
}
