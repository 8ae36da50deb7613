//! A snapshot of a store.

use crate::errors::{Failure, Outcome};
use crate::gap::Direction;
use crate::handle::{Handle, Owned};
use crate::iterator::{Iterator, Shape};
use crate::keys::{Limits, whole};
use crate::lock::lock;
use crate::octets::Octets;
use crate::raw_iterator::RawIterator;
use crate::source::Source;
use crate::view::{View, absent, give_many};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex};

/// The store at one moment, retained until the snapshot is closed.
#[pyclass(frozen, module = "alluvium")]
pub struct Snapshot {
    handle: Arc<Handle>,
    moment: Mutex<Owned<alluvium::Snapshot>>,
    prefix: Arc<[u8]>,
}

/// Creates an iterator over a range at a snapshot.
pub fn iterate(
    py: Python<'_>,
    (handle, prefix): (&Arc<Handle>, &Arc<[u8]>),
    moment: alluvium::Snapshot,
    limits: &Limits<'_>,
    (direction, keys, values): (Direction, bool, bool),
) -> PyResult<Iterator> {
    let range = limits.range(prefix)?;
    let source = py.detach(|| Source::of_snapshot(moment, range.clone(), values)).map_err(Failure::from)?;
    let shape = Shape { prefix: Arc::clone(prefix), direction, keys, values };
    Ok(Iterator::new(Arc::clone(handle), source, range, shape))
}

/// Creates a raw iterator over the keys with a prefix at a snapshot.
pub fn iterate_raw(
    py: Python<'_>,
    handle: &Arc<Handle>,
    prefix: &Arc<[u8]>,
    moment: &alluvium::Snapshot,
) -> PyResult<RawIterator> {
    let iter = py.detach(|| moment.prefix(prefix)).map_err(Failure::from)?;
    Ok(RawIterator::new(Arc::clone(handle), iter, Arc::clone(prefix)))
}

impl Snapshot {
    /// Creates a snapshot that shows the keys with a prefix.
    pub fn new(handle: Arc<Handle>, moment: alluvium::Snapshot, prefix: Arc<[u8]>) -> Self {
        let moment = Mutex::new(handle.own(moment));
        Self { handle, moment, prefix }
    }

    fn moment(&self, py: Python<'_>) -> Outcome<alluvium::Snapshot> {
        self.handle.check()?;
        lock(py, &self.moment).get().cloned().ok_or(Failure::Closed("snapshot"))
    }

    fn read(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Vec<u8>>> {
        let (moment, key) = (self.moment(py)?, whole(&self.prefix, key));
        Ok(py.detach(|| moment.get(&*key)).map_err(Failure::from)?)
    }

    fn all(&self, py: Python<'_>, keys: bool, values: bool) -> PyResult<Iterator> {
        let limits = Limits { start: None, stop: None, include_start: true, include_stop: false, prefix: None };
        let moment = self.moment(py)?;
        iterate(py, (&self.handle, &self.prefix), moment, &limits, (Direction::Forward, keys, values))
    }
}

#[pymethods]
impl Snapshot {
    /// Returns the value of a key, or `default` if it is absent.
    #[pyo3(signature = (key, default = None, *, verify_checksums = None, fill_cache = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Octets<'_>,
        default: Option<Bound<'py, PyAny>>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _ = (verify_checksums, fill_cache);
        Ok(self.read(py, &key)?.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }

    /// Returns the values of many keys, in the order of the keys.
    fn multi_get<'py>(&self, py: Python<'py>, keys: Bound<'py, PyAny>) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let moment = self.moment(py)?;
        give_many(&keys, &self.prefix, |keys| Ok(moment.multi_get(keys)?))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Octets<'_>) -> PyResult<Bound<'py, PyBytes>> {
        self.read(py, &key)?.map(|value| PyBytes::new(py, &value)).ok_or_else(|| absent(py, &key))
    }

    fn __contains__(&self, py: Python<'_>, key: Octets<'_>) -> PyResult<bool> {
        let (moment, key) = (self.moment(py)?, whole(&self.prefix, &key));
        Ok(py.detach(|| moment.get_pinned(&*key).map(|value| value.is_some())).map_err(Failure::from)?)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Iterator> {
        self.all(py, true, true)
    }

    /// Returns an iterator over the keys.
    fn keys(&self, py: Python<'_>) -> PyResult<Iterator> {
        self.all(py, true, false)
    }

    /// Returns an iterator over the values.
    fn values(&self, py: Python<'_>) -> PyResult<Iterator> {
        self.all(py, false, true)
    }

    /// Returns an iterator over the pairs.
    fn items(&self, py: Python<'_>) -> PyResult<Iterator> {
        self.all(py, true, true)
    }

    /// Returns an iterator over a range.
    #[pyo3(signature = (*, reverse = false, start = None, stop = None, include_start = true, include_stop = false, prefix = None,
        include_key = true, include_value = true, verify_checksums = None, fill_cache = None))]
    #[allow(clippy::too_many_arguments, reason = "plyvel's")]
    fn iterator(
        &self,
        py: Python<'_>,
        reverse: bool,
        start: Option<Octets<'_>>,
        stop: Option<Octets<'_>>,
        include_start: bool,
        include_stop: bool,
        prefix: Option<Octets<'_>>,
        include_key: bool,
        include_value: bool,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<Iterator> {
        let _ = (verify_checksums, fill_cache);
        let limits = Limits { start, stop, include_start, include_stop, prefix };
        let shape = (Direction::new(reverse), include_key, include_value);
        iterate(py, (&self.handle, &self.prefix), self.moment(py)?, &limits, shape)
    }

    /// Returns an iterator of LevelDB's kind.
    #[pyo3(signature = (*, verify_checksums = None, fill_cache = None))]
    fn raw_iterator(
        &self,
        py: Python<'_>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<RawIterator> {
        let _ = (verify_checksums, fill_cache);
        iterate_raw(py, &self.handle, &self.prefix, &self.moment(py)?)
    }

    /// Returns the same moment in another keyspace, or in the part of one that a prefixed_db shows.
    fn within(&self, py: Python<'_>, view: PyRef<'_, View>) -> PyResult<Self> {
        view.check_store(&self.handle)?;
        let (moment, place) = (self.moment(py)?, view.place());
        let moment = py.detach(|| place.at(&moment))?;
        Ok(Self::new(Arc::clone(&self.handle), moment, Arc::clone(view.prefix())))
    }

    /// Returns the same moment in the keyspace with a name; None if there was none.
    fn keyspace(&self, py: Python<'_>, name: &str) -> PyResult<Option<Self>> {
        let moment = self.moment(py)?;
        let found = py.detach(|| moment.keyspace(name)).map_err(Failure::from)?;
        Ok(found.map(|moment| Self::new(Arc::clone(&self.handle), moment, Arc::default())))
    }

    /// Returns the names of the keyspaces at this moment in order, without the default one.
    fn keyspace_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let moment = self.moment(py)?;
        Ok(py.detach(|| moment.keyspace_names()).map_err(Failure::from)?)
    }

    /// Releases the snapshot. Does nothing if it was released.
    fn close(&self, py: Python<'_>) {
        self.handle.end(py, &self.moment);
    }

    /// The same as `close`.
    fn release(&self, py: Python<'_>) {
        self.handle.end(py, &self.moment);
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __exit__(&self, py: Python<'_>, _type: Py<PyAny>, _value: Py<PyAny>, _traceback: Py<PyAny>) {
        self.handle.end(py, &self.moment);
    }
}
