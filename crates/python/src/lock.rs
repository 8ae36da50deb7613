//! Locks that wait while detached from the interpreter, so that whoever has one may attach.

use pyo3::Python;
use pyo3::sync::MutexExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. A panic of an earlier holder is no reason to fail: what is behind these locks is whole between any two calls.
pub fn lock<'a, T: 'a>(py: Python<'_>, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
    mutex.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
}
