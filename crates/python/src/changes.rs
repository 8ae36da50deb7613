//! The change stream.

use crate::engine::Engine;
use crate::errors::Failure;
use crate::handle::{Handle, Owned};
use crate::lock::lock;
use alluvium::{CommittedWrite, KeyspaceChange, Operation};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::sync::{Arc, Mutex};

/// Iterates over the writes to a store in their order. After the last one it stops, and goes on when it is asked again.
#[pyclass(frozen, module = "alluvium", name = "Changes")]
pub struct Changes {
    handle: Arc<Handle>,
    changes: Mutex<Owned<alluvium::Changes>>,
}

impl Changes {
    /// Follows the writes after a number.
    pub fn new(py: Python<'_>, handle: &Arc<Handle>, since: u64) -> PyResult<Self> {
        let engine = handle.engine()?;
        let changes = py.detach(move || match &*engine {
            Engine::Writer(db) => db.changes(since),
            Engine::Reader(db) => db.changes(since),
        });
        let changes = Mutex::new(handle.own(changes.map_err(Failure::from)?));
        Ok(Self { handle: Arc::clone(handle), changes })
    }
}

#[pymethods]
impl Changes {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        // Closing waits for this call.
        let _engine = self.handle.engine()?;
        let mut changes = lock(py, &self.changes);
        let changes = changes.get_mut().ok_or(Failure::Closed("store"))?;
        let next = py.detach(|| changes.next().transpose()).map_err(Failure::from)?;
        next.map(|write| give(py, &write)).transpose()
    }

    /// All changes up to this number were returned.
    #[getter]
    fn through(&self, py: Python<'_>) -> PyResult<u64> {
        let changes = lock(py, &self.changes);
        Ok(changes.get().ok_or(Failure::Closed("store"))?.through())
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let _ = Python::try_attach(|py| self.handle.end(py, &self.changes));
    }
}

/// The position after a write, and what it did.
fn give<'py>(py: Python<'py>, write: &CommittedWrite) -> PyResult<Bound<'py, PyTuple>> {
    let operations = PyList::empty(py);
    for change in write.keyspaces() {
        let (what, keyspace) = match change {
            KeyspaceChange::Set { keyspace, .. } => ("set_keyspace", keyspace),
            KeyspaceChange::Dropped { keyspace } => ("drop_keyspace", keyspace),
            _ => continue,
        };
        operations.append((what, keyspace))?;
    }
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
    for operation in write.operations() {
        match operation {
            Operation::Put { keyspace, key, value } => {
                operations.append(("put", keyspace, bytes(key), bytes(value)))?
            }
            Operation::Delete { keyspace, key } => operations.append(("delete", keyspace, bytes(key)))?,
            Operation::Merge { keyspace, key, operand } => {
                operations.append(("merge", keyspace, bytes(key), bytes(operand)))?;
            }
            Operation::DeleteRange { keyspace, start, end } => {
                operations.append(("delete_range", keyspace, bytes(start), end.map(bytes)))?;
            }
            _ => {}
        }
    }
    (write.position(), operations).into_pyobject(py)
}
