//! Waits for locks while detached from the interpreter, so that the holder of a lock can attach.

use pyo3::Python;
use pyo3::sync::MutexExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. A panic of an earlier holder is ignored: the data behind these locks is consistent between any two
/// calls.
pub fn lock<'a, T: 'a>(py: Python<'_>, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
    mutex.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
}
