//! Running a Python function in transactions until one commits.
//!
//! Not by the library's `transact`: the function runs while nothing of the store is held, and its exceptions pass as they are.

use crate::transaction::Transaction;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The first pause may be as long as this; each further one twice as long, up to the longest.
const PAUSE: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Gives what the function gave in the transaction that committed.
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
        // At random, or those who conflicted once meet again.
        let share = (random.hash_one(attempt) >> 11) as f64 / (1u64 << 53) as f64;
        py.detach(|| std::thread::sleep(pause.mul_f64(share)));
        pause = PAUSE_MAX.min(pause * 2);
        py.check_signals()?;
    }
    Err(PyValueError::new_err("'attempts' must be at least 1"))
}
