//! The class `Keyspace`.

use crate::database::Db;
use crate::octets::Octets;
use crate::prefixed::PrefixedDb;
use crate::view::View;
use pyo3::prelude::*;

/// A keyspace of a store: keys and values of its own.
#[pyclass(extends = View, frozen, module = "alluvium")]
pub struct Keyspace {
    db: Py<Db>,
    name: String,
}

impl Keyspace {
    /// Creates the Python object of a view of a keyspace.
    pub fn new(py: Python<'_>, db: Py<Db>, name: String, view: View) -> PyResult<Py<Self>> {
        Py::new(py, PyClassInitializer::from(view).add_subclass(Self { db, name }))
    }
}

#[pymethods]
impl Keyspace {
    /// The store.
    #[getter]
    fn db(&self, py: Python<'_>) -> Py<Db> {
        self.db.clone_ref(py)
    }

    /// The name of the keyspace.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Returns a view of the keys that begin with a prefix, without the prefix.
    fn prefixed_db(this: PyRef<'_, Self>, prefix: Octets<'_>) -> PyResult<Py<PrefixedDb>> {
        PrefixedDb::new(this.py(), this.db.clone_ref(this.py()), this.as_super().part(&prefix))
    }

    fn __repr__(&self) -> String {
        format!("<alluvium.Keyspace with name {:?}>", self.name)
    }
}
