//! Conversion of keys and values from Python.

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};
use std::ops::Deref;

/// The contents of a `bytes` in place, or a copy of a `bytearray` or `memoryview`, which other threads could change
/// while the store reads it.
pub enum Octets<'py> {
    /// In Python's memory.
    Lent(Bound<'py, PyBytes>),
    /// A copy.
    Copied(Vec<u8>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Octets<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Lent(bytes.to_owned()));
        }
        if let Ok(bytes) = object.cast::<PyByteArray>() {
            return Ok(Self::Copied(bytes.to_vec()));
        }
        if object.is_instance_of::<PyMemoryView>() {
            if !object.getattr("c_contiguous")?.extract::<bool>()? {
                return Err(PyBufferError::new_err("the memoryview is not contiguous; pass bytes(...) of it"));
            }
            return Ok(Self::Lent(object.call_method0("tobytes")?.cast_into()?));
        }
        let found = object.get_type().name()?;
        Err(PyTypeError::new_err(format!("expected bytes, bytearray or memoryview, got {found}")))
    }
}

impl Deref for Octets<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes.as_bytes(),
            Self::Copied(bytes) => bytes,
        }
    }
}
