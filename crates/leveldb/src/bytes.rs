//! Bytes that C lends, and bytes that it is given.
//!
//! All of these trust the caller as far as the C interface asks for it: a pointer and a length are of readable bytes, or the length is 0.

use crate::misuse::Misuse;
use libc::{c_char, c_void};
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A pointer to bytes of the caller's.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Lent(*const c_char);

impl Lent {
    /// Whether it is NULL.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// So many bytes; NULL is as good as any pointer to none.
    pub fn bytes<'a>(self, length: usize, what: &'static str) -> Result<&'a [u8], Misuse> {
        if length == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err(Misuse::Null(what));
        }
        if isize::try_from(length).is_err() {
            return Err(Misuse::Other(format!("the length of {what} is {length}, which no memory has")));
        }
        // SAFETY: see the module; the caller leaves them alone until the call returns.
        Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), length) })
    }

    /// A string that ends with a NUL byte.
    pub fn string<'a>(self, what: &'static str) -> Result<&'a CStr, Misuse> {
        if self.0.is_null() {
            return Err(Misuse::Null(what));
        }
        // SAFETY: see the module; it ends with a NUL byte.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }

    /// A path.
    pub fn path<'a>(self) -> Result<&'a Path, Misuse> {
        let name = self.string("the name of the database")?;
        Ok(Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())))
    }
}

/// An array of the caller's, with as many elements as another argument says.
#[repr(transparent)]
pub struct LentArray<T>(*const T);

impl<T> LentArray<T> {
    /// So many elements.
    pub fn elements<'a>(&self, count: usize, what: &'static str) -> Result<&'a [T], Misuse> {
        if count == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() || !self.0.is_aligned() {
            return Err(Misuse::Null(what));
        }
        // SAFETY: see the module; the caller leaves them alone until the call returns.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) })
    }
}

/// Where the caller wants something written.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes it there.
    pub fn set(&self, value: T) -> Result<(), Misuse> {
        self.fill(0, value, "a pointer for a result")
    }

    /// Writes an element of an array.
    pub fn fill(&self, at: usize, value: T, what: &'static str) -> Result<(), Misuse> {
        if self.0.is_null() {
            return Err(Misuse::Null(what));
        }
        // SAFETY: see the module; the caller has room for as many as it asked for.
        unsafe { self.0.add(at).write(value) };
        Ok(())
    }
}

/// A copy that C releases with `free`; NULL where there is no memory.
pub fn to_c(bytes: &[u8]) -> *mut c_char {
    // SAFETY: of a length that is not 0, so that the pointer is one that `free` takes and that is not NULL.
    let copy = unsafe { libc::malloc(bytes.len().max(1)) };
    if !copy.is_null() {
        // SAFETY: just allocated, this long.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.cast(), bytes.len()) };
    }
    copy.cast()
}

/// The same with a NUL byte behind.
pub fn to_c_string(bytes: &[u8]) -> *mut c_char {
    let mut text = Vec::with_capacity(bytes.len() + 1);
    text.extend_from_slice(bytes);
    text.push(0);
    to_c(&text)
}

/// Releases what `to_c` gave out.
pub fn release(pointer: *mut c_void) {
    // SAFETY: the C interface asks for a pointer that came from malloc, or NULL.
    unsafe { libc::free(pointer) };
}
