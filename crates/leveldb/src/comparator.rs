//! The order of keys, defined by the program. Any thread.

use crate::boundary;
use crate::handle::{Handle, object};
use crate::misuse;
use libc::{c_char, c_int, c_void};
use std::cmp::Ordering;
use std::ffi::CStr;

type Compare = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;
type Destructor = unsafe extern "C" fn(*mut c_void);
type Name = unsafe extern "C" fn(*mut c_void) -> *const c_char;

/// The caller's comparator. Its destructor runs when it has been destroyed and no database uses it any more.
pub struct Comparator {
    state: *mut c_void,
    destructor: Option<Destructor>,
    compare: Option<Compare>,
    name: Option<Name>,
}

object!(Comparator, "leveldb_comparator_t", Shared);

// SAFETY: LevelDB's contract allows calls of the functions by several threads at once, with the same state.
unsafe impl Send for Comparator {}
// SAFETY: see `Send`.
unsafe impl Sync for Comparator {}

impl Comparator {
    /// A comparator without a state, for tests.
    #[cfg(test)]
    pub fn of_functions(compare: Compare, name: Name) -> Self {
        Self { state: std::ptr::null_mut(), destructor: None, compare: Some(compare), name: Some(name) }
    }

    /// Compares two keys; by their bytes if there is no function.
    pub fn compare(&self, one: &[u8], other: &[u8]) -> Ordering {
        let Some(compare) = self.compare else { return one.cmp(other) };
        // SAFETY: the caller of `leveldb_comparator_create` guarantees that the function is valid; the bytes are
        // readable during the call.
        let order = unsafe { compare(self.state, one.as_ptr().cast(), one.len(), other.as_ptr().cast(), other.len()) };
        order.cmp(&0)
    }

    /// Returns the name. A store remembers the name and can only be opened with a comparator of that name.
    pub fn name(&self) -> Vec<u8> {
        let Some(name) = self.name else { return b"unnamed".to_vec() };
        // SAFETY: the caller guarantees that the function is valid.
        let name = unsafe { name(self.state) };
        if name.is_null() {
            return b"unnamed".to_vec();
        }
        // SAFETY: LevelDB's contract: a string that ends with a NUL byte and lives as long as the comparator.
        unsafe { CStr::from_ptr(name) }.to_bytes().to_vec()
    }
}

impl Drop for Comparator {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: the caller guarantees that the function is valid, and nothing else uses the state any more.
            unsafe { destructor(self.state) };
        }
    }
}

/// Creates a comparator. All functions are called with `state`.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: Option<Destructor>,
    compare: Option<Compare>,
    name: Option<Name>,
) -> Handle<Comparator> {
    for (what, is_missing) in [
        ("compare function is NULL: keys are sorted by their bytes", compare.is_none()),
        ("name function is NULL: the name is stored as \"unnamed\"", name.is_none()),
    ] {
        if is_missing {
            misuse::report("leveldb_comparator_create", &format_args!("the {what}"));
        }
    }
    Handle::new(Comparator { state, destructor, compare, name })
}

/// Destroys a comparator.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_comparator_destroy(comparator: Handle<Comparator>) {
    boundary::infallible("leveldb_comparator_destroy", (), || Ok(comparator.end().map(drop)?));
}
