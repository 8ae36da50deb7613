//! The entry points of calls from C: results become values and error strings, and panics are caught. Any thread.

use crate::bytes;
use crate::misuse::{self, Misuse};
use crate::status::Status;
use libc::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The caller's `char** errptr`.
#[repr(transparent)]
pub struct ErrorPointer(*mut *mut c_char);

impl ErrorPointer {
    /// Stores a message and frees the previous one, as rule 3 of LevelDB's header requires.
    fn set(&self, message: &str) {
        // A NUL byte in the message, for example from a file name, would cut it short.
        let text: Vec<u8> = message.bytes().map(|byte| if byte == 0 { b'?' } else { byte }).collect();
        // SAFETY: the C interface requires a pointer to a writable pointer, which is NULL or came from malloc.
        unsafe {
            libc::free((*self.0).cast());
            *self.0 = bytes::to_c_string(&text);
        }
    }
}

/// Runs a call that can fail. After a failure C gets `failed` and an error string.
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
        misuse::report(function, &Misuse::Other(format!("errptr is NULL; the error is: {message}")));
    } else {
        error.set(&message);
    }
    failed
}

/// Runs a call that cannot return an error. Errors are printed on standard error.
pub fn infallible<R>(function: &str, failed: R, call: impl FnOnce() -> Result<R, Status>) -> R {
    match contain(function, call) {
        Ok(result) => result,
        Err(Status::Misuse(misuse)) => {
            misuse::report(function, &misuse);
            failed
        }
        Err(status) => {
            misuse::print_line(format_args!("{}", status.message(function)));
            failed
        }
    }
}

/// A panic is a bug in this library, or an exception in a C++ callback. It becomes an error and does not end the
/// program.
fn contain<R>(function: &str, call: impl FnOnce() -> Result<R, Status>) -> Result<R, Status> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
        Err(Status::Bug(format!("{function}: {}", text.unwrap_or("a panic without a message")).into()))
    })
}
