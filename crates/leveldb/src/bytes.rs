//! Bytes that C passes in, and bytes that are returned to C.
//!
//! Everything here trusts the caller as far as the C interface requires: a pointer and a length describe readable
//! bytes, or the length is 0.

use crate::misuse::Misuse;
use libc::{c_char, c_void};
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A pointer to the caller's bytes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Lent(*const c_char);

impl Lent {
    /// Whether it is NULL.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Returns `length` bytes. The pointer may be NULL if the length is 0.
    pub fn bytes<'a>(self, length: usize, what: &'static str) -> Result<&'a [u8], Misuse> {
        if length == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err(Misuse::Null(what));
        }
        if isize::try_from(length).is_err() {
            return Err(Misuse::Other(format!("the length of {what} is {length}, which is too large")));
        }
        // SAFETY: see the module; the caller does not change them until the call returns.
        Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), length) })
    }

    /// Returns the string, which ends with a NUL byte.
    pub fn string<'a>(self, what: &'static str) -> Result<&'a CStr, Misuse> {
        if self.0.is_null() {
            return Err(Misuse::Null(what));
        }
        // SAFETY: see the module; the string ends with a NUL byte.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }

    /// Reads the string as a path.
    pub fn path<'a>(self) -> Result<&'a Path, Misuse> {
        let name = self.string("the name of the database")?;
        Ok(Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())))
    }
}

/// The caller's array. Another argument gives the number of its elements.
#[repr(transparent)]
pub struct LentArray<T>(*const T);

impl<T> LentArray<T> {
    /// Returns `count` elements.
    pub fn elements<'a>(&self, count: usize, what: &'static str) -> Result<&'a [T], Misuse> {
        if count == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() || !self.0.is_aligned() {
            return Err(Misuse::Null(what));
        }
        // SAFETY: see the module; the caller does not change them until the call returns.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) })
    }
}

/// A pointer through which the caller receives a result.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Stores the result.
    pub fn set(&self, value: T) -> Result<(), Misuse> {
        self.fill(0, value, "a pointer for a result")
    }

    /// Stores an element of an array.
    pub fn fill(&self, at: usize, value: T, what: &'static str) -> Result<(), Misuse> {
        if self.0.is_null() {
            return Err(Misuse::Null(what));
        }
        // SAFETY: see the module; the caller's array has as many elements as it requested.
        unsafe { self.0.add(at).write(value) };
        Ok(())
    }
}

/// Returns a copy that C releases with `free`, or NULL if there is no memory.
pub fn to_c(bytes: &[u8]) -> *mut c_char {
    // SAFETY: the size is not 0, so a successful `malloc` returns a pointer that is not NULL and that `free` accepts.
    let copy = unsafe { libc::malloc(bytes.len().max(1)) };
    if !copy.is_null() {
        // SAFETY: the memory was just allocated with this length.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.cast(), bytes.len()) };
    }
    copy.cast()
}

/// Like `to_c`, with a NUL byte at the end.
pub fn to_c_string(bytes: &[u8]) -> *mut c_char {
    let mut text = Vec::with_capacity(bytes.len() + 1);
    text.extend_from_slice(bytes);
    text.push(0);
    to_c(&text)
}

/// Releases memory that `to_c` returned.
pub fn release(pointer: *mut c_void) {
    // SAFETY: the C interface requires a pointer that came from malloc, or NULL.
    unsafe { libc::free(pointer) };
}
