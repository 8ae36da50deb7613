//! The class `DB`.

use crate::backups;
use crate::changes::Changes;
use crate::errors::Failure;
use crate::handle::Handle;
use crate::keyspace::Keyspace;
use crate::maintenance;
use crate::octets::Octets;
use crate::options::{self, LevelDbOptions, Settings};
use crate::place::Place;
use crate::prefixed::PrefixedDb;
use crate::property;
use crate::stats;
use crate::view::View;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// An open store.
#[pyclass(extends = View, subclass, frozen, module = "alluvium", name = "DB")]
pub struct Db {
    name: Py<PyAny>,
}

#[pymethods]
impl Db {
    #[new]
    #[pyo3(
        signature = (name, *, create_if_missing = false, error_if_exists = false, paranoid_checks = None, write_buffer_size = None,
            max_open_files = None, lru_cache_size = None, block_size = None, block_restart_interval = None, max_file_size = None,
            compression = Some("lz4".into()), bloom_filter_bits = 0, comparator = None, comparator_name = None, memory = None,
            sync_interval = Some(0.1), read_only = false, merge_operator = None, keep_changes = None, keep_changes_age = None),
        text_signature = "(name, *, create_if_missing=False, error_if_exists=False, paranoid_checks=None, \
            write_buffer_size=None, max_open_files=None, lru_cache_size=None, block_size=None, block_restart_interval=None, \
            max_file_size=None, compression='lz4', bloom_filter_bits=0, comparator=None, comparator_name=None, \
            memory=None, sync_interval=0.1, read_only=False, merge_operator=None, keep_changes=None, keep_changes_age=None)"
    )]
    #[allow(clippy::too_many_arguments, reason = "plyvel's")]
    fn new(
        py: Python<'_>,
        name: Bound<'_, PyAny>,
        create_if_missing: bool,
        error_if_exists: bool,
        paranoid_checks: Option<bool>,
        write_buffer_size: Option<u64>,
        max_open_files: Option<i64>,
        lru_cache_size: Option<u64>,
        block_size: Option<u64>,
        block_restart_interval: Option<i64>,
        max_file_size: Option<u64>,
        compression: Option<options::Text>,
        bloom_filter_bits: i64,
        comparator: Option<Bound<'_, PyAny>>,
        comparator_name: Option<Bound<'_, PyBytes>>,
        memory: Option<u64>,
        sync_interval: Option<f64>,
        read_only: bool,
        merge_operator: Option<&str>,
        keep_changes: Option<u64>,
        keep_changes_age: Option<f64>,
    ) -> PyResult<PyClassInitializer<Self>> {
        // The store always verifies, and it chooses the sizes of its files, blocks and filters itself.
        let _ = (paranoid_checks, max_open_files, block_size, block_restart_interval, max_file_size, bloom_filter_bits);
        options::check_comparator(comparator.as_ref(), comparator_name.is_some())?;
        let settings = Settings {
            path: options::path(&name)?,
            create_if_missing,
            error_if_exists,
            read_only,
            compression: options::compression(compression)?,
            memory: memory.unwrap_or_else(|| LevelDbOptions { write_buffer_size, lru_cache_size }.memory()),
            sync_interval: options::interval(sync_interval)?,
            merge_operator: options::merge_operator(merge_operator)?,
            change_retention: options::change_retention(keep_changes, keep_changes_age)?,
        };
        let engine = py.detach(|| settings.open())?;
        Ok(PyClassInitializer::from(View::of_all(Handle::new(engine))).add_subclass(Self { name: name.unbind() }))
    }

    /// The name with which the store was opened.
    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyAny> {
        self.name.clone_ref(py)
    }

    /// Whether the store is closed.
    #[getter]
    fn closed(this: PyRef<'_, Self>) -> bool {
        this.as_super().handle().is_closed()
    }

    /// Closes the store. Waits for running calls of other threads. Does nothing if the store is closed.
    fn close(this: PyRef<'_, Self>) -> PyResult<()> {
        let handle = this.as_super().handle();
        Ok(this.py().detach(|| handle.close())?)
    }

    /// Makes everything that was written durable.
    fn sync(this: PyRef<'_, Self>) -> PyResult<()> {
        let engine = this.as_super().handle().engine()?;
        Ok(this.py().detach(move || engine.writer()?.sync().map_err(Failure::from))?)
    }

    /// Returns the current statistics.
    fn stats(this: PyRef<'_, Self>) -> PyResult<Bound<'_, PyDict>> {
        let (py, engine) = (this.py(), this.as_super().handle().engine()?);
        stats::dictionary(py, &py.detach(move || engine.stats()))
    }

    /// Returns a property under one of LevelDB's names; None if the name is unknown.
    fn get_property<'py>(this: PyRef<'py, Self>, name: Octets<'_>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (py, engine, name) = (this.py(), this.as_super().handle().engine()?, &*name);
        let value = py.detach(move || property::value(&engine, name));
        Ok(value.map(|value| PyBytes::new(py, value.as_bytes())))
    }

    /// Checks the files of the store and returns counts of what was checked. Damage raises CorruptionError.
    #[pyo3(signature = (*, quick = false))]
    fn verify(this: PyRef<'_, Self>, quick: bool) -> PyResult<Bound<'_, PyDict>> {
        maintenance::verify(this.py(), this.as_super().handle(), quick)
    }

    /// Makes a second store in another directory, with the contents of this one at one moment, while others write. The files
    /// are shared by hard links, or copied if that is not possible; with 'links_only' that is an error. Returns counts.
    #[pyo3(signature = (path, *, links_only = false))]
    fn checkpoint<'py>(
        this: PyRef<'py, Self>,
        path: &Bound<'py, PyAny>,
        links_only: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        maintenance::checkpoint(this.py(), this.as_super().handle(), path, links_only)
    }

    /// Makes a backup in a directory of backups, which is created if it does not exist, while others write. Only files that no earlier
    /// backup there has are copied; with 'check_shared' those of earlier ones are read, and copied again if they are damaged. Returns
    /// counts, and the id.
    #[pyo3(signature = (directory, *, check_shared = false))]
    fn backup<'py>(
        this: PyRef<'py, Self>,
        directory: &Bound<'py, PyAny>,
        check_shared: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        backups::backup(this.py(), this.as_super().handle(), directory, check_shared)
    }

    /// Iterates over the writes to the store after a number, in their order: pairs of the number after which to go on, and a list of
    /// what was done. The store must keep changes (the option 'keep_changes').
    #[pyo3(signature = (since))]
    fn changes(this: PyRef<'_, Self>, since: u64) -> PyResult<Changes> {
        Changes::new(this.py(), this.as_super().handle(), since)
    }

    /// Opens the keyspace with a name, and creates it if it does not exist, unless 'create_if_missing' is false.
    #[pyo3(signature = (name, merge_operator = None, durability = None, expiry = None, *, create_if_missing = true))]
    fn keyspace(
        this: Bound<'_, Self>,
        name: String,
        merge_operator: Option<&str>,
        durability: Option<&str>,
        expiry: Option<f64>,
        create_if_missing: bool,
    ) -> PyResult<Py<Keyspace>> {
        let options = options::of_keyspace(merge_operator, durability, expiry)?;
        let (py, options) = (this.py(), options.create_if_missing(create_if_missing));
        let view = {
            let db = this.borrow();
            let (handle, opened) = (db.as_super().handle(), &name);
            let engine = handle.engine()?;
            db.as_super().of_keyspace(py.detach(move || Place::open(handle, &engine, opened, options))?)
        };
        Keyspace::new(py, this.clone().unbind(), name, view)
    }

    /// Returns the names of the keyspaces in order, without the default one.
    fn keyspace_names(this: PyRef<'_, Self>) -> PyResult<Vec<String>> {
        let engine = this.as_super().handle().engine()?;
        Ok(this.py().detach(move || engine.keyspace_names()).map_err(Failure::from)?)
    }

    /// Drops a keyspace with all its keys. Returns whether it existed.
    fn drop_keyspace(this: PyRef<'_, Self>, name: &str) -> PyResult<bool> {
        let engine = this.as_super().handle().engine()?;
        Ok(this.py().detach(move || engine.writer()?.drop_keyspace(name).map_err(Failure::from))?)
    }

    /// Returns a view of the keys that begin with a prefix, without the prefix.
    fn prefixed_db(this: Bound<'_, Self>, prefix: Octets<'_>) -> PyResult<Py<PrefixedDb>> {
        let view = this.borrow().as_super().part(&prefix);
        PrefixedDb::new(this.py(), this.clone().unbind(), view)
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        this.as_super().handle().check()?;
        Ok(this)
    }

    fn __exit__(this: PyRef<'_, Self>, _type: Py<PyAny>, _value: Py<PyAny>, _traceback: Py<PyAny>) -> PyResult<()> {
        Self::close(this)
    }

    fn __repr__(this: PyRef<'_, Self>) -> PyResult<String> {
        let closed = if this.as_super().handle().is_closed() { " (closed)" } else { "" };
        Ok(format!("<alluvium.DB with name {}{closed}>", this.name.bind(this.py()).repr()?))
    }
}
