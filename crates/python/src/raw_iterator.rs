//! LevelDB's kind of iterator: it is positioned on a pair, or unpositioned.

use crate::errors::{Failure, Outcome};
use crate::handle::{Handle, Owned};
use crate::keys::whole;
use crate::lock::lock;
use crate::octets::Octets;
use alluvium::Iter;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex};

/// A cursor over the pairs of a snapshot.
#[pyclass(frozen, module = "alluvium")]
pub struct RawIterator {
    handle: Arc<Handle>,
    iter: Mutex<Owned<Iter>>,
    prefix: Arc<[u8]>,
}

impl RawIterator {
    /// Creates a raw iterator from an iterator over the keys with a prefix.
    pub fn new(handle: Arc<Handle>, iter: Iter, prefix: Arc<[u8]>) -> Self {
        let iter = Mutex::new(handle.own(iter));
        Self { handle, iter, prefix }
    }

    fn look<T>(&self, py: Python<'_>, look: impl FnOnce(&mut Iter) -> Outcome<T>) -> PyResult<T> {
        self.handle.check()?;
        let mut iter = lock(py, &self.iter);
        Ok(look(iter.get_mut().ok_or(Failure::Closed("iterator"))?)?)
    }

    fn go(&self, py: Python<'_>, movement: impl FnOnce(&mut Iter) -> alluvium::Result<()> + Send) -> PyResult<()> {
        self.look(py, |iter| Ok(py.detach(|| movement(iter))?))
    }

    fn step(&self, py: Python<'_>, movement: impl FnOnce(&mut Iter) -> alluvium::Result<()> + Send) -> PyResult<()> {
        self.look(py, |iter| if iter.valid() { Ok(py.detach(|| movement(iter))?) } else { Err(Failure::Unpositioned) })
    }

    /// Passes the current pair to a function.
    fn pair<T>(&self, py: Python<'_>, give: impl FnOnce(&[u8], &[u8]) -> T) -> PyResult<T> {
        self.look(py, |iter| match iter.pair() {
            Some((key, value)) => Ok(give(key.get(self.prefix.len()..).unwrap_or_default(), value)),
            None => Err(Failure::Unpositioned),
        })
    }
}

#[pymethods]
impl RawIterator {
    /// Whether the iterator is positioned on a pair.
    fn valid(&self, py: Python<'_>) -> PyResult<bool> {
        self.look(py, |iter| Ok(iter.valid()))
    }

    /// Moves to the first pair.
    fn seek_to_first(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, Iter::seek_first)
    }

    /// Moves to the last pair.
    fn seek_to_last(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, Iter::seek_last)
    }

    /// Moves to the first pair whose key is at or after `target`.
    fn seek(&self, py: Python<'_>, target: Octets<'_>) -> PyResult<()> {
        let target = whole(&self.prefix, &target);
        self.go(py, |iter| iter.seek(&*target))
    }

    /// Moves to the next pair.
    fn next(&self, py: Python<'_>) -> PyResult<()> {
        self.step(py, Iter::step)
    }

    /// Moves to the previous pair.
    fn prev(&self, py: Python<'_>) -> PyResult<()> {
        self.step(py, Iter::step_back)
    }

    /// Returns the key of the pair.
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.pair(py, |key, _| PyBytes::new(py, key))
    }

    /// Returns the value of the pair.
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.pair(py, |_, value| PyBytes::new(py, value))
    }

    /// Returns the key and the value of the pair.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        self.pair(py, |key, value| (PyBytes::new(py, key), PyBytes::new(py, value)))
    }

    /// Closes the iterator. Does nothing if it is closed.
    fn close(&self, py: Python<'_>) {
        self.handle.end(py, &self.iter);
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __exit__(&self, py: Python<'_>, _type: Py<PyAny>, _value: Py<PyAny>, _traceback: Py<PyAny>) {
        self.handle.end(py, &self.iter);
    }
}
