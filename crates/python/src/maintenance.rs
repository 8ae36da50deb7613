//! Work on a whole store: checks, compactions, and what is done to a store that nobody has open.

use crate::engine::Engine;
use crate::errors::{Failure, Outcome};
use crate::handle::Handle;
use crate::keys::Range;
use crate::options;
use alluvium::{Cancellation, CompactOptions, Db, Depth, Error, RepairReport, VerifyReport};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How often a long call looks for signals: Ctrl-C ends it.
const LOOK: Duration = Duration::from_millis(50);

/// Compacts a range. A thread of its own does it, so that handlers of signals, which may do what they like, run while this one has nothing
/// of the store.
pub fn compact(py: Python<'_>, handle: &Arc<Handle>, range: Range) -> PyResult<()> {
    let cancellation = Cancellation::new();
    let (engine, handle, cancelled) = (handle.engine()?, Arc::clone(handle), cancellation.clone());
    engine.writer()?;
    let (tell, mut told) = mpsc::channel();
    let work = move || {
        let _ = tell.send(compact_unless_closed(&engine, &handle, range, cancelled));
    };
    std::thread::Builder::new().name("alluvium-python".into()).spawn(work)?;
    loop {
        let told = &mut told;
        match py.detach(move || told.recv_timeout(LOOK)) {
            Ok(outcome) => return Ok(outcome?),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Failure::Other("the thread that compacts has ended early".into()).into());
            }
            Err(mpsc::RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| cancellation.cancel())?,
        }
    }
}

fn compact_unless_closed(engine: &Engine, handle: &Handle, range: Range, cancellation: Cancellation) -> Outcome<()> {
    let options = CompactOptions { cancellation: Some(cancellation.clone()), ..CompactOptions::default() };
    let done = engine.writer()?.compact_with(range, &options, &mut |_| {
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
        let mut lines: Vec<String> = found.damage.iter().map(Error::to_string).collect();
        if found.unlisted > 0 {
            lines.push(format!("and {} more", found.unlisted));
        }
        return Err(Failure::Damaged(lines).into());
    }
    let VerifyReport { branch_files, pages, entries, value_files, log_segments, log_records, bytes } = found.checked;
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

/// Rebuilds a damaged store from what is left of it, and tells what that was.
#[pyfunction]
#[pyo3(signature = (name, **options))]
pub fn repair_db<'py>(
    py: Python<'py>,
    name: &Bound<'py, PyAny>,
    options: Option<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    // LevelDB's, which say nothing about a repair.
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

/// Removes a store that nobody has open, and its directory where nothing else is in it.
#[pyfunction]
pub fn destroy_db(py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<()> {
    let path = options::path(name)?;
    Ok(py.detach(|| destroy(&path))?)
}

fn destroy(path: &Path) -> Outcome<()> {
    match Db::destroy(path) {
        // LevelDB, too, takes a database that is not there for one that is destroyed.
        Err(Error::NoStore { .. }) if !path.exists() => Ok(()),
        destroyed => Ok(destroyed?),
    }
}
