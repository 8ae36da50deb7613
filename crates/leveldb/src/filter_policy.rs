//! Filter policies. The store has filters of its own (quotient maplets) for all its data, so a policy is kept and never asked: a filter
//! can only spare reads, never change an answer.

use crate::boundary;
use crate::handle::{Handle, object};
use libc::{c_char, c_int, c_void};

type Destructor = unsafe extern "C" fn(*mut c_void);
type CreateFilter =
    unsafe extern "C" fn(*mut c_void, *const *const c_char, *const usize, c_int, *mut usize) -> *mut c_char;
type KeyMayMatch = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> u8;
type Name = unsafe extern "C" fn(*mut c_void) -> *const c_char;

/// A filter policy, of which only the end matters.
pub struct FilterPolicy {
    state: *mut c_void,
    destructor: Option<Destructor>,
}

object!(FilterPolicy, "leveldb_filterpolicy_t", Shared);

// SAFETY: LevelDB's contract: the functions may be called by any thread, and the state goes with them.
unsafe impl Send for FilterPolicy {}
// SAFETY: the same.
unsafe impl Sync for FilterPolicy {}

impl Drop for FilterPolicy {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: the caller vouches for the function, and nothing else has the state any more.
            unsafe { destructor(self.state) };
        }
    }
}

/// Makes a filter policy of functions. They are not called; see the module.
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

/// Makes a policy that stands for LevelDB's bloom filter; the number of bits is not needed.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_create_bloom(_bits_per_key: c_int) -> Handle<FilterPolicy> {
    Handle::new(FilterPolicy { state: std::ptr::null_mut(), destructor: None })
}

/// Ends a filter policy.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_destroy(policy: Handle<FilterPolicy>) {
    boundary::infallible("leveldb_filterpolicy_destroy", (), || Ok(policy.end().map(drop)?));
}
