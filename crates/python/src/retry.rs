//! Runs a Python function in transactions until one commits.
//!
//! It does not use the library's `transact`: the function runs while no part of the store is held, and its exceptions
//! are passed on unchanged.

use crate::transaction::Transaction;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The limit of the first pause. Each further limit is twice as long, up to the maximum.
const PAUSE: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Returns the result of the function in the transaction that committed.
pub fn transact<'py>(
    py: Python<'py>,
    begin: impl Fn() -> PyResult<Transaction>,
    function: &Bound<'py, PyAny>,
    attempts: u32,
) -> PyResult<Bound<'py, PyAny>> {
    let conflict = py.import("alluvium._errors")?.getattr("ConflictError")?;
    let (mut pause, random) = (PAUSE, RandomState::new());
    for attempt in 1..=attempts {
        let transaction = Bound::new(py, begin()?)?;
        let given = function.call1((&transaction,)).inspect_err(|_| transaction.get().rollback(py))?;
        if !transaction.get().is_open(py) {
            return Ok(given);
        }
        match transaction.get().commit(py) {
            Ok(()) => return Ok(given),
            Err(error) if attempt == attempts || !error.is_instance(py, &conflict) => return Err(error),
            Err(_) => {}
        }
        // A random pause, so that the same transactions do not conflict again.
        let share = (random.hash_one(attempt) >> 11) as f64 / (1u64 << 53) as f64;
        py.detach(|| std::thread::sleep(pause.mul_f64(share)));
        pause = PAUSE_MAX.min(pause * 2);
        py.check_signals()?;
    }
    Err(PyValueError::new_err("'attempts' must be at least 1"))
}
