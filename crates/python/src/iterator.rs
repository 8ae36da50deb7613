//! plyvel's iterator: its position is between pairs, and `next` and `prev` step over them.
//!
//! Its behaviour at the ends and when it reverses follows from that alone (`gap.rs`); plyvel's own code has cases that
//! do not.

use crate::errors::{Failure, Outcome};
use crate::gap::{Direction, Gap};
use crate::handle::{Handle, Owned};
use crate::keys::{Range, whole};
use crate::lock::lock;
use crate::octets::Octets;
use crate::scan::Scan;
use crate::source::Source;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Bound as End;
use std::sync::{Arc, Mutex};

/// A scan that can be closed from elsewhere: by the end of its transaction.
pub type Shared = Arc<Mutex<Owned<Scan>>>;

/// Iterates over a range of keys in both directions.
#[pyclass(frozen, module = "alluvium", name = "Iterator")]
pub struct Iterator {
    handle: Arc<Handle>,
    scan: Shared,
    shape: Shape,
    range: Range,
}

/// What an iterator returns.
#[derive(Clone)]
pub struct Shape {
    /// The prefix that is removed from keys.
    pub prefix: Arc<[u8]>,
    /// The direction of `next`.
    pub direction: Direction,
    /// Whether keys are returned.
    pub keys: bool,
    /// Whether values are returned.
    pub values: bool,
}

impl Iterator {
    /// Creates an iterator over the pairs of a source in a range.
    pub fn new(handle: Arc<Handle>, source: Source, range: Range, shape: Shape) -> Self {
        let scan = Arc::new(Mutex::new(handle.own(Scan::new(source, shape.direction))));
        Self { handle, scan, shape, range }
    }

    /// The scan, so that the transaction can close it.
    pub fn shared(&self) -> &Shared {
        &self.scan
    }

    fn step<'py>(&self, py: Python<'py>, direction: Direction) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.handle.check()?;
        let mut scan = lock(py, &self.scan);
        let scan = opened(&mut scan)?;
        if let Some((key, value)) = scan.take(direction) {
            return self.shape.give(py, key, value).map(Some);
        }
        py.detach(|| scan.read(direction))?;
        scan.take_read(direction).map(|(key, value)| self.shape.give(py, key, value)).transpose()
    }

    fn go(&self, py: Python<'_>, gap: Gap) -> PyResult<()> {
        self.handle.check()?;
        opened(&mut lock(py, &self.scan))?.go(gap);
        Ok(())
    }
}

fn opened(scan: &mut Owned<Scan>) -> Outcome<&mut Scan> {
    scan.get_mut().ok_or(Failure::Closed("iterator"))
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
        self.step(py, self.shape.direction)
    }

    /// Returns the next pair and moves past it.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py, self.shape.direction)?.ok_or_else(|| PyStopIteration::new_err(()))
    }

    /// Returns the previous pair and moves back past it.
    fn prev<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py, self.shape.direction.reversed())?.ok_or_else(|| PyStopIteration::new_err(()))
    }

    /// Moves to before the first pair of the range whose key is at or after `target`.
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

    /// Moves to before the first pair of the range.
    fn seek_to_start(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, Gap::Start)
    }

    /// Moves to after the last pair of the range.
    fn seek_to_stop(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, Gap::Stop)
    }

    /// Closes the iterator. Does nothing if it is closed.
    fn close(&self, py: Python<'_>) {
        self.handle.end(py, &self.scan);
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __exit__(&self, py: Python<'_>, _type: Py<PyAny>, _value: Py<PyAny>, _traceback: Py<PyAny>) {
        self.handle.end(py, &self.scan);
    }
}
