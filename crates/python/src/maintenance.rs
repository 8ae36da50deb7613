//! Operations on a whole store: checks, compactions, and operations on closed stores.

use crate::engine::Engine;
use crate::errors::{Failure, Outcome};
use crate::handle::Handle;
use crate::keys::Range;
use crate::options;
use crate::place::Place;
use alluvium::{
    Cancellation, CheckpointOptions, CheckpointReport, CompactOptions, Db, Depth, Error, RepairReport, VerifyReport,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How often a long call checks for signals, so that Ctrl-C can end it.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Compacts a range in a separate thread. So this thread holds no part of the store while it runs signal handlers,
/// which may call anything.
pub fn compact(py: Python<'_>, handle: &Arc<Handle>, place: &Place, range: Range) -> PyResult<()> {
    let cancellation = Cancellation::new();
    let (engine, handle, cancelled) = (handle.engine()?, Arc::clone(handle), cancellation.clone());
    engine.writer()?;
    let place = place.clone();
    let (sender, mut receiver) = mpsc::channel();
    let work = move || {
        let _ = sender.send(compact_unless_closed(&engine, &handle, &place, range, cancelled));
    };
    std::thread::Builder::new().name("alluvium-python".into()).spawn(work)?;
    loop {
        let receiver = &mut receiver;
        match py.detach(move || receiver.recv_timeout(POLL_INTERVAL)) {
            Ok(outcome) => return Ok(outcome?),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Failure::Other("the compaction thread ended unexpectedly".into()).into());
            }
            Err(mpsc::RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| cancellation.cancel())?,
        }
    }
}

fn compact_unless_closed(
    engine: &Engine,
    handle: &Handle,
    place: &Place,
    range: Range,
    cancellation: Cancellation,
) -> Outcome<()> {
    let options = CompactOptions::new().cancellation(cancellation.clone());
    let done = engine.keyspace(place)?.compact_with(range, &options, &mut |_| {
        if handle.is_closed() {
            cancellation.cancel();
        }
    });
    match done {
        Err(Error::Cancelled) if handle.is_closed() => Err(Failure::Closed("store")),
        done => Ok(done.map(drop)?),
    }
}

/// Checks the files of an open store.
pub fn verify<'py>(py: Python<'py>, handle: &Handle, quick: bool) -> PyResult<Bound<'py, PyDict>> {
    let engine = handle.engine()?;
    let depth = if quick { Depth::Quick } else { Depth::Deep };
    let found = py.detach(move || engine.writer()?.verify_with(depth, &mut |_| ()).map_err(Failure::from))?;
    if !found.is_valid() {
        return Err(damaged(&found.damage, found.unlisted).into());
    }
    let VerifyReport { branch_files, pages, entries, value_files, log_segments, log_records, bytes, .. } =
        found.checked;
    let checked = PyDict::new(py);
    for (name, figure) in [
        ("branch_files", branch_files),
        ("pages", pages),
        ("entries", entries),
        ("value_files", value_files),
        ("log_segments", log_segments),
        ("log_records", log_records),
        ("bytes", bytes),
    ] {
        checked.set_item(name, figure)?;
    }
    Ok(checked)
}

/// The error for damage that a check has found, and for so much more that is not listed.
pub fn damaged(damage: &[Error], unlisted: u64) -> Failure {
    let mut lines: Vec<String> = damage.iter().map(Error::to_string).collect();
    if unlisted > 0 {
        lines.push(format!("and {unlisted} more"));
    }
    Failure::Damaged(lines)
}

/// Makes a second store, with the contents of this one, in another directory.
pub fn checkpoint<'py>(
    py: Python<'py>,
    handle: &Handle,
    path: &Bound<'py, PyAny>,
    links_only: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let (engine, path) = (handle.engine()?, options::path(path)?);
    let options = CheckpointOptions::new().links_only(links_only);
    let made =
        py.detach(move || engine.writer()?.checkpoint_with(path, &options, &mut |_| ()).map_err(Failure::from))?;
    let CheckpointReport { number, files_linked, bytes_linked, files_copied, bytes_copied, .. } = made;
    let report = PyDict::new(py);
    for (name, figure) in [
        ("number", number),
        ("files_linked", files_linked),
        ("bytes_linked", bytes_linked),
        ("files_copied", files_copied),
        ("bytes_copied", bytes_copied),
    ] {
        report.set_item(name, figure)?;
    }
    Ok(report)
}

/// Rebuilds a damaged store from the files that are left, and returns what was saved and what was lost.
#[pyfunction]
#[pyo3(signature = (name, **options))]
pub fn repair_db<'py>(
    py: Python<'py>,
    name: &Bound<'py, PyAny>,
    options: Option<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    // LevelDB's options, which have no effect on a repair.
    let _ = options;
    let path = options::path(name)?;
    let report = py.detach(|| Db::repair(path, &mut |_| ())).map_err(Failure::from)?;
    describe(py, &report)
}

fn describe<'py>(py: Python<'py>, report: &RepairReport) -> PyResult<Bound<'py, PyDict>> {
    let described = PyDict::new(py);
    described.set_item("changed", report.changed)?;
    described.set_item("entries_saved", report.entries_saved)?;
    described.set_item("entries_lost", report.entries_lost)?;
    let losses: Vec<String> = report.losses.iter().map(|loss| format!("{}: {}", loss.file, loss.what)).collect();
    described.set_item("losses", losses)?;
    described.set_item("set_aside", &report.set_aside)?;
    described.set_item("warnings", &report.warnings)?;
    Ok(described)
}

/// Deletes a closed store, and its directory if it contains nothing else.
#[pyfunction]
pub fn destroy_db(py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<()> {
    let path = options::path(name)?;
    Ok(py.detach(|| destroy(&path))?)
}

fn destroy(path: &Path) -> Outcome<()> {
    match Db::destroy(path) {
        // Like LevelDB: destroying a missing store is not an error.
        Err(Error::NoStore { .. }) if !path.exists() => Ok(()),
        destroyed => Ok(destroyed?),
    }
}
