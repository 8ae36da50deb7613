//! Transactions: several reads and writes as one atomic operation.

use crate::engine::write_options;
use crate::errors::{Failure, Outcome};
use crate::gap::Direction;
use crate::handle::{Handle, Owned};
use crate::iterator::{Iterator, Shape, Shared};
use crate::keys::{Limits, whole};
use crate::lock::lock;
use crate::octets::Octets;
use crate::source::Source;
use crate::view::{View, absent, give_many};
use alluvium::{Keyspace, TransactionKeyspace};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, Weak};

/// An optimistic, serializable transaction.
#[pyclass(frozen, module = "alluvium")]
pub struct Transaction {
    handle: Arc<Handle>,
    keyspace: Arc<Owned<Keyspace>>,
    prefix: Arc<[u8]>,
    /// Shared with the results of `within`.
    shared: Arc<Common>,
    sync: bool,
    /// Whether it is the result of `within`.
    is_part: bool,
}

/// What all parts of a transaction share.
struct Common {
    /// Empty after the end.
    transaction: Mutex<Owned<Arc<alluvium::Transaction>>>,
    /// The iterators that are closed with the transaction.
    iterators: Mutex<Vec<Weak<<Shared as std::ops::Deref>::Target>>>,
}

/// A transaction and the keyspace of a part of it, for one call.
pub struct Open {
    transaction: Arc<alluvium::Transaction>,
    keyspace: Arc<Owned<Keyspace>>,
}

impl Open {
    /// The part of the transaction in the keyspace.
    pub fn part(&self) -> alluvium::Result<TransactionKeyspace<'_>> {
        // It is never taken.
        self.transaction.within(self.keyspace.get().ok_or(alluvium::Error::Closed)?)
    }
}

impl Transaction {
    /// Creates a transaction on a view of a store.
    pub fn new(view: &View, transaction: alluvium::Transaction, keyspace: Keyspace, sync: bool) -> Self {
        let (handle, prefix) = (Arc::clone(view.handle()), Arc::clone(view.prefix()));
        let transaction = Mutex::new(handle.own(Arc::new(transaction)));
        let (shared, keyspace) = (Common { transaction, iterators: Mutex::default() }, handle.own(keyspace));
        Self { handle, keyspace: Arc::new(keyspace), prefix, shared: Arc::new(shared), sync, is_part: false }
    }

    /// Whether it was neither committed nor rolled back.
    pub fn is_open(&self, py: Python<'_>) -> bool {
        lock(py, &self.shared.transaction).get().is_some()
    }

    fn open(&self, py: Python<'_>) -> Outcome<Open> {
        self.handle.check()?;
        let transaction = lock(py, &self.shared.transaction).get().cloned().ok_or(Failure::Closed("transaction"))?;
        Ok(Open { transaction, keyspace: Arc::clone(&self.keyspace) })
    }

    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(TransactionKeyspace<'_>) -> alluvium::Result<T> + Send,
    ) -> PyResult<T> {
        let open = self.open(py)?;
        Ok(py.detach(move || call(open.part()?)).map_err(Failure::from)?)
    }

    fn read(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Vec<u8>>> {
        let key = whole(&self.prefix, key);
        self.call(py, |part| part.get(&*key))
    }

    /// Ends the transaction and returns it; `None` if it has ended.
    fn take(&self, py: Python<'_>) -> Option<alluvium::Transaction> {
        let mut transaction = lock(py, &self.shared.transaction).take()?;
        for iterator in std::mem::take(&mut *lock(py, &self.shared.iterators)).iter().filter_map(Weak::upgrade) {
            self.handle.end(py, &iterator);
        }
        // Waits for running calls of other threads.
        py.detach(|| {
            loop {
                match Arc::try_unwrap(transaction) {
                    Ok(transaction) => return Some(transaction),
                    Err(in_use) => transaction = in_use,
                }
                std::thread::yield_now();
            }
        })
    }

    fn iterate(&self, py: Python<'_>, limits: &Limits<'_>, shape: (Direction, bool, bool)) -> PyResult<Iterator> {
        let (range, open) = (limits.range(&self.prefix)?, self.open(py)?);
        let source = py.detach(|| Source::of_transaction(open, range.clone())).map_err(Failure::from)?;
        let (direction, keys, values) = shape;
        let shape = Shape { prefix: Arc::clone(&self.prefix), direction, keys, values };
        let iterator = Iterator::new(Arc::clone(&self.handle), source, range, shape);
        let mut iterators = lock(py, &self.shared.iterators);
        iterators.retain(|iterator| iterator.strong_count() > 0);
        iterators.push(Arc::downgrade(iterator.shared()));
        Ok(iterator)
    }

    fn all(&self, py: Python<'_>, keys: bool, values: bool) -> PyResult<Iterator> {
        let limits = Limits { start: None, stop: None, include_start: true, include_stop: false, prefix: None };
        self.iterate(py, &limits, (Direction::Forward, keys, values))
    }
}

#[pymethods]
impl Transaction {
    /// Returns the value of a key, or `default` if it is absent. The key counts as read.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Octets<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.read(py, &key)?.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }

    /// Returns the values of many keys, in the order of the keys. All of them count as read.
    fn multi_get<'py>(&self, py: Python<'py>, keys: Bound<'py, PyAny>) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let open = self.open(py)?;
        give_many(&keys, &self.prefix, |keys| Ok(open.part()?.multi_get(keys)?))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Octets<'_>) -> PyResult<Bound<'py, PyBytes>> {
        self.read(py, &key)?.map(|value| PyBytes::new(py, &value)).ok_or_else(|| absent(py, &key))
    }

    fn __contains__(&self, py: Python<'_>, key: Octets<'_>) -> PyResult<bool> {
        Ok(self.read(py, &key)?.is_some())
    }

    /// Sets a key when the transaction commits.
    fn put(&self, py: Python<'_>, key: Octets<'_>, value: Octets<'_>) -> PyResult<()> {
        let (key, value) = (whole(&self.prefix, &key), &*value);
        self.call(py, |part| part.put(&*key, value))
    }

    fn __setitem__(&self, py: Python<'_>, key: Octets<'_>, value: Octets<'_>) -> PyResult<()> {
        self.put(py, key, value)
    }

    /// Merges an operand into the value of a key when the transaction commits.
    fn merge(&self, py: Python<'_>, key: Octets<'_>, operand: Octets<'_>) -> PyResult<()> {
        let (key, operand) = (whole(&self.prefix, &key), &*operand);
        self.call(py, |part| part.merge(&*key, operand))
    }

    /// Deletes a key when the transaction commits. It is not an error if the key is absent.
    fn delete(&self, py: Python<'_>, key: Octets<'_>) -> PyResult<()> {
        let key = whole(&self.prefix, &key);
        self.call(py, |part| part.delete(&*key))
    }

    /// Deletes all keys of a range when the transaction commits.
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
        self.call(py, |part| part.delete_range(range))
    }

    fn __delitem__(&self, py: Python<'_>, key: Octets<'_>) -> PyResult<()> {
        if self.read(py, &key)?.is_none() {
            return Err(absent(py, &key));
        }
        self.delete(py, key)
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

    /// Returns an iterator over a range. The part of the range that is iterated over counts as read.
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

    /// Returns the same transaction, whose reads and writes are those of another keyspace, or of the part of one that a
    /// prefixed_db shows.
    fn within(&self, py: Python<'_>, view: PyRef<'_, View>) -> PyResult<Self> {
        view.check_store(&self.handle)?;
        let (engine, place) = (self.handle.engine()?, view.place());
        let keyspace = Arc::new(self.handle.own(engine.keyspace(place)?.clone()));
        drop(engine);
        let part = Self {
            handle: Arc::clone(&self.handle),
            keyspace,
            prefix: Arc::clone(view.prefix()),
            shared: Arc::clone(&self.shared),
            sync: self.sync,
            is_part: true,
        };
        // Reports a keyspace that was dropped.
        part.call(py, |_| Ok(()))?;
        Ok(part)
    }

    /// Applies all writes atomically, if nothing that was read has changed since.
    pub fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.check()?;
        let transaction = self.take(py).ok_or(Failure::Closed("transaction"))?;
        let sync = self.sync;
        Ok(py.detach(move || transaction.commit_with(write_options(sync))).map_err(Failure::from)?)
    }

    /// Discards all writes. Does nothing if the transaction has ended.
    pub fn rollback(&self, py: Python<'_>) {
        if self.handle.check().is_ok() {
            let transaction = self.take(py);
            py.detach(move || drop(transaction));
        }
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        this.open(this.py())?;
        Ok(this)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        error: Option<Bound<'_, PyAny>>,
        _value: Py<PyAny>,
        _traceback: Py<PyAny>,
    ) -> PyResult<()> {
        match error {
            // A part leaves that to the transaction.
            _ if self.is_part => Ok(()),
            None if self.is_open(py) => self.commit(py),
            None => Ok(()),
            Some(_) => {
                self.rollback(py);
                Ok(())
            }
        }
    }
}
