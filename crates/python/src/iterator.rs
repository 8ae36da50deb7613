//! plyvel's iterator: it stands between pairs, and `next` and `prev` step over them.
//!
//! What it does where it meets an end, or is turned, follows from that alone (`gap.rs`); plyvel's own code has cases that do not.

use crate::errors::{Failure, Outcome};
use crate::gap::{Gap, Way};
use crate::handle::{Handle, Owned};
use crate::keys::{Range, whole};
use crate::lock::lock;
use crate::octets::Octets;
use crate::source::Source;
use crate::walk::Walk;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Bound as End;
use std::sync::{Arc, Mutex};

/// What may be ended from elsewhere: by the end of its transaction.
pub type Shared = Arc<Mutex<Owned<Walk>>>;

/// Walks over a range of keys, both ways.
#[pyclass(frozen, module = "alluvium", name = "Iterator")]
pub struct Iterator {
    handle: Arc<Handle>,
    walk: Shared,
    shape: Shape,
    range: Range,
}

/// What an iterator gives.
#[derive(Clone)]
pub struct Shape {
    /// What keys are given without.
    pub prefix: Arc<[u8]>,
    /// Which way `next` goes.
    pub way: Way,
    /// Whether keys are given.
    pub keys: bool,
    /// Whether values are given.
    pub values: bool,
}

impl Iterator {
    /// Over what a source gives of a range.
    pub fn new(handle: Arc<Handle>, source: Source, range: Range, shape: Shape) -> Self {
        let walk = Arc::new(Mutex::new(handle.own(Walk::new(source, shape.way))));
        Self { handle, walk, shape, range }
    }

    /// Its walk, for who may end it.
    pub fn shared(&self) -> &Shared {
        &self.walk
    }

    fn step<'py>(&self, py: Python<'py>, way: Way) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.handle.check()?;
        let mut walk = lock(py, &self.walk);
        let walk = opened(&mut walk)?;
        if let Some((key, value)) = walk.take(way) {
            return self.shape.give(py, key, value).map(Some);
        }
        py.detach(|| walk.read(way)).map_err(Failure::from)?;
        walk.take(way).map(|(key, value)| self.shape.give(py, key, value)).transpose()
    }

    fn go(&self, py: Python<'_>, gap: Gap) -> PyResult<()> {
        self.handle.check()?;
        opened(&mut lock(py, &self.walk))?.go(gap);
        Ok(())
    }
}

fn opened(walk: &mut Owned<Walk>) -> Outcome<&mut Walk> {
    walk.get_mut().ok_or(Failure::Closed("iterator"))
}

impl Shape {
    fn give<'py>(&self, py: Python<'py>, key: &[u8], value: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let key = || PyBytes::new(py, key.get(self.prefix.len()..).unwrap_or_default());
        let value = || PyBytes::new(py, value);
        Ok(match (self.keys, self.values) {
            (true, true) => (key(), value()).into_pyobject(py)?.into_any(),
            (true, false) => key().into_any(),
            (false, true) => value().into_any(),
            (false, false) => py.None().into_bound(py),
        })
    }
}

#[pymethods]
impl Iterator {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.step(py, self.shape.way)
    }

    /// The pair behind the place where the iterator stands; goes past it.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py, self.shape.way)?.ok_or_else(|| PyStopIteration::new_err(()))
    }

    /// The pair before the place where the iterator stands; goes back past it.
    fn prev<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py, self.shape.way.turned())?.ok_or_else(|| PyStopIteration::new_err(()))
    }

    /// Goes to before the first pair of the range that is not before a key.
    fn seek(&self, py: Python<'_>, target: Octets<'_>) -> PyResult<()> {
        let mut target = whole(&self.shape.prefix, &target).into_owned();
        if let (End::Included(start) | End::Excluded(start), _) = &self.range
            && target < *start
        {
            target.clone_from(start);
        }
        if let (_, End::Included(stop) | End::Excluded(stop)) = &self.range
            && target > *stop
        {
            target.clone_from(stop);
        }
        self.go(py, Gap::Before(target))
    }

    /// Goes to before the first pair of the range.
    fn seek_to_start(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, Gap::Start)
    }

    /// Goes to behind the last pair of the range.
    fn seek_to_stop(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, Gap::Stop)
    }

    /// Closes it; nothing where it is closed.
    fn close(&self, py: Python<'_>) {
        self.handle.end(py, &self.walk);
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __exit__(&self, py: Python<'_>, _type: Py<PyAny>, _value: Py<PyAny>, _traceback: Py<PyAny>) {
        self.handle.end(py, &self.walk);
    }
}
