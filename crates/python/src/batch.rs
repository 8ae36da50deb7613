//! Batches of writes that are applied atomically.

use crate::engine::write_options;
use crate::errors::Failure;
use crate::handle::Handle;
use crate::keys::{Limits, whole};
use crate::lock::lock;
use crate::octets::Octets;
use crate::view::View;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};

/// Puts and deletes that are applied atomically.
#[pyclass(frozen, module = "alluvium")]
pub struct WriteBatch {
    handle: Arc<Handle>,
    prefix: Arc<[u8]>,
    batch: Mutex<alluvium::WriteBatch>,
    transaction: bool,
    sync: bool,
}

impl WriteBatch {
    /// Creates an empty batch for a view of a store.
    pub fn new(view: &View, transaction: bool, sync: bool) -> Self {
        let (handle, prefix) = (Arc::clone(view.handle()), Arc::clone(view.prefix()));
        Self { handle, prefix, batch: Mutex::default(), transaction, sync }
    }

    fn change<T>(&self, py: Python<'_>, change: impl FnOnce(&mut alluvium::WriteBatch) -> T) -> PyResult<T> {
        self.handle.check()?;
        Ok(change(&mut lock(py, &self.batch)))
    }
}

#[pymethods]
impl WriteBatch {
    /// Sets a key.
    fn put(&self, py: Python<'_>, key: Octets<'_>, value: Octets<'_>) -> PyResult<()> {
        let key = whole(&self.prefix, &key).into_owned();
        self.change(py, |batch| batch.put(key, &*value).len()).map(drop)
    }

    /// Merges an operand into the value of a key.
    fn merge(&self, py: Python<'_>, key: Octets<'_>, operand: Octets<'_>) -> PyResult<()> {
        let key = whole(&self.prefix, &key).into_owned();
        self.change(py, |batch| batch.merge(key, &*operand).len()).map(drop)
    }

    /// Deletes a key.
    fn delete(&self, py: Python<'_>, key: Octets<'_>) -> PyResult<()> {
        let key = whole(&self.prefix, &key).into_owned();
        self.change(py, |batch| batch.delete(key).len()).map(drop)
    }

    /// Deletes all keys of a range.
    #[pyo3(signature = (*, start = None, stop = None, include_start = true, include_stop = false, prefix = None))]
    #[allow(clippy::too_many_arguments, reason = "those of `iterator`")]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Octets<'_>>,
        stop: Option<Octets<'_>>,
        include_start: bool,
        include_stop: bool,
        prefix: Option<Octets<'_>>,
    ) -> PyResult<()> {
        let range = Limits { start, stop, include_start, include_stop, prefix }.range(&self.prefix)?;
        self.change(py, |batch| batch.delete_range(range).len()).map(drop)
    }

    /// Appends the writes of another batch.
    fn append(&self, py: Python<'_>, source: PyRef<'_, Self>) -> PyResult<()> {
        let other = source.change(py, |other| other.clone())?;
        self.change(py, |batch| batch.append(&other).len()).map(drop)
    }

    /// Removes all writes from the batch.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, alluvium::WriteBatch::clear)
    }

    /// Applies the batch. Its contents stay.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        let (engine, batch) = (self.handle.engine()?, self.change(py, |batch| batch.clone())?);
        let write = move || engine.writer()?.write_with(batch, write_options(self.sync)).map_err(Failure::from);
        Ok(py.detach(write)?)
    }

    /// Returns the bytes of all keys and values.
    fn approximate_size(&self, py: Python<'_>) -> PyResult<usize> {
        self.change(py, |batch| batch.bytes())
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        this.handle.check()?;
        Ok(this)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        error: Option<Bound<'_, PyAny>>,
        _value: Py<PyAny>,
        _traceback: Py<PyAny>,
    ) -> PyResult<()> {
        if !self.transaction || error.is_none() {
            self.write(py)?;
        }
        self.clear(py)
    }
}
