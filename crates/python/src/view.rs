//! The common base of `DB`, `Keyspace` and `PrefixedDB`: a keyspace, or the part of it behind a prefix.

use crate::batch::WriteBatch;
use crate::engine::{Engine, write_options};
use crate::errors::{Failure, Outcome};
use crate::gap::Direction;
use crate::handle::Handle;
use crate::ingest;
use crate::iterator::Iterator;
use crate::keys::{Limits, Range, whole};
use crate::maintenance;
use crate::octets::Octets;
use crate::place::Place;
use crate::raw_iterator::RawIterator;
use crate::retry;
use crate::snapshot::{Snapshot, iterate, iterate_raw};
use crate::staged_batch::StagedBatch;
use crate::transaction::Transaction;
use alluvium::Swap;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// Values are read into this buffer before they are copied to Python's memory.
    static VALUE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The largest buffer that a thread keeps.
const KEPT_VALUE_BYTES: usize = 1 << 20;

/// The keys with a prefix, which may be empty. Not created by users.
#[pyclass(subclass, frozen, module = "alluvium._alluvium")]
pub struct View {
    handle: Arc<Handle>,
    place: Place,
    prefix: Arc<[u8]>,
}

/// Returns the error for an absent key.
pub fn absent(py: Python<'_>, key: &[u8]) -> PyErr {
    PyKeyError::new_err(PyBytes::new(py, key).unbind())
}

/// Reads many keys.
pub fn give_many<'py>(
    keys: &Bound<'py, PyAny>,
    prefix: &[u8],
    read: impl FnOnce(&[Vec<u8>]) -> Outcome<Vec<Option<Vec<u8>>>> + Send,
) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
    let (py, mut wanted) = (keys.py(), Vec::new());
    for key in keys.try_iter()? {
        wanted.push(whole(prefix, &key?.extract::<Octets<'_>>()?).into_owned());
    }
    let values = py.detach(|| read(&wanted))?;
    Ok(values.into_iter().map(|value| value.map(|value| PyBytes::new(py, &value))).collect())
}

impl View {
    /// Creates a view of the default keyspace of a store.
    pub fn of_all(handle: Handle) -> Self {
        Self { handle: Arc::new(handle), place: Place::default(), prefix: Arc::default() }
    }

    /// Returns a view of a keyspace of the same store.
    pub fn of_keyspace(&self, place: Place) -> Self {
        Self { handle: Arc::clone(&self.handle), place, prefix: Arc::default() }
    }

    /// Returns a view of the keys of this view that begin with a prefix.
    pub fn part(&self, prefix: &[u8]) -> Self {
        Self { handle: Arc::clone(&self.handle), place: self.place.clone(), prefix: whole(&self.prefix, prefix).into() }
    }

    /// Returns the store.
    pub fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Returns the keyspace.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns an error if this is a view of another store than that of a batch, snapshot or transaction.
    pub fn check_store(&self, handle: &Arc<Handle>) -> Outcome<()> {
        if Arc::ptr_eq(&self.handle, handle) {
            return handle.check();
        }
        Err(Failure::Invalid("the keyspace belongs to another store, or to an earlier opening of this one".into()))
    }

    /// Returns the prefix of all keys.
    pub fn prefix(&self) -> &Arc<[u8]> {
        &self.prefix
    }

    /// Calls into the store, detached.
    pub fn call<T: Send>(&self, py: Python<'_>, call: impl FnOnce(&Engine) -> Outcome<T> + Send) -> PyResult<T> {
        let engine = self.handle.engine()?;
        // The closure owns the store, so it is released before waiting for the interpreter.
        Ok(py.detach(move || call(&engine))?)
    }

    /// Reads a value and passes it to a function.
    fn read<T>(&self, py: Python<'_>, key: &[u8], give: impl FnOnce(&[u8]) -> T) -> PyResult<Option<T>> {
        let (key, mut value) = (whole(&self.prefix, key), VALUE.take());
        let found = self.call(py, |engine| Ok(engine.get_into(&self.place, &key, &mut value)?))?;
        let given = found.then(|| give(&value));
        if value.capacity() <= KEPT_VALUE_BYTES {
            VALUE.set(value);
        }
        Ok(given)
    }

    fn swap(
        &self,
        py: Python<'_>,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        sync: bool,
    ) -> PyResult<Swap> {
        let key = whole(&self.prefix, key);
        self.call(py, |engine| {
            Ok(engine.keyspace(&self.place)?.compare_and_swap_with(&*key, expected, new, write_options(sync))?)
        })
    }

    fn range(&self, start: Option<Octets<'_>>, stop: Option<Octets<'_>>) -> PyResult<Range> {
        Limits { start, stop, include_start: true, include_stop: false, prefix: None }.range(&self.prefix)
    }

    fn iterate(&self, py: Python<'_>, limits: &Limits<'_>, shape: (Direction, bool, bool)) -> PyResult<Iterator> {
        let moment = self.call(py, |engine| engine.moment(&self.place))?;
        iterate(py, (&self.handle, &self.prefix), moment, limits, shape)
    }

    fn all(&self, py: Python<'_>, keys: bool, values: bool) -> PyResult<Iterator> {
        let limits = Limits { start: None, stop: None, include_start: true, include_stop: false, prefix: None };
        self.iterate(py, &limits, (Direction::Forward, keys, values))
    }

    fn size_of(&self, py: Python<'_>, range: Range) -> PyResult<u64> {
        self.call(py, |engine| engine.approximate_size(&self.place, range))
    }
}

#[pymethods]
impl View {
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
        Ok(self.read(py, &key, |value| PyBytes::new(py, value).into_any())?.or(default))
    }

    /// Returns the values of many keys, in the order of the keys, all at one snapshot.
    fn multi_get<'py>(&self, keys: Bound<'py, PyAny>) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        self.handle.check()?;
        give_many(&keys, &self.prefix, |keys| Ok(self.handle.engine()?.multi_get(&self.place, keys)?))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Octets<'_>) -> PyResult<Bound<'py, PyBytes>> {
        self.read(py, &key, |value| PyBytes::new(py, value))?.ok_or_else(|| absent(py, &key))
    }

    fn __contains__(&self, py: Python<'_>, key: Octets<'_>) -> PyResult<bool> {
        let key = whole(&self.prefix, &key);
        self.call(py, |engine| Ok(engine.contains(&self.place, &key)?))
    }

    /// Sets a key.
    #[pyo3(signature = (key, value, *, sync = false))]
    fn put(&self, py: Python<'_>, key: Octets<'_>, value: Octets<'_>, sync: bool) -> PyResult<()> {
        let (key, value) = (whole(&self.prefix, &key), &*value);
        self.call(py, |engine| Ok(engine.keyspace(&self.place)?.put_with(&*key, value, write_options(sync))?))
    }

    fn __setitem__(&self, py: Python<'_>, key: Octets<'_>, value: Octets<'_>) -> PyResult<()> {
        self.put(py, key, value, false)
    }

    /// Merges an operand into the value of a key, as the store's merge operator says.
    #[pyo3(signature = (key, operand, *, sync = false))]
    fn merge(&self, py: Python<'_>, key: Octets<'_>, operand: Octets<'_>, sync: bool) -> PyResult<()> {
        let (key, operand) = (whole(&self.prefix, &key), &*operand);
        self.call(py, |engine| Ok(engine.keyspace(&self.place)?.merge_with(&*key, operand, write_options(sync))?))
    }

    /// Deletes a key. It is not an error if the key is absent.
    #[pyo3(signature = (key, *, sync = false))]
    fn delete(&self, py: Python<'_>, key: Octets<'_>, sync: bool) -> PyResult<()> {
        let key = whole(&self.prefix, &key);
        self.call(py, |engine| Ok(engine.keyspace(&self.place)?.delete_with(&*key, write_options(sync))?))
    }

    /// Deletes all keys of a range, by one small write.
    #[pyo3(signature = (*, start = None, stop = None, include_start = true, include_stop = false, prefix = None, sync = false))]
    #[allow(clippy::too_many_arguments, reason = "those of `iterator`")]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Octets<'_>>,
        stop: Option<Octets<'_>>,
        include_start: bool,
        include_stop: bool,
        prefix: Option<Octets<'_>>,
        sync: bool,
    ) -> PyResult<()> {
        let range = Limits { start, stop, include_start, include_stop, prefix }.range(&self.prefix)?;
        self.call(py, |engine| Ok(engine.keyspace(&self.place)?.delete_range_with(range, write_options(sync))?))
    }

    /// Deletes all keys, by one small write.
    #[pyo3(signature = (*, sync = false))]
    fn clear(&self, py: Python<'_>, sync: bool) -> PyResult<()> {
        self.delete_range(py, None, None, true, false, None, sync)
    }

    fn __delitem__(&self, py: Python<'_>, key: Octets<'_>) -> PyResult<()> {
        self.removed(py, &key)?.map(drop).ok_or_else(|| absent(py, &key))
    }

    /// Atomically deletes a key and returns its value.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(&self, py: Python<'py>, key: Octets<'_>, default: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err(format!("pop takes at most 2 arguments ({} given)", default.len() + 1)));
        }
        match self.removed(py, &key)? {
            Some(value) => Ok(PyBytes::new(py, &value).into_any()),
            None => default.get_item(0).map_err(|_| absent(py, &key)),
        }
    }

    /// Atomically sets a key that is absent to the default, and returns its value.
    fn setdefault<'py>(&self, py: Python<'py>, key: Octets<'_>, default: Octets<'_>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(match self.swap(py, &key, None, Some(&default), false)? {
            Swap::Differs(Some(value)) => PyBytes::new(py, &value),
            _ => PyBytes::new(py, &default),
        })
    }

    /// Atomically sets the keys of a mapping, or of an iterable of pairs.
    #[pyo3(signature = (other, /))]
    fn update(&self, py: Python<'_>, other: Bound<'_, PyAny>) -> PyResult<()> {
        let pairs = if other.hasattr("items")? { other.call_method0("items")? } else { other };
        let mut batch = alluvium::WriteBatch::new();
        for pair in pairs.try_iter()? {
            let (key, value) = pair?.extract::<(Octets<'_>, Octets<'_>)>()?;
            let key = whole(&self.prefix, &key);
            match self.place.writer() {
                Some(keyspace) => {
                    batch.within(keyspace).put(key, &*value);
                }
                None => {
                    batch.put(key, &*value);
                }
            }
        }
        self.call(py, |engine| Ok(engine.writer()?.write(batch)?))
    }

    /// Atomically sets a key to `function(value)`. None stands for an absent key on both sides. Returns the new value.
    /// The function is called again if another write changes the key meanwhile.
    #[pyo3(signature = (key, function, *, sync = false))]
    fn modify<'py>(
        &self,
        py: Python<'py>,
        key: Octets<'_>,
        function: Bound<'py, PyAny>,
        sync: bool,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut old = self.read(py, &key, <[u8]>::to_vec)?;
        loop {
            let given = function.call1((old.as_deref().map(|old| PyBytes::new(py, old)),))?;
            let new: Option<Octets<'_>> = given.extract()?;
            let is_kept = old.as_deref() == new.as_deref();
            if is_kept {
                self.call(py, |engine| engine.writer().map(drop))?;
            }
            match if is_kept { Swap::Done } else { self.swap(py, &key, old.as_deref(), new.as_deref(), sync)? } {
                Swap::Done => return Ok(new.map(|new| PyBytes::new(py, &new))),
                Swap::Differs(newer) => old = newer,
            }
            py.check_signals()?;
        }
    }

    /// Atomically sets a key to `new` if its value is `expected`. None stands for an absent key on both sides. Returns
    /// whether it was set.
    #[pyo3(signature = (key, expected, new, *, sync = false))]
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        key: Octets<'_>,
        expected: Option<Octets<'_>>,
        new: Option<Octets<'_>>,
        sync: bool,
    ) -> PyResult<bool> {
        Ok(self.swap(py, &key, expected.as_deref(), new.as_deref(), sync)?.is_done())
    }

    /// Atomically sets a key that is absent. Returns whether it was set.
    #[pyo3(signature = (key, value, *, sync = false))]
    fn put_if_absent(&self, py: Python<'_>, key: Octets<'_>, value: Octets<'_>, sync: bool) -> PyResult<bool> {
        Ok(self.swap(py, &key, None, Some(&value), sync)?.is_done())
    }

    /// Ingests pairs whose keys ascend: all of them enter the store at once, durably, past its log and memory. Returns their
    /// number.
    fn ingest(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<u64> {
        ingest::ingest(py, self, pairs)
    }

    /// Returns a new batch of writes.
    #[pyo3(signature = (*, transaction = false, sync = None))]
    fn write_batch(&self, transaction: bool, sync: Option<bool>) -> PyResult<WriteBatch> {
        self.handle.check()?;
        Ok(WriteBatch::new(self, transaction, sync.unwrap_or(false)))
    }

    /// Begins a batch of any size, which is read before it is committed. It has about 'memory' bytes of its writes in memory, by
    /// default 16 MiB, and the rest in files of the store.
    #[pyo3(signature = (*, memory = None, sync = false))]
    fn staged_batch(&self, py: Python<'_>, memory: Option<usize>, sync: bool) -> PyResult<StagedBatch> {
        let begin = |engine: &Engine| {
            let batch = engine.writer()?.staged_batch()?;
            Ok(match memory {
                Some(bytes) => batch.with_memory(bytes),
                None => batch,
            })
        };
        Ok(StagedBatch::new(self, self.call(py, begin)?, sync))
    }

    /// Starts a transaction.
    #[pyo3(signature = (*, sync = false))]
    fn transaction(&self, py: Python<'_>, sync: bool) -> PyResult<Transaction> {
        let begin = |engine: &Engine| Ok((engine.writer()?.transaction()?, engine.keyspace(&self.place)?.clone()));
        let (transaction, keyspace) = self.call(py, begin)?;
        Ok(Transaction::new(self, transaction, keyspace, sync))
    }

    /// Runs a function in a transaction and commits. Runs it again after a conflict, up to `attempts` times in all.
    #[pyo3(signature = (function, attempts = 100, *, sync = false))]
    fn transact<'py>(
        &self,
        py: Python<'py>,
        function: Bound<'py, PyAny>,
        attempts: u32,
        sync: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        retry::transact(py, || self.transaction(py, sync), &function, attempts)
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
        self.iterate(py, &limits, (Direction::new(reverse), include_key, include_value))
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
        let moment = self.call(py, |engine| engine.moment(&self.place))?;
        iterate_raw(py, &self.handle, &self.prefix, &moment)
    }

    /// Takes a snapshot.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let moment = self.call(py, |engine| Ok(engine.snapshot(&self.place)))?;
        Ok(Snapshot::new(Arc::clone(&self.handle), moment, Arc::clone(&self.prefix)))
    }

    /// Estimates how many bytes the pairs of a range occupy.
    fn approximate_size(&self, py: Python<'_>, start: Octets<'_>, stop: Octets<'_>) -> PyResult<u64> {
        self.size_of(py, self.range(Some(start), Some(stop))?)
    }

    /// Estimates the sizes of many ranges.
    #[pyo3(signature = (*ranges))]
    fn approximate_sizes(&self, py: Python<'_>, ranges: &Bound<'_, PyTuple>) -> PyResult<Vec<u64>> {
        self.handle.check()?;
        let sizes = ranges.iter().map(|range| {
            let (start, stop) = range.extract::<(Octets<'_>, Octets<'_>)>()?;
            self.size_of(py, self.range(Some(start), Some(stop))?)
        });
        sizes.collect()
    }

    /// Removes deleted and overwritten data from a range.
    #[pyo3(signature = (*, start = None, stop = None))]
    fn compact_range(&self, py: Python<'_>, start: Option<Octets<'_>>, stop: Option<Octets<'_>>) -> PyResult<()> {
        maintenance::compact(py, &self.handle, &self.place, self.range(start, stop)?)
    }
}

impl View {
    /// Atomically deletes a key and returns its old value.
    fn removed(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Vec<u8>>> {
        let mut old = self.read(py, key, <[u8]>::to_vec)?;
        loop {
            let Some(value) = old else {
                // A read-only store returns its error even if the key is absent.
                return self.call(py, |engine| engine.writer().map(|_| None));
            };
            match self.swap(py, key, Some(&value), None, false)? {
                Swap::Done => return Ok(Some(value)),
                Swap::Differs(newer) => old = newer,
            }
        }
    }
}
