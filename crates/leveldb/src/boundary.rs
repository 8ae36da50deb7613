//! Where calls from C come in: results become values and error strings, and no panic goes out. Any thread.

use crate::bytes;
use crate::misuse::{self, Misuse};
use crate::status::Status;
use libc::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The caller's `char** errptr`.
#[repr(transparent)]
pub struct ErrorPointer(*mut *mut c_char);

impl ErrorPointer {
    /// Puts a message there, in place of one that is there, as the conventions of LevelDB's header have it (3).
    fn set(&self, message: &str) {
        // The whole message: a NUL inside, out of a file's name say, would cut it short.
        let text: Vec<u8> = message.bytes().map(|byte| if byte == 0 { b'?' } else { byte }).collect();
        // SAFETY: the C interface asks its callers for a pointer to a writable pointer which is NULL or came from malloc.
        unsafe {
            libc::free((*self.0).cast());
            *self.0 = bytes::to_c_string(&text);
        }
    }
}

/// Runs a call that can fail. `failed` is what C gets where it does; the error string tells why.
pub fn fallible<R>(function: &str, error: ErrorPointer, failed: R, call: impl FnOnce() -> Result<R, Status>) -> R {
    let status = match contain(function, call) {
        Ok(result) => return result,
        Err(status) => status,
    };
    if let Status::Misuse(misuse) = &status {
        misuse::report(function, misuse);
    }
    let message = status.message(function);
    if error.0.is_null() {
        misuse::report(function, &Misuse::Other(format!("no errptr for: {message}")));
    } else {
        error.set(&message);
    }
    failed
}

/// Runs a call that has no way to tell of an error: what goes wrong is told on the standard error.
pub fn infallible<R>(function: &str, failed: R, call: impl FnOnce() -> Result<R, Status>) -> R {
    match contain(function, call) {
        Ok(result) => result,
        Err(Status::Misuse(misuse)) => {
            misuse::report(function, &misuse);
            failed
        }
        Err(status) => {
            misuse::tell(format_args!("{}", status.message(function)));
            failed
        }
    }
}

/// A panic is a bug in this library, or in a callback's C++: an error for the caller, not the end of a program that is not ours.
fn contain<R>(function: &str, call: impl FnOnce() -> Result<R, Status>) -> Result<R, Status> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
        Err(Status::Bug(format!("{function}: {}", text.unwrap_or("a panic without words")).into()))
    })
}
