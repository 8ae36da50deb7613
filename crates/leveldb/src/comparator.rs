//! The order of keys, as a program gives it. Any thread.

use crate::boundary;
use crate::handle::{Handle, object};
use crate::misuse;
use libc::{c_char, c_int, c_void};
use std::cmp::Ordering;
use std::ffi::CStr;

type Compare = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;
type Destructor = unsafe extern "C" fn(*mut c_void);
type Name = unsafe extern "C" fn(*mut c_void) -> *const c_char;

/// A comparator of the caller's. Its destructor runs when it is destroyed and no database uses it any more.
pub struct Comparator {
    state: *mut c_void,
    destructor: Option<Destructor>,
    compare: Option<Compare>,
    name: Option<Name>,
}

object!(Comparator, "leveldb_comparator_t", Shared);

// SAFETY: LevelDB's contract: the functions may be called by several threads at once, and the state goes with them.
unsafe impl Send for Comparator {}
// SAFETY: the same.
unsafe impl Sync for Comparator {}

impl Comparator {
    /// Of functions without a state, for tests.
    #[cfg(test)]
    pub fn of_functions(compare: Compare, name: Name) -> Self {
        Self { state: std::ptr::null_mut(), destructor: None, compare: Some(compare), name: Some(name) }
    }

    /// The order of two keys. Without a function, that of their bytes.
    pub fn compare(&self, one: &[u8], other: &[u8]) -> Ordering {
        let Some(compare) = self.compare else { return one.cmp(other) };
        // SAFETY: the caller of `leveldb_comparator_create` vouches for the function; the bytes are readable for the call.
        let order = unsafe { compare(self.state, one.as_ptr().cast(), one.len(), other.as_ptr().cast(), other.len()) };
        order.cmp(&0)
    }

    /// Its name, by which a store knows that it is opened with the order that it was made with.
    pub fn name(&self) -> Vec<u8> {
        let Some(name) = self.name else { return b"unnamed".to_vec() };
        // SAFETY: the caller vouches for the function.
        let name = unsafe { name(self.state) };
        if name.is_null() {
            return b"unnamed".to_vec();
        }
        // SAFETY: LevelDB's contract: a string that ends with a NUL byte, and lives as long as the comparator.
        unsafe { CStr::from_ptr(name) }.to_bytes().to_vec()
    }
}

impl Drop for Comparator {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: the caller vouches for the function, and nothing else has the state any more.
            unsafe { destructor(self.state) };
        }
    }
}

/// Makes a comparator of functions, all called with `state`.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: Option<Destructor>,
    compare: Option<Compare>,
    name: Option<Name>,
) -> Handle<Comparator> {
    for (what, is_missing) in [
        ("compare function is NULL: keys are in the order of their bytes", compare.is_none()),
        ("name function is NULL: the order is kept as \"unnamed\"", name.is_none()),
    ] {
        if is_missing {
            misuse::report("leveldb_comparator_create", &format_args!("the {what}"));
        }
    }
    Handle::new(Comparator { state, destructor, compare, name })
}

/// Ends a comparator.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_comparator_destroy(comparator: Handle<Comparator>) {
    boundary::infallible("leveldb_comparator_destroy", (), || Ok(comparator.end().map(drop)?));
}
