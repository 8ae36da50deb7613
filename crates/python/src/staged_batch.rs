//! Staged batches: batches of any size, which are read before they are committed.

use crate::engine::write_options;
use crate::errors::{Failure, Outcome};
use crate::gap::Direction;
use crate::handle::{Handle, Owned};
use crate::iterator::{Iterator, Shape};
use crate::keys::{Limits, Range, whole};
use crate::octets::Octets;
use crate::place::Place;
use crate::source::Source;
use crate::view::{View, absent};
use alluvium::StagedIter;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A batch of any size, which is read before it is committed.
#[pyclass(frozen, module = "alluvium")]
pub struct StagedBatch {
    part: Part,
    prefix: Arc<[u8]>,
    sync: bool,
    /// Whether it is the result of `within`.
    is_part: bool,
}

/// A staged batch, and the keyspace of a part of it. Any thread, detached.
#[derive(Clone)]
pub struct Part {
    /// Shared with the results of `within`, and with iterators.
    shared: Arc<Common>,
    place: Place,
}

/// What all parts of a staged batch share.
struct Common {
    /// Empty after the end.
    batch: Mutex<Owned<alluvium::StagedBatch>>,
    /// A number that each change increments, under the lock.
    changes: AtomicU64,
    handle: Arc<Handle>,
}

impl Common {
    fn lock(&self) -> MutexGuard<'_, Owned<alluvium::StagedBatch>> {
        // As in `lock.rs`.
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Common {
    fn drop(&mut self) {
        // That removes files.
        let _ = Python::try_attach(|py| self.handle.end(py, &self.batch));
    }
}

/// Works on a batch in the keyspace of a part of it.
macro_rules! within {
    ($place:expr, $batch:expr, $part:ident => $work:expr) => {
        match $place.writer() {
            Some(keyspace) => {
                let $part = &mut $batch.within(keyspace)?;
                $work
            }
            None => {
                let $part = $batch;
                $work
            }
        }
    };
}

impl Part {
    /// Works on the batch. Returns an error if it has ended, or if the store is closed.
    fn with<T>(&self, work: impl FnOnce(&mut alluvium::StagedBatch, &Place) -> alluvium::Result<T>) -> Outcome<T> {
        // Closing waits for this call.
        let _engine = self.shared.handle.engine()?;
        let mut batch = self.shared.lock();
        Ok(work(batch.get_mut().ok_or(Failure::Closed("staged batch"))?, &self.place)?)
    }

    /// The same for a change.
    fn change<T>(&self, work: impl FnOnce(&mut alluvium::StagedBatch, &Place) -> alluvium::Result<T>) -> Outcome<T> {
        self.with(|batch, place| {
            let changed = work(batch, place);
            self.shared.note_change();
            changed
        })
    }

    /// A number that differs after each change.
    pub fn changes(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    /// Passes the pairs of a range to a function until it returns false, in this direction; without values unless they are
    /// wanted.
    pub fn scan(
        &self,
        range: Range,
        direction: Direction,
        with_values: bool,
        give: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome<()> {
        self.with(|batch, place| within!(place, batch, part => pass(part.range(range)?, direction, with_values, give)))
    }

    /// Ends the batch and returns it; `None` if it has ended.
    fn take(&self) -> Option<alluvium::StagedBatch> {
        let mut batch = self.shared.lock();
        self.shared.note_change();
        batch.take()
    }

    fn is_open(&self) -> bool {
        self.shared.lock().get().is_some()
    }
}

/// Passes the pairs of an iterator to a function until it returns false.
fn pass(
    mut iter: StagedIter<'_>,
    direction: Direction,
    with_values: bool,
    give: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> alluvium::Result<()> {
    if with_values {
        match direction {
            Direction::Forward => iter.seek_first()?,
            Direction::Backward => iter.seek_last()?,
        }
        while iter.pair().is_some_and(|(key, value)| give(key, value)) {
            match direction {
                Direction::Forward => iter.step()?,
                Direction::Backward => iter.step_back()?,
            }
        }
        return Ok(());
    }
    let mut keys = iter.keys()?;
    let mut next = || match direction {
        Direction::Forward => keys.next().transpose(),
        Direction::Backward => keys.next_back().transpose(),
    };
    while next()?.is_some_and(|key| give(&key, &[])) {}
    Ok(())
}

impl StagedBatch {
    /// Creates a staged batch on a view of a store.
    pub fn new(view: &View, batch: alluvium::StagedBatch, sync: bool) -> Self {
        let handle = Arc::clone(view.handle());
        let shared = Common { batch: Mutex::new(handle.own(batch)), changes: AtomicU64::new(0), handle };
        let part = Part { shared: Arc::new(shared), place: view.place().clone() };
        Self { part, prefix: Arc::clone(view.prefix()), sync, is_part: false }
    }

    fn handle(&self) -> &Arc<Handle> {
        &self.part.shared.handle
    }

    fn look<T: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&alluvium::StagedBatch) -> alluvium::Result<T> + Send,
    ) -> PyResult<T> {
        Ok(py.detach(|| self.part.with(|batch, _| look(batch)))?)
    }

    fn read(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Vec<u8>>> {
        let key = whole(&self.prefix, key);
        Ok(py.detach(|| self.part.with(|batch, place| within!(place, batch, part => part.get(&*key))))?)
    }

    fn iterate(&self, py: Python<'_>, limits: &Limits<'_>, shape: (Direction, bool, bool)) -> PyResult<Iterator> {
        let (range, (direction, keys, values)) = (limits.range(&self.prefix)?, shape);
        // Reports a batch that has ended, and a keyspace that was dropped.
        py.detach(|| self.part.with(|batch, place| within!(place, batch, part => part.prefix("").map(drop))))?;
        let source = Source::of_staged_batch(self.part.clone(), range.clone(), values);
        let shape = Shape { prefix: Arc::clone(&self.prefix), direction, keys, values };
        Ok(Iterator::new(Arc::clone(self.handle()), source, range, shape))
    }

    fn all(&self, py: Python<'_>, keys: bool, values: bool) -> PyResult<Iterator> {
        let limits = Limits { start: None, stop: None, include_start: true, include_stop: false, prefix: None };
        self.iterate(py, &limits, (Direction::Forward, keys, values))
    }
}

#[pymethods]
impl StagedBatch {
    /// Returns the value of a key, or `default` if it is absent: what the batch has written, or else what the store had when the
    /// batch began.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Octets<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.read(py, &key)?.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Octets<'_>) -> PyResult<Bound<'py, PyBytes>> {
        self.read(py, &key)?.map(|value| PyBytes::new(py, &value)).ok_or_else(|| absent(py, &key))
    }

    fn __contains__(&self, py: Python<'_>, key: Octets<'_>) -> PyResult<bool> {
        let key = whole(&self.prefix, &key);
        Ok(py.detach(|| self.part.with(|batch, place| within!(place, batch, part => part.contains_key(&*key))))?)
    }

    /// Sets a key when the batch is committed.
    fn put(&self, py: Python<'_>, key: Octets<'_>, value: Octets<'_>) -> PyResult<()> {
        let (key, value) = (whole(&self.prefix, &key), &*value);
        Ok(py.detach(|| self.part.change(|batch, place| within!(place, batch, part => part.put(&*key, value))))?)
    }

    fn __setitem__(&self, py: Python<'_>, key: Octets<'_>, value: Octets<'_>) -> PyResult<()> {
        self.put(py, key, value)
    }

    /// Merges an operand into the value of a key: into that of the batch, or else into what the store has when the batch is
    /// committed.
    fn merge(&self, py: Python<'_>, key: Octets<'_>, operand: Octets<'_>) -> PyResult<()> {
        let (key, operand) = (whole(&self.prefix, &key), &*operand);
        Ok(py.detach(|| self.part.change(|batch, place| within!(place, batch, part => part.merge(&*key, operand))))?)
    }

    /// Deletes a key when the batch is committed. It is not an error if the key is absent.
    fn delete(&self, py: Python<'_>, key: Octets<'_>) -> PyResult<()> {
        let key = whole(&self.prefix, &key);
        Ok(py.detach(|| self.part.change(|batch, place| within!(place, batch, part => part.delete(&*key))))?)
    }

    /// Deletes all keys of a range: those of the batch so far, and those of the store when the batch is committed.
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
        Ok(py.detach(|| self.part.change(|batch, place| within!(place, batch, part => part.delete_range(range))))?)
    }

    fn __delitem__(&self, py: Python<'_>, key: Octets<'_>) -> PyResult<()> {
        let stored = whole(&self.prefix, &key);
        let delete = |batch: &mut alluvium::StagedBatch, place: &Place| {
            within!(place, batch, part => {
                let is_there = part.contains_key(&*stored)?;
                if is_there {
                    part.delete(&*stored)?;
                }
                Ok(is_there)
            })
        };
        if py.detach(|| self.part.change(delete))? { Ok(()) } else { Err(absent(py, &key)) }
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Iterator> {
        self.all(py, true, true)
    }

    /// Returns an iterator over the keys; see `iterator`.
    fn keys(&self, py: Python<'_>) -> PyResult<Iterator> {
        self.all(py, true, false)
    }

    /// Returns an iterator over the values; see `iterator`.
    fn values(&self, py: Python<'_>) -> PyResult<Iterator> {
        self.all(py, false, true)
    }

    /// Returns an iterator over the pairs; see `iterator`.
    fn items(&self, py: Python<'_>) -> PyResult<Iterator> {
        self.all(py, true, true)
    }

    /// Returns an iterator over a range. Each step shows the batch as it is then: what is written ahead of the iterator while it
    /// runs, it meets. It reads many pairs at once, and after a change it reads again, from behind the last key that it has
    /// returned.
    #[pyo3(signature = (*, reverse = false, start = None, stop = None, include_start = true, include_stop = false, prefix = None,
        include_key = true, include_value = true))]
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
    ) -> PyResult<Iterator> {
        let limits = Limits { start, stop, include_start, include_stop, prefix };
        self.iterate(py, &limits, (Direction::new(reverse), include_key, include_value))
    }

    /// Returns the same batch, whose reads and writes are those of another keyspace, or of the part of one that a prefixed_db
    /// shows.
    fn within(&self, py: Python<'_>, view: PyRef<'_, View>) -> PyResult<Self> {
        view.check_store(self.handle())?;
        let part = Part { place: view.place().clone(), ..self.part.clone() };
        // Reports a keyspace that was dropped.
        py.detach(|| part.with(|batch, place| within!(place, batch, part => part.prefix("").map(drop))))?;
        Ok(Self { part, prefix: Arc::clone(view.prefix()), sync: self.sync, is_part: true })
    }

    /// From now on the reads show the store as it is now, below the writes of the batch.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        let refresh = |batch: &mut alluvium::StagedBatch, _: &Place| {
            batch.refresh();
            Ok(())
        };
        Ok(py.detach(|| self.part.change(refresh))?)
    }

    /// The bytes of the writes in memory, about.
    #[getter]
    fn memory_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.look(py, |batch| Ok(batch.memory_bytes()))
    }

    /// The bytes of the files of the batch, without those of values from 256 KiB on.
    #[getter]
    fn spilled_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, |batch| Ok(batch.spilled_bytes()))
    }

    /// Makes all writes part of the store at once. The batch ends, also if that fails.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let engine = self.handle().engine()?;
        let options = write_options(self.sync);
        Ok(py.detach(move || {
            let batch = self.part.take().ok_or(Failure::Closed("staged batch"))?;
            let committed = batch.commit_with(options).map_err(Failure::from);
            drop(engine);
            committed
        })?)
    }

    /// Discards all writes. Does nothing if the batch has ended.
    fn rollback(&self, py: Python<'_>) {
        if self.handle().check().is_ok() {
            py.detach(|| drop(self.part.take()));
        }
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        this.look(this.py(), |_| Ok(()))?;
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
        if error.is_some() {
            self.rollback(py);
            return Ok(());
        }
        self.handle().check_process()?;
        if py.detach(|| self.part.is_open()) { self.commit(py) } else { Ok(()) }
    }
}
