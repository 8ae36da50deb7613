//! A part of a store behind a prefix.

use crate::database::Db;
use crate::octets::Octets;
use crate::view::View;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The keys that begin with a prefix, without it.
#[pyclass(extends = View, frozen, module = "alluvium", name = "PrefixedDB")]
pub struct PrefixedDb {
    db: Py<Db>,
}

impl PrefixedDb {
    /// A part of a view of a store.
    pub fn new(py: Python<'_>, db: Py<Db>, view: View) -> PyResult<Py<Self>> {
        Py::new(py, PyClassInitializer::from(view).add_subclass(Self { db }))
    }
}

#[pymethods]
impl PrefixedDb {
    /// The store.
    #[getter]
    fn db(&self, py: Python<'_>) -> Py<Db> {
        self.db.clone_ref(py)
    }

    /// What the store's keys begin with.
    #[getter]
    fn prefix<'py>(this: PyRef<'py, Self>) -> Bound<'py, PyBytes> {
        PyBytes::new(this.py(), this.as_super().prefix())
    }

    /// A part of this part.
    #[pyo3(name = "prefixed_db")]
    fn nested(this: PyRef<'_, Self>, prefix: Octets<'_>) -> PyResult<Py<Self>> {
        let py = this.py();
        Self::new(py, this.db.clone_ref(py), this.as_super().part(&prefix))
    }

    fn __repr__(this: PyRef<'_, Self>) -> PyResult<String> {
        let py = this.py();
        Ok(format!("<alluvium.PrefixedDB with prefix {}>", PyBytes::new(py, this.as_super().prefix()).repr()?))
    }
}
