//! Backups of a store.

use crate::errors::Failure;
use crate::handle::Handle;
use crate::maintenance::damaged;
use crate::options;
use alluvium::{BackupInfo, BackupOptions, BackupReport, RemoveReport, RestoreReport};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

/// Makes a backup of an open store.
pub fn backup<'py>(
    py: Python<'py>,
    handle: &Handle,
    directory: &Bound<'py, PyAny>,
    check_shared: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let (engine, directory) = (handle.engine()?, options::path(directory)?);
    let options = BackupOptions::new().check_shared(check_shared);
    let made =
        py.detach(move || engine.writer()?.backup_with(directory, &options, &mut |_| ()).map_err(Failure::from))?;
    let BackupReport { id, number, files_new, bytes_new, files_shared, bytes_shared, .. } = made;
    let figures = [
        ("id", id),
        ("number", number),
        ("files_new", files_new),
        ("bytes_new", bytes_new),
        ("files_shared", files_shared),
        ("bytes_shared", bytes_shared),
    ];
    figures.into_py_dict(py)
}

/// A directory of backups, which `DB.backup` makes. It needs no open store.
#[pyclass(frozen, module = "alluvium", name = "Backups")]
pub struct Backups {
    backups: alluvium::Backups,
}

#[pymethods]
impl Backups {
    #[new]
    fn new(py: Python<'_>, directory: &Bound<'_, PyAny>) -> PyResult<Self> {
        let directory = options::path(directory)?;
        Ok(Self { backups: py.detach(|| alluvium::Backups::open(directory)).map_err(Failure::from)? })
    }

    /// Returns a description of each backup, oldest first. 'damage' says why one cannot be used; None otherwise.
    fn list<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let found = py.detach(|| self.backups.list()).map_err(Failure::from)?;
        found.iter().map(|info| describe(py, info)).collect()
    }

    /// Reads the files of a backup and returns counts of what was read. Damage raises CorruptionError.
    fn verify<'py>(&self, py: Python<'py>, id: u64) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| self.backups.verify(id)).map_err(Failure::from)?;
        if !found.is_valid() {
            return Err(damaged(&found.damage, 0).into());
        }
        [("files", found.files), ("bytes", found.bytes)].into_py_dict(py)
    }

    /// Makes a store of a backup, in a directory that is empty or does not exist. Returns counts.
    fn restore<'py>(&self, py: Python<'py>, id: u64, path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let path = options::path(path)?;
        let made = py.detach(|| self.backups.restore(id, path)).map_err(Failure::from)?;
        let RestoreReport { id, number, files, bytes, .. } = made;
        [("id", id), ("number", number), ("files", files), ("bytes", bytes)].into_py_dict(py)
    }

    /// Removes a backup, and the files that only it needs. Returns counts.
    fn remove<'py>(&self, py: Python<'py>, id: u64) -> PyResult<Bound<'py, PyDict>> {
        removed(py, py.detach(|| self.backups.remove(id)))
    }

    /// Removes all backups but the newest 'count', and the files that only they need. Returns counts.
    fn keep_newest<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyDict>> {
        removed(py, py.detach(|| self.backups.keep_newest(count)))
    }
}

fn describe<'py>(py: Python<'py>, info: &BackupInfo) -> PyResult<Bound<'py, PyDict>> {
    let described = [("id", info.id), ("number", info.number), ("files", info.files), ("bytes", info.bytes)];
    let described = described.into_py_dict(py)?;
    described.set_item("time", info.time.map(|time| time.as_secs_f64()))?;
    described.set_item("damage", info.damage.as_ref().map(ToString::to_string))?;
    Ok(described)
}

fn removed(py: Python<'_>, removed: alluvium::Result<RemoveReport>) -> PyResult<Bound<'_, PyDict>> {
    let RemoveReport { backups, files, bytes, .. } = removed.map_err(Failure::from)?;
    [("backups", backups), ("files", files), ("bytes", bytes)].into_py_dict(py)
}
