//! Filter policies. The store has its own filters (quotient filters and maplets) for all its data, so a policy is
//! accepted and never called. A filter only saves reads; it never changes a result.

use crate::boundary;
use crate::handle::{Handle, object};
use libc::{c_char, c_int, c_void};

type Destructor = unsafe extern "C" fn(*mut c_void);
type CreateFilter =
    unsafe extern "C" fn(*mut c_void, *const *const c_char, *const usize, c_int, *mut usize) -> *mut c_char;
type KeyMayMatch = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> u8;
type Name = unsafe extern "C" fn(*mut c_void) -> *const c_char;

/// A filter policy. Only its destructor is used.
pub struct FilterPolicy {
    state: *mut c_void,
    destructor: Option<Destructor>,
}

object!(FilterPolicy, "leveldb_filterpolicy_t", Shared);

// SAFETY: LevelDB's contract allows calls of the functions by any thread, with the same state.
unsafe impl Send for FilterPolicy {}
// SAFETY: see `Send`.
unsafe impl Sync for FilterPolicy {}

impl Drop for FilterPolicy {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: the caller guarantees that the function is valid, and nothing else uses the state any more.
            unsafe { destructor(self.state) };
        }
    }
}

/// Creates a filter policy. Its functions are not called; see the module.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: Option<Destructor>,
    _create_filter: Option<CreateFilter>,
    _key_may_match: Option<KeyMayMatch>,
    _name: Option<Name>,
) -> Handle<FilterPolicy> {
    Handle::new(FilterPolicy { state, destructor })
}

/// Creates a policy in place of LevelDB's Bloom filter. The number of bits is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_create_bloom(_bits_per_key: c_int) -> Handle<FilterPolicy> {
    Handle::new(FilterPolicy { state: std::ptr::null_mut(), destructor: None })
}

/// Destroys a filter policy.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_destroy(policy: Handle<FilterPolicy>) {
    boundary::infallible("leveldb_filterpolicy_destroy", (), || Ok(policy.end().map(drop)?));
}
