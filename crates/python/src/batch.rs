//! Batches of writes that are applied atomically.

use crate::engine::write_options;
use crate::errors::Failure;
use crate::handle::Handle;
use crate::keys::{Limits, whole};
use crate::lock::lock;
use crate::octets::Octets;
use crate::place::Place;
use crate::view::View;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};

/// Puts and deletes that are applied atomically.
#[pyclass(frozen, module = "alluvium")]
pub struct WriteBatch {
    handle: Arc<Handle>,
    place: Place,
    prefix: Arc<[u8]>,
    /// Shared with the results of `within`.
    batch: Arc<Mutex<alluvium::WriteBatch>>,
    transaction: bool,
    sync: bool,
    /// Whether it is the result of `within`.
    is_part: bool,
}

/// Adds an operation in the batch's keyspace.
macro_rules! add {
    ($this:expr, $py:expr, $part:ident => $add:expr) => {
        $this.change($py, |batch| match $this.place.writer() {
            Some(keyspace) => {
                let mut $part = batch.within(keyspace);
                $add;
            }
            None => {
                let $part = batch;
                $add;
            }
        })
    };
}

impl WriteBatch {
    /// Creates an empty batch for a view of a store.
    pub fn new(view: &View, transaction: bool, sync: bool) -> Self {
        let (handle, place, prefix) = (Arc::clone(view.handle()), view.place().clone(), Arc::clone(view.prefix()));
        Self { handle, place, prefix, batch: Arc::default(), transaction, sync, is_part: false }
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
        add!(self, py, part => part.put(key, &*value))
    }

    /// Merges an operand into the value of a key.
    fn merge(&self, py: Python<'_>, key: Octets<'_>, operand: Octets<'_>) -> PyResult<()> {
        let key = whole(&self.prefix, &key).into_owned();
        add!(self, py, part => part.merge(key, &*operand))
    }

    /// Deletes a key.
    fn delete(&self, py: Python<'_>, key: Octets<'_>) -> PyResult<()> {
        let key = whole(&self.prefix, &key).into_owned();
        add!(self, py, part => part.delete(key))
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
        add!(self, py, part => part.delete_range(range))
    }

    /// Returns the same batch, whose writes go to another keyspace, or to the part of one that a prefixed_db shows.
    fn within(&self, view: PyRef<'_, View>) -> PyResult<Self> {
        view.check_store(&self.handle)?;
        let batch = Arc::clone(&self.batch);
        Ok(Self { batch, is_part: true, ..Self::new(&view, self.transaction, self.sync) })
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
        // A part leaves that to the batch.
        if self.is_part {
            return Ok(());
        }
        if !self.transaction || error.is_none() {
            self.write(py)?;
        }
        self.clear(py)
    }
}
