//! A view of the keys with a prefix.

use crate::database::Db;
use crate::octets::Octets;
use crate::view::View;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The keys of a store that begin with a prefix, without the prefix.
#[pyclass(extends = View, frozen, module = "alluvium", name = "PrefixedDB")]
pub struct PrefixedDb {
    db: Py<Db>,
}

impl PrefixedDb {
    /// Creates the Python object of a view.
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

    /// The prefix of the keys in the store.
    #[getter]
    fn prefix<'py>(this: PyRef<'py, Self>) -> Bound<'py, PyBytes> {
        PyBytes::new(this.py(), this.as_super().prefix())
    }

    /// Returns a view of the keys of this view that begin with a prefix, without the prefix.
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
